"""Blocks on one node, of rows that name themselves."""

from __future__ import annotations

import threading
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest

from sparksplit.base.errors import RunError
from sparksplit.collectives import Alone
from sparksplit.dataset.arrays import from_arrays
from sparksplit.diagnosis.messages import Effort
from sparksplit.diagnosis.node.blocks import Extent
from sparksplit.diagnosis.node.runner import Runner, Variant
from sparksplit.rows.feed import Feed
from sparksplit.rows.samples import Again, Sample, part

ROWS, LANES, BLOCK, BATCH = 900, 6, 16, 50


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    x = np.arange(ROWS, dtype=np.int32).reshape(-1, 1) * np.array([[1, 10, 100]], np.int32)
    folder = str(tmp_path_factory.mktemp("runner") / "data")
    prepared = from_arrays(folder, {"train": (x, np.arange(ROWS) % 7)}, lanes=LANES, block_size=BLOCK * 28)
    return prepared.split("train")


@pytest.fixture
def feed(rows):
    found = Feed(rows, np.arange(LANES), batch_size=BATCH, window=2, cache=0, readers=2)
    yield found
    found.close()


@pytest.fixture
def runner():
    member = SimpleNamespace(
        stopping=threading.Event(),
        leaving=threading.Event(),
        state=lambda **_: None,
        phase=lambda name: nullcontext(),
    )
    return Runner(member, Alone(), Effort(block=0.05, reading=0.05))


class Trained:
    """What a variant has done."""

    def __init__(self, pace=0.0):
        self.updates, self.agreed, self.begun, self.pace = 0, [], 0, pace

    def train(self, chunk):
        self.updates += chunk.updates
        threading.Event().wait(self.pace * chunk.updates)

    def agree(self, rows):
        self.agreed.append((self.updates, rows))

    def begin(self):
        self.begun += 1

    def variant(self, rows, **more):
        return Variant(rows, self.train, ROWS // BATCH, lambda number: number, self.begin, **more)


def test_whole_rounds_train_all_rows_and_agree_as_often_as_training(runner, feed):
    done = Trained()
    block = runner.measure(done.variant(feed, agree=done.agree, interval=6, extent=Extent(2), per_call=4))
    assert (block.rows, block.steps, done.updates, done.begun) == (2 * ROWS, 36, 36, 1)
    assert done.agreed == [(6 * number, 300) for number in range(1, 7)]
    assert block.per_row == block.seconds / 1800


def test_a_stretch_trains_so_many_updates_and_counts_a_part_of_the_next_sync(runner, feed):
    done = Trained()
    block = runner.measure(done.variant(feed, agree=done.agree, interval=4, extent=Extent(0, 7), per_call=3))
    assert (block.rows, block.steps, done.updates) == (350, 7, 7)
    assert done.agreed == [(4, 200), (7, 150)]
    # Nothing of it is read any more that another variant's block would have to share the machine with.
    assert all(future.done() for future in feed._begun)


def test_a_block_takes_about_as_long_as_it_should(runner, feed):
    done = Trained(pace=0.004)
    variant = done.variant(feed)
    runner.calibrate(variant)
    assert 1 <= variant.extent.steps(variant.steps) <= 18 and 1 <= variant.per_call <= 5
    again = Again(next(feed.epoch(0)))
    variant = Variant(again, done.train, 1 << 40, lambda number: number)
    runner.calibrate(variant)
    assert 3 <= variant.extent.updates <= 20


def test_blocks_that_are_compared_go_through_as_many_rows_in_as_long_calls(runner, rows, feed):
    done = Trained()
    now = done.variant(feed, readers=2, extent=Extent(0, 4))
    runner.measure(now)
    halves = Feed(rows, np.arange(LANES), batch_size=BATCH // 2, window=2, cache=0, readers=3)
    after = done.variant(halves, readers=3)
    after.steps *= 2
    runner.alike(after, now)
    # Eight mini-batches of half the rows, two in a call; but all three readers are to be as far again.
    assert (after.extent, after.per_call, after.rows_of_step) == (Extent(0, 12), 2, 25.0)
    now.readers, now.extent = 6, Extent(0, 18)
    runner.alike(after, now)
    assert (after.extent, after.per_call) == (Extent(0, 18), 2)
    now.extent = Extent(2)
    runner.alike(after, now)
    assert after.extent == Extent(2)
    # Whole windows are the same, whatever the readers.
    reading = [done.variant(feed, reads=True, window=5, extent=Extent(0, 5), per_call=3), None]
    reading[1] = done.variant(feed, reads=True, window=5, readers=2)
    runner.alike(reading[1], reading[0])
    assert (reading[1].extent, reading[1].per_call) == (Extent(0, 5), 3)
    halves.close()


def test_rows_that_are_read_are_measured_in_whole_windows(runner, feed):
    done = Trained(pace=0.001)
    variant = done.variant(feed, reads=True, window=5)
    runner.calibrate(variant)
    assert variant.extent == Extent(0, 5)
    variant = done.variant(feed, reads=True)
    runner.calibrate(variant)
    assert variant.extent.rounds >= 1


def test_one_mini_batch_comes_again_and_again(feed):
    first = next(feed.epoch(0))
    again = Again(first)
    again.max_updates = 3
    chunks = list(again.epoch(0, 0, 8, lambda step: step + 5 - step % 5))
    assert [(chunk.first, chunk.updates) for chunk in chunks] == [(0, 3), (3, 2), (5, 3)]
    for chunk in chunks:
        for begin, end in zip(chunk.offsets[:-1], chunk.offsets[1:], strict=True):
            assert (chunk.tensors[0][begin:end] == first.tensors[0][:BATCH]).all()
            assert (chunk.label[begin:end] == first.label[:BATCH]).all()
        assert chunk.rows.tolist() == [BATCH] * chunk.updates and chunk.share == first.share
    assert part(chunks[0], 0).updates == 0


def test_a_sample_has_the_first_blocks_of_some_lanes(rows):
    sample = Sample(rows, [1, 4], 3)
    assert sample.lane_rows == [0, 48, 0, 0, 48, 0]
    feed = Feed(sample, np.arange(LANES), batch_size=10, window=2, cache=1 << 30)
    seen = sorted(int(row) for chunk in feed.epoch(0) for row in chunk.tensors[0][:, 0])
    held = sample.held(feed.at_hand)
    feed.close()
    assert len(set(seen)) == 96
    again = Feed(held, np.arange(LANES), batch_size=10, window=2, cache=0)
    assert sorted(int(row) for chunk in again.epoch(1) for row in chunk.tensors[0][:, 0]) == seen
    assert again.at_hand is held.at_hand()
    again.close()


def test_a_node_that_is_asked_to_end_begins_no_block(runner, feed):
    runner._member.stopping.set()
    with pytest.raises(RunError, match="stopped by the driver"):
        runner.measure(Trained().variant(feed))
