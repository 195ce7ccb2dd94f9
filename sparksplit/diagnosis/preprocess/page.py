"""diagnosis.html of a preparation: one page that says where its time goes, what is wrong with that, and what was tried.

Every number is the record's.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import yaml
from matplotlib.patches import Patch

from sparksplit.comparison.numbers import MISSING, count, duration, percent, size, usable
from sparksplit.diagnosis.preprocess.record import KINDS, PreprocessDiagnosis, Tried
from sparksplit.diagnosis.preprocess.stages import OTHER
from sparksplit.diagnosis.preprocess.text import changed, said, untried
from sparksplit.pages import drawing, rendered, sentence
from sparksplit.pages.drawing import COLOURS, GREY, Picture, canvas, legend
from sparksplit.pages.tables import Cell, Table, number, text
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
    return rendered(
        "sparksplit.diagnosis.preprocess",
        "preparation.html.jinja",
        title="What limits the preparation",
        subtitle=[
            f"output {record.output}",
            f"made {datetime.fromisoformat(record.made):%Y-%m-%d %H:%M %Z}".strip(),
            f"sparksplit {record.version}",
        ],
        said=sentence(record.sentence),
        answers=list(_answers(record)),
        parts=_parts(record),
        parts_table=_parts_table(record),
        troubles_table=_troubles_table(record) if record.troubles else None,
        tried=_tried(record),
        tried_table=_tried_table(record) if record.tried else None,
        untried=list(_untried(record)),
        facts=list(_facts(record)),
        command="sparksplit diagnose --config FILE",
        config=yaml.safe_dump(record.config, sort_keys=False, allow_unicode=True),
    )


def _answers(record: PreprocessDiagnosis) -> Iterator[tuple[str, str]]:
    yield (
        "The preparation",
        f"{count(record.rows)} rows in {duration(record.seconds)}, with {count(record.slots)} "
        f"{'task' if record.slots == 1 else 'tasks'} at the same time",
    )
    for index, each in enumerate(record.tried):
        yield "" if index else "Tried", said(each)
    if not record.tried:
        yield "Tried", "nothing: there is nothing to change while Spark runs" if not record.troubles else "nothing"
    for trouble in record.troubles[:1]:
        for index, help_ in enumerate(trouble.help):
            yield "" if index else "What helps", help_


def _parts(record: PreprocessDiagnosis) -> Picture:
    """The seconds of each part: what its tasks' work would take if all slots shared it to the end, and the rest."""
    key, title = "parts", "The parts of the time"
    if not record.parts:
        return Picture(key, title, note="No part was measured.")
    waits = COLOURS[1]
    with canvas(drawing.bar_height(len(record.parts))) as (figure, axes):
        drawing.bar_rows(axes, [f"{part.name}: {duration(part.seconds)}" for part in record.parts])
        for row, part in enumerate(record.parts):
            even = part.seconds if part.even is None else min(part.even, part.seconds)
            colour = GREY if part.even is None else COLOURS[0]
            axes.barh([row], [even], color=colour, height=0.36)
            axes.barh([row], [part.seconds - even], left=even, color=waits, hatch="//", edgecolor="white", height=0.36)
        axes.set_xlabel("seconds")
        legend(
            figure,
            [
                ("the tasks' work, shared evenly", Patch(facecolor=COLOURS[0])),
                ("slots wait", Patch(facecolor=waits, hatch="//", edgecolor="white")),
                ("the driver's own", Patch(facecolor=GREY)),
            ],
        )
        svg = drawing.to_svg(figure, key, f"{title}: a bar of seconds for each")
    return Picture(key, title, "They add up to the preparation.", svg)


