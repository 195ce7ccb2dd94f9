"""The classifier of Spark ML, and its model."""

from __future__ import annotations

from typing import Any, ClassVar

from sparksplit.base.errors import ConfigError
from sparksplit.inference.appending import Appended, class_values
from sparksplit.ml.estimator import TrainingEstimator
from sparksplit.ml.model import TrainedColumns
from sparksplit.ml.params import ProbabilityColumns


class SparkSplitClassifierModel(TrainedColumns, ProbabilityColumns):
    """A trained classifier. Made by `SparkSplitClassifier.fit`, or by `SparkSplitClassifierModel.load`."""

    @property
    def classes(self) -> list[float]:
        """The labels of the classes, in the order of the probabilities."""
        return class_values(self._trained) or []

    @property
    def numClasses(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @property
    def _appended(self) -> Appended:
        return Appended(self.getPredictionCol(), self.getProbabilityCol(), self.getRawPredictionCol())


class SparkSplitClassifier(TrainingEstimator, ProbabilityColumns):
    """Trains a Keras model that predicts one class for each row.

    Parameters are those of Spark ML (`featuresCol`, `labelCol`, `predictionCol`, `probabilityCol`, `rawPredictionCol`,
    `weightCol`, `validationIndicatorCol`), `numNodes`, `workDir`, `keepData`, and the keys of `train` and `preprocess`
    by their names, such as `strategy="batch"`, `epochs=20` or `optimizer={"name": "adam"}`.

    Labels are numbers, such as the indices of a StringIndexer. Each different label is a class.

    Raise ConfigError for an unknown name or a wrong value.
    """

    _label_type: ClassVar[str] = "integer"
    _model_class: ClassVar[type[TrainedColumns]] = SparkSplitClassifierModel

    def preparing(self) -> dict[str, Any]:
        """As for all estimators. Also raise ConfigError for a class without a number."""
        keys = super().preparing()
        if keys.get("unseen_labels") == "unknown":
            raise ConfigError("unseen_labels: must be error or drop: a prediction of `unknown` has no number")
        return keys
