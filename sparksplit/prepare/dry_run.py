"""`preprocess --dry-run`: describes the data set that `preprocess` would make, from a sample of the input.

The dry run writes nothing and claims no output.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparksplit.base.errors import InputError, printable
from sparksplit.dataset import labels
from sparksplit.dataset.description import TOKENS
from sparksplit.dataset.lane_files import LABEL, tensor_of
from sparksplit.features import doubts
from sparksplit.features.encoding import missing_value
from sparksplit.features.feature_config import FeatureConfig
from sparksplit.prepare import config_checks
from sparksplit.prepare.bad_rows import Limit, tally_of
from sparksplit.prepare.passes.parse import keep_names, tensor_names, text_names
from sparksplit.prepare.preprocess import fitted_before, open_rows, own_frame, own_source, session_for
from sparksplit.prepare.preprocess_config import InputConfig, PreprocessConfig
from sparksplit.prepare.sample import SHOWN_ROWS, TASK_ROWS, Facts, Sample, facts, sampled
from sparksplit.prepare.source import BadRow, Source
from sparksplit.prepare.tables.line_numbers import assigned, find_lines

SHOWN_VALUES, SHOWN_BAD, SHOWN_CLASSES, SHOWN_COLUMNS = 8, 5, 20, 30


def dry_run(config: PreprocessConfig) -> str:
    """Describe, for people, the data set that `preprocess` would make from the input of `config`.

    Raise UsageError for errors that the driver can see, as `preprocess` does. Raise RunError if Spark fails.
    """
    config_checks.check(config)
    config = config_checks.effective(config)
    function = own_source(config.input)
    fitted = fitted_before(config)
    patient = config.model_copy(update={"input": _patient(config.input)})
    with ExitStack() as started:
        session = session_for(config, started)
        frame = None if function is None else own_frame(session(), config.input)
        source = open_rows(patient, session, frame, fitted)
        spark = session()
        sample = sampled(spark, source)
        bad = sample.bad
        bad = assigned(bad, find_lines(spark, [(row.path, row.row) for row in bad[:SHOWN_BAD] if row.row < 0]))
        earlier = None if fitted is None else fitted.description
        return "\n".join(report(config, source, sample, bad, facts(spark, config, source, sample, earlier)))


def _patient(config: InputConfig) -> InputConfig:
    """Return `config` with a high limit for bad rows, so that reading continues after a bad row."""
    if not config.uses("max_bad_rows"):
        return config
    return config.model_copy(update={"max_bad_rows": TASK_ROWS, "max_bad_fraction": None})


def report(config: PreprocessConfig, source: Source, sample: Sample, bad: Sequence[BadRow], told: Facts) -> list[str]:
    """Return the report on the sample, as lines for people. bad: the bad rows of the sample"""
    good = sample.good
    good_rows = good.num_rows if sample.good_rows is None else sample.good_rows
    total = sum(file.bytes for file in source.files)
    files = f" ({len(source.files):,} file{'s'[: len(source.files) != 1]}, {_bytes(total)})" if source.files else ""
    count = f"{sample.rows.num_rows:,} rows"
    scaled = config.scales_label(source.label_kind, source.table is not None)
    of = "of an unknown number" if told.rows is None else f"of about {told.rows:,}"
    lines = [
        ("input", f"{config.input.format}: {config.input.place}{files}"),
        *(("columns", columns(source.columns)) for _ in [0] if source.columns),
        *(("note", text) for text in source.notes),
        *features(config, source, sample.valued),
        ("tensors", ", ".join(f"{tensor.name}: {tensor.dtype} {tensor.shape}" for tensor in source.tensors)),
        ("label", source.label_said(scaled)),
        *((("kept", ", ".join(source.keep)),) if source.keep else ()),
        ("sample", f"all {count}" if sample.whole else f"{count} {of}"),
        *(("row", text) for text in first_rows(source, good)),
        *rejected(config.input, bad, good_rows, none_left=not good.num_rows),
        *found_classes(config, source, sample),
        *((("vocabulary", f"{len(source.vocabulary) - 1:,} {source.label_kind}"),) if source.vocabulary else ()),
        ("splits", splits(told, sample)),
        *unseen(config, told.unseen),
        ("time", taking(told)),
        ("dry run", f"nothing was written; without --dry-run, preprocess writes {config.output}"),
    ]
    return [printable(f"{name:<11}{text}") for name, text in lines]


def features(config: PreprocessConfig, source: Source, rows: pa.Table | None) -> list[tuple[str, str]]:
    """Return lines about the feature columns: the kind of each column, its values, and a warning if the kind looks
    wrong.

    rows: good rows that have their features
    """
    values = {} if rows is None or not rows.num_rows else _columns_of(source, rows)
    said = dict.fromkeys(values, "number") if source.table is None else source.table.said()
    given = {} if config.features is None else config.features
    lines = []
    for name, text in said.items():
        lines.append(("feature", f"{name}: {text}" if source.table is None else text))
        if name in values:
            lines.append(("", doubts.shown(values[name])))
            kind = "number" if source.table is None else source.table.kinds.get(name)
            feature = given.get(name, FeatureConfig())
            asked = config.fitted is not None or feature.asked is not None or feature.hash is not None
            doubt = None if asked or kind not in ("number", "category") else doubts.doubt(name, values[name])
            lines += [("", doubt)] if doubt else []
    return lines


def _columns_of(source: Source, rows: pa.Table) -> dict[str, pa.Array]:
    """Return the values of each feature column, with null for a missing value.

    Arrays, images and windows are left out. If all columns are numbers, more than SHOWN_COLUMNS of them are left out,
    too.
    """
    tensors = [
        tensor_of(rows.column(name), spec).reshape(rows.num_rows, -1)
        for name, spec in zip(tensor_names(len(source.tensors)), source.tensors, strict=True)
    ]
    table = source.table
    if table is None:
        names = source.tensors[0].columns or []
        wanted = len(names) == tensors[0].shape[1] <= SHOWN_COLUMNS
        return {name: _numbers(tensors[0][:, place]) for place, name in enumerate(names if wanted else [])}
    texts = {
        column.name: rows.column(stored).combine_chunks()
        for column, stored in zip(table.texts, text_names(source), strict=True)
    }
    values = {name: pc.if_else(pc.equal(text, ""), None, text) for name, text in texts.items()}
    for column in table.columns:
        if column.dtype is not None and column.values == 1:
            tensor, place = table.places[column.name]
            numbers = _numbers(tensors[tensor][:, place])
            unit = pa.timestamp("us") if column.moment else pa.date32()
            values[column.name] = numbers if column.kind == "number" else numbers.cast(unit).cast(pa.string())
    return values


def _numbers(values: npt.NDArray[Any]) -> pa.Array:
    """Return stored numbers, with null for a missing value."""
    mark = missing_value(values.dtype)
    missing = np.isnan(values) if values.dtype.kind == "f" else values == mark
    numbers = values.astype(np.float32) if values.dtype == np.float16 else values  # Arrow has few functions for float16
    return pa.array(numbers, mask=missing if mark is not None else None)


def columns(found: Mapping[str, str]) -> str:
    """Return the raw columns with their types, as text."""
    shown = ", ".join(f"{name} {kind}" for name, kind in list(found.items())[:SHOWN_COLUMNS])
    return shown + (f", and {len(found) - SHOWN_COLUMNS:,} more" if len(found) > SHOWN_COLUMNS else "")


def first_rows(source: Source, good: pa.Table) -> list[str]:
    """Return the first good rows as text: tensors, label, kept columns."""
    rows = good.slice(0, SHOWN_ROWS)
    names = tensor_names(len(source.tensors))
    rows = rows.filter(rows.column(names[0]).is_valid()) if names else rows
    columns: list[tuple[str, list[Any]]] = [
        (spec.name, list(map(_values, tensor_of(rows.column(name), spec))))
        for name, spec in zip(names, source.tensors, strict=True)
    ]
    texts = [] if source.table is None else [column.name for column in source.table.texts]
    columns += [(name, rows.column(stored).to_pylist()) for name, stored in zip(texts, text_names(source), strict=True)]
    if LABEL in rows.column_names:
        columns.append((LABEL, [_label(source, value) for value in rows.column(LABEL).to_pylist()]))
    kept = zip(source.keep, keep_names(len(source.keep)), strict=True)
    columns += [(name, rows.column(stored).to_pylist()) for name, stored in kept]
    return [", ".join(f"{name} = {values[row]}" for name, values in columns) for row in range(rows.num_rows)]


def _values(values: npt.NDArray[Any]) -> str:
    flat = values.reshape(-1)
    more = f" ... {flat.size} values" if flat.size > SHOWN_VALUES else ""
    return f"[{' '.join(str(value) for value in flat[:SHOWN_VALUES])}{more}]"


def _label(source: Source, value: Any) -> str:
    if source.label_kind in TOKENS:
        return f"the next of each of the {source.label_kind}"
    if source.label_places is not None:
        return _values(_short(np.frombuffer(value, "<f8")))
    if source.label_kind == "number":
        return str(_short(np.float64(value)))
    return repr(value) if isinstance(value, str) else str(value)


def _short(numbers: Any) -> Any:
    """Return labels in the type in which they are stored, so that they show no extra digits."""
    return numbers if labels.wide(numbers).any() else numbers.astype(np.float32)


def rejected(
    config: InputConfig, bad: Sequence[BadRow], good: int, *, none_left: bool = False
) -> list[tuple[str, str]]:
    """Return lines about the bad rows: counts by reason, the first rows, and whether `preprocess` will refuse the
    input.

    good: number of good rows. none_left: whether no row, or no window, is left to train on
    """
    if not bad:
        return [("rejected", "none")]
    tally = tally_of((row.kind or row.reason, 1, row) for row in bad)
    counts = "; ".join(f"{count:,} {kind}" for kind, count in list(tally.counts.items())[:SHOWN_BAD])
    lines = [("rejected", f"{len(bad):,} of {len(bad) + good:,}: {counts}")]
    lines += [("", f"{row}{f' ({row.text})' if row.text and row.row else ''}") for row in bad[:SHOWN_BAD]]
    try:
        Limit.of(config).check(tally, good)
    except InputError:
        lines.append(("", "preprocess will refuse this input: see input.max_bad_rows and input.max_bad_fraction"))
    else:
        if none_left:
            lines.append(
                ("", "preprocess will refuse this input if all its rows are like these: none is left to train on")
            )
    return lines


def found_classes(config: PreprocessConfig, source: Source, sample: Sample) -> list[tuple[str, str]]:
    """Return lines about labels that are classes, and whether `preprocess` will refuse them."""
    good = sample.good
    if not labels.classified(source.label_kind) or not good.num_rows:
        return []
    rows = Counter(good.column(LABEL).to_pylist())
    lines = [("classes", classes(rows))]
    if config.fitted is None:
        try:
            declared = config.input.label_type != "auto"
            labels.check_classes(rows, source.label_kind, source.place, declared=declared)
            labels.check_two(rows, source.place)
        except InputError as error:
            why = str(error).removeprefix(f"{source.place}: ")
            like = "" if sample.whole else " if its other rows are like these"
            lines.append(("", f"preprocess will refuse this input{like}: {why}"))
    return lines


def classes(rows: Mapping[Any, int]) -> str:
    """Return the sample's labels, sorted, with their counts."""
    counts = sorted(rows.items())
    shown = ", ".join(f"{label}: {count:,}" for label, count in counts[:SHOWN_CLASSES])
    more = f", and {len(counts) - SHOWN_CLASSES:,} more" if len(counts) > SHOWN_CLASSES else ""
    return f"{len(counts):,} in the sample: {shown}{more}"


