"""The parameters of the estimators and their models: Spark ML's columns, and the configuration's keys."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Self

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

from sparksplit.base.config import documented_keys, merged, parse
from sparksplit.base.errors import ConfigError, SparksplitError, did_you_mean
from sparksplit.model.keras_keys import as_keys
from sparksplit.prepare.preprocess_config import DataFramePreprocess
from sparksplit.training.train_config import TrainConfig

NOT_KEYS = {"data": "fit makes the data set", "output": "workDir sets the folder", "nodes": "numNodes sets it"}
"""The keys of `train` that are no parameters, and why."""
INSTEAD = {
    "featureCols": "featuresCol",
    "featuresCols": "featuresCol",
    "inputCol": "featuresCol",
    "inputCols": "featuresCol",
    "optimizer.lr": "optimizer.learning_rate",
    "lr": "optimizer.learning_rate",
    "learning_rate": "optimizer.learning_rate",
    "learningRate": "optimizer.learning_rate",
    "stepSize": "optimizer.learning_rate",
    "maxIter": "epochs",
    "blockSize": "batch_size",
    "batchSize": "batch_size",
    "solver": "optimizer.name",
    "layers": "model.params.hidden",
    "tol": "early_stop",
    "standardization": 'scaling="standard"',
    "regParam": "optimizer.weight_decay, or a regularizer in a model of your own",
    "elasticNetParam": "a regularizer in a model of your own",
}
"""Names that Spark ML and Keras have for a parameter, and the name here."""
TRAINING = [key for key in TrainConfig.model_fields if key not in NOT_KEYS]
PREPARING = [
    *("input", "validation", "test", "features", "fitted", "unseen_labels", "scaling", "scaling_by", "label_scaling"),
    *("lanes", "file_size", "block_size"),
]
"""The keys of `preprocess` that are parameters too."""
_SPELLINGS = {
    r"^nodes(?=:| must)|(?<=\()nodes(?= is)": "numNodes",
    r"(?<=[ (])model\.build: (\w[\w./:-]*\w)": r'model="\1"',
    r"(?<=[ (])strategy: (\w+)": r'strategy="\1"',
    r"(?<=[ (])input\.(\w+): (\d+)": r'input={"\1": \2}',
    r"(?<=[ (])input\.(\w+): ([a-z]+)": r'input={"\1": "\2"}',
}
"""Keys and values as commands write them, and as a call of an estimator does."""
_FOLDER = "a-folder"
"""Stands for the folders that `fit` will choose, where keys are checked before."""


def _columns(value: Any) -> str | list[str]:
    """Check `featuresCol`. Raise TypeError, as pyspark's own converters do."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple) and value and all(isinstance(name, str) for name in value):
        return list(value)
    raise TypeError(f"It must be a column's name, or a list of names (is {value!r})")


