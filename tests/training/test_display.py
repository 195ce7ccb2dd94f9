"""What a user sees while nodes train, from their heartbeats alone."""

import pytest

from sparksplit.base import progress
from sparksplit.training import display as shown
from sparksplit.training.display import RunDisplay
from tests.logs import without_times
from tests.replaced import replaced
from tests.training.records import EPOCH


@pytest.fixture(autouse=True)
def now(monkeypatch):
    """[a time]: of a clock that stands still where a test does not move it."""
    now = [100.0]
    for module in (progress, shown):
        replaced(monkeypatch, module, "time", monotonic=lambda: now[0])
    return now


def record(epoch, **more):
    """Of a heartbeat's history."""
    return {
        **EPOCH,
        "epoch": epoch,
        "train": {"loss": 1 / epoch},
        "validation": None,
        "rows_per_second": 1000.0,
        **more,
    }


def beat(epochs, **more):
    """A heartbeat after so many epochs."""
    history = [record(epoch) for epoch in range(1, epochs + 1)]
    return {"steps": 40, "update": 10 * epochs, "epochs": 4, "history": history, **more}


def lines(capsys):
    return without_times(capsys.readouterr().err).splitlines()


def test_what_callbacks_print_is_shown_once(capsys):
    with RunDisplay(1) as display:
        display.state(0, {"printed": [1, ["one"]]})
        display.state(0, {"printed": [1, ["one"]], "steps": 40})
        display.state(0, beat(1, printed=[3, ["one", "two", "three"]]))
        display.state(0, beat(1, printed=[9, ["eight", "nine"]], traceback="File mine.py\nKeyError: 'rate'\n"))
        display.state(0, beat(1, printed=[9, ["eight", "nine"]], traceback="File mine.py\nKeyError: 'rate'\n"))
    shown = [line for line in lines(capsys) if not line.startswith(("epoch", "training"))]
    left_out = "... 4 lines of callbacks are left out here; the log of node 0 has them"
    assert shown == ["one", "two", "three", left_out, "eight", "nine", "File mine.py", "KeyError: 'rate'"]


def test_prints_that_stderr_shows_anyway_are_not_repeated(capsys):
    with RunDisplay(1, prints=False) as display:
        display.state(0, {"printed": [1, ["one"]], "traceback": "KeyError: 'rate'"})
    assert lines(capsys) == ["KeyError: 'rate'"]


def test_each_epoch_has_one_line_over_all_attempts(capsys):
    """The second attempt begins at an earlier checkpoint, and reports the epochs before it, too."""
    said = []
    with pytest.raises(OSError), RunDisplay(1, 0, said.append) as display:
        display.state(0, beat(1))
        display.state(0, beat(2))
        raise OSError
    with RunDisplay(1, said[-1].epoch, said.append) as display:
        display.state(0, beat(1))
        display.state(0, beat(3))
    assert [record.epoch for record in said] == [1, 2, 3]
    assert [line for line in lines(capsys) if line.startswith("epoch")] == [
        "epoch 1/4: train loss 1.0000, 1,000 rows/s",
        "epoch 2/4: train loss 0.5000, 1,000 rows/s",
        "epoch 3/4: train loss 0.3333, 1,000 rows/s",
    ]


def test_a_run_that_stops_early_is_whole(capsys):
    with RunDisplay(1) as display:
        display.state(0, beat(2))
        display.state(0, {**beat(2), "steps": 20})
    assert lines(capsys)[-1].startswith("training: 100 %, 20 of 20 steps")


@pytest.mark.parametrize("failing", [OSError, KeyboardInterrupt])
def test_what_fails_is_not_done(capsys, failing):
    with pytest.raises(failing), RunDisplay(1) as display:
        display.state(0, beat(2))
        raise failing
    assert lines(capsys)[-1] == "training: 50 %, 20 of 40 steps, 0 s, stopped"


