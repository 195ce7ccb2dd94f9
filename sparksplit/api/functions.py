"""The commands as functions: keyword arguments are the configuration's keys, which `sparksplit COMMAND --help` lists.

A key within a section may be dotted, as in `**{"optimizer.learning_rate": 0.1}`.

They do what the commands do. If a Spark session is running, it is used as it is and left running; otherwise one is
started for the call. Whatever they report while they work goes to stderr.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import sparksplit.prepare.preprocess
from sparksplit.api.results import Comparison, Predictions, TrainedRun
from sparksplit.base.config import nested, parse
from sparksplit.base.errors import ConfigError
from sparksplit.base.options import Options
from sparksplit.comparison import run as comparison
from sparksplit.comparison.config import CompareConfig
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.inference import run as inference
from sparksplit.inference.config import DataFramePredict, PredictConfig
from sparksplit.inference.partition import folder_of
from sparksplit.prepare.config import DataFramePreprocess, PreprocessConfig
from sparksplit.training import run as training
from sparksplit.training.config import TrainConfig

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Data = str | PreparedDataSet | Sequence[str | PreparedDataSet]
"""One prepared data set or several, themselves or their folders."""


def preprocess(
    rows: str | DataFrame,
    output: str,
    *,
    input: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    **keys: Any,
) -> PreparedDataSet:
    """Turn raw rows into a prepared data set.

    rows: a path (`input.path`), or a DataFrame with the label and a table's columns (numbers, texts, dates, ...)
        or one array of numbers.
    output: the folder to make.
    input: the other keys of the configuration's section `input`, such as {"format": "csv"} or {"label": "species"}.
    overwrite: replace a complete data set that was made differently.
    keys: the configuration's keys, such as test=0.2 or scaling="standard".

    A complete data set that was made from the same rows in the same way is returned as it is.

    Raises UsageError for wrong arguments, before anything is written; RunError where Spark fails.
    """
    section = dict(input or {})
    frame = None if isinstance(rows, str) else _frame(rows, "rows", "a path or ")
    if frame is None:
        section["path"] = rows
    values = {**nested(keys), "input": section, "output": output}
    config = parse(PreprocessConfig if frame is None else DataFramePreprocess, values)
    return sparksplit.prepare.preprocess.preprocess(config, Options(overwrite), frame)


def train(
    data: Data,
    output: str,
    *,
    frame: DataFrame | None = None,
    overwrite: bool = False,
    resume: bool = False,
    restart: bool = False,
    **keys: Any,
) -> TrainedRun:
    """Train one Keras model with one strategy on the nodes of a Spark cluster.

    data: a prepared data set, or its folder; or several of them, which are trained on as one.
    output: the run's folder.
    frame: rows to train on instead of the data set's training split, as for `training.run.train`.
    overwrite: replace a complete run that was made differently. An unfinished run of the same
        configuration and data goes on from its last whole checkpoint.
    resume: so does one on another number of nodes, or with a DataFrame, whose rows must be the same. restart: it begins
        anew.
    keys: the configuration's keys, such as nodes=2, strategy="batch", epochs=20 or model={"build": "mine.py:build"}.

    Raises UsageError for wrong arguments; RunError and NodeFailed where the run fails: then the same call goes on from
    there.
    """
    values = {**nested(keys), "data": _paths(data), "output": output}
    if frame is not None:
        values.setdefault("input_mode", "spark")
    config = parse(TrainConfig, values)
    if resume and restart:
        raise ConfigError("resume and restart: give only one of them")
    training.train(config, Options(overwrite, resume, restart), None if frame is None else _frame(frame, "frame"))
    return TrainedRun.open(output)


def compare(data: Data, output: str, *, overwrite: bool = False, **keys: Any) -> Comparison:
    """Run several strategies to split the work side by side, and say with evidence which to use.

    data: as for `train`.
    output: the comparison's folder; runs that it has finished are not repeated.
    overwrite: replace a complete comparison that was made differently.
    keys: the configuration's keys, such as strategies=["single", "batch"], nodes=[1, 2], seeds=5.

    Raises UsageError for wrong arguments; RunError where a run fails for any reason other than its loss.
    """
    config = parse(CompareConfig, {**nested(keys), "data": _paths(data), "output": output})
    comparison.compare(config, Options(overwrite))
    return Comparison.open(output)


def predict(
    model: str | TrainedRun,
    rows: str | PreparedDataSet | DataFrame,
    output: str,
    *,
    input: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    **keys: Any,
) -> Predictions:
    """Batch inference on Spark, with metrics where the rows have labels.

    model: a run of `train`, or its folder.
    rows: a prepared data set, or its folder; a DataFrame like the one that the data set was made from; or, with
        `input`, the path of raw rows.
    output: the folder to make.
    input: how to read raw rows: the configuration's section `input`, without the path; for a DataFrame {"label": ...}.
    overwrite: replace complete predictions that were made differently.
    keys: the configuration's keys, such as split="test" or keep=["customer"].

    Raises UsageError for wrong arguments, before anything is written; RunError where Spark fails.
    """
    frame = None if isinstance(rows, str | PreparedDataSet) else _frame(rows, "rows", "a path or ")
    place: Any = _path(rows) if isinstance(rows, str | PreparedDataSet) else None
    if input is not None:
        place = dict(input) if place is None else {**input, "path": place}
    elif frame is not None:
        place = {"label": None}
    values = {
        **nested(keys),
        "model": model if isinstance(model, str) else model.path,
        "input": place,
        "output": output,
    }
    config = parse(PredictConfig if frame is None else DataFramePredict, values)
    inference.predict(config, Options(overwrite), frame)
    return Predictions.open(folder_of(config))


def _paths(data: Data) -> str | list[str]:
    several = list(data) if isinstance(data, list | tuple) else [data]
    found = [path for one in several for path in ([one] if isinstance(one, str) else _prepared(one).paths)]
    return found[0] if len(found) == 1 else found


def _path(data: str | PreparedDataSet) -> str:
    return data if isinstance(data, str) else _prepared(data).path


def _prepared(data: Any) -> PreparedDataSet:
    if isinstance(data, PreparedDataSet):
        return data
    raise ConfigError(f"data: must be a prepared data set or its folder (is {type(data).__name__})")


def _frame(rows: Any, key: str, other: str = "") -> DataFrame:
    """`rows` itself. Raises ConfigError if it is not a Spark DataFrame; `other` says what else it may be."""
    from pyspark.sql import DataFrame

    if not isinstance(rows, DataFrame):
        kind = type(rows)
        pandas = kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] == "pandas"
        found = "one of pandas: spark.createDataFrame(it) makes one" if pandas else kind.__name__
        raise ConfigError(f"{key}: must be {other}a DataFrame of Spark (is {found})")
    return rows
