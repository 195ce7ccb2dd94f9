"""diagnosis.html: one page with the limit of a run, the settings that would help, and the measurements.

Every number comes from the record. If a part is missing, its section says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING

import yaml

from sparksplit.comparison.numbers import count, duration, size
from sparksplit.diagnosis import pictures, tables
from sparksplit.diagnosis.diagnosis_record import Diagnosis
from sparksplit.diagnosis.words import words
from sparksplit.pages import rendered
from sparksplit.pages.drawing import Picture
from sparksplit.pages.tables import Table

if TYPE_CHECKING:
    from sparksplit.diagnosis.preprocess.preprocess_record import PreprocessDiagnosis

PAGE = "diagnosis.html"
COMMAND = "sparksplit diagnose --config FILE"


@dataclass(frozen=True)
class Section:
    """A section of the details. missing: the text in place of a missing table. commands: to be copied."""

    key: str
    title: str
    picture: Picture | None = None
    table: Table | None = None
    missing: str = ""
    commands: Sequence[str] = ()


def render(record: Diagnosis) -> str:
    """The page of a training run. The same record gives the same bytes."""
    data = record.config.get("data")
    return page(
        record,
        "What limits training",
        f"data {', '.join(map(str, data)) if isinstance(data, list) else data}",
        [(tables.SHARES.get(each.name, each.name), each.share) for each in record.shares],
        [
            Section("limits", "The limits", pictures.roofline(record), tables.parts(record)),
            Section("sweep", "Readers", pictures.readers(record), tables.readers(record)),
            Section(
                "brings",
                "What the settings bring",
                pictures.settings(record.answer),
                commands=[] if record.answer.next is None else [record.answer.next],
            ),
            Section("measured", "What was measured", table=tables.variants(record)),
        ],
        _facts(record),
    )


def page(
    record: Diagnosis | PreprocessDiagnosis,
    title: str,
    of: str,
    shares: Sequence[tuple[str, float]],
    sections: Sequence[Section],
    facts: Iterator[tuple[str, str]],
) -> str:
    """The page of a diagnosis. of: what was diagnosed. shares: of the time, (name, share). sections: of the details."""
    return rendered(
        "sparksplit.diagnosis",
        "diagnosis.html.jinja",
        title=title,
        subtitle=[
            of,
            f"made {datetime.fromisoformat(record.made):%Y-%m-%d %H:%M %Z}".strip(),
            f"sparksplit {record.version}",
        ],
        said=words(record.answer, "under Details"),
        shares=pictures.shares(shares),
        settings_table=tables.settings(record.answer),
        sections=sections,
        notes=record.answer.notes,
        command=COMMAND,
        config=yaml.safe_dump(record.config, sort_keys=False, allow_unicode=True),
        facts=[("configuration", record.config_file or "from the command line alone"), *facts],
    )


def _facts(record: Diagnosis) -> Iterator[tuple[str, str]]:
    """Yield (name, value) of the facts that the numbers depend on."""
    facts = record.measured.facts
    yield "throughput", f"{count(record.rows_per_second)} rows/s over all nodes, as it is configured"
    yield "nodes", f"{count(facts.nodes)} on {', '.join(dict.fromkeys(record.hosts))}"
    yield "devices", ", ".join(facts.devices)
    yield "cores", f"{count(facts.cores)} for each node, of which TensorFlow uses {count(facts.threads)}"
    yield "rows", f"{count(facts.rows)} for training, {count(facts.own_rows)} of them on one node in a pass"
    yield "a row in memory", size(facts.row_bytes)
    if facts.kept:
        first = "" if facts.first_reading is None else f", after {duration(facts.first_reading)} of the first pass"
        yield "rows between passes", f"stay in memory{first}"
    else:
        yield "rows between passes", "are read again"
    yield "free memory", f"{count(facts.free_mb)} MiB for each node"
    yield "weights", size(facts.model_bytes)
    yield "one exchange", f"{size(facts.sync_bytes)} from each node"
    checkpoint = record.measured.checkpoint
    yield (
        "one checkpoint",
        "none is written" if checkpoint is None else f"training stands still for {duration(checkpoint)}",
    )
    yield "measured in", duration(record.seconds)
    yield "versions", ", ".join(f"{name} {version}" for name, version in record.versions.items())
