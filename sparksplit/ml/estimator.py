"""What the estimators share: a fit prepares the rows, trains on them, and returns a model that holds the run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar, Self

from pyspark.ml import Estimator
from pyspark.ml.util import DefaultParamsReadable, DefaultParamsWritable, MLWriter

from hdfs_io import filesystem
from sparksplit.api import functions
from sparksplit.api.frames import prepare_for, tidied
from sparksplit.base.config import parse
from sparksplit.base.errors import ConfigError
from sparksplit.base.progress import say
from sparksplit.ml.folders import folder_for
from sparksplit.ml.model import TrainedColumns
from sparksplit.ml.params import PredictionColumns, TrainingKeys, in_python
from sparksplit.ml.selection import Selection
from sparksplit.ml.turns import settings, turns
from sparksplit.prepare.preprocess_config import DataFramePreprocess
from sparksplit.spark.executors import executors_of
from sparksplit.spark.session import check_lasts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DATA, _RUN = "data", "run"


class TrainingEstimator(
    Estimator[TrainedColumns],
    PredictionColumns,
    TrainingKeys,
    DefaultParamsReadable["TrainingEstimator"],
    DefaultParamsWritable,
):
    """Base of the estimators."""

    _label_type: ClassVar[str]
    """`input.label_type` of the labels."""
    _model_class: ClassVar[type[TrainedColumns]]

    def __init__(self, **values: Any) -> None:
        super().__init__()
        self._setDefault(numNodes=1, keepData=False)
        self.setParams(**values)
        self.check()

    def setWeightCol(self, value: str) -> Self:
        """Set `weightCol`."""
        return self.setParams(weightCol=value)

    def setValidationIndicatorCol(self, value: str) -> Self:
        """Set `validationIndicatorCol`."""
        return self.setParams(validationIndicatorCol=value)

    def check(self) -> None:
        """Raise ConfigError if a key has a wrong value."""
        with in_python():
            self.training()
            self.preparing()

    def write(self) -> MLWriter:
        """Return what saves the parameters. Raise ConfigError if the model to train is an object, not a name."""
        for param, value in self.extractParamMap().items():
            try:
                json.dumps(value)
            except (TypeError, ValueError):
                kind = type(value).__name__
                raise ConfigError(
                    f"{type(self).__name__}: {param.name}: a {kind} cannot be saved; give a name, or a file"
                ) from None
        return super().write()

    @in_python()
    def _fit(self, dataset: DataFrame) -> TrainedColumns:
        self.check()
        if self._varied:
            say("fit with " + ", ".join(f"{name} {str(value)[:60]}" for name, value in self._varied.items()))
        check_lasts(dataset)
        rows, section = self._selected(dataset)
        work_dir = self.getOrDefault("workDir") if self.isDefined("workDir") else None
        folder = folder_for(dataset.sparkSession, work_dir, self.uid)
        data, run = filesystem.join(folder, _DATA), filesystem.join(folder, _RUN)
        functions.check_before([], run, False, self.training()[0])
        try:
            self._prepare(rows, section, data)
            self._train(dataset, data, run)
        finally:  # also after a failure: the next fit has another folder
            if not self.getOrDefault("keepData"):
                tidied(data)
                filesystem.remove_empty([folder])
        model: TrainedColumns = self._copyValues(self._model_class(run))
        model._resetUid(self.uid)
        return model

    def _selected(self, dataset: DataFrame) -> tuple[DataFrame, dict[str, Any]]:
        """Return (the columns that the fit uses, their roles as keys of `preprocess`)."""
        from pyspark.sql import functions as sql

        optional = {  # an empty name is no column, as in Spark ML
            name: (self.getOrDefault(name) if self.isDefined(name) else None) or None
            for name in ("weightCol", "validationIndicatorCol")
        }
        chosen = Selection(
            self.feature_columns, self.getLabelCol(), optional["weightCol"], optional["validationIndicatorCol"]
        )
        chosen.check(dict(dataset.dtypes))
        _, config = self.training()
        if config.early_stop is not None and chosen.validation is None and not self.preparing()["validation"]:
            raise ConfigError("early_stop: needs validation rows; set validation or validationIndicatorCol")
        rows = dataset.select(*(sql.col(f"`{name.replace('`', '``')}`") for name in chosen.names))
        roles: dict[str, Any] = {
            "input": {"label": chosen.label, "weight": chosen.weight, "label_type": self._label_type}
        }
        if chosen.validation is not None:
            marks = sql.col(f"`{chosen.validation}`")
            named = sql.when(marks, "validation").when(~marks, "train")
            rows = rows.withColumn(chosen.validation, named)
            roles["cut"] = {"by": "column", "column": chosen.validation}
        return rows, roles

    def _prepare(self, rows: DataFrame, roles: dict[str, Any], folder: str) -> None:
        keys = self.preparing()
        keys |= {**roles, "input": {**keys["input"], **roles["input"]}}
        training, config = self.training()
        model = training.get("model")
        named = model is None or isinstance(model, dict)  # `config` stands for every other model, too
        with settings():
            prepare_for(parse(DataFramePreprocess, {**keys, "output": folder}), rows, config if named else None)

    def _train(self, dataset: DataFrame, data: str, folder: str) -> None:
        keys, config = self.training()
        sc = dataset.sparkSession.sparkContext
        # Without executors, a training has the driver's machine for itself.
        with turns.turn(config.feeders + config.processes, lambda: executors_of(sc)):
            functions.train(data, folder, **keys)
