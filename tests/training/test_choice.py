"""The choice of `strategy: auto`: the rule, the record, and when the driver makes it. Without Spark or TensorFlow."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hdfs_io.publish import Output
from sparksplit.base.config import parse
from sparksplit.base.errors import ConfigError, InputError, NodeFailed, NotStarted, Passing, RunError
from sparksplit.base.options import Options
from sparksplit.cluster import requirements
from sparksplit.dataset.arrays import from_arrays
from sparksplit.strategies import STRATEGIES
from sparksplit.training import choice as choices
from sparksplit.training import in_session
from sparksplit.training import run as run_module
from sparksplit.training import train as train_module
from sparksplit.training.choice import LEAST, Choice, between, last_worth
from sparksplit.training.decided import Choosing, decided
from sparksplit.training.inputs import RunInputs
from sparksplit.training.recovery import attempts
from sparksplit.training.run import Run
from sparksplit.training.train_config import TrainConfig
from tests.hdfs_io.outputs import fenced
from tests.replaced import replaced

TIMES = st.dictionaries(st.integers(2, 64), st.floats(1e-6, 1e3), max_size=7)


@pytest.mark.parametrize(
    ("times", "worth"),
    [
        ([10, 5, 4, 3.9, 3.85], 3),
        ([10, 9.6], 1),
        ([10, 12, 13], 1),
        ([10, 10, 10, 5], 4),
        ([10, 10, 10, 9.5], 1),
        ([10], 1),
    ],
)
def test_further_nodes_pay_while_each_saves_a_twentieth(times, worth):
    assert last_worth(dict(enumerate(times, 1))) == worth


@given(st.floats(1e-6, 1e3), TIMES)
def test_the_chosen_nodes_save_enough_and_no_more_nodes_do(one, others):
    times = {1: one, **others}
    chosen = last_worth(times)
    assert times[chosen] <= one * (1 - LEAST) ** (chosen - 1) * (1 + 1e-9)
    further = [nodes for nodes in times if nodes > chosen]
    assert all(times[nodes] > times[chosen] * (1 - LEAST) ** (nodes - chosen) for nodes in further)


@given(st.integers(2, 70))
def test_powers_of_two_are_between_one_node_and_all(size):
    assert between(size) == sorted((power for power in (2, 4, 8, 16, 32, 64) if power < size), reverse=True)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        ({1: 1.0, 2: 0.97}, "auto: 1 node; a second one would save less than 5 %"),
        ({1: 1.0, 4: 0.9, 2: 0.97}, "auto: 1 node; each further one would save less than 5 %"),
        ({1: 2.9, 4: 1.0, 2: 1.6}, "auto: batch on 4 nodes, 2.9 times as fast as 1"),
        (
            {1: 2.0, 4: 0.99, 2: 1.0},
            "auto: batch on 2 nodes, 2.0 times as fast as 1; each further one would save less than 5 %",
        ),
        (
            {1: 9.0, 8: 9.0},
            "auto: 1 node; only 1 and 8 nodes were measured, because more would take too long",
        ),
        (
            {1: 9.0, 8: 3.0, 4: 4.0},
            "auto: batch on 8 nodes, 3.0 times as fast as 1; only 1 and 4 and 8 nodes were measured, because more "
            "would take too long",
        ),
    ],
)
def test_a_line_says_what_was_chosen_and_why(seconds, said):
    assert Choice.of({str(nodes): value for nodes, value in seconds.items()}).told() == said


def test_the_record_is_read_back_unless_it_is_damaged(tmp_path):
    assert choices.noted(str(tmp_path)) is None, "no earlier command has chosen"
    choice = Choice(4, {"1": 2.0, "4": 0.5})
    with fenced(tmp_path) as run:
        choices.note(run, choice)
    assert choices.noted(str(tmp_path)) == choice
    for damaged in ("{", '{"nodes": 0, "seconds": {}}', '{"nodes": 2, "seconds": {"1": 1.0, "two": 0.5}}',
                    '{"nodes": 2, "seconds": {"1": 1.0, "2": 0.0}}', '{"nodes": 2}'):  # fmt: skip
        (tmp_path / "_CHOICE").write_text(damaged)
        with pytest.raises(InputError, match="_CHOICE"):
            choices.noted(str(tmp_path))


NO_MORE = "as there are no more; an earlier command chose 4; --restart chooses again"
BY_EARLIER = "(chosen by an earlier command; --restart chooses again)"
OF_FOUR = {"1": 2.0, "4": 0.5, "2": 1.0}


@pytest.mark.parametrize(
    ("choice", "most", "said"),
    [
        (Choice(4, OF_FOUR), 4, f"batch on 4 nodes, 4.0 times as fast as 1 {BY_EARLIER}"),
        (Choice(4, OF_FOUR), 8, f"batch on 4 nodes, 4.0 times as fast as 1 {BY_EARLIER}"),
        (Choice(4, OF_FOUR), 3, f"batch on 3 nodes, {NO_MORE}"),
        (Choice(4, OF_FOUR), 1, f"1 node, {NO_MORE}"),
        (Choice(1, {"1": 2.0, "2": 2.0}), 2, f"1 node; a second one would save less than 5 % {BY_EARLIER}"),
        (Choice(3, OF_FOUR), 4, f"batch on 3 nodes; each further one would save less than 5 % {BY_EARLIER}"),
        (Choice(3, {}), 4, f"batch on all 3 nodes; nodes failed while they measured {BY_EARLIER}"),
    ],
)
def test_a_later_command_says_the_choice_again(choice, most, said):
    assert choice.told_again(most) == f"auto: {said}"


def unfinished(folder, file, is_trained):
    """The folder of an unfinished run. file: the text of its choice. is_trained: whether it has a checkpoint."""
    if file is not None:
        (folder / "_CHOICE").write_text(file)
    if is_trained:
        (folder / "checkpoints" / "update-000000008").mkdir(parents=True)
    return str(folder)


@pytest.mark.parametrize("is_trained", [False, True])
def test_a_damaged_choice_is_no_reason_to_train_otherwise(tmp_path, is_trained):
    """The checkpoints may be those of a comparison's strategy."""
    config = parse(TrainConfig, {"data": "d", "output": "o", "nodes": 3, "strategy": "auto"})
    inputs = RunInputs(config, SimpleNamespace(), {}, STRATEGIES["auto"])
    run = unfinished(tmp_path, "{", is_trained)
    if not is_trained:
        assert decided(inputs, run, None) == (inputs, None)
        return
    with pytest.raises(InputError, match=r"_CHOICE: .*; --restart chooses again, and starts from the beginning"):
        decided(inputs, run, None)


