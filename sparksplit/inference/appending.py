"""Appends a model's predictions to a DataFrame as columns. Nothing is computed before Spark needs these columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow as pa

from sparksplit.base.errors import InputError
from sparksplit.base.progress import say
from sparksplit.features.encoder import Encoder, encoder_of
from sparksplit.features.missing_columns import there_are
from sparksplit.features.table import WHOLE
from sparksplit.inference.predict_config import PredictConfig
from sparksplit.inference.rows import read_as_trained
from sparksplit.inference.tasks import SplitRows, batches, predict, tensors_of
from sparksplit.inference.trained import Array, TrainedModel, load
from sparksplit.inference.writer import Predictions
from sparksplit.model.tensorflow import import_tensorflow
from sparksplit.prepare.preprocess_config import DataFrameInput
from sparksplit.prepare.source import BadRow
from sparksplit.prepare.sources import open_raw
from sparksplit.prepare.tables.column_rows import ORIGIN, ColumnReader
from sparksplit.prepare.tables.raw_frame import PLACE, RawFrame, by_place
from sparksplit.prepare.tables.readers import Raw
from sparksplit.spark.batches import rows_per_batch
from sparksplit.spark.own_python import own_python

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_CARRIED = "carried {}"
"""Name of a column of the DataFrame by its position, while a feature of the same name stands beside it."""
_BATCH_SIZE: int = PredictConfig.model_fields["batch_size"].default
_BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_LARGE_BYTES = 256 * 1024 * 1024
"""A batch above this size is worth a line. Spark decides on batches when it computes them, so nothing is set here."""
_PREDICTION, _PROBABILITY, _RAW = "prediction", "probability", "raw"


@dataclass(frozen=True)
class Appended:
    """Names of the columns to append. An empty name leaves a column out.

    prediction: a double; of a classifier, the class as a number. probability: a classifier's vector of probabilities in
    the order of the classes, with the digits that `predict` writes. raw: a vector of their logarithms.
    """

    prediction: str
    probability: str = ""
    raw: str = ""

    @property
    def fields(self) -> dict[str, str]:
        """The wanted columns: the field of the computed struct to the column's name."""
        named = {_RAW: self.raw, _PROBABILITY: self.probability, _PREDICTION: self.prediction}
        return {field: name for field, name in named.items() if name}


def appended(
    frame: DataFrame, features: Sequence[str], trained: TrainedModel, names: Appended, config: DataFrameInput
) -> DataFrame:
    """Return `frame` with the predictions of each row. The rows and the other columns stay as they are.

    features: the columns that the model takes. config: how they are read; `label` must be None.

    Raise InputError if the columns do not fit the model, or a new column exists already. A bad row, which `predict`
    would refuse, fails the Spark task that meets it.
    """
    from pyspark.ml.functions import array_to_vector
    from pyspark.sql import functions as sql

    wanted = names.fields
    for name in wanted.values():
        if name.lower() in (other.lower() for other in frame.columns):
            raise InputError(f"the DataFrame: has a column {name!r} already; drop it, or choose another name")
    if not wanted:
        return frame
    spark, columns = frame.sparkSession, frame.columns
    if missing := [name for name in features if name not in columns]:
        raise InputError(f"the DataFrame: has no column {missing[0]!r}{there_are(missing[0], columns)}")
    if twice := [name for name in features if columns.count(name) > 1]:
        raise InputError(f"the DataFrame: has two columns {twice[0]!r}; rename or drop one")
    carried = [_CARRIED.format(place) for place in range(len(columns))]
    placed = by_place(frame)
    all_columns = [sql.col(PLACE.format(place)).alias(name) for place, name in enumerate(carried)]
    taken = [sql.col(PLACE.format(columns.index(name))).alias(name) for name in features]
    # row_bytes: Spark is not to look at rows here, to find out how long texts are.
    raw = RawFrame(placed.select(*all_columns, *taken), hidden=carried, carried=carried, row_bytes=1)
    with own_python(spark.sparkContext):
        source = open_raw(Raw({"train": raw}), read_as_trained(config, trained), trained.description)
        inputs, reader = source.raw(spark)
        assert isinstance(reader, ColumnReader)
        if (line := large_batches(spark.conf.get(_BATCH_ROWS) or "", row_bytes(reader))) is not None:
            say(line)
        first = len(inputs.columns) - len(carried)
        given, kinds = _given(inputs, first - ORIGIN)
        threads = int(spark.sparkContext.getConf().get("spark.task.cpus", "1") or "1")
        task = Task(trained, reader, encoder_of(source.table, source.tensors, {}), kinds, tuple(wanted), threads)
        kept = [sql.col(PLACE.format(first + place)) for place in range(len(columns))]
        both = by_place(inputs.select(*kept, _udf(task)(*given).alias(_CARRIED)))
    vectors = dict.fromkeys((_PROBABILITY, _RAW), array_to_vector)
    struct = PLACE.format(len(columns))
    new = [
        vectors.get(field, lambda column: column)(sql.col(struct)[field]).alias(name) for field, name in wanted.items()
    ]
    old = [sql.col(PLACE.format(place)).alias(name) for place, name in enumerate(columns)]
    return both.select(*old, *new)


