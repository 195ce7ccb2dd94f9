"""The parameters: names, defaults, copies, and how they are saved."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import keras
import pytest
from pyspark.ml import Pipeline
from pyspark.ml.evaluation import MulticlassClassificationEvaluator
from pyspark.ml.feature import StringIndexer
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder
from pyspark.sql import SparkSession

from sparksplit import ConfigError, UsageError
from sparksplit.ml import SparkSplitClassifier, SparkSplitRegressor, SparkSplitRegressorModel
from sparksplit.ml.params import NOT_KEYS, PREPARING, TRAINING, in_python
from sparksplit.prepare.preprocess_config import PreprocessConfig
from sparksplit.training.train_config import TrainConfig

KEYS: dict[str, Any] = {"epochs": 5, "batch_size": 32, "optimizer": {"name": "adam"}, "scaling": "standard"}


def test_every_key_of_train_is_a_parameter_with_its_text() -> None:
    names = {param.name for param in SparkSplitRegressor().params}
    assert set(TrainConfig.model_fields) == {*TRAINING, *NOT_KEYS}
    assert names >= {*TRAINING, *PREPARING, "numNodes", "workDir"} and not names & set(NOT_KEYS)
    assert set(PREPARING) <= set(PreprocessConfig.model_fields)
    assert SparkSplitClassifier().epochs.doc.startswith("Number of epochs: passes of all nodes together over the tr")


def test_keys_that_have_no_value_are_left_to_the_commands() -> None:
    estimator = SparkSplitClassifier(numNodes=2, strategy="batch", workDir=None, featuresCol=None, **KEYS)
    keys, config = estimator.training()
    scaled = {"scaling": "standard"}
    assert keys == {**{key: KEYS[key] for key in KEYS if key not in scaled}, "strategy": "batch", "nodes": 2}
    assert config.node_count == 2 and config.optimizer.name == "adam"
    assert estimator.preparing() == {"validation": 0.0, "input": {}, **scaled}
    assert estimator.feature_columns == ["features"]


def test_short_forms() -> None:
    estimator = SparkSplitRegressor(model="tabular", **{"optimizer.learning_rate": 0.5, "optimizer.name": "adam"})
    keys, _ = estimator.training()
    assert keys["model"] == {"build": "tabular"} and keys["optimizer"] == {"learning_rate": 0.5, "name": "adam"}


def test_a_model_may_be_an_object_or_a_function() -> None:
    def build(data: Any) -> Any: ...

    for model in (build, object(), {"build": build, "params": {"width": 3}}):
        assert SparkSplitRegressor(model=model).training()[0]["model"] == model


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"batch_sise": 3}, r"SparkSplitClassifier: batch_sise: unknown parameter; did you mean 'batch_size'\?"),
        ({"featureCol": "x"}, r"unknown parameter; did you mean 'featuresCol'\?"),
        ({"nodes": 2}, "nodes: is no parameter: numNodes sets it"),
        ({"output": "x"}, "output: is no parameter: workDir sets the folder"),
        ({"maxIter": 9, "epocs": 2}, r"maxIter: unknown parameter; use epochs; epocs: .*; did you mean 'epochs'\?$"),
        ({"stepSize": 0.1}, "stepSize: unknown parameter; use optimizer.learning_rate$"),
        ({"optimizer.lr": 0.1}, r"optimizer\.lr: unknown parameter; use optimizer\.learning_rate$"),
        ({"numNodes": "two"}, "^numNodes: must be a whole number"),
        ({"min_nodes": 2}, r"^min_nodes must be at most nodes.* \(numNodes is 1\)"),
        ({"epochs": 0}, "epochs: must be above 0"),
        ({"optimizer": {"learning_rat": 1}, "strategy": "bach"}, "strategy: must be one of"),
        ({"scaling": "unitt"}, "scaling: "),
        ({"numNodes": 2}, '^numNodes must be 1 with strategy="single" .is 2.; strategy="batch" uses several$'),
        ({"input": {"label": "y"}}, "input.label: is no key here: labelCol names it"),
        ({"input": {"label_type": "number"}}, "input.label_type: is no key here: a classifier's labels are whole"),
        ({"input": {"mising": "mean"}}, "input.mising: unknown key; did you mean 'missing'"),
        ({"unseen_labels": "unknown"}, "unseen_labels: must be error or drop"),
        ({"model": "mlpp"}, "model.build: .*mlp"),
    ],
)
def test_wrong_parameters_are_errors_at_once(values: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        SparkSplitClassifier(**values)


@pytest.mark.parametrize("value", [3, [], ["a", 1], {"a": "b"}])
def test_the_columns_of_features_are_a_name_or_names(value: Any) -> None:
    with pytest.raises(TypeError, match=r'"featuresCol".*a column\'s name, or a list of names'):
        SparkSplitClassifier(featuresCol=value)


def test_a_copy_with_more_parameters_leaves_the_estimator_as_it_is() -> None:
    one = SparkSplitClassifier(epochs=5)
    other = one.copy({one.epochs: 7, one.labelCol: "y"})
    assert (other.getOrDefault("epochs"), other.getLabelCol(), other.uid) == (7, "y", one.uid)
    assert (one.getOrDefault("epochs"), one.getLabelCol()) == (5, "label")
    with pytest.raises(ConfigError, match="epochs"):
        one.copy({one.epochs: "many"}).check()


def test_a_dotted_parameter_changes_one_key_of_a_section() -> None:
    one = SparkSplitClassifier(optimizer={"name": "adam", "learning_rate": 0.1}, model="mlp")
    rate, width = one.getParam("optimizer.learning_rate"), one.getParam("model.params.hidden")
    grid = ParamGridBuilder().addGrid(rate, [0.2, 0.3]).addGrid(width, [[8]]).build()
    others = [one.copy(each).training()[0] for each in grid]
    assert [keys["optimizer"] for keys in others] == [{"name": "adam", "learning_rate": rate} for rate in (0.2, 0.3)]
    assert others[0]["model"] == {"build": "mlp", "params": {"hidden": [8]}}
    assert one.copy({one.optimizer: {"name": "sgd"}, rate: 0.5}).training()[0]["optimizer"] == {
        **{"name": "sgd", "learning_rate": 0.5}
    }
    (stage,) = Pipeline(stages=[one]).copy(grid[0]).getStages()
    assert stage.training()[0] == others[0]
    assert one.getOrDefault("optimizer") == {"name": "adam", "learning_rate": 0.1}
    one.setParams(**{"optimizer.momentum": 0.5})
    assert one.getOrDefault("optimizer") == {"name": "adam", "learning_rate": 0.1, "momentum": 0.5}
    assert one.explainParam("optimizer.learning_rate").startswith("optimizer.learning_rate: Learning rate: a number")
    assert one.explainParam(rate).endswith("(current: 0.1)")
    assert one.explainParam("early_stop.patience").endswith("(undefined)")
    with pytest.raises(ConfigError, match=r"early_stop\.patients: unknown key; did you mean 'patience'"):
        one.copy({one.getParam("early_stop.patients"): 3}).check()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("learning_rate", "SparkSplitClassifier: learning_rate: unknown parameter; use optimizer.learning_rate"),
        ("epoch", "SparkSplitClassifier: epoch: unknown parameter; did you mean 'epochs'?"),
        ("optimizer.lr", "SparkSplitClassifier: optimizer.lr: unknown parameter; use optimizer.learning_rate"),
        ("optimiser.name", "SparkSplitClassifier: optimiser.name: unknown parameter; did you mean 'optimizer.name'?"),
    ],
)
def test_a_name_that_is_no_parameter_has_a_hint(name: str, said: str) -> None:
    with pytest.raises(AttributeError, match=f"^{re.escape(said)}$"):
        SparkSplitClassifier().getParam(name)


def test_an_estimator_and_its_model_say_what_they_are() -> None:
    assert repr(SparkSplitClassifier(epochs=5, labelCol="y")) == "SparkSplitClassifier(epochs=5, labelCol='y')"
    gone = "SparkSplitRegressorModel(featuresCol='features', folder='runs/none')"
    assert repr(SparkSplitRegressorModel("runs/none")) == gone


@pytest.mark.parametrize(
    ("text", "spelled"),
    [
        ("nodes: 5 nodes need 5 executors", "numNodes: 5 nodes need 5 executors"),
        ("'a': is null (input.missing: mean fills)", """'a': is null (input={"missing": "mean"} fills)"""),
        ("20 bad rows; input.max_bad_rows: 0)", """20 bad rows; input={"max_bad_rows": 0})"""),
        ("[]; use model.build: tabular", '[]; use model="tabular"'),
        ("nodes 0 and 1 wait for each other", "nodes 0 and 1 wait for each other"),
        ("y has 3 classes (model.build: a.b:c)", 'y has 3 classes (model="a.b:c")'),
        ("strategy: must be one of single", "strategy: must be one of single"),
        ("model.build: mlp needs one tensor", "model.build: mlp needs one tensor"),
    ],
)
def test_errors_spell_keys_as_a_call_does(text: str, spelled: str) -> None:
    with pytest.raises(UsageError) as raised, in_python():
        raise UsageError(text)
    assert str(raised.value) == spelled


def test_objects_of_keras_become_plain_keys() -> None:
    adam = keras.optimizers.Adam(0.5)
    one = SparkSplitClassifier(optimizer=adam)
    json.dumps(one.getOrDefault("optimizer"))  # so it can be saved
    copied = SparkSplitClassifier()
    copied = copied.copy({copied.optimizer: adam, copied.getParam("optimizer.learning_rate"): 0.25})
    assert one.training()[1].optimizer.learning_rate == 0.5
    assert copied.training()[0]["optimizer"] == {**one.training()[0]["optimizer"], "learning_rate": 0.25}


def test_a_copy_knows_how_it_differs_from_the_users_estimator() -> None:
    one = SparkSplitClassifier(epochs=3)
    other = one.copy({one.getParam("optimizer.learning_rate"): 0.1, one.epochs: 4, SparkSplitClassifier().epochs: 5})
    assert other.copy()._varied == {"optimizer.learning_rate": 0.1, "epochs": 4} and not one._varied
    assert other.copy().setParams(epochs=9)._varied == {"optimizer.learning_rate": 0.1}


def test_setters_of_columns() -> None:
    one = SparkSplitClassifier().setFeaturesCol(["a", "b"]).setLabelCol("y").setPredictionCol("p").setWeightCol("w")
    one.setProbabilityCol("q").setRawPredictionCol("r").setValidationIndicatorCol("v")
    assert (one.feature_columns, one.getLabelCol(), one.getPredictionCol(), one.getWeightCol()) == (["a", "b"], *"ypw")
    assert (one.getProbabilityCol(), one.getRawPredictionCol(), one.getValidationIndicatorCol()) == (*"qrv",)


def test_models_have_the_columns_of_their_estimator() -> None:
    estimator = SparkSplitRegressor(featuresCol=["a", "b"], predictionCol="guess", epochs=3)
    model = estimator._copyValues(SparkSplitRegressorModel("runs/none"))
    assert (model.feature_columns, model.getPredictionCol(), model.folder) == (["a", "b"], "guess", "runs/none")
    vars(model)["_trained"] = None  # there is no such run
    model._resetUid(estimator.uid)  # as after a fit: CrossValidator gives the estimator's parameters to the model, too
    assert model.copy({estimator.epochs: 4, estimator.getParam("optimizer.learning_rate"): 0.5}).folder == "runs/none"
    assert not model.hasParam("epochs") and not model.hasParam("probabilityCol")


def test_an_estimator_is_saved_and_loaded(spark: SparkSession, tmp_path: Path) -> None:
    estimator = SparkSplitClassifier(featuresCol=["a", "b"], numNodes={"virtual": 3}, strategy="local", **KEYS)
    stages = [StringIndexer(inputCol="species", outputCol="label"), estimator]
    Pipeline(stages=stages).write().overwrite().save(f"{tmp_path}/pipeline")
    loaded = Pipeline.load(f"{tmp_path}/pipeline").getStages()[1]
    assert isinstance(loaded, SparkSplitClassifier) and loaded.uid == estimator.uid
    assert loaded.training() == estimator.training() and loaded.preparing() == estimator.preparing()
    assert loaded.extractParamMap().keys() == estimator.extractParamMap().keys()


def test_a_grid_of_dotted_parameters_is_saved_and_loaded(spark: SparkSession, tmp_path: Path) -> None:
    estimator = SparkSplitClassifier(**KEYS)
    grid = ParamGridBuilder().addGrid(estimator.getParam("optimizer.learning_rate"), [0.1, 0.2]).build()
    evaluator = MulticlassClassificationEvaluator()
    CrossValidator(estimator=estimator, estimatorParamMaps=grid, evaluator=evaluator).save(f"{tmp_path}/search")
    loaded = CrossValidator.load(f"{tmp_path}/search")
    assert loaded.getEstimatorParamMaps() == grid and len(grid) == 2


def test_nodes_without_executors_are_refused_before_rows_are_prepared(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.createDataFrame([([1.0], 2.0)], "features array<double>, label double")
    estimator = SparkSplitRegressor(numNodes=5, strategy="batch", workDir=f"{tmp_path}/work")
    with pytest.raises(ConfigError, match=r"^numNodes: 5 nodes need 5 executors, and the settings allow 4"):
        estimator.fit(rows)
    assert list(tmp_path.iterdir()) == []


def test_a_fit_in_another_thread_does_not_wait_for_the_call_that_has_started_its_session(spark: SparkSession) -> None:
    """Searches of pyspark.ml fit in threads, and wait for them. The session of the tests is that of a call."""
    rows = spark.createDataFrame([([1.0], 2.0)], "features array<double>, label double")
    with (
        ThreadPoolExecutor(1) as other,
        pytest.raises(UsageError, match=r"^the DataFrame: a call of sparksplit in another thread has started its"),
    ):
        other.submit(SparkSplitRegressor().fit, rows).result(60)


def test_an_object_is_not_saved() -> None:
    with pytest.raises(ConfigError, match="SparkSplitClassifier: model: a object cannot be saved"):
        SparkSplitClassifier(model=object()).write()
