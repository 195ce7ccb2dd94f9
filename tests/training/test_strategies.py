"""The strategies on real nodes, against a few lines of NumPy that do the same on a linear model, update by update."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import numpy as np
import pytest

from sparksplit.base.errors import RunError, UsageError
from sparksplit.base.options import Options
from sparksplit.training import checkpoints
from sparksplit.training.progress_record import read_history
from tests.forked import nodes_of
from tests.training.records import check_seconds
from tests.training.references import (
    EPOCHS,
    LINEAR,
    ROWS,
    check,
    epochs_apart,
    epochs_split,
    longest_round,
    majority_vote,
    prepared,
    rows_split,
)
from tests.training.runs import AVERAGED, MODELS, MOMENTUM, run, weights, without_end

OWN = str(Path(__file__).with_name("strategies_of_ones_own.py"))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return prepared(tmp_path_factory.mktemp("strategies") / "data")


@pytest.mark.slow
@pytest.mark.parametrize(("nodes", "every", "outer"), [(1, 4, "nesterov"), (2, 3, "none"), (3, 4, "nesterov")])
def test_local_is_what_numpy_says(forked, data, tmp_path, nodes, every, outer):
    settings = {"strategy": "local", "nodes": nodes, "sync": {"every": every, "outer": outer}, **LINEAR}
    result = run(data.path, tmp_path / "run", **settings)
    check(tmp_path / "run", result, rows_split(data, nodes, every, outer))
    longest = longest_round(data, nodes)
    assert result["syncs"] == (EPOCHS * -(-longest // every) if nodes > 1 else 0)
    assert result["sync"] == {"every": every, "outer": None if outer == "none" else outer, "after": 0}
    assert result["ledger"] == {**result["ledger"], "exact": True, "rows": EPOCHS * ROWS}


@pytest.mark.slow
def test_local_goes_on_from_batch(forked, data, tmp_path):
    """Post-local SGD: ten updates fall into two epochs of seven. It is resumed in test_own_dealing.py."""
    settings = {"strategy": "local", "nodes": 2, "sync": {"every": 4, "outer": "nesterov", "after": 10}, **LINEAR}
    result = run(data.path, tmp_path / "run", **settings)
    check(tmp_path / "run", result, rows_split(data, 2, 4, "nesterov", epochs_before=2))
    assert result["sync"] == {"every": 4, "outer": "nesterov", "after": 10}
    assert result["syncs"] == result["updates"] == 2 * 7 + 3 * -(-longest_round(data, 2) // 4)
    assert result["ledger"] == {**result["ledger"], "exact": True, "rows": EPOCHS * ROWS}


@pytest.mark.parametrize("nodes", [1, 3, {"virtual": 3}])
def test_a_strategy_of_ones_own_is_one_small_class(forked, data, tmp_path, nodes):
    result = run(data.path, tmp_path / "run", strategy=f"{OWN}:majority_vote", nodes=nodes, **LINEAR)
    check(tmp_path / "run", result, majority_vote(data, nodes if isinstance(nodes, int) else nodes["virtual"]))
    assert (result["strategy"], result["ledger"]["exact"]) == (f"{OWN}:majority_vote", True)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (f"{OWN}:nothing", "nothing returned NoneType, not a sparksplit.strategies.Strategy"),
        (
            f"{OWN}:forgetful",
            "strategy: its split does not fit the data: ValueError: not every_row, so 1 of",
        ),
        (f"{OWN}:majority_vot", "has no function 'majority_vot'; did you mean 'majority_vote'?"),
        (
            "bacth",
            "must be one of single, batch, epoch, epoch-delayed, local, auto, or a function that returns a strategy",
        ),
    ],
)
def test_a_strategy_that_does_not_exist(data, tmp_path, name, problem):
    with pytest.raises(UsageError, match=re.escape(problem)):
        run(data.path, tmp_path / "run", strategy=name)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize(("strategy", "reference"), [("epoch", epochs_split), ("epoch-delayed", epochs_apart)])
def test_a_strategy_is_what_numpy_says(forked, data, tmp_path, strategy, reference, nodes):
    result = run(data.path, tmp_path / "run", strategy=strategy, nodes=nodes, **LINEAR)
    check(tmp_path / "run", result, reference(data, nodes))
    rounds = -(-EPOCHS // nodes)
    assert result["passes"] == nodes * rounds
    assert result["updates"] == (rounds if strategy == "epoch-delayed" and nodes > 1 else 7 * rounds)
    assert result["steps"] == 7 * rounds
    assert result["syncs"] == (result["updates"] if nodes > 1 else 0)
    assert result["ledger"] == {**result["ledger"], "exact": True, "rows": nodes * rounds * ROWS}


@pytest.mark.slow
def test_rows_that_spark_hands_over_give_the_same_bits(spark, zygote, digits, tmp_path):
    """Each node is fed all rows; the lanes of a node's own are fed in test_own_dealing.py."""
    settings = {"strategy": "epoch-delayed", "nodes": 2, "epochs": 3, "optimizer": MOMENTUM}
    with nodes_of(zygote):
        read = run(digits, tmp_path / "read", **settings)
    with nodes_of(zygote, spark=True):
        fed = run(digits, tmp_path / "fed", input_mode="spark", **settings)
    assert (fed["weights"], fed["metrics"], fed["ledger"]) == (read["weights"], read["metrics"], read["ledger"])
    assert (fed["passes"], fed["ledger"]["exact"], fed["ledger"]["rows"]) == (4, True, 4 * 1300)


