"""`fit` on a DataFrame of Spark, which is prepared as by `train`, and on a pandas frame with the labels in a column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sparksplit.api.fit_rows import Target
from sparksplit.base.errors import ConfigError, did_you_mean

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from sparksplit.dataset.manifest import Manifest

_SPLIT = "sparksplit_split"
"""Name of the column that says which rows are the validation rows."""


def is_of_spark(x: Any) -> bool:
    """Return whether `x` is a DataFrame of Spark. Does not import pyspark."""
    return type(x).__name__ == "DataFrame" and type(x).__module__.partition(".")[0] == "pyspark"


def arrays_of(frame: Any, y: str, sample_weight: Any, validation_data: Any) -> tuple[Any, Any, Any, Any]:
    """Return (x, y, sample_weight, validation_data) as `fit_rows` takes them, from pandas frames.

    frame: the rows. y: the label's column. sample_weight: the column of weights; an array; or None. validation_data:
    (frame with the same columns, y) or (frame, y, column of weights); as for `fit_rows`; or None.

    Raise ConfigError if a column is missing.
    """
    if not hasattr(frame, "columns"):
        raise ConfigError(f"y: is the column {y!r}, so x must be a DataFrame of Spark or pandas (is {_kind(frame)})")
    x, labels, weights = _of_pandas("x", frame, y, sample_weight)
    if isinstance(validation_data, tuple | list) and len(validation_data) > 1 and isinstance(validation_data[1], str):
        rows, *names = validation_data
        if not hasattr(rows, "columns"):
            raise ConfigError(f"validation_data: its x must be a pandas frame, as x is (is {_kind(rows)})")
        held = _of_pandas("validation_data: x", rows, *names)
        _check_columns("validation_data: x", list(x.columns), list(held[0].columns))
        validation_data = (held[0][list(x.columns)], *held[1:])
    return x, labels, weights, validation_data


def frame_of(
    x: DataFrame,
    y: Any,
    target: Target,
    *,
    sample_weight: Any = None,
    class_weight: Mapping[int, float] | None = None,
    validation_split: float = 0.0,
    validation_data: Any = None,
    shuffle: bool = True,
) -> tuple[DataFrame, dict[str, Any]]:
    """Return (the rows, the keys of `preprocess` for them), for a DataFrame of Spark.

    The arguments are those of `fit`. Raise ConfigError if they do not fit a DataFrame of Spark.
    """
    if not isinstance(y, str):
        raise ConfigError(f"y: must be the name of the label's column, because x is a DataFrame (is {_kind(y)})")
    if not shuffle:
        raise ConfigError("shuffle: must be True, because rows of Spark have no order; give arrays, or a pandas frame")
    if class_weight is not None:
        raise ConfigError("class_weight: must be left out, because x is a DataFrame; name a column as sample_weight")
    if not (sample_weight is None or isinstance(sample_weight, str)):
        raise ConfigError(
            f"sample_weight: must be the name of a column, because x is a DataFrame (is {_kind(sample_weight)})"
        )
    keys = {
        **{"label": y, "label_type": "number" if target.classes is None else "integer"},
        **({} if sample_weight is None else {"weight": sample_weight}),
        # The model takes and returns the numbers of the columns, as in Keras.
        **{"validation": validation_split, "label_scaling": "none"},
    }
    for name in (y, sample_weight):
        if name is not None and name not in x.columns:
            raise ConfigError(_missing("x", name, x.columns))
    if validation_data is None:
        return x, keys
    rows, *names = validation_data if isinstance(validation_data, tuple | list) else (None,)
    wanted = [y] if sample_weight is None else [y, sample_weight]
    if not is_of_spark(rows) or names != wanted:
        columns = ", ".join(map(repr, wanted))
        raise ConfigError(f"validation_data: must be (a DataFrame of Spark, {columns}), because x is a DataFrame")
    _check_columns("validation_data: x", x.columns, rows.columns)
    for name, kind in rows.dtypes:
        if dict(x.dtypes)[name] != kind:
            raise ConfigError(f"validation_data: x: column {name!r} is {kind}, but in x it is {dict(x.dtypes)[name]}")
    from pyspark.sql.functions import lit

    both = x.withColumn(_SPLIT, lit("train")).unionByName(rows.withColumn(_SPLIT, lit("validation")))
    return both, {**keys, "validation": _SPLIT}


def check_classes(manifest: Manifest, target: Target) -> None:
    """Raise ConfigError unless the classes of a prepared data set are the numbers of the model's outputs."""
    wanted, label = target.classes, manifest.label
    found = [] if label is None else label.classes or []
    if wanted is not None and [float(name) for name in found] != [float(number) for number in range(wanted)]:
        raise ConfigError(
            f"y: the training labels must be the whole numbers from 0 to {wanted - 1}, and each must occur (they are "
            f"{', '.join(found[:10])}{', ...' if len(found) > 10 else ''}): the loss is {target.loss}"
        )


def _of_pandas(where: str, frame: Any, y: str, weight: Any = None) -> tuple[Any, Any, Any]:
    """Return (features, labels, weights) of a pandas frame."""
    named = [y, *([weight] if isinstance(weight, str) else [])]
    for name in named:
        if name not in frame.columns:
            raise ConfigError(_missing(where, name, [*map(str, frame.columns)]))
    return frame.drop(columns=named), frame[y], frame[weight] if isinstance(weight, str) else weight


def _check_columns(where: str, wanted: list[str], found: list[str]) -> None:
    if different := sorted({*wanted} ^ {*found}, key=str):
        raise ConfigError(f"{where}: must have the columns of x; these are in one of them alone: {different}")


def _missing(where: str, name: str, columns: list[str]) -> str:
    return f"{where}: has no column {name!r}; it has {', '.join(columns)}{did_you_mean(name, columns)}"


def _kind(value: Any) -> str:
    return type(value).__name__
