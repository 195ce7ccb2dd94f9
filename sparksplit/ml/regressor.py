"""The regressor of Spark ML, and its model."""

from __future__ import annotations

from typing import ClassVar

from sparksplit.ml.estimator import TrainingEstimator
from sparksplit.ml.model import TrainedColumns


class SparkSplitRegressorModel(TrainedColumns):
    """A trained regressor. Made by `SparkSplitRegressor.fit`, or by `SparkSplitRegressorModel.load`."""


class SparkSplitRegressor(TrainingEstimator):
    """Trains a Keras model that predicts one number for each row.

    Parameters are those of `SparkSplitClassifier`, without the columns of probabilities. Labels are numbers to predict.

    Raise ConfigError for an unknown name or a wrong value.
    """

    _label_type: ClassVar[str] = "number"
    _model_class: ClassVar[type[TrainedColumns]] = SparkSplitRegressorModel
