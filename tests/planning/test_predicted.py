"""Predictions from made-up measurements: every term can be added up by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.comparison.costs import FRAMES, ethernet
from sparksplit.planning.measured import Exchanged, StepTimes
from sparksplit.planning.predicted import Predictor
from sparksplit.planning.workload import Stage, Workload
from tests.planning.made_up import CALL, LATENCY, PER_BYTE, measured, step

ROOM = 1 << 30


def batch(nodes: int, steps: int = 100, rows: int = 64, even: float = 1.0) -> Workload:
    stage = Stage(rows / nodes, steps, "gradients", steps if nodes > 1 else 0, 1, even)
    return Workload(nodes, (stage,), 1, steps * rows // nodes)


def seconds(work: Workload, predictor: Predictor | None = None) -> float:
    return (predictor or Predictor(measured())).predicted(work, ROOM).seconds.mean


def test_one_node_takes_the_measured_steps():
    assert seconds(batch(1)) == pytest.approx(100 * step(64))


@pytest.mark.parametrize("nodes", [2, 4, 16])
def test_an_exchange_costs_its_messages_its_bytes_and_its_call(nodes):
    exchange = CALL + 2 * (nodes - 1) * LATENCY + 400_000 * 2 * (nodes - 1) / nodes * PER_BYTE
    assert seconds(batch(nodes)) == pytest.approx(100 * (step(64 / nodes) + exchange), rel=1e-3)


def test_another_link_replaces_the_measured_one():
    found = seconds(batch(2), Predictor(measured(), ethernet(0.1)))
    assert found == pytest.approx(100 * (step(32) + CALL + 2 * 50e-6 + 400_000 * FRAMES * 8e-8), rel=1e-3)


@pytest.mark.parametrize(
    ("kind", "calls", "sent"),
    [("weights", 5, 400_000), ("weights, outer optimiser", 6, 400_000), ("own gradients", 1, 800_000)],
)
def test_each_kind_of_exchange_has_its_own_call_and_bytes(kind, calls, sent):
    work = Workload(2, (Stage(32, 100, kind, 4, 1, 1.0),), 1, 3200)
    exchange = calls * CALL + 2 * LATENCY + sent * PER_BYTE
    assert seconds(work) == pytest.approx(100 * step(32) + 4 * exchange, rel=1e-3)
    assert Predictor(measured()).predicted(work, ROOM).sent == 4 * sent


def test_each_sum_of_an_exchange_has_its_messages():
    made_of_four = {kind: replace(each, sums=4) for kind, each in measured().exchanges.items()}
    for hosts, further in ((["one", "two"], 0.0), (["one", "one"], 3 * 2 * 14 * LATENCY)):
        found = [
            seconds(batch(16), Predictor(measured(hosts=hosts, exchanges=exchanges), ethernet(0.1)))
            for exchanges in (measured().exchanges, made_of_four)
        ]
        explained = 3 * 2 * LATENCY if len({*hosts}) > 1 else 0.0  # messages of the measured network
        assert found[1] - found[0] == pytest.approx(100 * (3 * 30 * 50e-6 + further - explained), rel=1e-3)


def test_further_nodes_use_further_rows_of_a_large_embedding_until_all_are_used():
    own = Exchanged(100_000, 1, [CALL] * 3, further=40_000)
    predictor = Predictor(measured(exchanges={"own gradients": own}))
    for nodes, union in ((1, 0), (2, 100_000), (4, 180_000), (64, 400_000)):
        work = Workload(nodes, (Stage(64, 10, "own gradients", 10, 1, 1.0),), 1, 640)
        assert predictor.predicted(work, ROOM).sent == pytest.approx(10 * union * 2 * (nodes - 1) / nodes)


@pytest.mark.parametrize("nodes", [2, 16])
def test_between_two_hosts_no_link_makes_an_exchange_shorter(nodes):
    """Was: copies and sums, which the measured network contains, were left out."""
    assert seconds(batch(nodes), Predictor(measured(), ethernet(100))) == pytest.approx(seconds(batch(nodes)), rel=1e-3)


@given(st.lists(st.floats(-0.05, 0.05), min_size=5, max_size=5), st.booleans(), st.sampled_from([1e-3, 10e-3]))
def test_noise_of_long_steps_adds_nothing_to_an_exchange(noise, one_host, call):
    """A difference of steps may be below 0 in a round, but not on average."""
    off = sum(noise) / 5
    on_link = 0.0 if one_host else 2 * LATENCY + 400_000 * PER_BYTE
    exchanged = Exchanged(400_000, 1, [call + on_link + each for each in noise])
    predictor = Predictor(
        measured(5, exchanges={"gradients": exchanged}, hosts=["one", "one" if one_host else "two"]), ethernet(1)
    )
    wanted = max(0.0, call + off) + 2 * 50e-6 + 400_000 * FRAMES * 8e-9
    assert seconds(batch(2), predictor) == pytest.approx(100 * (step(32) + wanted), rel=1e-3)


def test_noise_of_long_steps_adds_nothing_to_reading():
    both = StepTimes(64.0, [step(64) * factor for factor in (0.9, 1.0, 1.1)])
    predictor = Predictor(measured(reading=[1e-6] * 3, reading_steps=both))
    assert predictor.predicted(batch(1), 10).seconds.mean == pytest.approx(100 * step(64))


def test_steps_whose_rows_vary_take_longer():
    varying = [StepTimes(64.0, [1.2 * step(64)] * 3), StepTimes(32.0, [1.4 * step(32)] * 3)]
    predictor = Predictor(measured(varying=varying))
    assert seconds(batch(1, even=0.75), predictor) == pytest.approx(100 * 1.05 * step(64))
    assert seconds(batch(1, rows=48, even=0.0), predictor) == pytest.approx(100 * 1.3 * step(48))
    assert seconds(batch(1, rows=8, even=0.0), predictor) == pytest.approx(100 * 1.4 * step(8))


@given(st.floats(0.01, 5000))
def test_steps_between_and_beyond_the_measured_ones_are_linear(rows):
    assert Predictor(measured()).step_seconds(rows, 0) == pytest.approx(
        step(rows) if rows >= 1 else step(1) * rows, abs=2e-3
    )


def test_a_single_measured_size_is_taken_in_proportion():
    alone = [StepTimes(10.0, [1.0])]
    assert Predictor(measured(1, alone=alone)).step_seconds(20, 0) == 2.0


def test_rows_that_do_not_fit_are_read_again():
    slow = measured(reading=[1e-2] * 3, reading_steps=StepTimes(64.0, [64 * 1e-2] * 3))
    assert Predictor(slow).predicted(batch(1), 10).seconds.mean == pytest.approx(100 * 64 * 1e-2)


def test_rows_that_fit_on_several_nodes_alone_are_read_once():
    """The single node had no room for its rows, so its first reading was not measured."""
    both = StepTimes(64.0, [64 * 1e-2] * 3)
    slow = Predictor(measured(reading=[1e-2] * 3, reading_steps=both, window_bytes=3 * 1_000_000, begin_pass=1e-5))
    work = Workload(4, (Stage(16, 300, "gradients", 0, 3, 1.0),), 3, 1600)
    assert slow.predicted(work, 200_000).seconds.mean == pytest.approx(1600 * 1e-2 + 2 * 1600 * 1e-5 + 300 * step(16))


@pytest.mark.parametrize("per_row", [0.2e-4, 2e-4])
def test_reading_takes_cores_from_training(per_row):
    """In proportion to the rows, whether reading is faster or slower than training."""
    both = StepTimes(32.0, [max(step(32), 32 * per_row) + 32 * 1e-5] * 3)
    predictor = Predictor(measured(reading=[per_row] * 3, reading_steps=both))
    assert predictor.predicted(batch(1), 10).seconds.mean == pytest.approx(
        100 * (max(step(64), 64 * per_row) + 64 * 1e-5)
    )


def test_the_interval_is_over_the_rounds():
    alone = [StepTimes(rows, [step(rows) * factor for factor in (0.9, 1.0, 1.1)]) for rows in (64.0, 1.0)]
    found = Predictor(measured(alone=alone)).predicted(batch(1), ROOM).seconds
    assert found.low is not None and found.high is not None
    assert found.low < 0.9 * found.mean and found.high > 1.1 * found.mean
    assert Predictor(measured(1)).predicted(batch(1), ROOM).seconds.low is None


def test_memory_and_bytes_are_of_one_node():
    found = Predictor(measured()).predicted(batch(4), ROOM)
    assert found.memory == 500_000_000 + 1600 * 100 + 2 * 400_000  # the sums' buffers
    assert found.sent == pytest.approx(100 * 400_000 * 1.5)
    without_room = Predictor(measured(window_bytes=80_000, held_out_bytes=40_000)).predicted(batch(4), 10)
    assert without_room.memory == 500_000_000 + 20_000 + 10 + 2 * 400_000
    assert Predictor(measured(held_out_bytes=40_000)).predicted(batch(4), ROOM).memory == found.memory + 10_000


@pytest.mark.parametrize(
    ("kind", "times"), [("gradients", 2), ("own gradients", 2), ("weights", 3), ("weights, outer optimiser", 4)]
)
def test_strategies_remember_weights_between_exchanges(kind, times):
    """Were: buffers of sums alone."""
    stages = (Stage(32, 100, "gradients", 4, 1, 1.0), Stage(32, 100, kind, 4, 1, 1.0))
    found = Predictor(measured()).predicted(Workload(2, stages, 1, 3200), ROOM).memory
    assert found == 500_000_000 + 3200 * 100 + times * 400_000


def test_rows_that_are_kept_are_read_once():
    found = Predictor(measured(first_reading=3.0, begin_reading=1.0)).predicted(batch(2), ROOM).seconds.mean
    assert found == pytest.approx(1.0 + 2.0 / 2 + seconds(batch(2)))


@pytest.mark.parametrize(("window_bytes", "in_window"), [(3 * 200_000, 2000), (3 * 1_000_000, 6400)])
def test_further_passes_wait_for_their_first_window_to_be_dealt(window_bytes, in_window):
    work = Workload(1, (Stage(64, 300, "gradients", 0, 3, 1.0),), 3, 6400)
    changes = {"first_reading": 1.0, "window_bytes": window_bytes}
    found = seconds(work, Predictor(measured(begin_pass=1e-5, **changes)))
    assert found - seconds(work, Predictor(measured(**changes))) == pytest.approx(2 * in_window * 1e-5)


def test_between_processes_of_one_host_no_network_is_in_the_exchange():
    on_one = Predictor(measured(hosts=["one", "one"]), ethernet(1))
    exchange = CALL + 2 * LATENCY + 400_000 * PER_BYTE + 2 * 50e-6 + 400_000 * FRAMES * 8e-9
    assert seconds(batch(2), on_one) == pytest.approx(100 * (step(32) + exchange), rel=1e-3)
    further = 2 * LATENCY + 400_000 / 3 * PER_BYTE + 2 * 50e-6 + 400_000 / 3 * FRAMES * 8e-9
    grown = seconds(batch(3), on_one) - 100 * step(64 / 3)
    assert grown == pytest.approx(100 * (exchange + further), rel=1e-4)


def test_only_what_was_measured_counts_as_measured():
    predictor = Predictor(measured())
    assert predictor.is_measured(batch(1)) and predictor.is_measured(batch(2))
    assert not predictor.is_measured(batch(3))
    assert not predictor.is_measured(batch(1, rows=128))


def test_crowded_nodes_take_the_times_beside_another_node():
    beside = [StepTimes(rows, [2 * step(rows)] * 3) for rows in (64.0, 1.0)]
    assert seconds(batch(1), Predictor(measured(beside=beside), crowded=True)) == pytest.approx(200 * step(64))
