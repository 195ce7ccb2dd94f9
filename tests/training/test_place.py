"""What a run trains where Spark's master has no executors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparksplit.base.config import parse
from sparksplit.base.errors import ConfigError
from sparksplit.strategies import STRATEGIES
from sparksplit.training import place
from sparksplit.training.inputs import RunInputs, open_data
from sparksplit.training.place import for_one_process, placed, told
from sparksplit.training.train_config import TrainConfig


def config(**keys: Any) -> TrainConfig:
    return parse(TrainConfig, {"data": "d", "output": "o", **keys})


@pytest.mark.parametrize(
    ("strategy", "nodes", "found", "says"),
    [
        ("single", 1, 1, "the node is a process on this machine"),
        ("batch", 4, 1, "one process on this machine trains batch, with 1 node instead of 4"),
        ("auto", 4, 1, "one process on this machine trains auto, with 1 node instead of 4"),
        ("local", 1, 1, "the node is a process on this machine"),
        (
            "local",
            3,
            {"virtual": 3},
            "one process on this machine plays the 3 nodes of local in turn (nodes: {virtual: 3})",
        ),
        ("epoch", {"virtual": 8}, {"virtual": 8}, "one process on this machine plays the 8 nodes of epoch in turn"),
    ],
)
def test_a_strategy_that_depends_on_the_nodes_gets_virtual_ones(
    strategy: str, nodes: Any, found: Any, says: str
) -> None:
    before = config(strategy=strategy, nodes=nodes)
    alone = for_one_process(before, STRATEGIES[strategy])
    assert alone.model_dump(mode="json") == {**before.model_dump(mode="json"), "nodes": found}
    assert alone.processes == 1 and told(before, alone) == says


def test_no_executor_can_be_missing() -> None:
    alone = for_one_process(config(strategy="local", nodes=3, min_nodes=2), STRATEGIES["local"])
    assert alone.min_nodes is None
    assert parse(TrainConfig, alone.model_dump(mode="json")) == alone, "the nodes check it again"


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(place, "known_settings", lambda: {"spark.master": "local[*]"})


def inputs(digits: Path, **keys: Any) -> RunInputs:
    given = config(data=str(digits), nodes=2, **keys)
    return RunInputs.of(given, open_data(given))


@pytest.mark.parametrize(("strategy", "same"), [("batch", True), ("auto", True), ("local", False)])
def test_the_hash_is_that_of_the_nodes_that_train(
    local: None, digits: Path, capsys: pytest.CaptureFixture[str], strategy: str, same: bool
) -> None:
    asked = inputs(digits, strategy=strategy)
    found, on_executors = placed(asked)
    assert not on_executors and (found.hash() == asked.hash()) is same
    if not same:
        assert found.hash() == inputs_of(asked, {"virtual": 2}).hash()
    assert "spark.master local[*] has no executors: one process on this machine" in capsys.readouterr().err


def inputs_of(asked: RunInputs, nodes: Any) -> RunInputs:
    return replace(asked, config=parse(TrainConfig, {**asked.config.model_dump(mode="json"), "nodes": nodes}))


def test_a_comparison_is_not_followed_without_executors(local: None, digits: Path) -> None:
    asked = inputs(digits, strategy="auto", comparison="comparisons/digits")
    with pytest.raises(ConfigError, match=r"^comparison: its answer is about nodes on executors, and spark.master"):
        placed(asked)


@pytest.mark.parametrize("master", ["", "local-cluster[2,1,1024]", "yarn", "spark://h:7077", "k8s://h"])
def test_with_executors_nothing_changes(
    monkeypatch: pytest.MonkeyPatch, digits: Path, capsys: pytest.CaptureFixture[str], master: str
) -> None:
    monkeypatch.setattr(place, "known_settings", lambda: {"spark.master": master} if master else {})
    asked = inputs(digits, strategy="local")
    assert placed(asked) == (asked, True) and capsys.readouterr().err == ""
