"""Estimators of Spark ML: Keras models in a Pipeline, a CrossValidator or a TrainValidationSplit.

from sparksplit.ml import SparkSplitClassifier

model = SparkSplitClassifier(numNodes=2, strategy="batch", epochs=20).fit(rows)
model.transform(new_rows).select("prediction", "probability").show()
"""

from sparksplit.ml.classifier import SparkSplitClassifier, SparkSplitClassifierModel
from sparksplit.ml.regressor import SparkSplitRegressor, SparkSplitRegressorModel

__all__ = ["SparkSplitClassifier", "SparkSplitClassifierModel", "SparkSplitRegressor", "SparkSplitRegressorModel"]
