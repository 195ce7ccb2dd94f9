"""The ways on real nodes, against a few lines of NumPy that do the same on a linear model, update by update."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from hdfs_io.arrays import from_arrays
from sparksplit.base.command import Options
from sparksplit.base.errors import RunError, UsageError
from sparksplit.rows.feed import Feed, LanesOf
from tests.forked import nodes_of
from tests.training.runs import MODELS, MOMENTUM, run, weights, without_end

OWN = str(Path(__file__).with_name("strategies_of_ones_own.py"))
ROWS, BATCH, RATE, EPOCHS = 103, 16, 0.05, 5


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Rows of three numbers, each with a number to learn; lanes of uneven lengths, some of them empty."""
    generator = np.random.default_rng(3)
    x = generator.random((ROWS, 3), np.float32)
    y = (x @ [1.0, -2.0, 0.5] + 0.3 + generator.normal(0, 0.01, ROWS)).astype(np.float32)
    return from_arrays(str(tmp_path_factory.mktemp("ways") / "data"), {"train": (x, y)}, lanes=31)


def mini_batches(data, epoch, batch_size=BATCH, lanes=None):
    """[(x, y)] of every mini-batch of `epoch` over all lanes, or over `lanes` alone."""
    source = data.split("train") if lanes is None else LanesOf(data.split("train"), lanes)
    return shares_of(source, epoch, np.arange(31) if lanes is None else lanes, batch_size)


def shares_of(source, epoch, lanes, batch_size=BATCH):
    """[(x, y)] of what a node with those lanes has of every mini-batch of `epoch`."""
    feed = Feed(source, lanes, batch_size=batch_size, seed=1)
    found = []
    for chunk in feed.epoch(epoch):
        for begin, end in zip(chunk.offsets[:-1], chunk.offsets[1:], strict=True):
            found.append((chunk.tensors[0][begin:end], chunk.label[begin:end].astype(np.float64)))
    feed.close()
    return found


def gradient(w, b, x, y):
    """Of the mean squared error, and the error."""
    difference = x @ w + b - y
    return 2 * x.T @ difference / len(y), 2 * difference.mean(), float((difference**2).mean())