@contextmanager
def in_python() -> Iterator[None]:
    """Write the keys in an error of the block as a call of an estimator spells them."""
    try:
        yield
    except SparksplitError as error:
        text = str(error)
        for pattern, spelled in _SPELLINGS.items():
            text = re.sub(pattern, spelled, text)
        error.args = (text,)
        raise


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

    _varied: Mapping[str, Any] = MappingProxyType({})
    """The parameters, with their values, in which a copy differs from the object that the user made, as in a grid."""

    @property
    def feature_columns(self) -> list[str]:
        """The columns of features."""
        value: str | list[str] = self.getOrDefault("featuresCol")
        return [value] if isinstance(value, str) else value

    def setParams(self, **values: Any) -> Self:
        """Set parameters by their names.

        A mapping replaces a section. A dotted key, as in `**{"optimizer.learning_rate": 0.1}`, changes this key of the
        section alone.

        Raise ConfigError for an unknown name, and TypeError for a wrong type of a column.
        """
        given = as_keys(values)
        wrong = [name for name in given if name in NOT_KEYS or not self.hasParam(name)]
        wrong += [name for name in values if "." in name and name in INSTEAD]
        if wrong:
            raise ConfigError(f"{type(self).__name__}: {'; '.join(map(self._why_not, wrong))}")
        for name, value in given.items():
            if value is not None:
                kept = {} if name in values or not self.isSet(name) else _section(name, self.getOrDefault(name))
                self._set(**{name: merged(kept, value) if kept else value})
        if self._varied:  # what is set again since the copy is the user's own choice
            self._varied = {name: value for name, value in self._varied.items() if name not in values}
        return self

    def _why_not(self, name: str) -> str:
        """Return why `name` is no parameter, and what to use instead."""
        if name in NOT_KEYS:
            return f"{name}: is no parameter: {NOT_KEYS[name]}"
        instead = INSTEAD.get(name) if self.hasParam("epochs") else None  # models have no keys of `train`
        known = _DOCS if "." in name else [param.name for param in self.params]
        return f"{name}: unknown parameter{f'; use {instead}' if instead else did_you_mean(name, known)}"

    def getParam(self, paramName: str) -> Param[Any]:  # noqa: N803  # as in Spark ML
        """Return the parameter `paramName`, or that of one key of a section. Raise AttributeError for other names."""
        if paramName not in INSTEAD and self.hasParam(paramName):
            return super().getParam(paramName)
        raise AttributeError(f"{type(self).__name__}: {self._why_not(paramName)}")

    def explainParam(self, param: str | Param[Any]) -> str:
        """Return the parameter's name, text and value, also of one key of a section."""
        one = self.getParam(param) if isinstance(param, str) else param
        section, dotted, key = one.name.partition(".")
        if not dotted:
            return super().explainParam(one)
        value: Any = _section(section, self.getOrDefault(section)) if self.isSet(section) else {}
        for part in key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        return f"{one.name}: {one.doc} ({'undefined' if value is None else f'current: {value}'})"

    def __getattr__(self, name: str) -> Param[Any]:
        """Return the parameter of one key of a section: getParam("optimizer.learning_rate"), for a grid."""
        section, dotted, _ = name.partition(".")
        if dotted and self.hasParam(section):
            return Param(self, name, _DOCS.get(name) or f"a key of the section {section}")
        found: Param[Any] = super().__getattribute__(name)  # raises
        return found

    def copy(self, extra: Mapping[Param[Any], Any] | None = None) -> Self:
        """Return a copy. extra: other values of parameters; a dotted parameter changes its key of a section alone.
        Parameters of other objects are ignored, as in all of Spark ML."""
        given = dict(extra or {})
        dotted = {
            param.name: value
            for param, value in given.items()
            if "." in param.name and param.parent == self.uid and self.hasParam(param.name)
        }
        that = super().copy({param: value for param, value in given.items() if "." not in param.name})
        own = {param.name: value for param, value in given.items() if param.parent == self.uid}
        that = that.setParams(**dotted)
        that._varied = {**self._varied, **own}
        return that

    def setFeaturesCol(self, value: str | list[str]) -> Self:
        """Set `featuresCol`."""
        return self.setParams(featuresCol=value)

    def setLabelCol(self, value: str) -> Self:
        """Set `labelCol`."""
        return self.setParams(labelCol=value)

    def setPredictionCol(self, value: str) -> Self:
        """Set `predictionCol`."""
        return self.setParams(predictionCol=value)


def _section(name: str, value: Any) -> dict[str, Any]:
    """Return the value of a section as a mapping. `model` may be a name or an object, which is its key `build`."""
    if name == "model" and value is not None and not isinstance(value, Mapping):
        return {"build": value}
    plain = as_keys({name: value})[name]
    return dict(plain) if isinstance(plain, Mapping) else {}


class ProbabilityColumns(PredictionColumns, HasProbabilityCol, HasRawPredictionCol):
    """What a classifier and its model have besides."""

    def setProbabilityCol(self, value: str) -> Self:
        """Set `probabilityCol`."""
        return self.setParams(probabilityCol=value)

    def setRawPredictionCol(self, value: str) -> Self:
        """Set `rawPredictionCol`."""
        return self.setParams(rawPredictionCol=value)


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

    def __repr__(self) -> str:
        given = [(param.name, self.getOrDefault(param)) for param in self.params if self.isSet(param)]
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given)})"

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
        return as_keys({name: self.getOrDefault(name) for name in names if self.isSet(name)})


def _add(names: list[str], config: type[TrainConfig] | type[DataFramePreprocess]) -> None:
    for name in names:
        doc = " ".join((config.model_fields[name].description or f"a mapping of the keys `{name}`").split())
        setattr(TrainingKeys, name, Param(Params._dummy(), name, doc))


_DOCS = {key: text for config in (DataFramePreprocess, TrainConfig) for key, _, _, text in documented_keys(config)}
"""The keys of sections by their dotted names, with their texts."""
_add([name for name in PREPARING if name not in TRAINING], DataFramePreprocess)
_add(TRAINING, TrainConfig)
