"""diagnosis.html: one page with the limit of a run, the settings that would help, and the measurements.

Every number comes from the record. If a part is missing, its section says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import yaml

from sparksplit.base.yaml_edits import as_yaml
from sparksplit.comparison.numbers import count, duration, size
from sparksplit.diagnosis import pictures, tables
from sparksplit.diagnosis.diagnosis_record import Advice, Diagnosis
from sparksplit.pages import rendered, sentence

PAGE = "diagnosis.html"


def render(record: Diagnosis) -> str:
    """The page. The same record gives the same bytes."""
    return rendered(
        "sparksplit.diagnosis",
        "diagnosis.html.jinja",
        title="What limits training",
        subtitle=list(_subtitle(record)),
        said=sentence(record.verdict.sentence),
        answers=list(_answers(record)),
        shares=pictures.shares(record),
        shares_table=tables.shares(record),
        roofline=pictures.roofline(record),
        parts_table=tables.parts(record),
        readers=pictures.readers(record),
        readers_table=tables.readers(record),
        settings=pictures.settings(record),
        settings_table=tables.settings(tables.advices(record)),
        compare=record.compare,
        variants_table=tables.variants(record),
        command=f"sparksplit {record.command} --config FILE",
        config=yaml.safe_dump(record.config, sort_keys=False, allow_unicode=True),
        facts=list(_facts(record)),
    )


def _subtitle(record: Diagnosis) -> Iterator[str]:
    data = record.config.get("data")
    yield f"data {', '.join(map(str, data)) if isinstance(data, list) else data}"
    yield f"made {datetime.fromisoformat(record.made):%Y-%m-%d %H:%M %Z}".strip()
    yield f"sparksplit {record.version}"


def _answers(record: Diagnosis) -> Iterator[tuple[str, str]]:
    """Yield (name, text) of the lines below the sentence."""
    yield "The step", f"{count(record.verdict.rows_per_second)} rows/s over all nodes, as it is configured"
    recommended = record.recommended
    if recommended is None:
        yield "Recommended", "nothing: no setting that leaves the trained weights the same is likely to help"
    else:
        yield "Recommended", _advised(recommended)
    if record.proposed:
        yield "Only proposed", "; ".join(map(_advised, record.proposed))
    for index, note in enumerate(record.notes):
        yield "" if index else "To know", note


def _advised(advice: Advice) -> str:
    settings = ", ".join(f"`{key}: {as_yaml(value)}`" for key, value in advice.settings.items())
    if advice.failed is not None:
        return f"{settings}, which could not be tried: {advice.failed}"
    if advice.gain is None:
        return f"{settings}, which was not measured"
    interval = tables.span(advice.gain)
    gained = f"{tables.times(advice.gain.mean)} times as fast{f' ({interval})' if interval else ''}"
    if advice.computed:
        return f"{settings}: {gained}, {tables.COMPUTED}"
    return f"{settings}: {gained}{advice.doubt and '; '}{advice.doubt}"


def _facts(record: Diagnosis) -> Iterator[tuple[str, str]]:
    """Yield (name, value) of the facts that the numbers depend on."""
    facts = record.measured.facts
    yield "configuration", record.config_file or "from the command line alone"
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