def test_a_comparisons_nodes_need_executors(tmp_path):
    """The run has begun on a cluster. The command that continues it has a session without executors."""
    config = parse(TrainConfig, {"data": "d", "output": "o", "nodes": 1, "strategy": "auto"})
    inputs = RunInputs(config, SimpleNamespace(), {}, STRATEGIES["auto"])
    run = unfinished(tmp_path, json.dumps(Choice(2, {}, {"strategy": "local"}).to_json()), True)
    with pytest.raises(ConfigError, match=r"^strategy: an earlier command began on 2 nodes.*; --restart begins anew"):
        decided(inputs, run, None, on_executors=False)


@pytest.mark.parametrize("is_trained", [False, True])
def test_no_comparison_is_followed_from_another_trainings_checkpoint(tmp_path, capsys, is_trained):
    """The run has begun with `nodes: 1`, which chooses nothing."""
    values = {"data": "d", "output": "o", "nodes": 3, "strategy": "auto", "comparison": "mine"}
    inputs = RunInputs(parse(TrainConfig, values), SimpleNamespace(), {}, STRATEGIES["auto"])
    run, choice = unfinished(tmp_path, None, is_trained), Choice(3, {})
    assert decided(inputs, run, lambda _: choice) == (inputs, None if is_trained else choice)
    line = "auto: mine is not followed, because an earlier command began without it; --restart follows it"
    assert (line in capsys.readouterr().err) == is_trained


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Makes a run of `auto` on 3 nodes, whose attempts call a function. choice: as a resume has read it."""
    output = Output(str(tmp_path / "run"), "hash", "train")
    monkeypatch.setattr(run_module, "threads", lambda *_: 1)
    replaced(monkeypatch, in_session, "time", sleep=lambda _: None)

    def make(attempt, choice=None, **keys):
        config = parse(TrainConfig, {"data": "d", "output": "o", "nodes": 3, "strategy": "auto", **keys})
        inputs = RunInputs(config, SimpleNamespace(paths=["d"], path="d"), {}, STRATEGIES["auto"])
        monkeypatch.setattr(Run, "_nodes", attempt)
        spark = SimpleNamespace(sparkContext=SimpleNamespace(master="yarn"))
        one = Run(spark, inputs, output, None, 0.0, choosing=Choosing.of(inputs, output, choice))
        one.display = SimpleNamespace(states=[{} for _ in range(3)], reached=0)
        return one

    with output.claimed():
        output.begin()
        yield make


class Cluster:
    """Notes what nodes are told, and whether the choice was in the run's folder by then."""

    def __init__(self, folder):
        self.told, self._file = [], Path(folder) / "_CHOICE"

    def tell(self, rank, name, value):
        self.told.append((rank, name, self._file.exists()))

    def executors(self, nodes):
        return [f"executor {rank}" for rank in range(nodes)]


