"""The parameters of the estimators and their models: Spark ML's columns, and the configuration's keys."""

from __future__ import annotations

from typing import Any

from pyspark.ml.param import Param, Params, TypeConverters
from pyspark.ml.param.shared import (
    HasFeaturesCol,
    HasLabelCol,
    HasPredictionCol,
    HasProbabilityCol,
    HasRawPredictionCol,
    HasValidationIndicatorCol,
    HasWeightCol,
)

from sparksplit.base.config import nested, parse
from sparksplit.base.errors import ConfigError, did_you_mean
from sparksplit.prepare.preprocess_config import DataFramePreprocess
from sparksplit.training.train_config import TrainConfig

NOT_KEYS = {"data": "fit makes the data set", "output": "workDir sets the folder", "nodes": "numNodes sets it"}
"""The keys of `train` that are no parameters, and why."""
TRAINING = [key for key in TrainConfig.model_fields if key not in NOT_KEYS]
PREPARING = [
    *("input", "validation", "test", "features", "fitted", "unseen_labels", "scaling", "scaling_by", "label_scaling"),
    *("lanes", "file_size", "block_size"),
]
"""The keys of `preprocess` that are parameters too."""
_FOLDER = "a-folder"
"""Stands for the folders that `fit` will choose, where keys are checked before."""


def _columns(value: Any) -> str | list[str]:
    """Check `featuresCol`. Raise TypeError, as pyspark's own converters do."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple) and value and all(isinstance(name, str) for name in value):
        return list(value)
    raise TypeError(f"It must be a column's name, or a list of names (is {value!r})")


class PredictionColumns(HasFeaturesCol, HasLabelCol, HasPredictionCol):
    """What estimators and models share. An empty name of a column to append leaves the column out."""

    featuresCol: Param[Any] = Param(
        Params._dummy(),
        "featuresCol",
        "features: one column of vectors, arrays or numbers, or a list of columns of any types",
        _columns,
    )
    input: Param[Any] = Param(
        Params._dummy(), "input", "how feature columns are read: a mapping of the keys `input` of preprocess"
    )

    @property
    def feature_columns(self) -> list[str]:
        """The columns of features."""
        value: str | list[str] = self.getOrDefault("featuresCol")
        return [value] if isinstance(value, str) else value

    def setParams(self, **values: Any) -> PredictionColumns:
        """Set parameters by their names. None leaves a parameter as it is.

        A key within a section may be dotted, as in `**{"optimizer.learning_rate": 0.1}`.

        Raise ConfigError for an unknown name, and TypeError for a wrong type of a column.
        """
        for name, value in nested(values).items():
            if name in NOT_KEYS:
                raise ConfigError(f"{type(self).__name__}: {name}: is no parameter: {NOT_KEYS[name]}")
            if not self.hasParam(name):
                known = [param.name for param in self.params]
                raise ConfigError(f"{type(self).__name__}: {name}: unknown parameter{did_you_mean(name, known)}")
            if value is not None:
                self._set(**{name: value})
        return self


class ProbabilityColumns(PredictionColumns, HasProbabilityCol, HasRawPredictionCol):
    """What a classifier and its model have besides."""


class TrainingKeys(HasWeightCol, HasValidationIndicatorCol):
    """The keys of `train` and `preprocess`, by their names. A key without a value has the command's default, except
    that no row is held out for validation."""

    numNodes: Param[Any] = Param(
        Params._dummy(), "numNodes", "`nodes` of train: number of nodes, or {virtual: N} for N virtual nodes"
    )
    workDir: Param[str] = Param(
        Params._dummy(),
        "workDir",
        "folder for the prepared data and the runs; without it, a folder that is removed when the program ends",
        TypeConverters.toString,
    )
    keepData: Param[bool] = Param(
        Params._dummy(), "keepData", "whether the prepared data stays after training", TypeConverters.toBoolean
    )

    def training(self) -> tuple[dict[str, Any], TrainConfig]:
        """Return (the keys of `train` that have a value, the configuration with other folders, and without a model that
        is an object). Raise ConfigError for a wrong value."""
        keys = {**self._values(TRAINING), "nodes": self.getOrDefault("numNodes")}
        if isinstance(keys.get("model"), str):
            keys["model"] = {"build": keys["model"]}
        model = keys.get("model", {})
        named = isinstance(model, dict) and isinstance(model.get("build", ""), str)
        checked = keys if named else {key: value for key, value in keys.items() if key != "model"}
        return keys, parse(TrainConfig, {**checked, "data": _FOLDER, "output": _FOLDER})

    def preparing(self) -> dict[str, Any]:
        """Return the keys of `preprocess` that have a value. Raise ConfigError for a wrong value."""
        keys = {"validation": 0.0, "input": {}, **self._values(PREPARING)}
        instead = {
            "label": "labelCol names it",
            "features": "featuresCol names them",
            "weight": "weightCol names it",
            "keep": "transform keeps all columns",
            "label_type": "a classifier's labels are whole numbers, a regressor's are numbers",
        }
        for key in set(instead) & set(keys["input"]):
            raise ConfigError(f"input.{key}: is no key here: {instead[key]}")
        parse(DataFramePreprocess, {**keys, "output": _FOLDER})
        return keys

    def _values(self, names: list[str]) -> dict[str, Any]:
        return {name: self.getOrDefault(name) for name in names if self.isSet(name)}


def _add(names: list[str], config: type[TrainConfig] | type[DataFramePreprocess]) -> None:
    for name in names:
        doc = " ".join((config.model_fields[name].description or f"a mapping of the keys `{name}`").split())
        setattr(TrainingKeys, name, Param(Params._dummy(), name, doc))


_add([name for name in PREPARING if name not in TRAINING], DataFramePreprocess)
_add(TRAINING, TrainConfig)
