"""diagnosis.html of a preparation: one page with the parts of the time, the troubles, and the tried settings.

Every number comes from the record.
"""

from __future__ import annotations

from collections.abc import Iterator

from sparksplit.comparison.numbers import count, duration, percent, size
from sparksplit.diagnosis.page import Section, page
from sparksplit.diagnosis.preprocess.preprocess_record import KINDS, PreprocessDiagnosis
from sparksplit.diagnosis.preprocess.stages import OTHER
from sparksplit.pages.tables import Table, number, text
from sparksplit.spark.job_names import PARTS

PART_NAMES = {
    **PARTS,
    "open": "the files are looked at, until the first rows are read",
    "driver": "no task runs: between Spark's jobs",
    "publish": "no task runs: after the last job",
    OTHER: "jobs that nobody has described",
}


def render(record: PreprocessDiagnosis) -> str:
    """The page. The same record gives the same bytes."""
    troubles = _troubles_table(record) if record.troubles else None
    nothing = "Nothing that costs a tenth of the time."
    return page(
        record,
        "What limits the preparation",
        f"output {record.output}",
        [(part.name, part.seconds / record.seconds) for part in record.parts],
        [
            Section("time", "The parts of the time", table=parts_table(record)),
            Section("wrong", "What takes longer than it has to", table=troubles, missing=nothing),
        ],
        _facts(record),
    )


def parts_table(record: PreprocessDiagnosis) -> Table:
    """The parts of the time."""
    columns = [
        ("part", ""),
        ("what it is", ""),
        ("time", ""),
        ("share", "of the preparation"),
        ("waiting", "the time that would be saved if all slots were busy to the end"),
        ("tasks", "that succeeded"),
    ]
    rows = [
        [
            text(part.name),
            text(PART_NAMES[part.name]),
            number(part.seconds, duration(part.seconds)),
            number(part.seconds, percent(part.seconds / record.seconds)),
            number(part.waiting, duration(part.waiting or None)),
            number(part.tasks, count(part.tasks)),
        ]
        for part in record.parts
    ]
    return Table("parts", "The parts of the time, in their order", columns, rows)


def _troubles_table(record: PreprocessDiagnosis) -> Table:
    columns = [
        ("what", ""),
        ("", ""),
        ("in", ""),
        ("costs up to", "seconds that an even share would not take"),
        ("what was seen", ""),
        ("what helps", ""),
    ]
    rows = [
        [
            text(each.kind),
            text(KINDS[each.kind]),
            text(", ".join(each.parts)),
            number(each.seconds, "not known" if each.seconds is None else duration(each.seconds)),
            text(each.why),
            text("; ".join(each.help).replace("`", "")),
        ]
        for each in record.troubles
    ]
    return Table("troubles", "What costs a tenth of the time or more, the most first", columns, rows)


def _facts(record: PreprocessDiagnosis) -> Iterator[tuple[str, str]]:
    yield "master", record.master
    yield "application", record.application_id
    yield "tasks at the same time", count(record.slots)
    if (files := record.files) is not None:
        yield "input", f"{count(files.files)} files, {size(files.bytes)}; {count(files.whole)} of them one task's each"
        yield "largest file", f"{files.largest}, {size(files.largest_bytes)}"
    yield "prepared", f"{count(record.rows)} rows in {duration(record.seconds)}, {size(record.prepared_bytes)}"
    yield "versions", ", ".join(f"{name} {known}" for name, known in record.versions.items())