@pytest.mark.slow
def test_other_nodes_go_on_with_epoch_where_a_round_has_ended_only(forked, digits, tmp_path):
    """Two nodes have run the epochs 0 and 1; one goes on with 2, and so passes as often as asked."""
    settings = {"strategy": "epoch", "epochs": 3, "optimizer": MOMENTUM, "checkpoint": {"every": 21, "keep": 99}}
    assert run(digits, tmp_path / "straight", nodes=2, **settings)["passes"] == 4
    without_end(tmp_path / "straight", tmp_path / "resumed", keep=1)
    resumed = run(digits, tmp_path / "resumed", Options(resume=True), nodes=1, **settings)
    assert resumed["resumed"] == [{"update": 21, "nodes_before": 2, "nodes": 1}]
    assert resumed["passes"] == 3
    assert resumed["ledger"] == {**resumed["ledger"], "exact": True, "rows": 3 * 1300}
    # Complete, and the one node's own by now.
    assert run(digits, tmp_path / "resumed", nodes=1, **settings) == resumed


@pytest.mark.slow
def test_local_goes_on_with_other_nodes_whose_rounds_have_another_length(forked, data, tmp_path):
    """Two nodes have eight updates a round, one has seven."""
    settings = {
        "strategy": "local", "epochs": 4, "batch_size": 15, "checkpoint": {"every": "epoch", "keep": 99},
        "model": {"build": f"{MODELS}:linear"},
    }  # fmt: skip
    run(data.path, tmp_path / "straight", nodes=2, **settings)
    without_end(tmp_path / "straight", tmp_path / "resumed", keep=2)
    resumed = run(data.path, tmp_path / "resumed", Options(resume=True), nodes=1, **settings)
    assert resumed["resumed"] == [{"update": 2, "nodes_before": 2, "nodes": 1, "optimizer": "passed on"}]
    assert (resumed["updates"], resumed["syncs"], resumed["steps"]) == (2 + 2 * 7, 2, 4 * 7)
    assert resumed["ledger"] == {**resumed["ledger"], "exact": True, "rows": 4 * ROWS}


ON_TWO_NODES = [
    ("epoch", {"class_weights": {"1": 5}}),
    ("epoch-delayed", {}),
    ("local", {"sync": {"every": 8, "outer": "nesterov", "after": 30}}),
]