def splits(told: Facts, sample: Sample) -> str:
    """Return how many rows each split would get, or its fraction of the rows."""
    if told.note:
        return told.note
    if told.rows is None:
        return ", ".join(f"{name} {share:.1%}" for name, share in told.splits.items())
    about = "" if sample.whole else "about "
    return ", ".join(f"{name} {about}{round(rows):,}" for name, rows in told.splits.items()) + " rows"


def unseen(config: PreprocessConfig, rows: Mapping[str, int]) -> list[tuple[str, str]]:
    """Return a line about rows whose label no training row has: left out, or why `preprocess` will refuse the input.

    rows: the number of these rows, by split
    """
    said = " and ".join(f"{count:,} {name} row{'s'[: count != 1]}" for name, count in rows.items())
    if not said or (config.unseen_labels == "unknown" and config.fitted is None):
        return []
    known = "no training row has" if config.fitted is None else f"{config.fitted} (fitted) does not have"
    if config.unseen_labels == "drop":
        return [("", f"left out, because {known} their label (unseen_labels: drop): {said}")]
    return [("", f"preprocess will refuse this input: {known} the label of {said}; see unseen_labels")]


def taking(told: Facts) -> str:
    """Return how long the whole job will take."""
    if told.seconds is None:
        return "unknown: the number of rows, or the reading speed, is known only after all rows are read"
    cores = f"{told.cores} core{'s'[: told.cores != 1]}"
    return f"about {_duration(told.seconds)} on {cores}, plus Spark's start (estimated from the sample)"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes / 60:.1f} h"


def _bytes(count: int) -> str:
    size, unit = float(count), "bytes"
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if size < 1000 or unit == "TB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
