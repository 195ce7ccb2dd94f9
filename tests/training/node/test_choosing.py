"""The seconds of a step on fewer and on more nodes, by a clock that only steps, exchanges and transforms move."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.base.config import parse
from sparksplit.dataset.arrays import from_arrays
from sparksplit.dataset.description import TensorSpec
from sparksplit.rows import order
from sparksplit.rows.assembler import Chunk
from sparksplit.rows.shares import largest_share, typical_shares
from sparksplit.strategies import STRATEGIES
from sparksplit.training.node import choosing
from sparksplit.training.train_config import TrainConfig
from tests.nodes import in_threads
from tests.training.node.stand_ins import Member, Rows, Together, Variable

BATCH, BASE, PER_ROW, EXCHANGE, PER_READ, LATENCY = 64, 1e-3, 1e-4, 5e-4, 1e-3, 2e-4
CLOCK = threading.local()


def passes(seconds):
    """Move this node's clock on."""
    CLOCK.now = getattr(CLOCK, "now", 0.0) + seconds


def read(tensors, label, seeds):
    """A transform whose time is that of its rows. A node takes longer for rows that it has never seen."""
    if hasattr(CLOCK, "seen"):  # not in a reader's thread
        (x,), before = tensors.values(), len(CLOCK.seen)
        CLOCK.seen.update(x.ravel().tolist())
        passes(PER_READ * CLOCK.slowness * len(seeds) + 2e-3 * (len(CLOCK.seen) - before))
    return tensors, label


class Step:
    """A step that takes a time by its rows, and changes the weights, the metric and the optimizer's count.

    exchange: returns the seconds of an exchange, for the rows of a node's share. first: what the first
    step with so many rows takes besides.
    """

    def __init__(self, collective, variables, exchange=lambda rows: EXCHANGE, first=0.0):
        self._collective, self._variables, self._exchange = collective, variables, exchange
        self._first, self._made = first, set()

    def variables(self):
        return self._variables

    def train(self, chunk):
        shares = np.diff(chunk.offsets)
        passes(self._first * (shares.max(initial=0) not in {0, *self._made}))
        self._made.update(shares.tolist())
        assert set(chunk.rows.tolist()) <= {BATCH} and len(chunk.rows) == len(shares)
        passes(sum(BASE + PER_ROW * rows for rows in shares.tolist()))
        if self._collective.size > 1:
            exchange = sum(map(self._exchange, shares.tolist()))
            passes(exchange)
            self._collective.seconds += exchange + 1.0 * len(shares)
            self._collective.waited += 1.0 * len(shares)
        for variable in self._variables:
            variable.assign(variable.numpy() + len(shares))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("choosing") / "data")
    x = np.arange(900, dtype=np.int32).reshape(-1, 1)
    return from_arrays(folder, {"train": (x, np.arange(900) % 7)}, lanes=12)


class Slow(Together):
    """Sums that take a time even if they are of one number."""

    def sum(self, arrays):
        passes(LATENCY)
        return super().sum(arrays)


class Disturbed(Slow):
    """Sums that wait for a node, and every third of which is disturbed."""

    def sum(self, arrays):
        passes(1e-3 + (0.1 if self.sums % 3 == 0 else 0.0))
        self.waited += 1e-3
        return super().sum(arrays)


