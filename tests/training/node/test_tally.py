"""What a node counts, and what of it goes on after a checkpoint."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.collectives import Alone
from sparksplit.rows.ledger import Entry, Ledger
from sparksplit.training.node.tally import Clock, Tally
from sparksplit.training.record import Progress
from tests.nodes import in_threads
from tests.training.node.stand_ins import Together


def chunk(rows, checksum=1):
    """Mini-batches of so many rows, all of which this node has."""
    return SimpleNamespace(rows=np.array(rows, np.int64), seen=Entry(sum(rows), checksum))


def clock():
    return Clock(Progress("", 1), began=0.0, before=0.0)


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


def test_a_clock_goes_on_with_the_rounds_seconds_once():
    clock = Clock(Progress("", 1, round_train=1000.0, round_total=2000.0), began=0.0, before=0.0)
    clock.begin_round()
    assert clock.round_train == 1000.0 and 2000 <= clock.round_total < 2100
    clock.end_round()
    clock.begin_round()
    assert clock.round_train == 0.0 and clock.round_total < 100
    with clock.spent_on("validation"):
        pass
    clock.add("validation", 5.0)
    assert 5 <= clock.seconds["validation"] < 105
