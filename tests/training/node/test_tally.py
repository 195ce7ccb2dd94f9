"""What a node counts, and what of it goes on after a checkpoint."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.collectives import Alone
from sparksplit.rows.ledger import Entry, Ledger
from sparksplit.training.node import tally
from sparksplit.training.node.tally import Clock, Tally
from sparksplit.training.progress_record import Progress
from sparksplit.training.spent import of_round, total
from tests.nodes import in_threads
from tests.replaced import replaced
from tests.training.node.stand_ins import Together


def chunk(rows, checksum=1):
    """Mini-batches of so many rows, all of which this node has."""
    return SimpleNamespace(rows=np.array(rows, np.int64), seen=Entry(sum(rows), checksum))


def clock():
    return Clock(began=0.0)


losses = st.lists(st.tuples(st.floats(0, 1e6, width=32), st.integers(1, 100)), min_size=1, max_size=12)


@given(losses, st.data())
def test_the_mean_loss_has_the_same_bits_however_rows_come_in_chunks_and_wherever_a_run_goes_on(pairs, data):
    values, rows = np.array([value for value, _ in pairs], np.float32), [count for _, count in pairs]
    whole = Tally(Progress("", 1), Alone())
    whole.add(chunk(rows), values)
    cut = data.draw(st.integers(0, len(rows)))
    parts = Tally(Progress("", 1), Alone())
    parts.add(chunk(rows[:cut]), values[:cut])
    again = Tally(Progress.from_json(parts.progress(clock(), [0]).to_json(), "a test"), Alone())
    again.add(chunk(rows[cut:]), values[cut:])
    expected = whole.finish_round([0], apart=False)
    assert again.finish_round([0], apart=False) == expected
    assert expected[0] == pytest.approx(np.average(values.astype(np.float64), weights=rows), rel=1e-6, abs=1e-30)


def test_a_round_over_several_nodes_has_the_rows_of_all_of_them():
    """Each runs an epoch of its own; the loss is weighed by the rows."""

    def work(rank, gather):
        tally = Tally(Progress("", 2), Together(rank, 2, gather))
        tally.begin_epoch()
        tally.add(chunk([100 * (rank + 1)], checksum=7 + rank), np.array([1.0 + rank]))
        assert (tally.take_rows(), tally.take_rows()) == (100 * (rank + 1), 0)
        return *tally.finish_round([0, 1], apart=True), tally.progress(clock()).ledger

    for loss, rows, ledger in in_threads(2, work):
        assert (loss, rows) == (pytest.approx((100 * 1.0 + 200 * 2.0) / 300), 300)
        assert Ledger.from_json(ledger).entries == {0: Entry(100, 7), 1: Entry(200, 8)}


def test_syncs_are_counted_between_several_nodes_only():
    for size, syncs in ((1, 0), (2, 3)):
        tally = Tally(Progress("", size, update=5), SimpleNamespace(size=size, bytes_sent=0))
        tally.shared(3)
        assert (tally.updates, tally.syncs) == (8, syncs)


class Time:
    """The time that a clock sees: `moment`, until it is changed."""

    def __init__(self, monkeypatch):
        self.moment = 100.0
        replaced(monkeypatch, tally, "time", perf_counter=lambda: self.moment)

    def passes(self, seconds):
        self.moment += seconds


def test_a_clock_runs_for_one_name_at_a_time_so_that_its_seconds_add_up(monkeypatch):
    """Also where blocks lie within one another, where one fails, and where a part of one is known only afterwards."""
    now, clock = Time(monkeypatch), Clock(began=90.0)
    step, collective = SimpleNamespace(copying=5.0, warmup=7.0), SimpleNamespace(seconds=1.0, waited=0.5)

    def chunks():
        for number in range(2):
            now.passes(3)
            yield number
        now.passes(1)

    with clock.spent_on("handoff"):
        now.passes(2)
    clock.begin_training({})
    for _ in clock.fed(chunks()):
        with clock.training(step, collective):
            now.passes(10)
            step.copying, step.warmup = step.copying + 1, step.warmup + 0.5
            collective.seconds, collective.waited = collective.seconds + 4, collective.waited + 3
        now.passes(0.25)
    with pytest.raises(ValueError, match="no"), clock.spent_on("checkpoint"):
        now.passes(1)
        with clock.spent_on("records"):
            now.passes(2)
        now.passes(4)
        raise ValueError("no")
    with clock.validating(step):
        now.passes(8)
        step.warmup += 6
    assert clock.spent == {
        "start": 10, "handoff": 2, "feed": 7, "compute": 9, "copy": 2, "warmup": 7, "sync": 8, "waiting": 6,
        "other": 0.5, "checkpoint": 5, "records": 2, "validation": 2,
    }  # fmt: skip
    assert total(clock.spent) == now.moment - 90 == 54.5
    assert clock.since_round == {**clock.spent, "start": 0, "handoff": 0}


def test_a_clock_goes_on_with_a_rounds_seconds_once(monkeypatch):
    now, clock = Time(monkeypatch), Clock(began=100.0)
    so_far, since_round = {"start": 20.0, "compute": 1000.0}, {"compute": 600.0}
    clock.go_on(so_far, {"start": 5.0, "lost": 1100.0})
    now.passes(3)
    clock.begin_training(since_round)
    with clock.spent_on("feed"):
        now.passes(2)
    assert clock.spent == {"start": 28, "compute": 1000, "lost": 80, "other": 0, "feed": 2}
    assert clock.since_round["compute"] == 600
    round_ = of_round(clock.end_round())
    assert (round_.train, round_.compute, round_.feed, round_.total) == (602, 600, 2, 602)
    now.passes(1)
    assert of_round(clock.since_round).total == clock.since_round["other"] == 1
