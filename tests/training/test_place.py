"""What a run trains where Spark's master has no executors."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hdfs_io.differences import content
from hdfs_io.publish import Output
from sparksplit.base.config import parse
from sparksplit.base.errors import ConfigError, UsageError
from sparksplit.strategies import STRATEGIES
from sparksplit.training import place
from sparksplit.training.inputs import RunInputs, hashed_values, open_data
from sparksplit.training.place import check_before, for_one_process, placed, told
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


def test_a_session_says_the_same_line_once(
    monkeypatch: pytest.MonkeyPatch, digits: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for application, times in (("once-1", 1), ("once-1", 0), ("once-2", 1)):
        found = {"spark.master": "local[*]", "spark.app.id": application}
        monkeypatch.setattr(place, "known_settings", lambda found=found: found)
        placed(inputs(digits, strategy="batch"))
        assert capsys.readouterr().err.count("has no executors") == times


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


def finished(folder: Path, **keys: Any) -> TrainConfig:
    """The configuration of a finished run in `folder`."""
    made = config(output=f"{folder}/run", nodes=2, strategy="batch", **keys)
    output = Output(
        made.output, "hash", "train", keys={**hashed_values(made, STRATEGIES["batch"]), "data": content("")}
    )
    with output.claimed():
        output.begin()
        output.complete()
    return made


@pytest.mark.parametrize(
    ("keys", "settings", "message"),
    [
        ({"nodes": 3}, {"spark.master": "local-cluster[2,1,1024]"}, r"nodes: 3 nodes need 3 executors, .* allow 2"),
        (
            {"nodes": 2, "input_mode": "spark"},
            {"spark.master": "local-cluster[2,1,1024]"},
            r"nodes: 2 nodes need 3 executors \(1 to feed them\)",
        ),
        ({"nodes": 2}, {"spark.master": "local-cluster[2,2,1024]"}, r"spark\.master: .* one task slot"),
        (
            {"nodes": 2},
            {"spark.master": "yarn", "spark.dynamicAllocation.enabled": "true"},
            r"spark\.dynamicAllocation\.enabled: must be false",
        ),
        ({"nodes": 2, "strategy": "local", "sync": {}}, {"spark.master": "yarn"}, None),
        ({"nodes": {"virtual": 8}, "strategy": "local"}, {"spark.master": "local-cluster[1,1,1024]"}, None),
        ({"nodes": 9}, {"spark.master": "local[*]"}, None),
        ({"nodes": 9}, {}, None),
    ],
)
def test_settings_that_the_nodes_refuse_are_known_before_there_is_a_data_set(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    keys: dict[str, Any],
    settings: dict[str, str],
    message: str | None,
) -> None:
    monkeypatch.setattr(place, "known_settings", lambda: settings)
    wanted = config(output=f"{tmp_path}/run", **{"strategy": "batch", **keys})
    with nullcontext() if message is None else pytest.raises(ConfigError, match=message):
        check_before(wanted, overwrite=False)


def test_another_finished_run_is_refused_before_there_is_a_data_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = finished(tmp_path, epochs=3)
    for settings in ({}, {"spark.master": "local[2]"}):
        monkeypatch.setattr(place, "known_settings", lambda settings=settings: settings)
        with pytest.raises(UsageError, match=r"run: exists, made with another .* \(epochs was 3, is 4\); --overwrite"):
            check_before(made.model_copy(update={"epochs": 4}), overwrite=False)
        check_before(made.model_copy(update={"epochs": 4}), overwrite=True)
        # `batch` has the same result on any number of nodes; `local` has not.
        check_before(made.model_copy(update={"nodes": 1}), overwrite=False)
        with pytest.raises(UsageError, match="strategy was batch, is local"):
            check_before(made.model_copy(update={"strategy": "local"}), overwrite=False)


def test_a_finished_run_needs_no_executors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its data set is made again only to find out whether it is the same."""
    made = finished(tmp_path)
    monkeypatch.setattr(place, "known_settings", lambda: {"spark.master": "local-cluster[1,1,1024]"})
    check_before(made, overwrite=False)
    with pytest.raises(ConfigError, match="nodes: 2 nodes need 2 executors"):
        check_before(made, overwrite=True)
