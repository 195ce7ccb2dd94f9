"""`preprocess --dry-run`: what would be made of the input, from a sample of it. Nothing is written, nothing claimed.

The sample is the beginning of some of the tasks that would read the input, each in an executor, by the very reader that
`preprocess` uses; so a row that it rejects will be rejected.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from hdfs_io import row_ids
from hdfs_io.bad_rows import Limit, tally_of
from hdfs_io.config import InputConfig, PreprocessConfig
from hdfs_io.cut import Cut
from hdfs_io.formats import format_of
from hdfs_io.lane_files import LABEL, tensor_of
from hdfs_io.manifest import SPLITS
from hdfs_io.preprocess import open_rows, own_frame, own_source, session_for
from hdfs_io.preprocessing import TOKENS
from hdfs_io.sources.base import BadRow, BadRows, ParsedRows, Reader, Source
from hdfs_io.sources.identify import Identify
from hdfs_io.sources.line_numbers import assigned, find_lines
from hdfs_io.sources.parse import (
    BAD,
    CONTENT,
    CUT,
    NUMBER,
    PART,
    keep_names,
    parsed_schema,
    reader_of,
    tensor_names,
    to_batch,
)
from hdfs_io.spark_batches import bounded_batches, rows_per_batch
from sparksplit.base.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASKS = 8
"""How many tasks the sample is from, at least, where the input has so many with rows."""
TASK_ROWS = 10_000
TASK_SECONDS = 5.0
"""How much of a task is read: so many rows, for so long."""
SHOWN_ROWS, SHOWN_VALUES, SHOWN_BAD, SHOWN_CLASSES, SHOWN_COLUMNS = 5, 8, 5, 20, 30
WORK = 6.0
"""What a whole job costs where reading and parsing all rows costs 1: that is done twice, and rows are shuffled, sorted
and written (docs/operations.md has the measurements)."""
_BATCH = 1_000
"""Rows of a batch, so that Spark reads little more than the sample."""


@dataclass(frozen=True)
class Sample:
    """Rows of some tasks.

    rows: columns as in `parsed_schema`, with the tensors of the first ones only. rate: rows/s of the fastest task, of
    one core. whole: whether these are all rows that there are. row_bytes: of a file for each row; None where our own
    tasks read the files.
    """

    rows: pa.Table
    rate: float
    whole: bool
    row_bytes: float | None = None

    @property
    def bad(self) -> list[BadRow]:
        """The rejected rows."""
        found = self.rows.column(BAD)
        return [BadRow(**row) for row in found.filter(found.is_valid()).to_pylist()]

    @property
    def good(self) -> pa.Table:
        """The other rows."""
        return self.rows.filter(self.rows.column(BAD).is_null())


@dataclass(frozen=True)
class Facts:
    """What a sample tells of the whole input.

    rows: of the whole input, good and bad; None where nothing tells. splits: rows that fall to each, or shares of those
    that are cut, where `rows` is None. seconds: what the whole job would take. note: why there are no splits.
    """

    rows: int | None
    splits: Mapping[str, float] = field(default_factory=dict)
    seconds: float | None = None
    cores: int = 1
    note: str = ""


def dry_run(config: PreprocessConfig) -> str:
    """What `preprocess` would make of the input that `config` names, for people.

    Raises UsageError as `preprocess` does for what the driver can see is wrong; RunError where Spark fails.
    """
    config.check()
    config = config.effective()
    function = own_source(config.input)
    patient = config.model_copy(update={"input": _patient(config.input)})
    with ExitStack() as started:
        session = session_for(config, started)
        frame = None if function is None else own_frame(session(), config.input)
        source = open_rows(patient, session, frame)
        spark = session()
        sample = sampled(spark, source)
        bad = sample.bad
        bad = assigned(bad, find_lines(spark, [(row.path, row.row) for row in bad[:SHOWN_BAD] if row.row < 0]))
        return "\n".join(report(config, source, sample, bad, facts(spark, config, source, sample)))


def _patient(config: InputConfig) -> InputConfig:
    """`config` with a reader that goes on after bad rows."""
    if "max_bad_rows" not in format_of(config.format).keys:
        return config
    return config.model_copy(update={"max_bad_rows": TASK_ROWS, "max_bad_fraction": None})


@dataclass(frozen=True, eq=False)
class _Take:
    """What a task of the sample does: one row with the beginning of its rows, as an Arrow stream; none without rows."""

    read: Reader
    schema: pa.Schema
    most: int
    """Rows to take."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        taken: list[pa.RecordBatch] = []
        kept, shown, ended = 0, 0, True
        clock = _Clock()
        for name, item in self.read(batches):
            clock.saw(1 if isinstance(item, BadRow) else len(item))
            if kept >= self.most or clock.seconds > TASK_SECONDS:
                ended = False
                break
            if not isinstance(item, ParsedRows):
                taken.append(to_batch(item, name, self.schema))
                kept += len(item) if isinstance(item, BadRows) else 1
            else:
                stop = min(len(item), self.most - kept)
                head = min(stop, SHOWN_ROWS - shown)
                ended = ended and stop == len(item)
                taken += [to_batch(_slice(item, 0, head), name, self.schema)] if head else []
                taken += [to_batch(_slice(item, head, stop), name, self.schema, wanted=False)] if head < stop else []
                kept, shown = kept + stop, shown + head
        if kept:
            yield pa.RecordBatch.from_pylist(
                [{"rate": clock.rate, "ended": ended, "rows": _stream(taken, self.schema)}]
            )