def epochs_split(data, nodes):
    """Horovod's recipe: gradients averaged at every step, N times the rate after a warm-up over the first epoch."""
    w, b, step, losses = np.zeros(3), 0.0, 0, []
    per_epoch = -(-ROWS // BATCH)
    for first in range(0, EPOCHS, nodes):
        loss = 0.0
        for batches in zip(*(mini_batches(data, first + rank) for rank in range(nodes)), strict=True):
            rate = RATE * (1 + (nodes - 1) * min(1, step / per_epoch))
            found = [gradient(w, b, x, y) for x, y in batches]
            w = w - rate * np.mean([one[0] for one in found], axis=0)
            b = b - rate * np.mean([one[1] for one in found])
            loss += sum(one[2] * len(y) for one, (_, y) in zip(found, batches, strict=True))
            step += 1
        losses.append(loss / (nodes * ROWS))
    return w, b, losses


def epochs_apart(data, nodes):
    """Each node trains an epoch by itself from the same weights; then they are averaged, as all have as many rows."""
    w, b, losses = np.zeros(3), 0.0, []
    for first in range(0, EPOCHS, nodes):
        ends, loss = [], 0.0
        for rank in range(nodes):
            own_w, own_b = w, b
            for x, y in mini_batches(data, first + rank):
                change, shift, error = gradient(own_w, own_b, x, y)
                own_w, own_b, loss = own_w - RATE * change, own_b - RATE * shift, loss + error * len(y)
            ends.append((own_w, own_b))
        w, b = np.mean([end[0] for end in ends], axis=0), np.mean([end[1] for end in ends])
        losses.append(loss / (nodes * ROWS))
    return w, b, losses


def rows_split(data, nodes, every, outer, epochs_before=0):
    """Each node trains on its own lanes; every so many of its updates the changes are averaged by rows.

    Before that, `epochs_before` epochs in which they share every mini-batch.
    """
    w, velocity, losses = np.zeros(4), np.zeros(4), []
    for epoch in range(epochs_before):
        loss = 0.0
        for x, y in mini_batches(data, epoch):
            change, shift, error = gradient(w[:3], w[3], x, y)
            w, loss = w - RATE * np.append(change, shift), loss + error * len(y)
        losses.append(loss / ROWS)
    for epoch in range(epochs_before, EPOCHS):
        lanes = [np.arange(rank, 31, nodes) for rank in range(nodes)]
        queues = [mini_batches(data, epoch, max(1, BATCH // nodes), own) for own in lanes]
        loss = 0.0
        for start in range(0, max(map(len, queues)), every):
            changes, weights = [], []
            for queue in queues:
                own = w.copy()
                for x, y in queue[start : start + every]:
                    change, shift, error = gradient(own[:3], own[3], x, y)
                    own, loss = own - RATE * np.append(change, shift), loss + error * len(y)
                changes.append(own - w)
                weights.append(sum(len(y) for _, y in queue[start : start + every]))
            average = np.average(changes, axis=0, weights=weights)
            rate, momentum = {"none": (1.0, 0.0), "momentum": (1.0, 0.7), "nesterov": (0.7, 0.9)}[outer]
            velocity = momentum * velocity + average
            w = w + rate * (average + momentum * velocity if outer == "nesterov" else velocity)
        losses.append(loss / ROWS)
    return w[:3], w[3], losses


@pytest.mark.parametrize(
    ("nodes", "every", "outer"), [(1, 4, "nesterov"), (2, 3, "none"), (2, 5, "momentum"), (3, 4, "nesterov")]
)
def test_local_is_what_numpy_says(forked, data, tmp_path, nodes, every, outer):
    settings = {
        "strategy": "local", "nodes": nodes, "epochs": EPOCHS, "batch_size": BATCH, "dtype": "float64",
        "optimizer": {"name": "sgd", "learning_rate": RATE}, "model": {"build": f"{MODELS}:linear"},
        "sync": {"every": every, "outer": outer},
    }  # fmt: skip
    result = run(data.path, tmp_path / "run", **settings)
    w, b, losses = rows_split(data, nodes, every, outer)
    kernel, bias = weights(tmp_path / "run")[:2]
    np.testing.assert_allclose(kernel[:, 0], w, atol=1e-9, rtol=0)
    np.testing.assert_allclose(bias, b, atol=1e-9, rtol=0)
    np.testing.assert_allclose(result["metrics"]["train"]["loss"], losses, atol=1e-9, rtol=0)
    rows = np.array(data.split("train").lane_rows)
    longest = max(-(-rows[rank::nodes].sum() // max(1, BATCH // nodes)) for rank in range(nodes))
    assert result["syncs"] == (EPOCHS * -(-longest // every) if nodes > 1 else 0)
    assert result["sync"] == {"every": every, "outer": None if outer == "none" else outer, "after": 0}
    assert result["ledger"] == {**result["ledger"], "exact": True, "rows": EPOCHS * ROWS}


@pytest.mark.slow
def test_local_goes_on_from_batch(forked, data, tmp_path):
    """Post-local SGD: ten updates fall into two epochs of seven."""
    settings = {
        "strategy": "local", "nodes": 2, "epochs": EPOCHS, "batch_size": BATCH, "dtype": "float64",
        "optimizer": {"name": "sgd", "learning_rate": RATE}, "model": {"build": f"{MODELS}:linear"},
        "sync": {"every": 4, "outer": "nesterov", "after": 10}, "checkpoint": {"keep": 99},
    }  # fmt: skip
    result = run(data.path, tmp_path / "run", **settings)
    w, b, losses = rows_split(data, 2, 4, "nesterov", epochs_before=2)
    kernel, bias = weights(tmp_path / "run")[:2]
    np.testing.assert_allclose(kernel[:, 0], w, atol=1e-9, rtol=0)
    np.testing.assert_allclose(bias, b, atol=1e-9, rtol=0)
    np.testing.assert_allclose(result["metrics"]["train"]["loss"], losses, atol=1e-9, rtol=0)
    assert result["sync"] == {"every": 4, "outer": "nesterov", "after": 10}
    rows = np.array(data.split("train").lane_rows)
    longest = max(-(-rows[rank::2].sum() // (BATCH // 2)) for rank in range(2))
    assert result["syncs"] == result["updates"] == 2 * 7 + 3 * -(-longest // 4)
    assert result["ledger"] == {**result["ledger"], "exact": True, "rows": EPOCHS * ROWS}
    for epochs_done in (1, 2, 3, 5):
        without_end(tmp_path / "run", tmp_path / f"resumed-{epochs_done}", keep=epochs_done)
        resumed = run(data.path, tmp_path / f"resumed-{epochs_done}", Options(resume=True), **settings)
        assert resumed["resumed"] == [{**resumed["resumed"][0], "nodes_before": 2, "nodes": 2}]
        assert (resumed["weights"], resumed["syncs"]) == (result["weights"], result["syncs"])


def majority_vote(data, nodes):
    """Each node's part of a mini-batch's gradient has one vote for each weight's direction."""
    w, b, losses = np.zeros(3), 0.0, []
    for epoch in range(EPOCHS):
        loss = 0.0
        shares = [shares_of(data.split("train"), epoch, np.arange(rank, 31, nodes)) for rank in range(nodes)]
        for parts in zip(*shares, strict=True):
            found = [gradient(w, b, x, y) for x, y in parts if len(y)]
            loss += sum(one[2] * len(y) for one, (_, y) in zip(found, [p for p in parts if len(p[1])], strict=True))
            w = w - RATE * np.sign(np.sum([np.sign(one[0]) for one in found], axis=0))
            b = b - RATE * np.sign(np.sum([np.sign(one[1]) for one in found]))
        losses.append(loss / ROWS)
    return w, b, losses


@pytest.mark.parametrize("nodes", [1, 3, {"virtual": 3}])
def test_a_way_of_ones_own_is_one_small_class(forked, data, tmp_path, nodes):
    settings = {
        "strategy": f"{OWN}:majority_vote", "nodes": nodes, "epochs": EPOCHS, "batch_size": BATCH, "dtype": "float64",
        "optimizer": {"name": "sgd", "learning_rate": RATE}, "model": {"build": f"{MODELS}:linear"},
    }  # fmt: skip
    result = run(data.path, tmp_path / "run", **settings)
    w, b, losses = majority_vote(data, nodes if isinstance(nodes, int) else nodes["virtual"])
    kernel, bias = weights(tmp_path / "run")[:2]
    np.testing.assert_allclose(kernel[:, 0], w, atol=1e-9, rtol=0)
    np.testing.assert_allclose(bias, b, atol=1e-9, rtol=0)
    np.testing.assert_allclose(result["metrics"]["train"]["loss"], losses, atol=1e-9, rtol=0)
    assert (result["strategy"], result["ledger"]["exact"]) == (f"{OWN}:majority_vote", True)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (f"{OWN}:nothing", "nothing returned NoneType, not a sparksplit.strategies.Strategy"),
        (
            f"{OWN}:forgetful",
            "strategy: its split does not fit the data: ValueError: not every_row, so each lane must be",
        ),
        (f"{OWN}:majority_vot", "has no function 'majority_vot'; did you mean 'majority_vote'?"),
        ("bacth", "must be one of single, batch, epoch, epoch-delayed, local, or a function that returns a strategy"),
    ],
)
def test_a_way_that_is_none(data, tmp_path, name, problem):
    with pytest.raises(UsageError, match=re.escape(problem)):
        run(data.path, tmp_path / "run", strategy=name)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("nodes", [1, 2, 3])
@pytest.mark.parametrize(("strategy", "reference"), [("epoch", epochs_split), ("epoch-delayed", epochs_apart)])
def test_a_way_is_what_numpy_says(forked, data, tmp_path, strategy, reference, nodes):
    settings = {
        "strategy": strategy, "nodes": nodes, "epochs": EPOCHS, "batch_size": BATCH, "dtype": "float64",
        "optimizer": {"name": "sgd", "learning_rate": RATE}, "model": {"build": f"{MODELS}:linear"},
    }  # fmt: skip
    result = run(data.path, tmp_path / "run", **settings)
    w, b, losses = reference(data, nodes)
    kernel, bias = weights(tmp_path / "run")[:2]
    np.testing.assert_allclose(kernel[:, 0], w, atol=1e-9, rtol=0)
    np.testing.assert_allclose(bias, b, atol=1e-9, rtol=0)
    np.testing.assert_allclose(result["metrics"]["train"]["loss"], losses, atol=1e-9, rtol=0)
    rounds = -(-EPOCHS // nodes)
    assert result["passes"] == nodes * rounds
    assert result["updates"] == (rounds if strategy == "epoch-delayed" and nodes > 1 else 7 * rounds)
    assert result["steps"] == 7 * rounds
    assert result["syncs"] == (result["updates"] if nodes > 1 else 0)
    assert result["ledger"] == {**result["ledger"], "exact": True, "rows": nodes * rounds * ROWS}


@pytest.mark.parametrize("strategy", ["epoch", "epoch-delayed", "local"])
def test_rows_that_spark_hands_over_give_the_same_bits(spark, zygote, digits, tmp_path, strategy):
    settings = {"strategy": strategy, "nodes": 2, "epochs": 3, "optimizer": MOMENTUM}
    with nodes_of(zygote):
        read = run(digits, tmp_path / "read", **settings)
    with nodes_of(zygote, spark=True):
        fed = run(digits, tmp_path / "fed", input_mode="spark", **settings)
    assert (fed["weights"], fed["metrics"], fed["ledger"]) == (read["weights"], read["metrics"], read["ledger"])
    passes = 3 if strategy == "local" else 4
    assert (fed["passes"], fed["ledger"]["exact"], fed["ledger"]["rows"]) == (passes, True, passes * 1300)


def test_rows_that_spark_hands_over_reach_the_owners_that_a_split_of_ones_own_names(spark, digits, tmp_path):
    settings = {"nodes": 2, "epochs": 2, "optimizer": MOMENTUM}
    batch = run(digits, tmp_path / "batch", strategy="batch", **settings)
    fed = run(digits, tmp_path / "fed", strategy=f"{OWN}:neighbours", input_mode="spark", **settings)
    assert (fed["ledger"], fed["updates"]) == (batch["ledger"], batch["updates"])
    np.testing.assert_allclose(fed["metrics"]["train"]["loss"], batch["metrics"]["train"]["loss"], atol=1e-4)


@pytest.mark.slow
def test_resuming_epoch_within_a_round_gives_the_same_bits(forked, digits, tmp_path):
    settings = {
        "strategy": "epoch", "nodes": 2, "epochs": 4, "optimizer": MOMENTUM, "model": {"build": f"{MODELS}:with_state"},
        "checkpoint": {"every": 8, "keep": 99},
    }  # fmt: skip
    straight = run(digits, tmp_path / "straight", **settings)
    without_end(tmp_path / "straight", tmp_path / "resumed", keep=4)
    resumed = run(digits, tmp_path / "resumed", Options(resume=True), **settings)
    assert resumed["resumed"] == [{"update": 32, "nodes_before": 2, "nodes": 2}]
    assert (resumed["weights"], resumed["metrics"]) == (straight["weights"], straight["metrics"])
    assert resumed["ledger"] == straight["ledger"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("strategy", "epochs", "more"),
    [("epoch-delayed", 6, {}), ("local", 4, {"sync": {"every": 8, "outer": "nesterov"}})],
)
def test_resuming_nodes_that_differ_gives_the_same_bits(forked, digits, tmp_path, strategy, epochs, more):
    """The momentum of each node is its own, the outer one that of all."""
    settings = {
        "strategy": strategy, "nodes": 2, "epochs": epochs, "optimizer": MOMENTUM,
        "model": {"build": f"{MODELS}:with_state"}, "checkpoint": {"keep": 99}, **more,
    }  # fmt: skip
    straight = run(digits, tmp_path / "straight", **settings)
    without_end(tmp_path / "straight", tmp_path / "resumed", keep=2)
    resumed = run(digits, tmp_path / "resumed", Options(resume=True), **settings)
    update = resumed["resumed"][0]["update"]
    assert resumed["resumed"] == [{"update": update, "nodes_before": 2, "nodes": 2}]
    assert (resumed["weights"], resumed["metrics"]) == (straight["weights"], straight["metrics"])
    assert resumed["ledger"] == straight["ledger"] == {**straight["ledger"], "exact": True}
    without_end(tmp_path / "straight", tmp_path / "other", keep=2)
    other = run(digits, tmp_path / "other", Options(resume=True), **{**settings, "nodes": 1})
    assert other["resumed"] == [{"update": update, "nodes_before": 2, "nodes": 1, "optimizer": "reset"}]
    assert (other["passes"], other["ledger"]["exact"]) == (epochs, True)


@pytest.mark.slow
def test_other_nodes_go_on_with_epoch_where_a_round_has_ended_only(forked, digits, tmp_path):
    """Three nodes have run the epochs 0 to 2; two go on with 3 and 4, and so pass as often as asked."""
    settings = {"strategy": "epoch", "epochs": 5, "optimizer": MOMENTUM, "checkpoint": {"every": 21, "keep": 99}}
    run(digits, tmp_path / "straight", nodes=3, **settings)
    without_end(tmp_path / "straight", tmp_path / "resumed", keep=1)
    resumed = run(digits, tmp_path / "resumed", Options(resume=True), nodes=2, **settings)
    assert resumed["resumed"] == [{"update": 21, "nodes_before": 3, "nodes": 2}]
    assert resumed["passes"] == 5
    assert resumed["ledger"] == {**resumed["ledger"], "exact": True, "rows": 5 * 1300}
    # Complete, and the two nodes' own by now.
    assert run(digits, tmp_path / "resumed", nodes=2, **settings) == resumed


@pytest.mark.slow
def test_local_goes_on_with_other_nodes_whose_rounds_have_another_length(forked, data, tmp_path):
    """Two nodes have eight updates a round, one has seven."""
    settings = {
        "strategy": "local", "epochs": 4, "batch_size": 15, "checkpoint": {"keep": 99},
        "model": {"build": f"{MODELS}:linear"},
    }  # fmt: skip
    run(data.path, tmp_path / "straight", nodes=2, **settings)
    without_end(tmp_path / "straight", tmp_path / "resumed", keep=2)
    resumed = run(data.path, tmp_path / "resumed", Options(resume=True), nodes=1, **settings)
    assert resumed["resumed"] == [{"update": 2, "nodes_before": 2, "nodes": 1, "optimizer": "reset"}]
    assert (resumed["updates"], resumed["syncs"], resumed["steps"]) == (2 + 2 * 7, 2, 4 * 7)
    assert resumed["ledger"] == {**resumed["ledger"], "exact": True, "rows": 4 * ROWS}


EVERY_WAY = [
    ("batch", {}),
    ("epoch", {}),
    ("epoch-delayed", {}),
    ("local", {"sync": {"every": 8, "outer": "momentum"}}),
    ("local", {"sync": {"every": 8, "outer": "nesterov", "after": 30}}),
]


def random_states(folder):
    """The state of Dropout's generator on each node, in the last checkpoint."""
    last = max((folder / "checkpoints").iterdir())
    return [np.load(last / f"node-{rank}.npz")["r0000"].tobytes() for rank in range(2)]


@pytest.mark.parametrize(("strategy", "more"), EVERY_WAY)
def test_virtual_nodes_are_real_ones(forked, digits, tmp_path, strategy, more):
    """The inner optimizer's momentum, BatchNorm's statistics, each node's own masks of Dropout, uneven lanes."""
    settings = {
        "strategy": strategy, "epochs": 4, "optimizer": MOMENTUM, "model": {"build": f"{MODELS}:with_state"}, **more,
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
    assert virtual["sync_bytes_per_node"] == pytest.approx(real["sync_bytes_per_node"], rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize("strategy", ["epoch-delayed", "local"])
def test_virtual_nodes_that_spark_feeds(spark, zygote, digits, tmp_path, strategy):
    """More of them than the test cluster could hold; rows from the spool, and from a file mapped into memory."""
    settings = {"strategy": strategy, "nodes": {"virtual": 16}, "epochs": 16, "optimizer": MOMENTUM}
    with nodes_of(zygote, spark=True):
        fed = run(digits, tmp_path / "fed", input_mode="spark", **settings)
    with nodes_of(zygote):
        read = run(digits, tmp_path / "read", **settings)
        mapped = run(digits, tmp_path / "mapped", cache_mb=0, **settings)
    for other in (fed, mapped):
        assert [other[key] for key in ("weights", "metrics", "ledger")] == [
            read[key] for key in ("weights", "metrics", "ledger")
        ]
    assert (read["passes"], read["nodes"], read["ledger"]["exact"]) == (16, 16, True)


@pytest.mark.slow
def test_virtual_nodes_go_on_from_a_checkpoint(forked, digits, tmp_path):
    settings = {
        "strategy": "local", "nodes": {"virtual": 5}, "epochs": 4, "optimizer": MOMENTUM, "checkpoint": {"keep": 99},
        "model": {"build": f"{MODELS}:with_state"}, "sync": {"every": 4, "outer": "nesterov"},
    }  # fmt: skip
    straight = run(digits, tmp_path / "straight", **settings)
    without_end(tmp_path / "straight", tmp_path / "resumed", keep=2)
    resumed = run(digits, tmp_path / "resumed", Options(resume=True), **settings)
    assert (resumed["weights"], resumed["metrics"]) == (straight["weights"], straight["metrics"])
    assert resumed["resumed"][0]["nodes"] == 5


def test_a_virtual_node_that_fails_ends_the_run(forked, digits, tmp_path):
    settings = {"strategy": "local", "nodes": {"virtual": 3}, "optimizer": {"name": "sgd", "learning_rate": 1e9}}
    with pytest.raises(RunError, match="the loss is"):
        run(digits, tmp_path / "run", epochs=2, **settings)