def test_a_start_of_a_minute_is_not_silent(capsys, now):
    """Nodes that have called and do not train yet; docs/operations.md: a minute without a line needs a look."""
    with RunDisplay(2) as display:
        for second in range(2, 26, 2):
            now[0] = 100.0 + second
            display.state(second % 4 // 2, {"phase": "start"})
        for second in range(26, 36, 2):
            now[0] = 100.0 + second
            display.state(0, {"phase": "feeding"})
    assert lines(capsys) == [
        "the nodes load TensorFlow and the data, 10 s",
        "the nodes load TensorFlow and the data, 20 s",
        "the nodes wait for rows from Spark, 30 s",
    ]


@pytest.mark.parametrize("failing", [OSError, KeyboardInterrupt])
def test_feeding_that_fails_is_neither_done_nor_whole(capsys, failing):
    """A task that Spark repeats sends its rows again: only training's begin says that all are there."""
    with pytest.raises(failing), RunDisplay(2) as display:
        display.rows_to_feed = 1000
        display.state(0, {"fed": 700})
        display.state(1, {"fed": 900})
        raise failing
    assert lines(capsys) == ["feeding: 99 %, 999 of 1,000 rows, 0 s, stopped"]


def test_feeding_ends_where_training_begins(capsys):
    with RunDisplay(1) as display:
        display.rows_to_feed = 1000
        display.state(0, {"fed": 400})
        display.state(0, beat(0))
        display.state(0, beat(4))
    assert [line for line in lines(capsys) if "epoch" not in line.split(":")[0]] == [
        "feeding: 100 %, 1,000 of 1,000 rows, 0 s, done",
        "training: 100 %, 40 of 40 steps, 0 s, done",
    ]


def test_a_value_that_is_no_finite_number_is_named_with_its_epoch(capsys):
    values = {"train": {"loss": 0.5, "auc": None}, "validation": {"loss": None}, "rows_per_second": None}
    with RunDisplay(1) as display:
        display.state(0, beat(0, history=[record(1) | values]))
    assert lines(capsys)[0] == (
        "epoch 1/4: train loss 0.5000 auc not finite validation loss not finite; "
        "train auc, validation loss: null in metrics.jsonl and run.json"
    )


def test_the_line_of_a_thousand_nodes_is_short_and_not_made_at_each_beat(now, monkeypatch):
    looks = []
    text = RunDisplay._text
    monkeypatch.setattr(RunDisplay, "_text", lambda self: looks.append(text(self)) or looks[-1])
    with RunDisplay(1000) as display:
        for second in range(6):
            for rank in range(1000):
                now[0] += 0.002
                wait = 0.01 if rank == 417 else 0.5 if rank == 3 else 0.25
                told = {"rows": 100 * second, "sync_seconds": wait * 2 * second, "at": 7.0 + rank + 2 * second}
                display.state(rank, beat(0) | {"epoch": 0} | told)
    assert len(looks) < 40
    assert looks[-1] == (
        "epoch 1/4, 50,000 rows/s, per node, with time in exchanges: "
        "least 417: 50 rows/s, 1%; median 501: 50 rows/s, 25%; most 3: 50 rows/s, 50%"
    )


def test_the_time_in_exchanges_is_counted_by_the_nodes_clock(now, monkeypatch):
    """Beats come late, and then together: by the driver's clock a node would spend 190 % of its time in exchanges."""
    looks = []
    text = RunDisplay._text
    monkeypatch.setattr(RunDisplay, "_text", lambda self: looks.append(text(self)) or looks[-1])
    with RunDisplay(2) as display:
        for second, late in enumerate((0.0, 1.0, 0.0)):
            now[0] = 100.0 + 2 * second + late
            for rank in range(2):
                told = {"rows": 100 * second, "sync_seconds": 1.9 * second, "at": 50.0 + 2 * second}
                display.state(rank, beat(0) | {"epoch": 0} | told)
    assert looks[-1] == (
        "epoch 1/4, 100 rows/s, per node, with time in exchanges: 0: 50 rows/s, 95%; 1: 50 rows/s, 95%"
    )