def row_bytes(reader: ColumnReader) -> int:
    """Return about how many bytes a row's numbers have on their way from Spark to the model: 8 for each number."""
    table = reader.table
    return 8 * sum(tensor.values for tensor in ([reader.tensor] if table is None else table.table.tensors))


def large_batches(setting: str, of_row: int) -> str | None:
    """Return the line that asks for smaller batches, if a batch of Spark would take much memory; otherwise None.

    setting: the session's rows in a batch; no number above 0 means no limit. of_row: bytes of a row.
    """
    rows = int(setting) if setting.isdecimal() else 0
    if (rows or 10_000) * of_row <= _LARGE_BYTES:
        return None
    said = f"{rows or 10_000:,} rows have {(rows or 10_000) * of_row / 2**20:,.0f} MiB"
    return (
        f"transform: Spark hands {'a batch' if rows else 'a whole partition'} of rows to Python at once, and {said}; "
        f'spark.conf.set("{_BATCH_ROWS}", {rows_per_batch(of_row)}) saves memory'
    )


def _given(inputs: DataFrame, count: int) -> tuple[list[Column], tuple[str, ...]]:
    """Return (what the task takes of the first `count` columns, Spark's types of these columns).

    pandas has no whole numbers with missing values. So a column of whole numbers is two: the numbers, and whether they
    are missing.
    """
    from pyspark.sql import functions as sql

    given, kinds = [], []
    for place, field in enumerate(inputs.schema.fields[:count]):
        column, kind = sql.col(PLACE.format(place)), field.dataType.simpleString()
        kinds.append(kind)
        given += [sql.coalesce(column, sql.lit(0).cast(kind)), column.isNull()] if kind in WHOLE else [column]
    return given, tuple(kinds)


def _udf(task: Task) -> Callable[..., Column]:
    from pyspark.sql.pandas.functions import pandas_udf

    types = {_PREDICTION: "double", _PROBABILITY: "array<double>", _RAW: "array<double>"}
    schema = ", ".join(f"{field} {types[field]}" for field in task.fields)

    def run(rows: Iterator[tuple[pd.Series, ...]]) -> Iterator[pd.DataFrame]:
        yield from task(rows)

    # pyspark reads the kind of function in the annotations, which must not be texts.
    run.__annotations__ = {"rows": Iterator[tuple[pd.Series, ...]], "return": Iterator[pd.DataFrame]}
    udf: Callable[..., Column] = pandas_udf(run, schema)  # type: ignore[call-overload]
    return udf


