"""The keys of `train` that make a row: the copied command trains as the comparison did."""

import shlex

import pytest
import yaml

from sparksplit.base.config import load, parse
from sparksplit.comparison.answer.content import Answer
from sparksplit.comparison.answer.words import words
from sparksplit.comparison.compare_config import CompareConfig
from sparksplit.comparison.plan import plan
from sparksplit.comparison.results import settings_of
from sparksplit.training.train_config import TrainConfig
from tests.comparison.records import metric_of, some_results, table_row

BATCH = {"strategy": "batch", "nodes": 2}


def copied(settings):
    """The arguments of --set in the line that says what to train with."""
    answer = Answer(decision="stay", choice=table_row(name="batch", nodes=2, settings=settings))
    said = words(some_results([], [], metric_of(), answer=answer))
    (line,) = (line for line in said if line.startswith("Train with: "))
    return [word for word in shlex.split(line.removeprefix("Train with: ")) if word != "--set"]


@pytest.mark.parametrize(
    ("beside", "within", "expected"),
    [
        ({"class_weights": {"a": 2.0}}, {"class_weights": None}, {"class_weights": None}),
        ({"class_weights": {"a": 2.0}}, {"class_weights": "balanced"}, {"class_weights": "balanced"}),
        ({"class_weights": {"a": 2.0}}, {"class_weights": {"b": 3.0}}, {"class_weights.b": 3.0}),
        ({"class_weights": "balanced"}, {"class_weights": None}, {"class_weights": None}),
        ({}, {"class_weights": None}, {}),
        ({}, {"class_weights": {"a": 2.0}}, {"class_weights.a": 2.0}),
        # `--set class_weights.1.5=2.0` is refused.
        ({"class_weights": {"a": 2.0}}, {"class_weights": {"1.5": 3.0}}, {"class_weights": {"a": 2.0, "1.5": 3.0}}),
        ({"loss": {"name": "huber", "delta": 2.0}}, {"loss": None}, {"loss": None}),
        (
            {"optimizer": {"name": "sgd", "clipnorm": 1.0}},
            {"optimizer": {"clipnorm": None}},
            {"optimizer.clipnorm": None},
        ),
        ({"epochs": 9}, {}, {"epochs": 10}),
        ({"epochs": 10}, {}, {}),
    ],
)
def test_the_keys_to_train_with_make_the_very_run(tmp_path, beside, within, expected):
    given = {"data": "d", "output": "o", **beside}
    # Nodes of `epoch` share epochs, so that 2 must divide them.
    strategies = [{"strategy": "batch", **within}, "epoch"]
    config = parse(CompareConfig, {**given, "strategies": strategies, "nodes": [2], "seeds": 1})
    (run,) = (run for run in plan(config) if run.config.strategy == "batch")
    settings = settings_of(run.config, config)
    assert settings == {**BATCH, **expected}
    (tmp_path / "train.yaml").write_text(yaml.safe_dump(given))
    found = load(TrainConfig, str(tmp_path / "train.yaml"), copied(settings))
    assert found.model_dump(mode="json") == run.config.model_dump(mode="json")
