"""Samples a source's rows, and estimates the whole input from the sample: rows, rows by split, seconds.

The sample is the first rows of some of the tasks that read the input. Executors read it with the reader of
`preprocess`. So `preprocess` rejects every row that is rejected here.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparksplit.base.errors import InputError
from sparksplit.dataset import labels, row_ids
from sparksplit.dataset.description import Description
from sparksplit.dataset.lane_files import LABEL
from sparksplit.dataset.manifest import SPLITS
from sparksplit.prepare.passes.cut import Cut, outside
from sparksplit.prepare.passes.cut_fit import fitted as fitted_cut
from sparksplit.prepare.passes.identify import Identify
from sparksplit.prepare.passes.parse import (
    BAD,
    CONTENT,
    CUT,
    NUMBER,
    PART,
    parsed_schema,
    reader_of,
    to_batch,
)
from sparksplit.prepare.preprocess_config import PreprocessConfig
from sparksplit.prepare.source import BadRow, BadRows, ParsedRows, Reader, Source
from sparksplit.spark.batches import bounded_batches, partition_id, rows_per_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASKS = 8
"""The sample has rows of at least this many tasks, if so many tasks have rows."""
TASK_ROWS = 10_000
TASK_SECONDS = 5.0
"""Limits for the sample of one task: rows, and seconds of reading."""
SHOWN_ROWS = 5
VALUE_BYTES = 1024 * 1024
"""Bytes of features that a task sends with its first rows. The dry run shows the columns' values from these rows."""
WORK = 3.0
"""Time of the whole job, as a multiple of the time to read and parse all rows. The job also keeps, passes over,
shuffles, sorts and writes the rows (docs/operations.md has the measurements)."""
_BATCH = 1_000
"""Rows in a record batch. A small batch keeps Spark from reading much more than the sample."""


@dataclass(frozen=True)
class Sample:
    """The first rows of some tasks.

    rows: columns as in `parsed_schema`. Only the first rows of each task have their features.
    rate: rows/s of the fastest task, on one core.
    whole: whether the sample has all rows of the input.
    row_bytes: bytes of the files per row. None: our own tasks read the files, not Spark.
    valued: the good rows that have their features. None: unknown.
    good_rows: good rows of the input that the tasks read. None: as many as there are in `rows`.
    """

    rows: pa.Table
    rate: float
    whole: bool
    row_bytes: float | None = None
    valued: pa.Table | None = None
    good_rows: int | None = None

    @property
    def bad(self) -> list[BadRow]:
        """The rejected rows."""
        column = self.rows.column(BAD)
        return [BadRow(**row) for row in column.filter(column.is_valid()).to_pylist()]

    @property
    def good(self) -> pa.Table:
        """The rows that are not rejected."""
        return self.rows.filter(self.rows.column(BAD).is_null())


