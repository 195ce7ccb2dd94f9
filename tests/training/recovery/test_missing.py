"""A run goes on without nodes whose executors are missing, and with them once they are back; without Spark."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from hdfs_io.publish import Output
from sparksplit.base.config import parse
from sparksplit.base.errors import ConfigError, NodeFailed, NotStarted, Passing, RunError
from sparksplit.cluster import requirements
from sparksplit.spark import executors
from sparksplit.spark import jvm as limits
from sparksplit.training import in_session
from sparksplit.training import run as run_module
from sparksplit.training.inputs import RunInputs
from sparksplit.training.progress_record import Progress
from sparksplit.training.recovery import attempts, missing
from sparksplit.training.recovery.missing import AllBack, Missing
from sparksplit.training.run import Run
from sparksplit.training.train_config import TrainConfig
from tests.jvm import gateway, jvm
from tests.replaced import replaced
from tests.training.runs import describe

SPARK = SimpleNamespace(_gateway=gateway())
KEYS = {"data": "d", "output": "o", "nodes": 3, "strategy": "batch"}


def config(**keys):
    return parse(TrainConfig, {**KEYS, **keys})


@pytest.mark.parametrize("keys", [{"min_nodes": 4}, {"nodes": {"virtual": 8}, "min_nodes": 2}, {"min_nodes": 0}])
def test_keys_that_make_no_sense_are_refused(keys):
    with pytest.raises(ConfigError, match="min_nodes"):
        config(**keys)
    assert config(min_nodes=3).min_nodes == 3


def checkpoint(folder, update, nodes=2, loss_rows=0, within_round=False):
    """Leave the description of one; returns its path."""
    path = f"{folder}/checkpoints/update-{update:09d}"
    progress = replace(Progress("", nodes, update), loss_rows=loss_rows, within_round=within_round)
    describe(path, progress)
    return path


def whole(folder, update, nodes=2, within_round=False):
    """Leave one that is not damaged; returns its path."""
    path = checkpoint(folder, update, nodes, within_round=within_round)
    (Path(path) / "state.npz").touch()
    return path


@pytest.fixture
def there(monkeypatch):
    """How many executors there are, in a list."""
    found = [3]
    monkeypatch.setattr(executors, "executors_of", lambda sc: found[0])
    monkeypatch.setattr(requirements, "await_some", lambda sc, nodes, least, patience, spare, check: found[0] - spare)
    monkeypatch.setattr(missing, "LOOK_SECONDS", 0.0)
    return found


@pytest.mark.parametrize("spare", [0, 1])
def test_it_goes_on_with_all_once_they_are_back_and_there_is_a_new_checkpoint(tmp_path, there, spare):
    one = Missing(config(min_nodes=1), SPARK, str(tmp_path), spare, whole_rounds=False)
    there[0] = 2 + spare
    assert one.await_nodes() == one.present == 2
    one.goes_from(checkpoint(tmp_path, 7))
    one.look()
    there[0] = 3 + spare
    one.look()
    there[0] = 2 + spare
    checkpoint(tmp_path, 8, loss_rows=5)
    one.look()
    there[0] = 3 + spare
    with pytest.raises(AllBack, match="executors for all 3 nodes again"):
        one.look()
    assert one.await_nodes() == 3
    one.look()


def test_a_file_system_that_is_away_ends_no_nodes_that_are_well(tmp_path, there, monkeypatch):
    one = Missing(config(min_nodes=1), SPARK, str(tmp_path), 0, whole_rounds=False)
    there[0] = 2
    one.await_nodes()
    one.goes_from(None)
    there[0] = 3

    def away(*_):
        raise Passing("hdfs://n/run: HDFS has failed for 120 s")

    monkeypatch.setattr(missing.checkpoints, "latest", away)
    one.look()
    monkeypatch.undo()


def test_a_jvm_that_stands_still_ends_no_nodes_that_are_well_and_keeps_nobody(tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "PATIENCE", 0.05)
    monkeypatch.setattr(limits, "AGAIN", 0.01)
    monkeypatch.setattr(missing, "LOOK_SECONDS", 0.0)
    with jvm(0) as context:
        one = Missing(config(min_nodes=1), context, str(tmp_path), 0, whole_rounds=False)
        one.present = 2
        one.look()


def test_nodes_that_split_epochs_change_between_rounds_only(tmp_path, there):
    one = Missing(config(min_nodes=1, strategy="epoch"), SPARK, str(tmp_path), 0, whole_rounds=True)
    there[0] = 2
    one.await_nodes()
    one.goes_from(checkpoint(tmp_path, 7))
    there[0] = 3
    checkpoint(tmp_path, 8, loss_rows=5, within_round=True)
    one.look()
    # Any number of nodes can go on within an epoch whose mini-batches they share, as before `sync.after`.
    checkpoint(tmp_path, 9, loss_rows=5)
    with pytest.raises(AllBack):
        one.look()
    few = r"10: lies within a round that 3 nodes began, and only 3 nodes can finish it \(2 nodes have executors, min_"
    with pytest.raises(RunError, match=few):
        one.goes_from(checkpoint(tmp_path, 10, nodes=3, within_round=True))


def test_within_a_round_those_that_began_it_go_on_and_the_others_join_after_it(tmp_path, there):
    one = Missing(config(min_nodes=2, strategy="local"), SPARK, str(tmp_path), 0, whole_rounds=True)
    assert one.await_nodes() == 3
    one.goes_from(checkpoint(tmp_path, 7, within_round=True))
    assert one.present == 2
    one.look()
    checkpoint(tmp_path, 8, within_round=True)
    one.look()
    checkpoint(tmp_path, 9)
    with pytest.raises(AllBack):
        one.look()


@pytest.mark.parametrize("began", [1, 5])
def test_a_round_of_nodes_that_the_configuration_excludes_is_left_to_the_nodes(tmp_path, there, began):
    """They say which number must be set, which is a mistake in what was given."""
    one = Missing(config(min_nodes=2, strategy="local"), SPARK, str(tmp_path), 0, whole_rounds=True)
    one.await_nodes()
    one.goes_from(checkpoint(tmp_path, 7, nodes=began, within_round=True))
    assert one.present == 3


def test_without_the_key_it_never_goes_on_with_fewer(tmp_path, there):
    there[0] = 2
    assert Missing(config(min_nodes=3), None, str(tmp_path), 0, whole_rounds=False).await_nodes() == 3


def trained(folder, shared=True, leave=lambda folder: None):
    """(the restarts of a run that may have fewer nodes, once it has its results; its attempts). leave: what leaves the
    checkpoint that it goes on from in its folder."""
    output = Output(str(folder), "hash", "train")
    strategy = SimpleNamespace(split=SimpleNamespace(shared=shared), chooses=False)
    inputs = RunInputs(config(min_nodes=2), SimpleNamespace(paths=["d"], path="d"), {}, strategy)
    with output.claimed():
        output.begin()
        one = Run(SimpleNamespace(sparkContext=None), inputs, output, None, 0.0)
        assert one._train(leave(output.folder)) == "results"
        return one.restarts, attempts.noted(output.folder).story


def test_a_node_that_is_back_and_is_lost_again_finds_the_count_begun_anew(tmp_path, there, monkeypatch):
    """After hours without it, with checkpoints."""
    lost = NodeFailed("node 2 on h2: its executor was lost", 2)
    clock, ends = [0.0], [(1, lost), (1, lost), (1, lost), (7200, AllBack(3, 99)), (1, lost)]

    def nodes(self, payload):
        if not ends:
            return "results"
        seconds, error = ends.pop(0)
        clock[0] += seconds
        raise error

    monkeypatch.setattr(run_module, "threads", lambda *_: 1)
    monkeypatch.setattr(run_module, "checkpoint_of", lambda *_: f"checkpoints/update-{99 if len(ends) < 2 else 7:09d}")
    monkeypatch.setattr(
        run_module, "time", SimpleNamespace(monotonic=lambda: clock[0], time=lambda: clock[0], sleep=lambda _: None)
    )
    replaced(monkeypatch, in_session, "time", sleep=lambda _: None)
    monkeypatch.setattr(Run, "_nodes", nodes)
    assert trained(tmp_path / "run")[0] == 4


@pytest.mark.parametrize("lost", [True, False])
def test_nodes_that_are_back_and_do_not_start_end_no_run(tmp_path, there, monkeypatch, lost):
    """Whether the run has had fewer nodes since a failure, or from its beginning."""
    errors = [
        *([NodeFailed("node 2 on h2: its executor was lost", 2)] if lost else []),
        AllBack(3, 8),
        NotStarted("node 2 on h2 did not start within 120 s", 2),
    ]

    def nodes(self, payload):
        if errors:
            raise errors.pop(0)
        return "results"

    monkeypatch.setattr(run_module, "threads", lambda *_: 1)
    monkeypatch.setattr(run_module, "checkpoint_of", lambda *_: "checkpoints/update-000000007")
    replaced(monkeypatch, in_session, "time", sleep=lambda _: None)
    monkeypatch.setattr(Run, "_nodes", nodes)
    assert trained(tmp_path / "run")[0] == 1 + lost


def test_an_attempt_with_fewer_and_one_with_all_again(tmp_path, there, monkeypatch, capsys):
    """As the driver sees it: a node is lost, two are left, and all are there again."""
    given = []

    def nodes(self, payload):
        given.append((payload.config["nodes"], payload.checkpoint, self.present))
        if len(given) == 1:
            there[0] = 2
            raise NodeFailed("node 2 on h2: its executor was lost", 2, host="h2")
        if len(given) == 2:
            raise AllBack(3, 8)
        return "results"

    def back(self):
        if len(given) == 2:
            there[0] = 3
        return found(self)

    found = Missing.await_nodes
    monkeypatch.setattr(Missing, "await_nodes", back)
    monkeypatch.setattr(run_module, "threads", lambda *_: 1)
    monkeypatch.setattr(run_module, "checkpoint_of", lambda folder, nodes: f"checkpoints/update-{7 + len(given):09d}")
    monkeypatch.setattr(Run, "_nodes", nodes)
    restarts, story = trained(tmp_path / "run")
    first, second = "checkpoints/update-000000008", "checkpoints/update-000000009"
    assert given == [(3, None, 3), (2, first, 2), (3, second, 3)]
    assert [(each.how, each.nodes, each.update) for each in story] == [
        ("start", 3, 0),
        ("restart", 2, 8),
        ("rejoin", 3, 9),
    ]
    assert [each.cause and each.cause.host for each in story] == ["h2", None, None] and restarts == 1
    said = capsys.readouterr().err
    assert "2 of 3 nodes have executors after 300 s; the run goes on with them (min_nodes)" in said
    assert "there are executors for all 3 nodes again; the run goes on with them from its last checkpoint" in said


@pytest.fixture
def given(monkeypatch):
    """What each attempt was given, (checkpoint, nodes); the first loses a node."""
    attempts_given = []

    def nodes(self, payload):
        attempts_given.append((payload.checkpoint, payload.config["nodes"]))
        assert self.present == payload.config["nodes"]
        if len(attempts_given) == 1:
            raise NodeFailed("node 1 on h1: its executor was lost", 1)
        return "results"

    monkeypatch.setattr(run_module, "threads", lambda *_: 1)
    monkeypatch.setattr(Run, "_nodes", nodes)
    return attempts_given


def test_more_executors_than_nodes_that_began_a_round_end_no_run(tmp_path, there, given, capsys):
    """The next command finds three executors, and so does a restart."""
    restarts, story = trained(tmp_path / "run", False, lambda folder: whole(folder, 500, within_round=True))
    (path, _), _ = given
    assert path.endswith("/run/checkpoints/update-000000500") and given == [(path, 2)] * 2 and restarts == 1
    assert [(each.how, each.nodes, each.update) for each in story] == [("resume", 2, 500), ("restart", 2, 500)]
    says = f"{path} lies within a round that 2 nodes began; the run goes on with 2 of 3 nodes until a round has ended"
    said = capsys.readouterr().err
    assert said.count(says) == 2 and "have executors" not in said


@pytest.mark.parametrize("executors", [2, 3])
def test_a_run_whose_checkpoints_are_all_damaged_starts_over(tmp_path, there, given, capsys, executors):
    """Also where only its number of nodes could have gone on from them."""
    there[0] = executors
    damaged = []
    trained(tmp_path / "run", False, lambda folder: damaged.append(checkpoint(folder, 7, within_round=True)))
    assert len(damaged) == 1 and given == [(None, executors)] * 2
    assert "no checkpoint is undamaged; the run starts from the beginning" in capsys.readouterr().err
