"""The diagnosis of a preparation on the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from sparksplit.comparison.numbers import count, duration, percent
from sparksplit.diagnosis.preprocess.preprocess_record import PreprocessDiagnosis
from sparksplit.diagnosis.text import advised


def lines(record: PreprocessDiagnosis) -> Iterator[str]:
    """The limit, the parts of the time, each trouble with what helps, and what was tried."""
    yield record.sentence
    yield ""
    parts = ", ".join(f"{percent(part.seconds / record.seconds)} {part.name}" for part in record.parts)
    yield f"{count(record.rows)} rows in {duration(record.seconds)} on {record.slots} slots; of the time: {parts}"
    for number, trouble in enumerate(record.troubles, 1):
        cost = "costs an unknown time" if trouble.seconds is None else f"costs up to {duration(trouble.seconds)}"
        yield f"{number}. {trouble.kind} ({', '.join(trouble.parts)}) {cost}: {trouble.why}"
        yield from (f"   - {help_}" for help_ in trouble.help)
    yield from (f"tried: {advised(advice)}" for advice in record.tried)