@dataclass(frozen=True)
class Facts:
    """Estimates for the whole input, from a sample.

    rows: good and bad rows of the input. None: unknown.
    splits: rows of each split. If `rows` is None: fractions of the rows that are cut.
    seconds: duration of the whole job on `cores` cores. None: unknown.
    note: why `splits` is empty.
    unseen: of a sample that has all rows, the rows of each split whose label is unknown; see `expected`.
    """

    rows: int | None
    splits: Mapping[str, float] = field(default_factory=dict)
    seconds: float | None = None
    cores: int = 1
    note: str = ""
    unseen: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _Take:
    """The work of one task of the sample. Yields one row that holds the task's first rows as an Arrow stream.

    Yields nothing if the task has no rows.
    """

    read: Reader
    schema: pa.Schema
    most: int
    """Largest number of rows to take."""
    valued: int = SHOWN_ROWS
    """Largest number of good rows that get their features. These are the first good rows."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        taken: list[pa.RecordBatch] = []
        kept, valued, head_end, ended = 0, 0, 0, True
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
                head = min(stop, self.valued - valued)
                ended = ended and stop == len(item)
                taken += [to_batch(_slice(item, 0, head), name, self.schema)] if head else []
                taken += [to_batch(_slice(item, head, stop), name, self.schema, wanted=False)] if head < stop else []
                head_end = kept + head if head else head_end
                kept, valued = kept + stop, valued + head
        if kept:
            row = {"rate": clock.rate, "ended": ended, "valued": head_end, "place": partition_id()}
            yield pa.RecordBatch.from_pylist([{**row, "rows": _stream(taken, self.schema)}])


class _Clock:
    """Measures rows/s. If more items follow the first one, the time of the first does not count: it waited for Spark's
    start."""

    def __init__(self) -> None:
        self.looks, self._begin, self._rows = 0, time.perf_counter(), 0
        self._first: tuple[float, int] | None = None
        self._now = self._begin

    def saw(self, rows: int) -> None:
        """Count `rows` more rows."""
        self.looks, self._rows, self._now = self.looks + 1, self._rows + rows, time.perf_counter()
        self._first = self._first or (self._now, self._rows)

    @property
    def seconds(self) -> float:
        """Seconds from the start to the last rows."""
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
        [text[start:stop] for text in rows.texts],
        None if rows.weight is None else rows.weight[start:stop],
    )


def _stream(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(sink.getvalue())


def sampled(spark: SparkSession, source: Source) -> Sample:
    """Return a sample of the source's rows. Raise InputError if the source has no rows."""
    frame, read = source.raw(spark)
    schema = parsed_schema(source)
    before = _read_so_far(spark)
    row_bytes = max(sum(tensor.row_bytes for tensor in source.tensors), source.raw_bytes)
    with bounded_batches(spark, min(_BATCH, rows_per_batch(row_bytes))):
        # Each task gives at most one row, so Spark runs tasks until TASKS + 1 of them had rows.
        valued = max(SHOWN_ROWS, min(TASK_ROWS, VALUE_BYTES // max(1, row_bytes)))
        take = _Take(reader_of(source, read), schema, TASK_ROWS, valued)
        kinds = "rate double, ended boolean, valued bigint, place bigint, rows binary"
        taken = frame.mapInArrow(take, kinds).take(TASKS + 1)
    if not taken:
        raise InputError(f"{source.place}: has no rows")
    tables = [pa.ipc.open_stream(pa.py_buffer(bytes(row.rows))).read_all() for row in taken]
    whole = len(taken) <= TASKS and all(row.ended for row in taken)
    size, records = (now - then for now, then in zip(_read_so_far(spark), before, strict=True))
    heads = pa.concat_tables(table.slice(0, row.valued) for table, row in zip(tables, taken, strict=True))
    rate, of_file = max(row.rate for row in taken), size / records if records else None
    sample = Sample(pa.concat_tables(tables), rate, whole, of_file, heads.filter(heads.column(BAD).is_null()))
    return replace(sample, good_rows=source.good_rows(sample.good.num_rows, [row.place for row in taken]))


def facts(
    spark: SparkSession,
    config: PreprocessConfig,
    source: Source,
    sample: Sample,
    earlier: Description | None = None,
) -> Facts:
    """Estimate the facts of the whole input from the sample. earlier: description of the data that `fitted` names"""
    parts = _by_part(sample.rows) if sample.whole else source.expected_rows(sample.row_bytes)
    rows = None if parts is None else sum(parts.values())
    split, note = _dealt(spark, config, source, sample.good)
    cores = max(1, spark.sparkContext.defaultParallelism)
    seconds = None if rows is None else rows * WORK / sample.rate / cores
    if split is None:
        return Facts(rows, {}, seconds, cores, note)
    splits, unseen = expected(config, source, sample, split, _by_part(sample.good) if sample.whole else parts, earlier)
    return Facts(rows, splits, seconds, cores, note, unseen)


def expected(
    config: PreprocessConfig,
    source: Source,
    sample: Sample,
    split: npt.NDArray[np.int32],
    parts: Mapping[str, int] | None,
    earlier: Description | None = None,
) -> tuple[dict[str, float], dict[str, int]]:
    """Return (`expected_splits`, rows of each split whose label no training row has).

    If the sample has all rows, `unseen_labels: drop` leaves the rows with such labels out of the splits, as in
    `preprocess`. Otherwise no row counts as such a row, because other training rows may have its label.

    split: index in SPLITS of each good row, -1 if the row is in no split [rows].
    parts: rows of each part.
    earlier: description of the data that `fitted` names. Its classes then replace the labels of the training rows.
    """
    good = sample.good
    mine = good.column(PART).to_numpy() == SPLITS.index("train")
    counts = np.bincount(split[mine & (split >= 0)], minlength=len(SPLITS))
    dealt = {name: count / max(1, int(mine.sum())) for name, count in zip(SPLITS, counts.tolist(), strict=True)}
    splits = expected_splits(dealt, parts)
    if not sample.whole or not labels.classified(source.label_kind):
        return splits, {}
    label = np.array(good.column(LABEL).to_pylist(), object)
    by_split = {name: Counter(label[split == place].tolist()) for place, name in enumerate(SPLITS)}
    spec = None if earlier is None else earlier.label
    classes = labels.known_values(spec)
    known = {*(by_split["train"] if classes is None else classes.to_pylist())}
    unseen = labels.rows_beyond(by_split, known) if known else {}
    if config.unseen_labels == "drop":
        return {name: rows - unseen.get(name, 0) for name, rows in splits.items()}, unseen
    return splits, {} if spec is not None and spec.unknown else unseen


def _by_part(rows: pa.Table) -> dict[str, int]:
    counts = np.bincount(rows.column(PART).to_numpy(), minlength=len(SPLITS)).tolist()
    return {name: count for name, count in zip(SPLITS, counts, strict=True) if count}


def expected_splits(dealt: Mapping[str, float], parts: Mapping[str, int] | None) -> dict[str, float]:
    """Return the expected rows of each split. If `parts` is None, return fractions of the rows that are cut.

    dealt: for each split, its fraction of the rows of the part train
    parts: rows of each part
    """
    if parts is None or not dealt:
        return dict(dealt)
    return {name: parts.get("train", 0) * dealt[name] + (name != "train" and parts.get(name, 0)) for name in SPLITS}


def _dealt(
    spark: SparkSession, config: PreprocessConfig, source: Source, good: pa.Table
) -> tuple[npt.NDArray[np.int32] | None, str]:
    """Return (index in SPLITS of each row, -1 if the row is left out [rows], or None; why there is none)."""
    if not good.num_rows:
        return None, "unknown: all rows of the sample are rejected"
    cut = Cut() if source.deals else Cut.of(config, [name for name in source.parts() if name != "train"])
    cut = replace(cut, reach=source.windows.reach if source.windows is not None else 0)
    content = np.stack([row_ids.unsigned(good.column(word).to_numpy()) for word in CONTENT], axis=1)
    number, part = row_ids.duplicate_numbers(content), good.column(PART).to_numpy()
    by = good.column(CUT) if CUT in good.column_names else None
    label = good.column(LABEL) if LABEL in good.column_names else None
    try:
        if cut.fits:
            keys = {word: good.column(word).to_pylist() for word in (*CONTENT, PART)}
            keys |= {NUMBER: number.tolist()} | ({} if by is None else {CUT: by.to_pylist()})
            keys |= {} if label is None else {LABEL: label.to_pylist()}
            rows = list(zip(*keys.values(), strict=True))
            cut = fitted_cut(cut, spark.createDataFrame(rows, _schema(keys, good)), Identify(None))
        classes = None if label is None else label.combine_chunks()
        split = cut.splits(content, number, part, None if by is None or by.null_count else by.to_numpy(), classes)
    except InputError as error:
        return None, f"unknown from the sample alone: {error}"
    if by is not None and cut.left_out:
        split = np.where((part != SPLITS.index("train")) | outside(by.to_numpy(), cut.left_out), split, np.int32(-1))
    return split, ""


def _schema(keys: Iterable[str], good: pa.Table) -> str:
    kinds = {pa.string(): "string", pa.binary(): "binary", pa.float64(): "double", pa.int32(): "int"}
    extra = {NUMBER: pa.int64()}
    types = {name: kinds.get(extra.get(name) or good.schema.field(name).type, "bigint") for name in keys}
    return ", ".join(f"{name} {kind}" for name, kind in types.items())


def _read_so_far(spark: SparkSession) -> tuple[int, int]:
    """Return (bytes, rows) that Spark's own readers have read in this session. Files that our own tasks read do not
    count."""
    context = spark.sparkContext
    jvm, scala = context._jvm, context._jsc.sc()
    assert jvm is not None and context._gateway is not None
    scala.listenerBus().waitUntilEmpty()
    none = jvm.java.util.ArrayList()
    stages = scala.statusStore().stageList(none, False, False, context._gateway.new_array(jvm.double, 0), none)
    infos = [stages.apply(place) for place in range(stages.size())]
    return sum(stage.inputBytes() for stage in infos), sum(stage.inputRecords() for stage in infos)
