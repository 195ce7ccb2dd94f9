"""The commands as functions. Keyword arguments are the configuration's keys, which `sparksplit COMMAND --help` lists.

A key within a section may be dotted, as in `**{"optimizer.learning_rate": 0.1}`.

A function does the work of its command. It uses a running Spark session unchanged, and leaves the session running.
Without a running session, it starts a session for the call. Such calls in several threads take turns. Progress reports
go to stderr.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import sparksplit.prepare.preprocess
from sparksplit.api.calls import api_call
from sparksplit.api.frames import in_sections, prepare_for, tidied, to_prepare, whole_section
from sparksplit.api.results import Comparison, Plan, Predictions, Search, TrainedRun
from sparksplit.base.config import nested, parse
from sparksplit.base.errors import ConfigError
from sparksplit.base.options import Options
from sparksplit.base.progress import say
from sparksplit.comparison import compare as comparison
from sparksplit.comparison.answer.followed import followed
from sparksplit.comparison.compare_config import CompareConfig
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.inference import predict as inference
from sparksplit.inference.partition import folder_of
from sparksplit.inference.predict_config import DataFramePredict, PredictConfig
from sparksplit.model.keras_keys import as_keys
from sparksplit.model.own_model import OwnModel, OwnModelError, given
from sparksplit.planning import plan as planning
from sparksplit.planning.plan_config import PlanConfig
from sparksplit.prepare.preprocess_config import DataFramePreprocess, PreprocessConfig
from sparksplit.searching import search as searching
from sparksplit.searching.search_config import SearchConfig, SearchSection
from sparksplit.training import place
from sparksplit.training import train as training
from sparksplit.training.callbacks.given import Given
from sparksplit.training.progress_record import read_history
from sparksplit.training.train_config import TrainConfig

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from typing_extensions import TypeIs

Data = str | PreparedDataSet | Sequence[str | PreparedDataSet]
"""One or several prepared data sets, or their folders."""


@api_call
def preprocess(
    rows: str | DataFrame,
    output: str,
    *,
    input: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    **keys: Any,
) -> PreparedDataSet:
    """Turn raw rows into a prepared data set.

    rows: a path (`input.path`), or a DataFrame with the label and a table's columns (numbers, texts, dates, ...) or one
        array of numbers.
    output: the folder to make.
    input: the other keys of the configuration's section `input`, such as {"format": "csv"} or {"label": "species"}.
    overwrite: replace an earlier data set in `output`, even if it is up to date.
    keys: the configuration's keys, such as test=0.2 or scaling="standard". The keys of `input` for a DataFrame need no
        section: label="species", weight="w", features=["age", "city"]. validation="split" names the column of
        `cut.by: column`.

    Without `overwrite`, a complete data set from the same rows and configuration is returned unchanged.

    Raise UsageError for wrong arguments, before anything is written. Raise RunError if Spark fails.
    """
    section, values = in_sections(nested(keys), input)
    frame = None if isinstance(rows, str) else spark_frame(rows, "rows", "a path or ")
    if frame is None:
        section["path"] = rows
    values |= {"input": section, "output": output}
    config = parse(PreprocessConfig if frame is None else DataFramePreprocess, values)
    return sparksplit.prepare.preprocess.preprocess(config, Options(overwrite), frame)


@api_call
def train(
    data: Data | DataFrame,
    output: str,
    *,
    frame: DataFrame | None = None,
    input: Mapping[str, Any] | None = None,
    cleanup: bool = False,
    callbacks: Sequence[Any] = (),
    overwrite: bool = False,
    resume: bool = False,
    restart: bool = False,
    **keys: Any,
) -> TrainedRun:
    """Train one Keras model with one strategy on the nodes of a Spark cluster.

    data: a prepared data set, or its folder; or several of them, which count as one data set. Or a DataFrame, which is
        prepared first, into the folder OUTPUT-data. The same call with the same rows uses this folder again.
    output: the run's folder.
    input: for a DataFrame, the section `input` of `preprocess`, as for `preprocess`.
    cleanup: remove OUTPUT-data when the run is complete.
    frame: rows to train on instead of the data set's training split, as for `training.train.train`.
    callbacks: Keras's own callbacks, and your own, which node 0 runs. docs/callbacks.md says what each does.
    overwrite: replace an earlier run in `output`, even if it is up to date.
    resume: continue an unfinished run with another number of nodes, or with a DataFrame whose rows must be the same.
    restart: start an unfinished run again from the beginning.
    keys: the configuration's keys, such as nodes=2, strategy="batch", epochs=20. model is a keras.Model, a function
        that returns one, a name such as "mlp" or "mine.py:build", or the section such as {"build": "mlp", "params":
        {...}}. optimizer, loss and metrics may be objects of Keras, such as optimizer=keras.optimizers.Adam(0.001).
        For a DataFrame, the keys of `preprocess` too, such as label="species", validation=0.2, scaling="standard".

    By default, an unfinished run of the same configuration and data continues from its last complete checkpoint.

    Raise UsageError for wrong arguments. Raise RunError or NodeFailed if the run fails. The same call then continues
    the run.
    """
    values, _own = with_model(keys)
    raw = None
    if _is_frame(data):
        if frame is not None:
            raise ConfigError("frame: must be left out, because data is a DataFrame")
        raw, values = to_prepare(values, input, output)
        values["data"] = raw.output
    elif input is not None or cleanup:
        raise ConfigError(f"{'cleanup' if cleanup else 'input'}: is only for data that is a DataFrame")
    else:
        values["data"] = _paths(data)
    if frame is not None:
        values.setdefault("input_mode", "spark")
    given, config = _run_of(values, callbacks, output)
    if resume and restart:
        raise ConfigError("resume and restart: give only one of them")
    rows = None if frame is None else spark_frame(frame, "frame")
    if raw is not None and _is_frame(data):
        place.check_before(config, overwrite)
        say(f"{raw.output}: the DataFrame is prepared here, for {output}")
        prepare_for(raw, data, config, Options(overwrite))
    training.train(config, Options(overwrite, resume, restart), rows, followed, given)
    if given.histories:
        given.fill(read_history(config.output))
    if raw is not None and cleanup:
        tidied(raw.output)
    return TrainedRun.open(output)


def check_before(callbacks: Sequence[Any], output: str, overwrite: bool, keys: Mapping[str, Any]) -> TrainConfig:
    """Return the configuration of `train` with these arguments, before there is a data set. Raise UsageError for what
    would be in the way of the training."""
    values, _own = with_model(keys)
    _, config = _run_of({"data": output, **values}, callbacks, output)
    place.check_before(config, overwrite)
    return config


@api_call
def compare(data: Data, output: str, *, overwrite: bool = False, **keys: Any) -> Comparison:
    """Run several strategies side by side, and recommend one of them with evidence.

    data: as for `train`.
    output: the comparison's folder. Runs that it has finished are not repeated.
    overwrite: replace an earlier comparison in `output`, even if it is up to date.
    keys: the configuration's keys, such as strategies=["single", "batch"], nodes=[1, 2], seeds=5.

    Raise UsageError for wrong arguments. Raise RunError if a run fails for any reason other than its loss.
    """
    values, _own = with_model(keys)
    config = parse(CompareConfig, {**values, "data": _paths(data), "output": output})
    comparison.compare(config, Options(overwrite))
    return Comparison.open(output)


@api_call
def search(
    data: Data, output: str, *, keys: Mapping[str, Any], overwrite: bool = False, **training_keys: Any
) -> Search:
    """Search for good values of keys. Each trial trains the model with other values, and the validation rows decide.

    data: as for `train`. It must have validation rows.
    output: the search's folder. Trials that it has finished are not repeated.
    keys: the keys to search, each with a list of values or a range, such as {"batch_size": [64, 128],
        "optimizer.learning_rate": {"low": 0.001, "high": 1, "log": True}}.
    overwrite: replace an earlier search in `output`, even if it is up to date.
    training_keys: the keys of `train`, and trials=20, metric="accuracy", metric_better="higher", prune=True,
        side_by_side=2.

    Raise UsageError for wrong arguments. Raise RunError if a trial fails for any reason other than its loss or its
    memory. The same call then continues the search.
    """
    if "search" in training_keys:
        raise ConfigError("search: give its keys as arguments, such as trials=20")
    of_search = {key: value for key, value in training_keys.items() if key in SearchSection.model_fields}
    values, _own = with_model({key: value for key, value in training_keys.items() if key not in of_search})
    values |= {"data": _paths(data), "output": output, "search": {"keys": dict(keys), **of_search}}
    searching.search(parse(SearchConfig, values), Options(overwrite))
    return Search.open(output)


@api_call
def plan(data: Data, output: str, **keys: Any) -> Plan:
    """Predict the training time, the cost and the memory of each strategy on up to 64 nodes, from half a minute of
    measurements. Also find the useful mini-batch. Nothing is written.

    data: as for `train`.
    output: the run that is planned. Nothing is written there.
    keys: the keys of `train`, and link="1Gbit", most_nodes=64, strategies=["batch", "local"].

    Raise UsageError for wrong arguments. Raise RunError or NodeFailed if the measurement fails.
    """
    values, _own = with_model(keys)
    return Plan(planning.plan(parse(PlanConfig, {**values, "data": _paths(data), "output": output})))


@api_call
def predict(
    model: str | TrainedRun,
    rows: str | PreparedDataSet | DataFrame,
    output: str,
    *,
    input: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    **keys: Any,
) -> Predictions:
    """Run batch inference on Spark, with metrics if the rows have labels.

    model: a run of `train`, or its folder.
    rows: a prepared data set, or its folder; a DataFrame like the source of the training data; or, with `input`, the
        path of raw rows. Columns that the model was not trained on are left out.
    output: the folder to make.
    input: how to read raw rows: the configuration's section `input`, without the path. For a DataFrame: {"label": ...},
        or label="species" without a section.
    overwrite: replace earlier predictions in `output`, even if they are up to date.
    keys: the configuration's keys, such as split="test" or keep=["customer"].

    Raise UsageError for wrong arguments, before anything is written. Raise RunError if Spark fails.
    """
    frame = None if isinstance(rows, str | PreparedDataSet) else spark_frame(rows, "rows", "a path or ")
    place: Any = _path(rows) if isinstance(rows, str | PreparedDataSet) else None
    values = nested(keys)
    if frame is not None:
        section, values = in_sections(values, input, PredictConfig.model_fields)
        # The metrics of rows in memory are computed only on request: without a label, none is looked for.
        place = {"label": None, **section}
    elif section := whole_section(values.pop("input", None), input):
        place = {**section, "path": place}
    values |= {
        "model": model if isinstance(model, str) else model.path,
        "input": place,
        "output": output,
    }
    config = parse(PredictConfig if frame is None else DataFramePredict, values)
    inference.predict(config, Options(overwrite), frame)
    return Predictions.open(folder_of(config))


def with_model(keys: Mapping[str, Any]) -> tuple[dict[str, Any], OwnModel | None]:
    """Return a configuration's values, and the model that `keys` give as an object. Keep the model during the call."""
    model = keys.get("model")
    named = {**keys, "model": {"build": model}} if model is not None and not isinstance(model, Mapping) else keys
    values, own = as_keys(named), None
    build = values.get("model", {}).get("build")
    if build is not None and not isinstance(build, str):
        try:
            own = given(build)
        except OwnModelError as error:
            raise ConfigError(f"model: {error}") from error
        values["model"] = {**values["model"], "build": own.name}
    return values, own