class _Clock:
    """How fast rows come. It starts with the first of them, which waited for Spark's own start, if more follow."""

    def __init__(self) -> None:
        self.looks, self._begin, self._rows = 0, time.perf_counter(), 0
        self._first: tuple[float, int] | None = None
        self._now = self._begin

    def saw(self, rows: int) -> None:
        """So many more rows have come."""
        self.looks, self._rows, self._now = self.looks + 1, self._rows + rows, time.perf_counter()
        self._first = self._first or (self._now, self._rows)

    @property
    def seconds(self) -> float:
        """Since the beginning."""
        return self._now - self._begin

    @property
    def rate(self) -> float:
        """Rows/s."""
        begin, before = self._first if self._first and self.looks > 1 else (self._begin, 0)
        return (self._rows - before) / max(self._now - begin, 1e-6)


def _slice(rows: ParsedRows, start: int, stop: int) -> ParsedRows:
    return ParsedRows(
        [tensor[start:stop] for tensor in rows.tensors],
        None if rows.label is None else rows.label[start:stop],
        [column[start:stop] for column in rows.keep],
        None if rows.cut is None else rows.cut[start:stop],
    )


def _stream(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def sampled(spark: SparkSession, source: Source) -> Sample:
    """A sample of the source's rows. Raises InputError where there is none."""
    frame, read = source.raw(spark)
    schema = parsed_schema(source)
    before = _read_so_far(spark)
    row_bytes = max(sum(tensor.row_bytes for tensor in source.tensors), source.raw_bytes)
    with bounded_batches(spark, min(_BATCH, rows_per_batch(row_bytes))):
        # Spark goes from task to task until it has so many of these rows.
        take = _Take(reader_of(source, read), schema, TASK_ROWS)
        found = frame.mapInArrow(take, "rate double, ended boolean, rows binary").take(TASKS + 1)
    if not found:
        raise InputError(f"{source.place}: has no rows")
    tables = [pa.ipc.open_stream(pa.py_buffer(bytes(row.rows))).read_all() for row in found]
    whole = len(found) <= TASKS and all(row.ended for row in found)
    size, records = (now - then for now, then in zip(_read_so_far(spark), before, strict=True))
    return Sample(pa.concat_tables(tables), max(row.rate for row in found), whole, size / records if records else None)


def facts(spark: SparkSession, config: PreprocessConfig, source: Source, sample: Sample) -> Facts:
    """What the sample tells."""
    parts = _by_part(sample.rows) if sample.whole else source.expected_rows(sample.row_bytes)
    rows = None if parts is None else sum(parts.values())
    dealt, note = _dealt(spark, config, source, sample.good)
    cores = max(1, spark.sparkContext.defaultParallelism)
    seconds = None if rows is None else rows * WORK / sample.rate / cores
    return Facts(rows, expected_splits(dealt, _by_part(sample.good) if sample.whole else parts), seconds, cores, note)


def _by_part(rows: pa.Table) -> dict[str, int]:
    counts = np.bincount(rows.column(PART).to_numpy(), minlength=len(SPLITS)).tolist()
    return {name: count for name, count in zip(SPLITS, counts, strict=True) if count}


def expected_splits(dealt: Mapping[str, float], parts: Mapping[str, int] | None) -> dict[str, float]:
    """Rows by split where `parts` are the rows by part; shares of the rows that are cut, where that is unknown.

    dealt: the shares of the rows of the part train that fall to each split
    """
    if parts is None or not dealt:
        return dict(dealt)
    return {name: parts.get("train", 0) * dealt[name] + (name != "train" and parts.get(name, 0)) for name in SPLITS}


def _dealt(
    spark: SparkSession, config: PreprocessConfig, source: Source, good: pa.Table
) -> tuple[dict[str, float], str]:
    """(the shares of the rows of the part train that fall to each split, why that cannot be told)."""
    cut = Cut() if source.deals else Cut.of(config, [name for name in source.parts() if name != "train"])
    content = np.stack([row_ids.unsigned(good.column(word).to_numpy()) for word in CONTENT], axis=1)
    number, part = row_ids.duplicate_numbers(content), good.column(PART).to_numpy()
    by = good.column(CUT) if CUT in good.column_names else None
    label = good.column(LABEL) if LABEL in good.column_names else None
    try:
        if cut.fits:
            keys = {word: good.column(word).to_pylist() for word in (*CONTENT, PART)}
            keys |= {NUMBER: number.tolist()} | ({} if by is None else {CUT: by.to_pylist()})
            keys |= {} if label is None else {LABEL: label.to_pylist()}
            keys |= {BAD: [None] * good.num_rows}
            rows = list(zip(*keys.values(), strict=True))
            cut = cut.fitted(spark.createDataFrame(rows, _schema(keys, good)), Identify(None))
        labels = None if label is None else label.combine_chunks()
        dealt = cut.splits(content, number, part, None if by is None or by.null_count else by.to_numpy(), labels)
    except InputError as error:
        return {}, f"the sample alone does not tell: {error}"
    counts = np.bincount(dealt[part == SPLITS.index("train")], minlength=len(SPLITS))
    return {name: count / max(1, counts.sum()) for name, count in zip(SPLITS, counts.tolist(), strict=True)}, ""


def _schema(keys: Iterable[str], good: pa.Table) -> str:
    kinds = {pa.string(): "string", pa.binary(): "binary", pa.float32(): "float", pa.int32(): "int"}
    own = {NUMBER: "bigint", BAD: "string"}
    types = {name: own.get(name) or kinds.get(good.schema.field(name).type, "bigint") for name in keys}
    return ", ".join(f"{name} {kind}" for name, kind in types.items())


def _read_so_far(spark: SparkSession) -> tuple[int, int]:
    """(bytes, rows) that Spark's own readers have read in this session; zeros for files that our tasks read."""
    context = spark.sparkContext
    jvm, scala = context._jvm, context._jsc.sc()
    assert jvm is not None and context._gateway is not None
    scala.listenerBus().waitUntilEmpty()
    none = jvm.java.util.ArrayList()
    stages = scala.statusStore().stageList(none, False, False, context._gateway.new_array(jvm.double, 0), none)
    found = [stages.apply(place) for place in range(stages.size())]
    return sum(stage.inputBytes() for stage in found), sum(stage.inputRecords() for stage in found)


def report(config: PreprocessConfig, source: Source, sample: Sample, bad: Sequence[BadRow], told: Facts) -> list[str]:
    """What the sample tells, in lines for people. bad: its bad rows"""
    good = sample.good
    total = sum(file.bytes for file in source.files)
    files = f" ({len(source.files):,} file{'s'[: len(source.files) != 1]}, {_bytes(total)})" if source.files else ""
    count = f"{sample.rows.num_rows:,} rows"
    of = "of an unknown number" if told.rows is None else f"of about {told.rows:,}"
    lines = [
        ("input", f"{config.input.format}: {config.input.place}{files}"),
        *(("columns", columns(source.columns)) for _ in [0] if source.columns),
        ("tensors", ", ".join(f"{tensor.name}: {tensor.dtype} {tensor.shape}" for tensor in source.tensors)),
        ("label", source.label_kind or "none"),
        *((("kept", ", ".join(source.keep)),) if source.keep else ()),
        ("sample", f"all {count}" if sample.whole else f"{count} {of}"),
        *(("row", text) for text in first_rows(source, good)),
        *rejected(config.input, bad, good.num_rows),
        *((("classes", classes(good.column(LABEL).to_pylist())),) if source.label_kind in ("integer", "text") else ()),
        *((("vocabulary", f"{len(source.vocabulary):,} {source.label_kind}"),) if source.vocabulary else ()),
        ("splits", splits(told, sample)),
        ("time", taking(told)),
        ("dry run", f"nothing was written; without --dry-run this fills {config.output}"),
    ]
    return [f"{name:<11}{text}" for name, text in lines]


def columns(found: Mapping[str, str]) -> str:
    """The raw columns with their types."""
    shown = ", ".join(f"{name} {kind}" for name, kind in list(found.items())[:SHOWN_COLUMNS])
    return shown + (f", and {len(found) - SHOWN_COLUMNS:,} more" if len(found) > SHOWN_COLUMNS else "")


def first_rows(source: Source, good: pa.Table) -> list[str]:
    """The first good rows as text: tensors, label, kept columns."""
    rows = good.slice(0, SHOWN_ROWS)
    names = tensor_names(len(source.tensors))
    rows = rows.filter(rows.column(names[0]).is_valid())
    tensors = [tensor_of(rows.column(name), spec) for name, spec in zip(names, source.tensors, strict=True)]
    columns = [
        *(
            (spec.name, [_values(values) for values in tensor])
            for spec, tensor in zip(source.tensors, tensors, strict=True)
        ),
        *(
            ((LABEL, [_label(source, value) for value in rows.column(LABEL).to_pylist()]),)
            if LABEL in rows.column_names
            else ()
        ),
        *(
            (name, rows.column(own).to_pylist())
            for name, own in zip(source.keep, keep_names(len(source.keep)), strict=True)
        ),
    ]
    return [", ".join(f"{name} = {values[row]}" for name, values in columns) for row in range(rows.num_rows)]


def _values(values: npt.NDArray[Any]) -> str:
    flat = values.reshape(-1)
    more = f" ... {flat.size} values" if flat.size > SHOWN_VALUES else ""
    return f"[{' '.join(str(value) for value in flat[:SHOWN_VALUES])}{more}]"


def _label(source: Source, value: Any) -> str:
    if source.label_kind in TOKENS:
        return f"the next of each of the {source.label_kind}"
    return repr(value) if isinstance(value, str) else str(value)


def rejected(config: InputConfig, bad: Sequence[BadRow], good: int) -> list[tuple[str, str]]:
    """Lines about the bad rows: how many by reason, the first ones, and what would come of them."""
    if not bad:
        return [("rejected", "none")]
    found = tally_of((row.kind or row.reason, 1, row) for row in bad)
    counts = "; ".join(f"{count:,} {kind}" for kind, count in list(found.counts.items())[:SHOWN_BAD])
    lines = [("rejected", f"{len(bad):,} of {len(bad) + good:,}: {counts}")]
    lines += [("", f"{row}{f' ({row.text})' if row.text and row.row else ''}") for row in bad[:SHOWN_BAD]]
    try:
        Limit.of(config).check(found, good)
    except InputError:
        lines.append(("", "preprocess will refuse this input: see input.max_bad_rows and input.max_bad_fraction"))
    return lines


def classes(labels: Sequence[Any]) -> str:
    """The sample's labels with their counts, in their order."""
    counts = sorted(Counter(labels).items())
    shown = ", ".join(f"{label}: {count:,}" for label, count in counts[:SHOWN_CLASSES])
    more = f", and {len(counts) - SHOWN_CLASSES:,} more" if len(counts) > SHOWN_CLASSES else ""
    return f"{len(counts):,} in the sample: {shown}{more}"


def splits(told: Facts, sample: Sample) -> str:
    """How many rows would fall to each split."""
    if told.note:
        return told.note
    if told.rows is None:
        return ", ".join(f"{name} {share:.1%}" for name, share in told.splits.items())
    about = "" if sample.whole else "about "
    return ", ".join(f"{name} {about}{round(rows):,}" for name, rows in told.splits.items()) + " rows"


def taking(told: Facts) -> str:
    """How long the whole job will take."""
    if told.seconds is None:
        return "unknown: how many rows there are, or how fast they are read, is known only when they have been read"
    cores = f"{told.cores} core{'s'[: told.cores != 1]}"
    return f"about {_duration(told.seconds)} on {cores}, and Spark's start: an estimate from the sample's rate"


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