def measured(data, size, monkeypatch, exchange=lambda rows: EXCHANGE, together=Together, held_out=(), first=0.0,
             slowness=(1, 1, 1, 1), **keys):  # fmt: skip
    """What the nodes measure, by rank; no node's variables have changed. slowness: of each node's transform."""
    monkeypatch.setattr(choosing, "time", SimpleNamespace(perf_counter=lambda: getattr(CLOCK, "now", 0.0)))
    values = {"data": "d", "output": "o", "strategy": "auto", "nodes": size, "batch_size": BATCH, "readers": 0}
    config = parse(TrainConfig, {**values, **keys})

    def work(rank, gather):
        variables = [Variable(np.array([1.0, rank])), Variable(7)]
        metric = SimpleNamespace(resets=0)
        metric.reset_state = lambda: setattr(metric, "resets", metric.resets + 1)
        process = SimpleNamespace(
            config=config,
            data=data,
            strategy=STRATEGIES["auto"],
            prepared_rows=lambda: data.split("train"),
            transform=lambda: read,
            metrics={"accuracy": metric},
            held_out=list(held_out),
            step=lambda sync, collective: Step(collective, variables, first=first),
        )
        collective = together(rank, size, gather)
        member = Member(rank, size, gather)
        CLOCK.now, CLOCK.seen, CLOCK.slowness = 0.0, set(), slowness[rank % 4]
        CLOCK.exchanges = 0
        found = choosing.measured(process, member, collective, Step(collective, variables, exchange, first))
        assert metric.resets == 1 and variables[0].numpy().tolist() == [1.0, rank] and variables[1].numpy() == 7
        return found

    return in_threads(size, work)


def test_the_driver_knows_that_nodes_measure_before_they_do(monkeypatch):
    """Phases within, such as compiling, may hide the one in which a node is lost."""
    told = []
    monkeypatch.setattr(choosing, "measured", lambda *_: told.append("measured") or {1: 0.5})
    member = Member()
    member.announce, member.heard = lambda **fields: told.append(fields), lambda name: True
    choosing.choose(None, member, None, None)
    assert told == [{"measures": True}, "measured", {"step_seconds": {"1": 0.5}}]


def test_fewer_nodes_take_the_exchange_of_fewer(data, monkeypatch):
    """The exchange of two nodes takes 2/3 of the time of the exchange of four."""
    first, *_ = measured(data, 4, monkeypatch)
    assert list(first) == [1, 4, 2]
    assert first[1] == pytest.approx(BASE + PER_ROW * BATCH)
    assert first[4] == pytest.approx(BASE + PER_ROW * BATCH / 4 + EXCHANGE)
    assert first[2] == pytest.approx(BASE + PER_ROW * BATCH / 2 + EXCHANGE * (1 / 2) / (3 / 4))


@pytest.mark.parametrize("together", [Slow, Disturbed])
def test_an_exchange_of_fewer_has_fewer_turns(data, monkeypatch, together):
    """Of the exchange, LATENCY is for its turns: two nodes have a third of the turns of four."""
    first, *_ = measured(data, 4, monkeypatch, together=together)
    exchange = LATENCY / 3 + (EXCHANGE - LATENCY) * (1 / 2) / (3 / 4)
    assert first[2] == pytest.approx(BASE + PER_ROW * BATCH / 2 + exchange)


def test_the_exchange_of_fewer_is_as_the_collective_says(data, monkeypatch):
    """Between hosts, say, two nodes exchange as much as four."""
    monkeypatch.setattr(Together, "of_fewer", lambda collective, nodes: (1.0, 1.0))
    first, *_ = measured(data, 4, monkeypatch)
    assert first[2] == pytest.approx(BASE + PER_ROW * BATCH / 2 + EXCHANGE)


@pytest.mark.parametrize("seconds", [0.1, 1.0])
def test_a_single_disturbance_decides_nothing(data, monkeypatch, seconds):
    """The first step of two nodes that counts takes three times as long as the others."""

    def exchange(rows):
        CLOCK.exchanges += 1
        return seconds * (3 if CLOCK.exchanges == 2 else 1)

    monkeypatch.setattr(sys.modules[__name__], "BASE", seconds)
    first, _ = measured(data, 2, monkeypatch, exchange=exchange)
    assert first[2] == pytest.approx(2 * seconds + PER_ROW * BATCH / 2)


def test_an_exchange_that_was_disturbed_makes_no_step_free(data, monkeypatch):
    """The exchanges of all nodes were disturbed, those of two nodes were not."""
    first, *_ = measured(data, 4, monkeypatch, exchange=lambda rows: 1.0 if rows == BATCH / 4 else EXCHANGE)
    assert first[2] == pytest.approx(BASE + PER_ROW * BATCH / 2 + EXCHANGE * (1 / 2) / (3 / 4))