def test_the_choice_is_written_down_before_the_nodes_may_train(made):
    one = made(None)
    cluster, fed = Cluster(one.output.folder), []
    one._meanwhile(cluster, lambda: fed.append(1))
    assert not (cluster.told or fed or one.choosing.choice), "the nodes still measure, and no rows are handed over"
    one.display.states[0]["step_seconds"] = {"1": 3.0, "3": 1.0, "2": 1.5}
    for _ in range(2):
        one._meanwhile(cluster, lambda: fed.append(1))
    assert cluster.told == [(rank, "chosen", True) for rank in range(3)] and len(fed) == 2
    assert (one.present, one.is_choosing) == (3, False)


def test_an_attempt_with_fewer_nodes_counts_as_no_restart(made):
    """A node that is lost while the nodes measure: they measure again. The chosen nodes train where they measured."""
    given = []

    def attempt(self, payload):
        given.append((payload.chooses, payload.config["nodes"], self.present))
        if len(given) == 1:
            raise NodeFailed("node 2 on h2: was ended by SIGKILL", 2)
        if len(given) == 2:
            self.display.states[0]["step_seconds"] = {"1": 1.0, "3": 2.0}
            self._meanwhile(Cluster(self.output.folder))
        return "results"

    one = made(attempt)
    assert one._train(None) == "results"
    assert given == [(True, 3, 3), (True, 3, 3), (False, 1, 1)] and one.restarts == 1
    assert one.choosing.executors == ["executor 0"]
    story = attempts.noted(one.output.folder).story
    assert [(each.how, each.nodes) for each in story] == [("start", 3), ("restart", 3), ("chosen", 1)]
    assert choices.noted(one.output.folder) == Choice(1, {"1": 1.0, "3": 2.0})


def test_a_run_that_goes_on_measures_nothing(made):
    given = []

    def attempt(self, payload):
        given.append((payload.chooses, payload.config["nodes"], self.present))
        if len(given) == 1:
            raise NodeFailed("node 0 on h0: was ended by SIGKILL", 0)
        return "results"

    assert made(attempt, Choice(2, {"1": 1.0, "2": 0.6, "3": 0.6}))._train(None) == "results"
    assert given == [(False, 2, 2)] * 2


MEASURING = [{}, {"measures": True, "phase": "compiling"}, {}]


def lost(**facts):
    error = NodeFailed("node 0 on h0: its executor was lost", 0, **facts)
    error.executor_host = "h0"
    return error


@pytest.mark.parametrize(
    ("error", "reason", "times"),
    [
        (lost(memory=True), None, 1),
        (lost(hangs=True), None, 1),  # perhaps for longer each time
        # Only Spark knows that YARN ended an executor for its memory.
        (lost(executor_lost=True), "Container killed by YARN for exceeding physical memory limits", 1),
        (lost(executor_lost=True), None, 2),
        (lost(), None, 2),
    ],
)
def test_where_nodes_cannot_measure_all_nodes_train(made, capsys, monkeypatch, error, reason, times):
    """A second loss may be for memory too, which is not always known."""
    monkeypatch.setattr(requirements, "why_lost", lambda *_: reason)
    given = []

    def attempt(self, payload):
        given.append((payload.chooses, self.present))
        self.display.states = MEASURING
        if len(given) <= times:
            raise error
        return "results"

    one = made(attempt, max_restarts=times - 1)
    assert one._train(None) == "results"
    assert given == [(True, 3)] * times + [(False, 3)] and one.failures == {"h0": times}
    story = attempts.noted(one.output.folder).story
    assert [each.how for each in story] == ["start", *["restart"] * (times - 1), "chosen"]
    assert one.restarts == times - 1, "to give up measuring is no restart"
    assert "auto: batch on all 3 nodes; nodes failed while they measured" in capsys.readouterr().err


