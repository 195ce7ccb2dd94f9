"""Makes windows over time from the sorted rows of each series.

Rows are first parsed as without windows, so that errors name bad rows in the usual way. Then Spark groups the rows by
series and sorts them. A task cuts the rows into windows as they arrive. It holds only one batch and the rows of one
window, however long the series is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparksplit.base.errors import InputError
from sparksplit.dataset.description import Description, FittedPreprocessing, TensorSpec, Windows
from sparksplit.dataset.labels import rounded
from sparksplit.dataset.lane_files import tensor_of
from sparksplit.dataset.manifest import SPLITS
from sparksplit.features.missing_columns import there_are
from sparksplit.prepare.cut_config import CutConfig
from sparksplit.prepare.durations import duration
from sparksplit.prepare.passes.parse import BAD, CUT, PART, keep_names, parse, tensor_names
from sparksplit.prepare.preprocess_config import InputConfig
from sparksplit.prepare.source import BATCH_BYTES, BadRow, BadRows, ParsedRows, Reader, Source
from sparksplit.prepare.sources.window_places import Piece, Rule, find, keep
from sparksplit.prepare.tables.columns import DataFrameSource
from sparksplit.prepare.tables.readers import Raw
from sparksplit.prepare.tables.roles import column_of
from sparksplit.prepare.windows_config import WindowsConfig
from sparksplit.spark.batches import partition_id, shuffled

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ORDERED = ("tinyint", "smallint", "int", "bigint", "timestamp", "timestamp_ntz", "date", "string")
_TASK_BYTES = 64 * 1024 * 1024
"""Approximate bytes of the input that one task sorts."""
_VALUES = tensor_names(1)[0]
_LEFT_OUT = ("gaps", "nulls", "short")
_READ = "rows"
"""Name of the number of good rows, among the counts of windows that are left out."""


class WindowSource(Source):
    """Windows of rows whose columns are numbers; see `Windows`.

    With labels, each window that has all rows of its label is one row. Without labels (for `predict`), only the last
    window of each series is a row: the rows after it are not known yet. The columns that identify a series, and its
    order, are kept. Their values come from the last row of the window's features.
    """

    def __init__(
        self,
        config: InputConfig,
        raw: Raw,
        description: Description | None = None,
        cut: CutConfig | None = None,
    ) -> None:
        """description: of earlier data, whose windows are then used. cut: by time, or None"""
        self.place = config.place
        if config.weight is not None:
            raise config.error(
                "weight", "must be left out with input.windows: a window has several rows, each with a weight"
            )
        train = raw.parts["train"]
        names = [name for name, _ in train.types]
        trained, asked = None if description is None else description.windows, config.windows
        if asked is None:
            assert trained is not None
            if cut is not None:
                raise config.error("windows", "must be given, because the data in `fitted` has windows")
            by, order, label = _known(config, names, trained)
        else:
            if description is not None and trained is None:
                raise config.error("windows", "must be left out, because the data in `fitted` has no windows")
            by, order, label = _asked(config, names, train.label)
        kept = (column_of(config, "keep", name, names, self.place) for name in config.keep)
        columns = list(dict.fromkeys([*by, order, *kept]))
        if label in columns:
            raise config.error(
                "label", f"{label!r} cannot be the label: it is in input.keep, input.windows.by or input.windows.order"
            )
        kind = dict(train.types)[order]
        if kind not in _ORDERED:
            problem = f"column {order!r} is {kind}, but must hold times, dates or whole numbers; cast it"
            raise InputError(f"{self.place}: {problem}") if asked is None else asked.error("order", problem)
        # Without a header, columns have only positions.
        places: dict[str, int | str] = {name: name if train.named else place for place, name in enumerate(names)}
        by_time = (cut or CutConfig(by="time")).model_copy(update={"column": places[order]})
        given = None if description is None else description.tensors[0].columns
        self._inner = _rows(config, raw, [places[name] for name in columns], by_time, given)
        features = self._inner.tensors[0].columns or [name for name in names if name not in columns]
        if len(features) != self._inner.tensors[0].values or label not in features:
            raise InputError(f"{self.place}: windows need columns of numbers, and the label {label!r} must be one")
        dtype = self._inner.tensors[0].dtype
        self._stride = 1 if asked is None else asked.stride
        self._gaps = config.missing == "mean"
        spark = train.frame.sparkSession
        reader: Any = self._inner.raw(spark)[1]
        time = reader.cut.kind == "time"
        if trained is not None and trained.time != time:
            kinds = "times" if trained.time else "whole numbers"
            raise InputError(f"{self.place}: column {order!r} must hold {kinds}, as in the training data")
        self.windows = made = _settled(
            config, trained, None if asked is None else _windows(asked, by, order, label, time)
        )
        shape = [made.window, len(features)]
        self.tensors = [TensorSpec(name="x", dtype=dtype, shape=shape, columns=list(features))]
        self.label_kind, self.label_name = (None, None) if config.label is None else ("number", label)
        self.keep, self.columns, self.files = self._inner.keep, self._inner.columns, self._inner.files
        self.notes = self._inner.notes
        self.has_test, self.raw_digest = self._inner.has_test, self._inner.raw_digest
        self._counts: Any = None

    @property
    def rule(self) -> Rule:
        """The rule for the wanted windows."""
        assert self.windows is not None
        horizon = self.windows.horizon if self.label_kind is not None else 0
        return Rule(self.windows.window, horizon, self._stride, self.windows.step)

    @property
    def left_out(self) -> dict[str, int]:
        counted = self._by_partition.values()
        return {why: sum(counts[why] for counts in counted) for why in _LEFT_OUT} if counted else {}

    def good_rows(self, parsed: int, partitions: Collection[int] | None = None) -> int:
        """Return how many good rows the tasks have read to make windows."""
        counted = self._by_partition
        return sum(counts[_READ] for place, counts in counted.items() if partitions is None or place in partitions)

    @property
    def _by_partition(self) -> dict[int, dict[str, int]]:
        """The counts of each task's partition, as `WindowReader` adds them."""
        return {} if self._counts is None else self._counts.value

    def parts(self) -> list[str]:
        return self._inner.parts()

    def expected_rows(self, row_bytes: float | None) -> dict[str, int] | None:
        """Estimate the windows of each part: its rows divided by the stride."""
        expected = self._inner.expected_rows(row_bytes)
        return None if expected is None else {part: rows // self._stride for part, rows in expected.items()}

    def raw(self, spark: SparkSession) -> tuple[DataFrame, Reader]:
        """Return the parsed rows, grouped by series and sorted, and the reader that makes windows of them.

        If the step is not known yet, read all rows to find it. Then raise InputError if no row follows another row of
        its series.
        """
        assert self.windows is not None
        parsed = parse(spark, self._inner)
        series = [PART, *keep_names(len(self.windows.by))]
        if not self.windows.step:
            self.windows = self.windows.model_copy(update={"step": self._step(parsed, series)})
        self._counts = spark.sparkContext.accumulator({}, _ByPartition())  # type: ignore[arg-type]
        columns = [PART, *keep_names(len(self.keep)), CUT, _VALUES, BAD]
        tasks = self._tasks(spark)
        rows = parsed.select(*columns).repartition(tasks, *series).sortWithinPartitions(*series, CUT)
        label = None if self.label_kind is None else (self.tensors[0].columns or []).index(self.windows.label)
        reader = WindowReader(
            self.place, self.rule, self.windows, self.tensors[0], self._inner.tensors[0], label, len(self.keep),
            self._gaps, self._counts,
        )  # fmt: skip
        return rows, reader

    def _tasks(self, spark: SparkSession) -> int:
        """Return how many tasks sort the rows. The number is fixed for one input and session."""
        size = sum(file.bytes for file in self.files)
        default = int(spark.conf.get("spark.sql.shuffle.partitions", "200") or "200")
        return max(spark.sparkContext.defaultParallelism, -(-size // _TASK_BYTES)) if size else default

    def _step(self, parsed: DataFrame, series: Sequence[str]) -> int:
        """Return the most frequent step from a row to the next. In a tie, return the shortest step."""
        from pyspark.sql import Window
        from pyspark.sql import functions as sql

        before = sql.lag(CUT).over(Window.partitionBy(*series).orderBy(CUT))
        rows = parsed.where(sql.col(BAD).isNull()).select(*series, CUT)
        with shuffled(parsed.sparkSession, sum(file.bytes for file in self.files) or _TASK_BYTES):
            ways = rows.select((sql.col(CUT) - before).alias("way")).where("way > 0").groupBy("way").count()
            commonest = ways.orderBy(sql.desc("count"), "way").first()
        if commonest is None:
            assert self.windows is not None
            by = ", ".join(map(repr, self.windows.by))
            bad = parsed.where(sql.col(BAD).isNotNull()).select(f"{BAD}.*").first()
            why = "" if bad is None else f"; there are bad rows, such as {BadRow(**bad.asDict())}"
            raise InputError(
                f"{self.place}: no row follows another row{f' of the same {by}' if by else ''}, so there is no "
                f"time step{why}"
            )
        return int(commonest["way"])


def _rows(
    config: InputConfig, raw: Raw, keep: list[int | str], cut: CutConfig, columns: list[str] | None
) -> DataFrameSource:
    """Return the source of the rows without windows. All columns except the kept ones are one tensor, with NaN for a
    missing value.

    columns: the features of the model, in the model's order
    """
    plain: dict[str, Any] = {"label": None, "label_type": "auto", "missing": "mean", "shape": None, "windows": None}
    tensor = TensorSpec(name="x", dtype=config.dtype or "float32", shape=[1], columns=columns)
    # A description without features of mixed columns, so that the columns do not become a table.
    like = Description(tensors=[tensor], label=None, preprocessing=FittedPreprocessing())
    return DataFrameSource(config.model_copy(update={**plain, "keep": keep}), raw, like, cut)


def _asked(config: InputConfig, names: Sequence[str], last: str | None) -> tuple[list[str], str, str]:
    """Return (columns that identify a series, column that orders its rows, label), as `config` names them.

    last: the label's column if `config` names none
    """
    windows, place = config.windows, config.place
    assert windows is not None
    by = [column_of(windows, "by", name, names, place) for name in windows.by]
    order = column_of(windows, "order", windows.order, names, place)
    if order in by or len(set(by)) < len(by):
        raise windows.error("by", "lists a column twice, or the column of input.windows.order")
    if config.label is None or ("label" not in config.model_fields_set and last is None):
        raise config.error(
            "label", f"must be the column whose next values the model predicts: one of {', '.join(names)}"
        )
    given = config.label if "label" in config.model_fields_set else last or ""
    return by, order, column_of(config, "label", given, names, place)


def _known(config: InputConfig, names: Sequence[str], windows: Windows) -> tuple[list[str], str, str]:
    """Return (columns that identify a series, column that orders its rows, label) of the windows that a model was
    trained on.

    Raise InputError if `names`, the columns of the input, lack one of them.
    """
    for name in (*windows.by, windows.order, windows.label):
        if name not in names:
            told = there_are(name, names)
            raise InputError(f"{config.place}: has no column {name!r}, which the model's windows need{told}")
    if config.label is not None and "label" in config.model_fields_set:
        label = column_of(config, "label", config.label, names, config.place)
        if label != windows.label:
            raise config.error("label", f"must be {windows.label!r}, which the model predicts, or null (is {label!r})")
    return windows.by, windows.order, windows.label


def _settled(config: InputConfig, trained: Windows | None, asked: Windows | None) -> Windows:
    """Return the windows to make: `trained` (of earlier data) or `asked` (of the configuration).

    Raise ConfigError if both exist and differ.
    """
    if trained is None or asked is None:
        windows = trained or asked
        assert windows is not None
        return windows
    if trained != asked.model_copy(update={"step": asked.step or trained.step}):
        raise config.error("windows", "must be the same as in the data of `fitted`")
    return trained


def _windows(windows: WindowsConfig, by: list[str], order: str, label: str, time: bool) -> Windows:
    step = windows.step
    if step is not None and isinstance(step, str) != time:
        wanted = "a duration such as 1h or 15min" if time else "a whole number"
        holds = "times" if time else "whole numbers"
        raise windows.error("step", f"must be {wanted}, because column {order!r} holds {holds} (is {step!r})")
    return Windows(
        window=windows.window,
        horizon=windows.horizon,
        by=by,
        order=order,
        label=label,
        step=0 if step is None else duration(step) if isinstance(step, str) else step,
        time=time,
    )


class _ByPartition:
    """Adds up the counts of tasks, for Spark's accumulators. A partition that runs again counts once."""

    def zero(self, value: Any) -> dict[int, dict[str, int]]:
        """Return no counts."""
        return {}

    def addInPlace(self, one: Any, other: Any) -> dict[int, dict[str, int]]:  # noqa: N802  # Spark's name for it
        """Return the counts of both."""
        return {**one, **other}


@dataclass(frozen=True)
class WindowReader:
    """Makes windows of sorted rows; see `Reader`.

    tensor: the tensor of a window. row: the tensor of a parsed row.
    label: the label's place among a row's values. None: no label is wanted.
    kept: number of columns to keep.
    gaps: whether features may have missing values.
    counts: an accumulator of the good rows, and of the windows that are left out, by reason.
    """

    place: str
    rule: Rule
    windows: Windows
    tensor: TensorSpec
    row: TensorSpec
    label: int | None
    kept: int
    gaps: bool
    counts: Any = None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[str, ParsedRows | BadRow | BadRows]]:
        """Yield the windows of all batches, whose rows are sorted by series and time."""
        carry: pa.RecordBatch | None = None
        index, counted = 0, dict.fromkeys((_READ, *_LEFT_OUT), 0)
        try:
            for batch in batches:
                yield from _bad(batch)
                rows = batch.filter(batch.column(BAD).is_null())
                if not rows.num_rows:
                    continue
                counted[_READ] += rows.num_rows
                carried = 0 if carry is None else carry.num_rows
                if carry is not None:
                    rows = pa.Table.from_batches([carry, rows]).combine_chunks().to_batches()[0]
                piece, values = self._piece(rows, index, carried)
                yield from self._found(rows, piece, values, counted)
                kept, index = keep(self.rule, piece)
                carry = rows.slice(rows.num_rows - kept)
            if carry is not None:
                piece, values = self._piece(carry, index, carry.num_rows, final=True)
                yield from self._found(carry, piece, values, counted)
        finally:  # also where a dry run takes only the first windows
            if self.counts is not None:
                self.counts.add({partition_id(): counted})

    def _piece(
        self, rows: pa.RecordBatch, index: int, carried: int, final: bool = False
    ) -> tuple[Piece, npt.NDArray[Any]]:
        """Return (the piece in which to find windows, the values [rows, columns])."""
        values = tensor_of(pa.chunked_array([rows.column(_VALUES)]), self.row)
        same = np.ones(rows.num_rows, np.bool_)
        for name in (PART, *keep_names(len(self.windows.by))):
            codes = rows.column(name).dictionary_encode(null_encoding="encode").indices.to_numpy()
            same[1:] &= codes[1:] == codes[:-1]
        null = np.isnan(values).any(axis=1) & (not self.gaps)
        null_label = np.zeros(len(values), np.bool_)
        if self.label is not None:
            null_label = ~np.isfinite(values[:, self.label])
        return Piece(same, rows.column(CUT).to_numpy(), null, null_label, index, carried, final), values

    def _found(
        self, rows: pa.RecordBatch, piece: Piece, values: npt.NDArray[Any], counted: dict[str, int]
    ) -> Iterator[tuple[str, ParsedRows | BadRow]]:
        """Yield the windows of a piece, in small batches. counted: gets the numbers of windows that are left out"""
        found = find(self.rule, piece)
        for why in _LEFT_OUT:
            counted[why] += getattr(found, why)
        parts = rows.column(PART).to_numpy()
        if found.again is not None:
            yield SPLITS[parts[found.again]], self._again(rows, found.again)
        step = max(1, BATCH_BYTES // self.tensor.row_bytes)
        for part in np.unique(parts[found.starts]).tolist():
            mine = found.starts[parts[found.starts] == part]
            for first in range(0, len(mine), step):
                yield SPLITS[part], self._rows(rows, piece, values, mine[first : first + step])

    def _rows(
        self, rows: pa.RecordBatch, piece: Piece, values: npt.NDArray[Any], starts: npt.NDArray[np.int64]
    ) -> ParsedRows:
        view = np.lib.stride_tricks.sliding_window_view
        features = view(values, self.rule.window, axis=0)[starts].transpose(0, 2, 1)
        label = None
        if self.label is not None:
            label = rounded(view(values[:, self.label], self.rule.horizon)[starts + self.rule.window])
        last = pa.array(starts + self.rule.window - 1)
        return ParsedRows(
            [np.ascontiguousarray(features, self.tensor.numpy_dtype)],
            label,
            [rows.column(name).take(last).to_pylist() for name in keep_names(self.kept)],
            piece.time[starts + self.rule.rows - 1],
        )

    def _again(self, rows: pa.RecordBatch, place: int) -> BadRow:
        """Return the bad row for a time that occurs twice. No limit of bad rows allows it."""
        names = [*self.windows.by, self.windows.order]
        key = ", ".join(
            f"{name} {rows.column(column)[place].as_py()}"
            for name, column in zip(names, keep_names(len(names)), strict=True)
        )
        hint = "each series (input.windows.by) may have a time only once"
        return BadRow(self.place, 0, f"several rows have {key}: {hint}", fatal=True, kind="a time occurs twice")


def _bad(batch: pa.RecordBatch) -> Iterator[tuple[str, BadRows]]:
    """Yield the bad rows of a batch, by part."""
    bad = batch.filter(batch.column(BAD).is_valid())
    if bad.num_rows:
        parts = bad.column(PART).to_numpy()
        for part in np.unique(parts).tolist():
            yield SPLITS[part], BadRows(bad.column(BAD).filter(pa.array(parts == part)))