@given(st.floats(1e-6, 1e3), st.floats(0, 1), st.floats(0, 1e3), st.integers(2, 64), st.data())
def test_a_step_on_fewer_nodes_takes_time_and_no_longer_exchange(step, share, latency, size, draw):
    nodes = draw.draw(st.integers(2, size))
    found = choosing.without_further(step, share * step, latency, Together(0, size, None).of_fewer(nodes))
    assert 0 < found <= step * (1 + 1e-9) and (nodes < size or found == pytest.approx(step))


@pytest.mark.parametrize(("cache_mb", "readers"), [(512, 1), (0, 1), (0, 0)])
def test_a_step_takes_as_long_as_a_node_transforms_its_rows(data, monkeypatch, cache_mb, readers):
    """Without readers, a step waits for its rows."""
    monkeypatch.setattr(choosing, "_second", lambda feed, most=0.0: PER_READ if most else 0.0)
    keys = {"transform": "mine.py:read", "cache_mb": cache_mb, "readers": readers}
    first, _ = measured(data, 2, monkeypatch, **keys)
    steps = {1: BASE + PER_ROW * BATCH, 2: BASE + PER_ROW * BATCH / 2 + EXCHANGE}
    reads = {nodes: PER_READ * BATCH / nodes for nodes in (1, 2)}
    assert first == {nodes: pytest.approx(reads[nodes] + (0 if readers else steps[nodes])) for nodes in (1, 2)}


def test_a_row_takes_as_long_as_in_the_second_pass(data, monkeypatch):
    first, _ = measured(data, 2, monkeypatch, transform="mine.py:read")
    assert first[1] == pytest.approx(BASE + PER_ROW * BATCH + PER_READ * BATCH)


def test_nodes_read_at_the_same_time_and_the_slowest_counts(data, monkeypatch):
    """Two nodes read without the third one."""
    kept, *_ = measured(data, 3, monkeypatch)
    first, *_ = measured(data, 3, monkeypatch, transform="mine.py:read", slowness=(1, 1.5, 2, 2))
    slowest = {1: BATCH, 3: 2 * 21, 2: 1.5 * BATCH / 2}
    assert first == {nodes: pytest.approx(kept[nodes] + PER_READ * slowest[nodes]) for nodes in slowest}


def test_a_slow_transform_is_not_measured_for_long(data, monkeypatch):
    """A mini-batch takes 6.4 s. One is read for the steps, and one in each of two passes on one node and on two."""
    monkeypatch.setattr(sys.modules[__name__], "PER_READ", 0.1)
    ends, close = [], choosing._Rows.close
    monkeypatch.setattr(choosing._Rows, "close", lambda rows: [ends.append(CLOCK.now), close(rows)])
    first, _ = measured(data, 2, monkeypatch, transform="mine.py:read")
    assert first[1] == pytest.approx(6.5, rel=0.05) and 30 < max(ends) < 35