@dataclass(frozen=True)
class Task:
    """What executors do with the columns of `_given`. Picklable.

    kinds: Spark's type of each column that the reader takes. fields: of the result. threads: TensorFlow's threads.
    """

    trained: TrainedModel
    reader: ColumnReader
    encoder: Encoder
    kinds: tuple[str, ...]
    fields: tuple[str, ...]
    threads: int

    def __call__(self, batches_of_rows: Iterable[pd.Series | tuple[pd.Series, ...]]) -> Iterator[pd.DataFrame]:
        """Yield the predictions of each batch. Raise InputError for a bad row."""
        model = None
        for series in batches_of_rows:
            if model is None:  # an empty partition loads no model
                import_tensorflow()
                model = load(self.trained, self.threads)
            # pyspark hands over a single column by itself.
            columns = list(series) if isinstance(series, tuple) else [series]
            found = [
                self._predicted(model, part) for rows in self._parts(columns) for part in batches(rows, _BATCH_SIZE)
            ]
            yield pd.concat(found, ignore_index=True) if found else self._frame({field: [] for field in self.fields})

    def _parts(self, series: Sequence[pd.Series]) -> Iterator[SplitRows]:
        """Yield the rows in parts of bounded bytes, because parsing copies them."""
        size = rows_per_batch(row_bytes(self.reader))
        for start in range(0, len(series[0]), size):
            tensors, rows = self.tensors([column.iloc[start : start + size] for column in series])
            yield SplitRows("", np.arange(start, start + rows, dtype=np.int64), tensors, None, {})

    def tensors(self, series: Sequence[pd.Series]) -> tuple[dict[str, Array], int]:
        """Return (the stored tensors of the rows by name, the number of rows). Raise InputError for a bad row."""
        left, columns = iter(series), []
        for kind in self.kinds:
            values = next(left)
            columns.append(_column(kind, values, next(left) if kind in WHOLE else None))
        rows = len(series[0])
        found = tensors_of(self.reader, self.encoder, columns, rows)
        if isinstance(found, BadRow):
            raise InputError(str(replace(found, row=0)))  # rows of a DataFrame have no numbers
        return found, rows

    def _predicted(self, model: Any, rows: SplitRows) -> pd.DataFrame:
        found = predict(self.trained, model, rows, logs=_RAW in self.fields)
        return self._frame({field: _VALUES[field](self.trained, found) for field in self.fields})

    def _frame(self, values: dict[str, Any]) -> pd.DataFrame:
        return pd.DataFrame({field: pd.Series(each, dtype=_DTYPES.get(field)) for field, each in values.items()})


def class_values(trained: TrainedModel) -> list[float] | None:
    """Return the label of each class, in the order of the classes; None if labels are numbers to predict.

    Raise InputError if a class is no number.
    """
    label = trained.description.label
    if label is None or label.classes is None:
        return None
    try:
        return [float(name) for name in label.classes]
    except ValueError:
        raise InputError(
            f"{trained.path}: its classes are {', '.join(map(repr, label.classes[:5]))}; the classes of Spark ML are "
            "numbers. Train on the indices that a StringIndexer makes"
        ) from None


def _prediction(trained: TrainedModel, found: Predictions) -> Array:
    values = class_values(trained)
    if values is None:
        return found.prediction.astype(np.float64)
    return np.array(values)[found.prediction]


def _probability(trained: TrainedModel, found: Predictions) -> list[Array]:
    assert found.probabilities is not None
    return list(found.probabilities.astype(np.float32).astype(np.float64))


def _raw(trained: TrainedModel, found: Predictions) -> list[Array]:
    assert found.logs is not None
    return list(found.logs)


_VALUES = {_PREDICTION: _prediction, _PROBABILITY: _probability, _RAW: _raw}
_DTYPES = {_PREDICTION: np.dtype(np.float64)}


def _column(kind: str, values: pd.Series, missing: pd.Series | None) -> pa.Array:
    """Return a column of Spark's type `kind` as Arrow had it before pandas."""
    if missing is not None:
        return pa.array(values.to_numpy(), mask=missing.to_numpy(dtype=np.bool_))
    if kind.startswith("array<"):
        return _lists(values.to_numpy(), kind)
    column = pa.Array.from_pandas(values)
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return column.cast(pa.string()) if kind == "string" else column


def _lists(values: Array, kind: str) -> pa.Array:
    """Return arrays as lists. A null within an array of numbers has become NaN, which counts as a missing value too."""
    there = np.array([value is not None for value in values], np.bool_)
    lengths = [len(value) if value is not None else 0 for value in values]
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    inner = pa.string() if kind == "array<string>" else None
    parts = [value for value in values if value is not None]
    flat = np.concatenate(parts) if parts else np.zeros(0)
    items = pa.array(flat.tolist(), inner) if flat.dtype == object else pa.array(flat, from_pandas=True)
    return pa.ListArray.from_arrays(pa.array(offsets), items, mask=pa.array(~there))