def _parts_table(record: PreprocessDiagnosis) -> Table:
    columns = [
        ("part", ""),
        ("what it is", ""),
        ("time", ""),
        ("share", "of the preparation"),
        ("tasks", "that succeeded"),
        ("slowest", "task of the stage that lost most"),
        ("others", "the median of the other tasks of that stage"),
        ("rows", "of that task, against the mean of its stage"),
        ("idle", "share of the slots' time without a task"),
        ("collecting", "share of the tasks' time in which garbage was collected"),
        ("shuffled", ""),
        ("spilled", "to disks"),
    ]
    rows = [
        [
            text(part.name),
            text(PART_NAMES.get(part.name, "")),
            number(part.seconds, duration(part.seconds)),
            number(part.seconds, percent(part.seconds / record.seconds if record.seconds else None)),
            number(part.tasks, count(part.tasks) + (f" + {count(part.failed)} failed" if part.failed else "")),
            _seconds(part.slowest),
            _seconds(part.median),
            number(part.largest, MISSING if part.largest is None else f"{part.largest:.1f} times"),
            number(part.idle, percent(part.idle)),
            number(part.gc, percent(part.gc)),
            number(part.shuffle_written, size(part.shuffle_written)),
            number(part.spilled_disk, size(part.spilled_disk)),
        ]
        for part in record.parts
    ]
    return Table("parts", "The parts of the time, in their order", columns, rows)


def _troubles_table(record: PreprocessDiagnosis) -> Table:
    columns = [("what", ""), ("", ""), ("in", ""), ("costs up to", "seconds that an even share would not take")]
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
    caption = "What costs a tenth of the time or more, the most first"
    return Table("troubles", caption, [*columns, ("what was seen", ""), ("what helps", "")], rows)


def _tried(record: PreprocessDiagnosis) -> Picture:
    key, title = "tried-picture", "What it brings"
    if not record.tried:
        return Picture(key, title, note="Nothing was tried.")
    with canvas(drawing.bar_height(len(record.tried))) as (figure, axes):
        drawing.bar_rows(axes, [changed(each) for each in record.tried])
        axes.axvline(0, color=GREY, linewidth=1)
        for row, each in enumerate(record.tried):
            gains = (usable(value) for value in (each.gain, each.low, each.high))
            drawing.interval_row(axes, row, *(None if value is None else 100 * value for value in gains))
        axes.margins(x=0.08)
        axes.autoscale_view(scaley=False)
        axes.set_xlabel("% of the time less")
        svg = drawing.to_svg(figure, key, f"{title}: the share of the time that is gained, with intervals")
    caption = "Dot: mean of the pairs. Line: its interval. Right of 0 it helps."
    if any(usable(each.low) is None for each in record.tried):
        caption += " Without a line: a single pair, which has none."
    return Picture(key, title, caption, svg)


def _tried_table(record: PreprocessDiagnosis) -> Table:
    columns = [
        ("tried", ""),
        ("against", ""),
        ("without it", "seconds, the mean of the preparations"),
        ("with it", "the same"),
        ("less time", "mean of the pairs"),
        ("interval", "of that, 95 %"),
        ("pairs", "in turns"),
        ("it helps", "yes where the whole interval is above 0; with a single pair, from a tenth"),
    ]
    rows = [
        [
            text(changed(each)),
            text(each.kind),
            _mean(each.before),
            _mean(each.after),
            number(each.gain, percent(each.gain)),
            _interval(each),
            number(len(each.after), count(len(each.after))),
            text("yes" if each.helps else "not for certain"),
        ]
        for each in record.tried
    ]
    return Table("tried", "Preparations with it and without it, in turns; all had the same rows", columns, rows)


def _untried(record: PreprocessDiagnosis) -> Iterator[str]:
    for each in record.troubles:
        if each.not_tried or not each.settings:
            yield f"What helps against {each.kind} was not tried: {untried(each)}."


def _facts(record: PreprocessDiagnosis) -> Iterator[tuple[str, str]]:
    yield "configuration", record.config_file or "from the command line alone"
    yield "master", record.master
    yield "application", record.application_id
    yield "tasks at the same time", count(record.slots)
    if (files := record.files) is not None:
        yield "input", f"{count(files.files)} files, {size(files.bytes)}; {count(files.whole)} of them one task's each"
        if files.largest is not None:
            yield "largest file", f"{files.largest}, {size(files.largest_bytes)}"
    yield "prepared", f"{count(record.rows)} rows, {size(record.prepared_bytes)}"
    yield "versions", ", ".join(f"{name} {known}" for name, known in record.versions.items())


def _seconds(value: float | None) -> Cell:
    return number(value, duration(value))


def _mean(values: list[float]) -> Cell:
    mean = sum(values) / len(values) if values else None
    return number(mean, duration(mean))


def _interval(tried: Tried) -> Cell:
    known = usable(tried.low) is not None and usable(tried.high) is not None
    return number(tried.low, f"{percent(tried.low)} to {percent(tried.high)}" if known else MISSING)