@pytest.mark.parametrize(
    ("keys", "held_out", "read"),
    [
        ({"cache_mb": 1}, [], {1: 0.1, 2: 0.1}),  # in the first of ten epochs
        ({"cache_mb": 0}, [], {1: 1, 2: 1}),
        ({"cache_mb": 0, "input_mode": "spark"}, [], {1: 0, 2: 0}),  # rows are in mapped files
        ({"cache_mb": 1, "epochs": 1}, [], {1: 1, 2: 1}),
        ({"cache_mb": 1}, ["validation"], {1: 1, 2: 0.1}),  # validation leaves enough memory on two nodes
        ({"cache_mb": 1}, ["test"], {1: 1, 2: 1}),  # all rows of the split are in one lane, so on one node
    ],
)
def test_reading_counts_as_often_as_rows_are_read(data, monkeypatch, keys, held_out, read):
    rows = (1 << 20) // 4
    held = {"validation": [rows // 12 + 1] * 12, "test": [rows, *[0] * 11]}
    splits = data.manifest.splits | {name: SimpleNamespace(lane_rows=lanes) for name, lanes in held.items()}
    data = SimpleNamespace(manifest=data.manifest.model_copy(update={"splits": splits}), split=data.split)
    monkeypatch.setattr(choosing, "_second", lambda feed, most=0.0: PER_READ)
    first, _ = measured(data, 2, monkeypatch, held_out=held_out, **keys)
    steps = {1: BASE + PER_ROW * BATCH, 2: BASE + PER_ROW * BATCH / 2 + EXCHANGE}
    assert first == {nodes: pytest.approx(steps[nodes] + read[nodes] * PER_READ * BATCH / nodes) for nodes in steps}


@pytest.mark.parametrize("epochs", [1, 2])
@pytest.mark.parametrize("transform", [None, "mine.py:read"])
def test_rows_that_stay_in_memory_are_read_before_the_first_step(data, monkeypatch, epochs, transform):
    """Readers transform while steps are made, which take less time here. They read nothing then."""
    reading, transforming = 10 * PER_READ, PER_READ
    monkeypatch.setattr(choosing, "_second", lambda feed, most=0.0: transforming if most else reading)
    first, _ = measured(data, 2, monkeypatch, readers=1, epochs=epochs, transform=transform)
    steps = {1: BASE + PER_ROW * BATCH, 2: BASE + PER_ROW * BATCH / 2 + EXCHANGE}
    during = {nodes: transforming * BATCH / nodes if transform else steps[nodes] for nodes in steps}
    assert first == {nodes: pytest.approx(during[nodes] + reading * BATCH / nodes / epochs) for nodes in steps}


@pytest.mark.parametrize(
    ("exchange", "numbers"),
    [
        (EXCHANGE, {1, 8, 4, 2}),
        (2.0, {1, 8, 4, 2}),  # two steps of all, of four and of two nodes take 12 s together
        (3.0, {1, 8, 4}),
        (3.5, {1, 8}),  # two steps of four nodes may take 14 s, after 7 s
        (100.0, {1, 8}),
    ],
)
def test_what_would_end_too_late_is_not_measured(data, monkeypatch, exchange, numbers):
    """A slow step is made twice. CLOCK.now is when the first node has measured."""
    ends = []
    whole = choosing.measured

    def until(*arguments):
        found = whole(*arguments)
        ends.append(CLOCK.now)
        return found

    monkeypatch.setattr(choosing, "measured", until)
    found = measured(data, 8, monkeypatch, exchange=lambda rows: exchange)[0]
    assert found.keys() == numbers and max(ends) < max(choosing.SECONDS, 2 * exchange + 1)


@pytest.mark.parametrize("first", [3.0, 50.0])
def test_what_only_a_first_step_does_neither_counts_nor_ends_the_measurement(data, monkeypatch, first):
    """With XLA, the first step of each number of nodes compiles code."""
    found = measured(data, 8, monkeypatch, first=first)[0]
    assert found.keys() == {1, 8, 4, 2} and max(found.values()) == pytest.approx(BASE + PER_ROW * BATCH)


@pytest.mark.parametrize(
    ("batch_size", "row_bytes", "lane_rows", "sampled"),
    [
        (4, 8, [5, 9, 0, 12], [5, 8, 0, 8]),  # 16 rows are wanted, and one block of each lane, of 4 rows, is too few
        (2, 8, [5, 9, 0, 12], [4, 4, 0, 0]),
        (4, 16 << 20, [5, 9, 0, 12], [4, 0, 0, 0]),
        (100, 8, [5, 9, 0, 12], [5, 9, 0, 12]),
        (6, 64 << 20, [1, 2, 20], [1, 2, 4]),
    ],
)
def test_a_sample_has_some_mini_batches_and_at_least_one(batch_size, row_bytes, lane_rows, sampled):
    rows = Rows(lane_rows)
    rows.tensors = [TensorSpec(name="x", dtype="uint8", shape=[row_bytes])]
    assert choosing._sample(rows, batch_size).lane_rows == sampled


@given(
    st.integers(1, 200),
    st.lists(st.integers(0, 60), min_size=1, max_size=12).filter(any),
    st.integers(1, 12),
    st.integers(0, 3),
)
def test_shares_are_those_of_training_and_leave_out_no_row(rows, lane_rows, nodes, further):
    nodes, lane_rows, rows = min(nodes, len(lane_rows)), np.array(lane_rows, np.int64), min(rows, sum(lane_rows))
    column = np.arange(rows)
    batch = Chunk(0, [column], None, np.array([0, rows]), np.array([rows]), None)
    shares = [choosing._share(batch, rank, nodes, lane_rows) for rank in range(nodes + further)]
    assert np.concatenate([share.tensors[0] for share in shares]).tolist() == column.tolist()
    counts = [int(share.offsets[1]) for share in shares]
    assert counts[:nodes] == typical_shares(lane_rows, np.arange(len(lane_rows)) % nodes, nodes, rows).tolist()
    for rank, share in enumerate(shares):
        lanes = order.owned_lanes(len(lane_rows), rank, nodes)
        even = order.even_share(lane_rows, lanes, rows)[1] if counts[rank] else None
        assert share.share == (counts[rank] if even == counts[rank] else None) and share.rows.tolist() == [rows]


@pytest.mark.parametrize(("rows", "nodes", "batch_size", "of_full"), [(1_000, 16, 64, 4), (10_000, 32, 256, 8)])
def test_the_fullest_node_has_the_rows_of_real_mini_batches(rows, nodes, batch_size, of_full):
    """Lanes by hash end at different depths. of_full: the most rows of a node while all lanes have rows."""
    lane_rows = np.bincount(np.random.default_rng(1).integers(0, 96, rows), minlength=96)
    batch = Chunk(0, [np.arange(batch_size)], None, np.array([0, batch_size]), np.array([batch_size]), None)
    counts = [int(choosing._share(batch, rank, nodes, lane_rows).offsets[1]) for rank in range(nodes)]
    mean = largest_share(lane_rows, np.arange(96) % nodes, batch_size)
    assert max(counts) == round(mean) > of_full and sum(counts) == batch_size


def test_even_shares_have_the_static_shapes_of_training(data, monkeypatch):
    """Three nodes have 21 or 22 of 64 rows."""
    seen, train = set(), Step.train

    def noted(step, chunk):
        seen.update((chunk.share, rows) for rows in np.diff(chunk.offsets).tolist())
        train(step, chunk)

    monkeypatch.setattr(Step, "train", noted)
    measured(data, 3, monkeypatch)
    assert seen == {(64, 64), (None, 21), (None, 22), (32, 32), (None, 0)}


def test_each_block_is_read_once_to_see_how_long_reading_takes(data, monkeypatch):
    """No page cache holds what was read for the steps, by another node, in another pass, or on fewer nodes."""
    seen, whole = [], Rows.read
    monkeypatch.setattr(Rows, "read", lambda rows, *block: [seen.append(block), whole(rows, *block)][1])
    monkeypatch.setattr(choosing, "_READ_BYTES", 8 * 8)  # a block of each of two lanes
    rows = SimpleNamespace(manifest=data.manifest, split=lambda name: Rows([40] * 12))
    measured(rows, 2, monkeypatch, cache_mb=0)
    # Both nodes read 6 blocks of 11 lanes for the steps. Then one node reads in two passes, and after it both do.
    assert Counter(Counter(seen).values()) == {2: 6 * 11, 1: 2 * 2 * 3}


def test_reading_counts_with_the_transform(data, monkeypatch):
    monkeypatch.setattr(choosing, "_second", lambda feed, most=0.0: 1.0 if most else 2.0)
    first, _ = measured(data, 2, monkeypatch, transform="mine.py:read", cache_mb=0, readers=1)
    assert first == {nodes: pytest.approx(3.0 * BATCH / nodes) for nodes in (1, 2)}
