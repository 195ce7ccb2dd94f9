"""What a command does with a run that an earlier one has left unfinished, and what is said when one ends so."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

from hdfs_io.lease import Lease
from hdfs_io.publish import Output
from sparksplit.base.config import parse
from sparksplit.base.errors import InputError, OutputInUse, RunError, UsageError, exit_status
from sparksplit.base.options import Options
from sparksplit.dataset.arrays import from_arrays
from sparksplit.training import checkpoints
from sparksplit.training import run as run_module
from sparksplit.training import train as train_module
from sparksplit.training.inputs import RunInputs, open_data
from sparksplit.training.progress_record import Progress
from sparksplit.training.recovery import attempts
from sparksplit.training.recovery.going_on import Reached, going_on, told_how
from sparksplit.training.run import Run
from sparksplit.training.spent import advice
from sparksplit.training.train import train
from sparksplit.training.train_config import TrainConfig
from tests.training.records import RUN_JSON, run_record

DECIDED = {
    "the same command": ({}, {}, "resume"),
    "the same command, that overwrites": ({}, {"overwrite": True}, "resume"),
    "keys that change no result": ({"readers": 2, "max_restarts": 0}, {}, "resume"),
    "anew": ({}, {"restart": True}, "fresh"),
    "another configuration, anew": ({"epochs": 5}, {"restart": True}, "fresh"),
    "another configuration, that overwrites": ({"epochs": 5}, {"overwrite": True}, "fresh"),
    "other nodes, asked for": ({"nodes": 3}, {"resume": True}, "resume"),
    "virtual nodes, asked for": ({"nodes": {"virtual": 2}}, {"resume": True}, "resume"),
    "the same, asked for": ({}, {"resume": True}, "resume"),
}
LOST = "--restart starts from the beginning, without its checkpoints"
BACK = f"with the old configuration and content the command goes on from the last checkpoint; {LOST}"
REFUSED = {
    "another configuration": (
        {"epochs": 5, "optimizer": {"learning_rate": 0.5}},
        {},
        f"with another configuration (optimizer.learning_rate was 0.01, is 0.5; epochs was 4, is 5); {BACK}",
    ),
    "another configuration, to be resumed": (
        {"epochs": 5},
        {"resume": True},
        f"with another configuration (epochs was 4, is 5); {BACK}",
    ),
    "other nodes": (
        {"nodes": 3},
        {},
        "with another configuration (nodes was 2, is 3); --resume goes on with it on the new number of nodes; " + LOST,
    ),
    "other data": ({"data": "other"}, {}, f"with another configuration (data has changed); {BACK}"),
    "another file": (
        {"transform": "mine.py:f"},
        {},
        f"with another configuration (transform was null, is mine.py:f; transform's file has changed); {BACK}",
    ),
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    folder = tmp_path_factory.mktemp("prepared")
    x = np.arange(60, dtype=np.uint8).reshape(30, 2)
    for name, rows in (("data", x), ("other", x + 1)):
        from_arrays(f"{folder}/{name}", {"train": (rows, x[:, 0] % 2)}, lanes=4, classes=2)
    return folder


@pytest.fixture(autouse=True)
def place(prepared, tmp_path, monkeypatch):
    """The working directory of the commands."""
    monkeypatch.chdir(tmp_path)
    for name in ("data", "other"):
        (tmp_path / name).symlink_to(prepared / name)
    (tmp_path / "mine.py").write_text("def f(*given):\n    return given\n")


def given(frame=False, **keys):
    values = {"data": "data", "output": "run", "strategy": "local", "nodes": 2, "epochs": 4, **keys}
    config = parse(TrainConfig, {**values, **({"input_mode": "spark"} if frame else {})})
    inputs = RunInputs.of(config, open_data(config), frame)
    return inputs, Output(config.output, inputs.hash(), "train", inputs.paths, keys=inputs.keys)


def write(output, number, step):
    whole = [Progress("hash", 2, number, step), {}, {}, 0, lambda _, value: [value], 3]
    checkpoints.write(output.fence, *whole)


def leave(checkpoint=7, **keys):
    """A run that was interrupted."""
    _, output = given(**keys)
    with output.claimed():
        output.begin()
        if checkpoint:
            write(output, checkpoint, checkpoint)


def decided(frame=False, options=None, **keys):
    inputs, output = given(frame, **keys)
    asked = Options(**(options or {}))
    return output.decide(asked.overwrite, going_on(output, inputs, asked))


@pytest.mark.parametrize("name", DECIDED)
def test_what_is_gone_on_with(name):
    leave()
    changes, options, expected = DECIDED[name]
    assert decided(options=options, **changes) == expected


@pytest.mark.parametrize("name", REFUSED)
def test_checkpoints_of_another_configuration_are_not_lost_silently(name):
    leave()
    changes, options, expected = REFUSED[name]
    with pytest.raises(UsageError) as caught:
        decided(options=options, **changes)
    assert str(caught.value).endswith(f"/run: is unfinished, {expected}") and exit_status(caught.value) == 2


def test_without_a_checkpoint_nothing_is_lost():
    leave(checkpoint=None)
    assert decided(epochs=5) == "fresh" and decided() == "resume"


@pytest.mark.parametrize("options", [{}, {"resume": True}])
def test_what_another_command_still_fills_is_in_use_whatever_its_configuration(options):
    """A scheduler tries that again; and nobody is told to remove its checkpoints."""
    _, running = given()
    with running.claimed():
        running.begin()
        write(running, 7, 7)
        with pytest.raises(OutputInUse, match="is being written by train on"):
            decided(options=options, epochs=5)
    with pytest.raises(UsageError, match="is unfinished, with another configuration"):
        decided(options=options, epochs=5)


def test_a_checkpoint_that_comes_before_the_other_command_ends_is_not_lost(monkeypatch):
    leave(checkpoint=None)
    monkeypatch.setattr(Lease, "await_free", lambda self: leave())
    with pytest.raises(UsageError, match=LOST):
        decided(epochs=5)


def test_whether_a_data_frame_has_the_same_rows_is_for_the_user_to_say():
    leave(frame=True)
    expected = f"is unfinished; if it began with the same rows, --resume goes on with it; {LOST}"
    with pytest.raises(UsageError, match=expected):
        decided(frame=True)
    assert decided(frame=True, options={"resume": True}) == "resume"
    assert decided(frame=True, options={"restart": True}) == "fresh"
    with pytest.raises(UsageError, match=r"with another configuration \(the rows' DataFrame was true, is null"):
        decided(input_mode="spark")


WHOLE = "the last checkpoint is {}; the same command goes on from it"
AFTER = "the last checkpoint is {}, and at least 1,200 updates after it are lost; the same command goes on from it"
ENDS = {
    "at its last checkpoint": (7, Reached(7), [WHOLE]),
    "after it": (7, Reached(1207), [AFTER]),
    "after it, by the steps of as many nodes": (7, Reached(1207, 2), [AFTER]),
    "after it, by the steps of other nodes": (7, Reached(1207, 3), [WHOLE]),
    "before the first": (
        None,
        Reached(30, 3),
        ["there is no checkpoint yet: at least 30 updates are lost; the same command starts from the beginning"],
    ),
    "before the first update": (
        None,
        Reached(),
        ["there is no checkpoint yet; the same command starts from the beginning"],
    ),
}


@pytest.mark.parametrize("error", [RunError("a node's"), KeyboardInterrupt()])
@pytest.mark.parametrize("name", ENDS)
def test_what_is_lost_is_said(monkeypatch, name, error):
    said = []
    monkeypatch.setattr("sparksplit.training.recovery.going_on.say", said.append)
    number, reached, expected = ENDS[name]
    _, output = given()
    with pytest.raises(type(error)), output.claimed(), told_how(output, lambda: reached):
        output.begin()
        if number:
            write(output, number, number)
        raise error
    assert said == [line.format(checkpoints.latest(output.folder)) for line in expected]


@pytest.mark.parametrize("number", [None, 7])
def test_a_finished_run_that_was_not_replaced_yet_is_said_to_be_unchanged(monkeypatch, number):
    said = []
    monkeypatch.setattr("sparksplit.training.recovery.going_on.say", said.append)
    _, output = given()
    with output.claimed():
        output.begin()
        output.complete()
    _, output = given(epochs=5)
    with pytest.raises(RunError), output.claimed(overwrite=True, going_on=set()), told_how(output):
        output.begin()
        if number:
            write(output, number, number)
        raise RunError("a node's")
    assert said[0].endswith(f"; the finished run in {output.path} is unchanged") and said[0].count("unchanged") == 1


def test_a_finished_run_of_another_configuration_can_be_trained_on():
    inputs, output = given()
    with output.claimed():
        output.begin()
        output.complete()
    config = inputs.config.model_copy(update={"epochs": 5})
    expected = r"was 4, is 5\); --overwrite replaces it; to train on from its weights, set init=run and another output$"
    with pytest.raises(UsageError, match=expected):
        train(config, Options())


@pytest.mark.parametrize("marked", [True, False], ids=["complete", "killed before its marker"])
def test_where_nothing_was_left_to_do_there_is_no_advice(monkeypatch, marked):
    """run.json is of the run that was made earlier, and its time in starting would be worth a line."""
    said = []
    monkeypatch.setattr(train_module, "say", said.append)
    record = run_record(seconds={**RUN_JSON["seconds"], "start": 400.0, "total": 500.0})
    assert advice(record.seconds, on_cluster=True) is not None
    inputs, output = given()
    with output.claimed():
        output.begin()
        output.fence.write_json(f"{output.folder}/run.json", record.to_json())
        if marked:
            output.complete()
    monkeypatch.setattr("sparksplit.training.recovery.finished.is_whole", lambda *_: True)
    assert train(inputs.config, Options()) == record
    told = "is up to date: it was made from" if marked else ": the last command was killed before it wrote the marker"
    assert len(said) == 1 and told in said[0]


def test_of_the_users_mistake_nothing_is_said(monkeypatch):
    said = []
    monkeypatch.setattr("sparksplit.training.recovery.going_on.say", said.append)
    _, output = given()
    with pytest.raises(InputError), output.claimed(), told_how(output):
        output.begin()
        raise InputError("the model's")
    assert said == []


def test_the_wait_for_another_calls_session_is_no_part_of_its_seconds(monkeypatch):
    """Calls in several threads of a program take turns."""
    clock = [50.0]

    @contextmanager
    def session(*_, nodes, waited):
        clock[0] += 1000
        waited(1000.0)
        clock[0] += 3
        yield SimpleNamespace(sparkContext=SimpleNamespace(applicationId="app-1", master="local-cluster[2,1,1024]"))

    def failing(self, checkpoint):
        clock[0] += 4
        raise RunError("a node's")

    monkeypatch.setattr(train_module, "spark_session", session)
    for module in (run_module, train_module):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(Run, "_train", failing)
    inputs, output = given()
    with pytest.raises(RunError, match="a node's"):
        train(inputs.config, Options())
    assert attempts.noted(output.path).seconds == 7.0