def _run_of(values: Mapping[str, Any], callbacks: Sequence[Any], output: str) -> tuple[Given, TrainConfig]:
    """Return (the callbacks of a run, its configuration). values: its keys, except for those of callbacks."""
    given, of_callbacks = Given.of(callbacks, values, output)
    return given, parse(TrainConfig, {**values, "output": output, **of_callbacks})


def _paths(data: Data) -> str | list[str]:
    several = list(data) if isinstance(data, list | tuple) else [data]
    paths = [path for one in several for path in ([one] if isinstance(one, str) else _prepared(one).paths)]
    return paths[0] if len(paths) == 1 else paths


def _path(data: str | PreparedDataSet) -> str:
    return data if isinstance(data, str) else _prepared(data).path


def _prepared(data: Any) -> PreparedDataSet:
    if isinstance(data, PreparedDataSet):
        return data
    raise ConfigError(f"data: must be a prepared data set or its folder (is {type(data).__name__})")


def _is_frame(rows: Any) -> TypeIs[DataFrame]:
    """Return whether `rows` is a DataFrame, of Spark or pandas. Raise ConfigError for one of pandas."""
    return (
        type(rows).__name__ == "DataFrame" and spark_frame(rows, "data", "a prepared data set, its folder or ") is rows
    )


def spark_frame(rows: Any, key: str, other: str = "") -> DataFrame:
    """Return `rows`. other: what else it may be, for the message.

    Raise ConfigError if it is not a Spark DataFrame. Raise UsageError if its session ends with another thread's call.
    """
    from pyspark.sql import DataFrame

    from sparksplit.spark.session import check_lasts, refuse_connect

    refuse_connect()
    if not isinstance(rows, DataFrame):
        kind = type(rows)
        pandas = kind.__name__ == "DataFrame" and kind.__module__.partition(".")[0] == "pandas"
        given = "one of pandas: spark.createDataFrame(it) makes one" if pandas else kind.__name__
        raise ConfigError(f"{key}: must be {other}a DataFrame of Spark (is {given})")
    check_lasts(rows)
    return rows
