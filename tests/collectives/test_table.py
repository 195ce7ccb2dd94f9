"""Collectives by their names: the product's, and a user's own."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from sparksplit.base.config import load, parse
from sparksplit.base.errors import ConfigError, RunError, UsageError
from sparksplit.base.user_functions import FunctionError, source_of
from sparksplit.cluster.faults import kind_and_text
from sparksplit.collectives import COLLECTIVES, Alone, join
from sparksplit.dataset.arrays import from_arrays
from sparksplit.training.node.main import connect
from sparksplit.training.train_config import TrainConfig
from tests.comparison.comparisons import compared
from tests.training.runs import MODELS, run

FILE = Path(__file__).with_name("collectives_of_ones_own.py")
OWN = f"{FILE}:by_the_driver"
SAME = ("weights", "metrics", "ledger", "updates", "syncs")


def member(size=2):
    return SimpleNamespace(rank=0, size=size)


def test_every_name_of_the_table_is_a_function_that_exists():
    for name, function in COLLECTIVES.items():
        assert source_of(function) is None
        assert parse(TrainConfig, {"data": "d", "output": "o", "collective": name}).collective == name


def test_a_collective_of_ones_own_is_made_from_the_source_that_was_shipped():
    made = join("nowhere.py:by_the_driver", FILE.read_text(), member())
    assert (type(made).__name__, made.rank, made.size, made.in_graphs) == ("ByTheDriver", 0, 2, False)


def test_a_node_that_is_alone_needs_none():
    assert type(join("nowhere.py:broken", "not even Python", member(size=1))) is Alone


def test_what_ends_a_users_function_is_the_runs_error_with_its_cause():
    """It may pass, such as a network that is not there: not a mistake in the configuration."""
    with pytest.raises(RunError, match=r"^collective: nowhere\.py:broken failed: OSError: no network") as caught:
        join("nowhere.py:broken", FILE.read_text(), member())
    assert kind_and_text(caught.value) == ("own", str(caught.value))


def test_a_peer_that_has_gone_while_they_came_together_is_no_first_cause():
    with pytest.raises(RunError) as caught:
        join("nowhere.py:left", FILE.read_text(), member())
    assert kind_and_text(caught.value)[0] == "echo"


def test_what_is_no_collective_is_refused_by_key():
    with pytest.raises(FunctionError, match=r"nowhere\.py:nothing returned NoneType, not a sparksplit\.coll"):
        join("nowhere.py:nothing", FILE.read_text(), member())
    config = parse(TrainConfig, {"data": "d", "output": "o", "collective": "nowhere.py:nothing"})
    with pytest.raises(ConfigError, match=r"collective: nowhere\.py:nothing returned NoneType"):
        connect(member(), config, {"collective": FILE.read_text()})


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    import numpy as np

    x = np.random.default_rng(5).random((90, 3), np.float32)
    y = (x @ [1.0, -2.0, 0.5]).astype(np.float32)
    splits = {"train": (x, y), "test": (x[:9], y[:9])}
    return from_arrays(str(tmp_path_factory.mktemp("collective") / "data"), splits, lanes=7).path


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (
            "rign",
            "must be one of auto, ring, shared, mixed, tensorflow, or a function that returns a collective (is 'rign')",
        ),
        (f"{FILE}:by_the_drivr", "has no function 'by_the_drivr'; did you mean 'by_the_driver'?"),
        ("none.py:mine", "none.py: does not exist"),
        ("nobody.knows:mine", "module 'nobody.knows' not found"),
    ],
)
def test_one_that_cannot_be_had_is_told_before_spark_starts(data, tmp_path, monkeypatch, name, problem):
    monkeypatch.setattr("sparksplit.training.train.spark_session", lambda *_, **__: pytest.fail("Spark was started"))
    file = tmp_path / "train.yaml"
    file.write_text(f"data: {data}\noutput: {tmp_path}/run\nstrategy: batch\nnodes: 2\ncollective: {name}\n")
    from sparksplit.base.options import Options
    from sparksplit.training.train import train

    with pytest.raises(UsageError, match=re.escape(problem)) as caught:
        train(load(TrainConfig, str(file)), Options())
    assert str(caught.value).startswith(f"{file}:5: collective: ") and "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_collective_of_ones_own_trains_as_the_ring_does(forked, data, tmp_path):
    """Two numbers have one sum, whatever adds them: the same bits. In `compare` each has its own, which counts
    what it sends, or nothing."""
    settings = {
        "epochs": 2, "batch_size": 16, "model": {"build": f"{MODELS}:linear"}, "optimizer": {"learning_rate": 0.1},
    }  # fmt: skip
    trained = run(data, tmp_path / "own", nodes=2, collective=OWN, **settings)
    strategies = [{"strategy": "batch", "collective": OWN}, "batch"]
    ring, own = compared(data, tmp_path / "both", strategies=strategies, nodes=[2], seeds=1, **settings)["runs"]
    for other in (trained, own):
        assert [other[name] for name in SAME] == [ring[name] for name in SAME]
        assert (other["config"]["collective"], other["sync_bytes_per_node"]) == (OWN, 0)
    assert ring["sync_bytes_per_node"] > 0
    assert (ring["ledger"]["exact"], ring["updates"], ring["syncs"]) == (True, 12, 12)
    assert own["config_hash"] != ring["config_hash"]