def test_too_little_memory_to_measure_leaves_the_restart_for_memory(made):
    given = []

    def attempt(self, payload):
        given.append(payload.chooses)
        self.display.states = MEASURING
        if len(given) < 3:
            raise lost(memory=True)
        return "results"

    one = made(attempt, max_restarts=1)
    assert one._train(None) == "results" and one.restarts == 1
    assert given == [True, False, False]


@pytest.mark.parametrize("error", [Passing("HDFS"), lost(may_pass=False)])
def test_what_says_nothing_of_measuring_chooses_nothing(made, error):
    choosing = made(None).choosing
    assert not any(choosing.cannot_measure(error, MEASURING) for _ in range(3))


@pytest.mark.parametrize("error", [NotStarted("node 1 did not start", 1), lost(), lost(memory=True)])
def test_losses_before_measuring_do_not_count(made, error):
    """Executors may be preempted while nodes start, which says nothing of measuring."""
    choosing = made(None).choosing
    assert not any(choosing.cannot_measure(error, [{"phase": "start"}, {}]) for _ in range(3))
    found = [choosing.cannot_measure(lost(), MEASURING) for _ in range(2)]
    assert found == [False, True]


@pytest.mark.parametrize(("fails", "restarts", "ends"), [(1, 3, False), (9, 1, True), (1, 0, True)])
def test_a_choice_that_cannot_be_written_at_once_ends_no_run(made, monkeypatch, fails, restarts, ends):
    """HDFS may be away for a moment. If it stays away, the line names the failure of the node, too."""
    tried = []

    def note(run, choice):
        tried.append(choice)
        if len(tried) <= fails:
            raise Passing("HDFS is away")

    def attempt(self, payload):
        self.display.states = MEASURING
        if payload.chooses:
            raise lost(memory=True)
        return "results"

    monkeypatch.setattr("sparksplit.training.decided.note", note)
    one = made(attempt, max_restarts=restarts)
    with pytest.raises(NodeFailed, match=r"executor was lost.*HDFS is away") if ends else nullcontext():
        assert one._train(None) == "results"
    assert tried == [Choice(3, {})] * (1 + min(fails, restarts))


def test_a_comparison_chooses_once(tmp_path, monkeypatch):
    """The choice is in the folder before the nodes start. Later commands have its keys, and the hash of `auto`."""
    x = np.arange(90).reshape(-1, 1)
    from_arrays(str(tmp_path / "data"), {"train": (x, x[:, 0] % 3)}, lanes=8)
    spark = SimpleNamespace(sparkContext=SimpleNamespace(applicationId="app-1", master="local"))
    monkeypatch.setattr(train_module, "spark_session", lambda *_, **__: nullcontext(spark))
    choice, followed, began = Choice(2, {}, {"strategy": "epoch", "nodes": 2}), [], []

    def to_end(one, checkpoint):
        keys = one.inputs.config
        began.append((keys.strategy, keys.nodes, one.present, one.is_choosing, choices.noted(one.output.folder)))
        raise RunError("killed")

    monkeypatch.setattr(Run, "to_end", to_end)
    values = {"data": str(tmp_path / "data"), "output": str(tmp_path / "run"), "strategy": "auto", "nodes": 4}
    for comparison in ("compared", "extended", None):
        config = parse(TrainConfig, {**values, "comparison": comparison})
        with pytest.raises(RunError, match="killed"):
            train_module.train(config, Options(), follow=lambda inputs: followed.append(inputs) or choice)
    assert began == [("epoch", 2, 2, False, choice)] * 3 and len(followed) == 1
    mark = json.loads((tmp_path / "run" / "_CONFIG").read_text())
    assert mark["config_hash"] == followed[0].hash() and mark["keys"]["strategy"] == "auto"