def random_states(folder):
    """The state of Dropout's generator on each node, in the last checkpoint."""
    last = max((folder / "checkpoints").iterdir())
    return [np.load(last / f"node-{rank}.npz")["r0000"].tobytes() for rank in range(2)]


def averages_in(folder, strategy):
    """The digest of the moving averages in the last checkpoint, which has them behind what a model of MODELS'
    `with_state` shares and, where all of the optimizer's state is shared, its count and its rate, if that is fixed."""
    state = checkpoints.read(checkpoints.latest(str(folder)), 0).state
    first = 8 + {"batch": 2, "epoch": 1}.get(strategy, 0)
    bits = b"".join(state[f"v{place:04d}"].tobytes() for place in range(first, first + 6))
    return hashlib.sha256(bits).hexdigest()[:16]


@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "more"), ON_TWO_NODES)
def test_virtual_nodes_are_real_ones(forked, digits, tmp_path, strategy, more):
    """The inner optimizer's momentum, and its moving averages, which a run ends with; BatchNorm's statistics, each
    node's own masks of Dropout, uneven lanes; weights of rows (with `local`: test_measures.py)."""
    settings = {
        "strategy": strategy, "epochs": 4, "optimizer": AVERAGED, "model": {"build": f"{MODELS}:with_state"}, **more,
    }  # fmt: skip
    real = run(digits, tmp_path / "real", nodes=2, **settings)
    virtual = run(digits, tmp_path / "virtual", nodes={"virtual": 2}, **settings)
    for found, wanted in zip(weights(tmp_path / "virtual"), weights(tmp_path / "real"), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-4, rtol=0)
    for name in ("train", "validation"):
        for key, values in real["metrics"][name].items():
            np.testing.assert_allclose(virtual["metrics"][name][key], values, atol=1e-3)
    states = [random_states(tmp_path / name) for name in ("real", "virtual")]
    assert states[0] == states[1] and len(set(states[0])) == 2
    same = ("nodes", "passes", "updates", "steps", "syncs", "sync", "ledger")
    assert {key: virtual[key] for key in same} == {key: real[key] for key in same}
    assert (virtual["virtual"], real["virtual"]) == (True, False)
    assert real["weights"] == averages_in(tmp_path / "real", strategy)
    check_seconds(virtual, read_history(str(tmp_path / "virtual")))
    assert virtual["sync_bytes_per_node"] == pytest.approx(real["sync_bytes_per_node"], rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "passes"), [("epoch-delayed", 5), ("local", 2)])
def test_virtual_nodes_that_spark_feeds(spark, zygote, digits, tmp_path, strategy, passes):
    """More of them than the test cluster could hold; rows from the spool, and from a file mapped into memory."""
    settings = {"strategy": strategy, "nodes": {"virtual": 5}, "epochs": passes, "optimizer": MOMENTUM}
    with nodes_of(zygote, spark=True):
        fed = run(digits, tmp_path / "fed", input_mode="spark", **settings)
    with nodes_of(zygote):
        read = run(digits, tmp_path / "read", cache_mb=0, **settings)
    assert [fed[key] for key in ("weights", "metrics", "ledger")] == [
        read[key] for key in ("weights", "metrics", "ledger")
    ]
    assert (read["passes"], read["nodes"], read["ledger"]["exact"]) == (passes, 5, True)


def test_single_on_one_virtual_node_is_single(forked, data, tmp_path):
    """The least of several numbers of virtual nodes."""
    result = run(data.path, tmp_path / "run", strategy="single", nodes={"virtual": 1}, **LINEAR)
    check(tmp_path / "run", result, epochs_apart(data, 1))
    assert (result["strategy"], result["nodes"], result["virtual"]) == ("single", 1, True) and result["ledger"]["exact"]


def test_a_virtual_node_that_fails_ends_the_run(forked, digits, tmp_path):
    settings = {"strategy": "local", "nodes": {"virtual": 3}, "optimizer": {"name": "sgd", "learning_rate": 1e9}}
    with pytest.raises(RunError, match="the loss is"):
        run(digits, tmp_path / "run", epochs=2, **settings)
