"""What a run that fails leaves and says, without Spark."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from hdfs_io import filesystem
from hdfs_io.publish import Output
from sparksplit import cluster
from sparksplit.base.config import parse
from sparksplit.base.errors import InputError, NodeFailed, NotStarted, Passing, RunError, exit_status
from sparksplit.rows.ledger import Entry
from sparksplit.strategies import STRATEGIES
from sparksplit.training import run as run_module
from sparksplit.training.in_session import InSession
from sparksplit.training.inputs import RunInputs
from sparksplit.training.progress_record import Progress
from sparksplit.training.recovery import attempts, restarts
from sparksplit.training.recovery.going_on import Reached, told_how
from sparksplit.training.run import Run
from sparksplit.training.train_config import TrainConfig
from tests.hdfs_io.leases import seize
from tests.replaced import replaced
from tests.training.runs import describe

BATCH = STRATEGIES["batch"]


@pytest.mark.parametrize("error", [InputError("the model's"), RunError("a node's"), KeyboardInterrupt()])
def test_the_first_error_is_raised_where_the_output_cannot_be_looked_at(tmp_path, monkeypatch, error):
    def away(path: str) -> None:
        raise RunError(f"{path}: HDFS has failed for 120 s")

    output = Output(str(tmp_path / "run"), "hash", "train")
    with pytest.raises(type(error)) as caught, output.claimed(), told_how(output):
        output.begin()
        monkeypatch.setattr(filesystem, "listing", away)
        raise error
    assert caught.value is error


@pytest.mark.parametrize("taken_over", [False, True])
def test_a_mistake_before_the_first_checkpoint_removes_what_is_ones_own(tmp_path, taken_over):
    output, successor = (Output(str(tmp_path / "run"), "hash", "train") for _ in range(2))
    with pytest.raises(InputError), output.claimed(), told_how(output):
        output.begin()
        if taken_over:
            seize(successor.lease)
        raise InputError("the model's")
    assert (tmp_path / "run").exists() == taken_over


@pytest.mark.parametrize(("apart", "nodes"), [(True, 2), (False, None)])
def test_steps_of_mini_batches_that_are_dealt_apart_are_those_of_the_runs_nodes(apart, nodes):
    config = parse(TrainConfig, {"data": "d", "output": "o", "nodes": 2, "strategy": "batch"})
    strategy = SimpleNamespace(split=SimpleNamespace(dealt_apart=apart))
    inputs = RunInputs(config, SimpleNamespace(paths=["d"], path="d"), {}, strategy)
    one = Run(None, inputs, None, None, 0.0)
    assert one.reached() == Reached()
    one.display = SimpleNamespace(reached=7, states=[{}, {}])
    assert one.reached() == Reached(7, nodes)


def test_a_data_frame_must_give_the_rows_that_its_checkpoint_names(tmp_path):
    named, older = f"{tmp_path}/checkpoints/update-000000007", f"{tmp_path}/checkpoints/update-000000006"
    describe(named, Progress("", 1, fed=(5, str(2**64 - 1))))
    describe(older, Progress("", 1))
    one = Run(None, None, None, object(), 0.0)
    found = [one._rows_before(SimpleNamespace(checkpoint=each)) for each in (named, older, None)]
    assert found == [Entry(5, 2**64 - 1), None, None]
    # Rows of the prepared data set are compared with its manifest.
    one.frame = None
    assert one._rows_before(SimpleNamespace(checkpoint=named)) is None


@pytest.mark.parametrize("problem", [InputError("checkpoint.json: cannot be read"), RunError("HDFS has failed")])
def test_why_a_node_failed_is_told_where_there_is_no_restart(tmp_path, monkeypatch, problem):
    def fail(*_: object) -> None:
        raise NodeFailed("node 1 on host7 was killed (SIGKILL)", 1)

    def away(*_: object) -> None:
        raise problem

    monkeypatch.setattr(run_module, "threads", lambda *_: 1)
    monkeypatch.setattr(run_module, "checkpoint_of", away)
    monkeypatch.setattr(Run, "_nodes", fail)
    output = Output(str(tmp_path / "run"), "hash", "train")
    config = parse(TrainConfig, {"data": "d", "output": "o", "nodes": 2, "strategy": "batch", "max_restarts": 1})
    expected = rf"^node 1 on host7 was killed \(SIGKILL\); it cannot be restarted: {problem}$"
    with output.claimed(), pytest.raises(NodeFailed, match=expected) as caught:
        output.begin()
        Run(None, RunInputs(config, SimpleNamespace(paths=["d"], path="d"), {}, BATCH), output, None, 0.0).to_end(None)
    assert exit_status(caught.value) == 1 and caught.value.rank == 1


def test_a_driver_that_sees_its_lease_taken_over_ends_the_run(tmp_path):
    first, successor = (Output(str(tmp_path / "run"), "hash", "train") for _ in range(2))
    with first.claimed():
        first.begin()
        one = Run(None, SimpleNamespace(strategy=BATCH), first, None, 0.0)
        one._meanwhile(None)
        seize(successor.lease)
        first.lease.lost.set()
        with pytest.raises(RunError, match="another run has taken over this output; this one ends: train on"):
            one._meanwhile(None)


def attempts_of(tmp_path, monkeypatch, failures, reached=lambda attempt: 7, told=None, **keys):
    """(how often nodes were started, the pauses, what ended the run) where attempts fail with `failures`, each after
    this many seconds, and then go well. reached: the last checkpoint's number after that many attempts. told: gets the
    attempts as they are kept in the end."""
    clock, started, pauses = [0.0], [], []
    monkeypatch.setattr(run_module, "threads", lambda *_: 1)
    monkeypatch.setattr(run_module, "checkpoint_of", lambda *_: f"checkpoints/update-{reached(len(started)):09d}")
    for module in (run_module, restarts):
        monkeypatch.setattr(
            module, "time", SimpleNamespace(monotonic=lambda: clock[0], time=lambda: clock[0], sleep=pauses.append)
        )

    monkeypatch.setattr(InSession, "sleep", lambda _, seconds: pauses.append(seconds))

    def attempt(_, payload):
        started.append(payload.checkpoint)
        if len(started) > len(failures):
            return "results"
        seconds, error = failures[len(started) - 1]
        clock[0] += seconds
        raise error

    monkeypatch.setattr(Run, "_nodes", attempt)
    output = Output(str(tmp_path / "run"), "hash", "train")
    config = parse(TrainConfig, {"data": "d", "output": "o", "nodes": 2, "strategy": "batch", **keys})
    with output.claimed():
        output.begin()
        one = Run(None, RunInputs(config, SimpleNamespace(paths=["d"], path="d"), {}, BATCH), output, None, 0.0)
        try:
            ended = one._train(None)
        except RunError as error:
            ended = error
            one._note_end(error)
        if told is not None:
            told += attempts.noted(output.folder).story
    return started, pauses, ended


LOST = NodeFailed("node 1 on host7 was killed (SIGKILL)", 1)


def test_a_lost_node_is_replaced_three_times_in_a_row_with_growing_pauses(tmp_path, monkeypatch):
    started, pauses, ended = attempts_of(tmp_path, monkeypatch, [(1, LOST)] * 3)
    assert started == [None, *["checkpoints/update-000000007"] * 3]
    assert pauses == [0, 4, 19]
    assert ended == "results"
    started, pauses, ended = attempts_of(tmp_path / "more", monkeypatch, [(1, LOST)] * 4)
    assert len(started) == 4 and ended is LOST


def test_ten_quiet_minutes_begin_the_count_anew(tmp_path, monkeypatch):
    started, pauses, ended = attempts_of(tmp_path, monkeypatch, [(601, LOST)] * 9, reached=lambda attempt: attempt)
    assert len(started) == 10 and set(pauses) == {0} and ended == "results"


def test_what_comes_again_where_it_came_before_ends_the_run_however_long_it_takes(tmp_path, monkeypatch):
    """A hang in a phase is noticed after half an hour, each time."""
    started, pauses, ended = attempts_of(tmp_path, monkeypatch, [(1900, LOST)] * 9)
    assert len(started) == 4 and pauses == [0, 0, 0] and ended is LOST
    started, _, ended = attempts_of(tmp_path / "none", monkeypatch, [(1900, LOST)], max_restarts=0)
    assert started == [None] and ended is LOST


def test_a_restart_that_fails_still_tells_what_it_was_for(tmp_path, monkeypatch):
    too_few = RunError("nodes: 3 executors are needed, and Spark has 2 after 120 s")
    _, _, ended = attempts_of(tmp_path, monkeypatch, [(1, LOST), (120, too_few)])
    assert str(ended) == f"{LOST}; the restart failed: {too_few}"
    _, _, ended = attempts_of(tmp_path / "first", monkeypatch, [(120, too_few)])
    assert ended is too_few


def test_what_ends_a_run_that_had_been_restarted_well_is_not_the_restart(tmp_path, monkeypatch):
    """Another run takes its output over, say."""

    class Started:
        def __init__(self, *_, **keys):
            pass

        __enter__ = start = lambda self, *_: self
        __exit__ = lambda self, *_: None  # noqa: E731

        def run(self, meanwhile):
            raise taken

    taken = RunError("run: another run has taken over this output; this one ends")
    monkeypatch.setattr(cluster, "NodeCluster", Started)
    rows = SimpleNamespace(rows=1, checksum=1)
    data = SimpleNamespace(paths=["d"], path="d", manifest=SimpleNamespace(splits={"train": rows}))
    config = parse(TrainConfig, {"data": "d", "output": "o", "nodes": 2, "strategy": "batch"})
    strategy = SimpleNamespace(split=SimpleNamespace(every_row=False))
    one = Run(None, RunInputs(config, data, {}, strategy), None, None, 0.0, failed=LOST)
    with pytest.raises(RunError) as caught:
        one._nodes(SimpleNamespace(to_json=dict))
    assert caught.value is taken and one.failed is None


def test_nodes_that_do_not_start_may_do_so_later_once_others_have_been_lost(tmp_path, monkeypatch):
    late = NotStarted("0 of 2 nodes have registered within 120 s")
    started, _, ended = attempts_of(tmp_path, monkeypatch, [(1, LOST), (120, late)])
    assert len(started) == 3 and ended == "results"
    late = NotStarted("0 of 2 nodes have registered within 120 s")
    started, _, ended = attempts_of(tmp_path / "first", monkeypatch, [(120, late)])
    assert len(started) == 1 and ended is late


def test_a_node_that_hangs_before_it_has_called_is_started_again_in_the_first_attempt_too(tmp_path, monkeypatch):
    late = NotStarted("node 1 on host7 did not start within 120 s", 1)
    started, _, ended = attempts_of(tmp_path, monkeypatch, [(120, late)])
    assert len(started) == 2 and ended == "results"


def test_what_would_fail_again_is_not_tried_again(tmp_path, monkeypatch):
    own = NodeFailed("node 0 on host7: ValueError: x", 0, may_pass=False)
    started, _, ended = attempts_of(tmp_path, monkeypatch, [(1, own)])
    assert started == [None] and ended is own
    started, _, ended = attempts_of(tmp_path / "none", monkeypatch, [(1, LOST)], max_restarts=0)
    assert started == [None] and ended is LOST


def test_an_hdfs_that_is_away_for_the_driver_is_waited_out_too(tmp_path, monkeypatch):
    """Before the nodes are started, and where the last checkpoint is to be looked at."""
    away = Passing("hdfs://n/run: HDFS has failed for 120 s")
    looks = []

    def checkpoint(attempt):
        looks.append(attempt)
        if len(looks) == 1:
            raise away
        return 7

    started, pauses, ended = attempts_of(tmp_path, monkeypatch, [(1, LOST)], reached=checkpoint)
    assert len(started) == 2 and pauses == [0, 0] and ended == "results"
    started, pauses, ended = attempts_of(tmp_path / "nodes", monkeypatch, [(1, away)])
    assert len(started) == 2 and ended == "results"
    _, _, ended = attempts_of(tmp_path / "more", monkeypatch, [(1, away)] * 4)
    assert ended is away

    def never(_):
        raise away

    _, pauses, ended = attempts_of(tmp_path / "never", monkeypatch, [(1, LOST)], reached=never)
    assert pauses == [0, 5, 20] and str(ended) == f"{LOST}; it cannot be restarted: {away}"


def test_an_hdfs_that_is_away_after_ten_quiet_minutes_does_not_end_the_run(tmp_path, monkeypatch):
    """It takes both the nodes and the driver, after three failures that were long ago."""
    away, looks = Passing("hdfs://n/run: HDFS has failed for 120 s"), []

    def checkpoint(attempt):
        looks.append(attempt)
        if attempt == 4 and looks.count(4) <= 3:
            raise away
        return attempt

    failures = [(1, LOST)] * 3 + [(3600, away)]
    started, pauses, ended = attempts_of(tmp_path, monkeypatch, failures, reached=checkpoint)
    assert len(started) == 5 and ended == "results"
    assert pauses == [0, 4, 19, *(0, 5, 20), 0]


def test_the_attempts_are_told_with_what_ended_them(tmp_path, monkeypatch):
    told = []
    lost = NodeFailed("node 1 on host7 was killed (SIGKILL)", 1, host="host7")
    attempts_of(
        tmp_path, monkeypatch, [(12.5, lost), (1, Passing("a full disk")), (3, lost)], told=told, max_restarts=2
    )
    assert [(each.how, each.nodes, each.update, each.seconds) for each in told] == [
        ("start", 2, 0, 12.5),
        ("restart", 2, 7, 1.0),
        ("restart", 2, 7, 3.0),
    ]
    assert [(each.cause.what, each.cause.rank, each.cause.host) for each in told] == [
        (str(lost), 1, "host7"),
        ("a full disk", None, None),
        (str(lost), 1, "host7"),
    ]
    assert all(each.begun <= each.ended and each.ended.endswith("Z") for each in told)


def test_the_attempts_are_kept_where_the_end_cannot_be_published(tmp_path, monkeypatch):
    """The next command tells them."""

    def away():
        raise Passing("hdfs://n/run/_SUCCESS: HDFS has failed for 120 s")

    output = Output(str(tmp_path / "run"), "hash", "train")
    record = SimpleNamespace(write=lambda fence: None, ledger=SimpleNamespace(exact=True))
    monkeypatch.setattr(run_module.report, "record", lambda *_: record)
    monkeypatch.setattr(run_module, "threads", lambda *_: 1)
    monkeypatch.setattr(
        Run,
        "_nodes",
        lambda *_: SimpleNamespace(
            results=[SimpleNamespace(test=None, with_rounds=lambda rounds: None)], trained_on=None, launched=0.0
        ),
    )
    monkeypatch.setattr(run_module, "read_history", lambda folder: [])
    monkeypatch.setattr(output, "complete", away)
    config = parse(TrainConfig, {"data": "d", "output": "o", "nodes": 2, "strategy": "batch"})
    spark = SimpleNamespace(sparkContext=SimpleNamespace(applicationId="app-1"))
    with output.claimed():
        output.begin()
        one = Run(spark, RunInputs(config, SimpleNamespace(paths=["d"], path="d"), {}, BATCH), output, None, 0.0)
        with pytest.raises(Passing, match="_SUCCESS"):
            one.to_end(None)
    assert [each.how for each in attempts.noted(output.folder).story] == ["start"]


def test_what_can_be_written_only_later_is_written_then(tmp_path, monkeypatch):
    pauses, left = [], [Passing("away")] * 2
    replaced(monkeypatch, restarts, "time", sleep=pauses.append)

    def write():
        if left:
            raise left.pop()
        return "written"

    assert restarts.waited_out(write, 3) == "written" and pauses == [0, 5]
    left += [Passing("away")] * 2
    with pytest.raises(Passing, match="away"):
        restarts.waited_out(write, 1)
