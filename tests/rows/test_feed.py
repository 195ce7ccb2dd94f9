"""The feed against the order it promises: every row once, the same mini-batches for every number of nodes."""

import threading
import tracemalloc
from itertools import chain

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparksplit.base.errors import InputError
from sparksplit.dataset.arrays import from_arrays
from sparksplit.dataset.description import TensorSpec
from sparksplit.dataset.plan import lanes_for
from sparksplit.dataset.prepared import Block
from sparksplit.dataset.row_ids import row_checksum
from sparksplit.rows import order
from sparksplit.rows.feed import Feed
from sparksplit.rows.ledger import Entry
from tests.training.node.stand_ins import Rows

ROWS, LANES, BLOCK = 900, 6, 16


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """900 rows that name themselves, in six lanes of about nine blocks."""
    x = np.arange(ROWS, dtype=np.int32).reshape(-1, 1) * np.array([[1, 10, 100]], np.int32)
    folder = str(tmp_path_factory.mktemp("feed") / "data")
    prepared = from_arrays(
        folder, {"train": (x, np.arange(ROWS) % 7)}, lanes=LANES, block_size=BLOCK * 28, file_size=8000
    )
    assert prepared.manifest.block_rows == BLOCK
    return prepared


def feed_of(data, rank=0, nodes=1, **options):
    options = {"batch_size": 50, "seed": 3, "window": 2, "cache": 1 << 30, **options}
    return Feed(data.split("train"), order.owned_lanes(LANES, rank, nodes), **options)


def batches(feed, epoch, **options):
    """The shares of each mini-batch, as lists of the rows' own numbers."""
    found = {}
    for chunk in feed.epoch(epoch, **options):
        assert (chunk.tensors[0][:, 1] == chunk.tensors[0][:, 0] * 10).all()
        assert (chunk.label == chunk.tensors[0][:, 0] % 7).all()
        for update in range(chunk.updates):
            share = chunk.tensors[0][chunk.offsets[update] : chunk.offsets[update + 1], 0]
            found[chunk.first + update] = share.tolist()
    feed.close()
    return [found[update] for update in sorted(found)]


@pytest.mark.parametrize("cache", [0, 1 << 30], ids=["streamed", "cached"])
@pytest.mark.parametrize("nodes", [1, 2, 3, 4, 6])
def test_every_number_of_nodes_trains_the_same_mini_batches(data, nodes, cache):
    whole = batches(feed_of(data), epoch=5)
    shares = [batches(feed_of(data, rank, nodes, cache=cache, readers=2), epoch=5) for rank in range(nodes)]
    assert [sorted(chain(*parts)) for parts in zip(*shares, strict=True)] == [sorted(batch) for batch in whole]
    assert sorted(chain(*whole)) == list(range(ROWS))
    assert {len(batch) for batch in whole} == {50}


@pytest.mark.parametrize("cache", [0, 1 << 30], ids=["streamed", "cached"])
def test_without_readers_whoever_asks_reads_and_gets_the_same(data, cache):
    threads = set()

    def transform(tensors, label, seeds):
        threads.add(threading.get_ident())
        return tensors, label

    alone = batches(feed_of(data, cache=cache, readers=0, transform=transform, chunk_bytes=900), epoch=2)
    assert threads == {threading.get_ident()}
    assert alone == batches(feed_of(data, readers=2), epoch=2)


@pytest.fixture(scope="module")
def in_given_order(tmp_path_factory):
    """The rows of `data`, in the order in which they are given."""
    x = np.arange(ROWS, dtype=np.int32).reshape(-1, 1) * np.array([[1, 10, 100]], np.int32)
    folder = str(tmp_path_factory.mktemp("given") / "data")
    return from_arrays(
        folder, {"train": (x, np.arange(ROWS) % 7)}, lanes=LANES, block_size=BLOCK * 28, file_size=8000, order="given"
    )


@settings(max_examples=25, deadline=None)
@given(
    batch_size=st.integers(1, 1000),
    nodes=st.integers(1, LANES),
    cache=st.sampled_from([0, 1 << 30]),
    window=st.integers(1, 12),
    epoch=st.integers(0, 3),
)
def test_rows_in_a_given_order_stay_in_it(in_given_order, batch_size, nodes, cache, window, epoch):
    options = {"batch_size": batch_size, "cache": cache, "window": window, "shuffled": False}
    shares = [batches(feed_of(in_given_order, rank, nodes, **options), epoch) for rank in range(nodes)]
    for number, parts in enumerate(zip(*shares, strict=True)):
        rows = range(number * batch_size, min(ROWS, (number + 1) * batch_size))
        assert sorted(chain(*parts)) == list(rows)
        assert all(part == sorted(part) for part in parts)
    assert nodes > 1 or list(chain(*shares[0])) == list(range(ROWS))


def test_epochs_differ_and_repeat(data):
    first, again, second = (batches(feed_of(data), epoch) for epoch in (0, 0, 1))
    assert first == again != second


@settings(max_examples=25, deadline=None)
@given(
    batch_size=st.integers(1, 1000),
    cache=st.sampled_from([0, 1 << 30]),
    max_updates=st.integers(1, 40),
    chunk_bytes=st.integers(1, 20_000),
    window=st.integers(1, 12),
    data_=st.data(),
)
def test_neither_chunks_nor_where_one_begins_change_the_mini_batches(
    data, batch_size, cache, max_updates, chunk_bytes, window, data_
):
    whole = batches(feed_of(data, batch_size=batch_size, window=window), epoch=2)
    feed = feed_of(data, batch_size=batch_size, cache=cache, chunk_bytes=chunk_bytes, window=window)
    feed.max_updates = max_updates
    first = data_.draw(st.integers(0, len(whole)))
    last = data_.draw(st.integers(first, len(whole)))
    every = data_.draw(st.integers(1, 30))
    stops = []

    def stop(update):
        stops.append(update)
        return update + every - update % every

    assert batches(feed, 2, first=first, last=last, stops=stop) == whole[first:last]


def test_chunks_end_where_they_must(data):
    feed = feed_of(data, batch_size=10)
    feed.max_updates = 4
    ends = [chunk.first + chunk.updates for chunk in feed.epoch(0, stops=lambda update: update + 9 - update % 9)]
    feed.close()
    assert set(range(9, 91, 9)) <= set(ends)


def test_the_ledger_of_an_epoch_is_the_manifests(data):
    split = data.manifest.splits["train"]
    seen = Entry()
    for rank in range(2):
        feed = feed_of(data, rank, 2, cache=0)
        seen = sum((chunk.seen for chunk in feed.epoch(1)), seen)
        feed.close()
    assert seen == Entry(split.rows, split.checksum)


@pytest.mark.parametrize("cache", [0, 1 << 30])
def test_uneven_and_empty_lanes(tmp_path, cache):
    """Three rows in twelve lanes: most lanes, and whole nodes, have nothing."""
    data = from_arrays(str(tmp_path / "few"), {"train": (np.eye(3, dtype=np.uint8), [0, 1, 2])}, lanes=12)
    seen = Entry()
    for rank in range(5):
        feed = Feed(data.split("train"), order.owned_lanes(12, rank, 5), batch_size=2, cache=cache)
        chunks = list(feed.epoch(0))
        feed.close()
        assert sum(chunk.updates for chunk in chunks) == feed.updates == 2
        seen = sum((chunk.seen for chunk in chunks), seen)
    assert seen == Entry(3, data.manifest.splits["train"].checksum)


def test_the_most_lanes_that_a_set_is_given(tmp_path):
    """1,536 lanes in some fifty files, seven nodes that share no divisor with them, streamed."""
    lanes, rows, nodes = lanes_for(10**12, 88), 5000, 7
    x = np.arange(rows, dtype=np.int32).reshape(-1, 1) * np.array([[1, 10, 100]], np.int32)
    data = from_arrays(str(tmp_path / "many"), {"train": (x, np.arange(rows) % 7)}, lanes=lanes, file_size=2500)
    assert lanes == 1536 and data.manifest.splits["train"].files > 40
    owned = [order.owned_lanes(lanes, rank, nodes) for rank in range(nodes)]
    feeds = [Feed(data.split("train"), own, batch_size=512, seed=3, window=1, cache=0) for own in owned]
    shares = [batches(feed, epoch=1) for feed in feeds]
    assert sorted(chain(*chain(*shares))) == list(range(rows))
    assert [sum(map(len, parts)) for parts in zip(*shares, strict=True)] == [512] * 9 + [rows - 512 * 9]


def test_the_stored_order_where_not_shuffled(data):
    once, twice = (
        batches(feed_of(data, shuffled=False, cache=cache), epoch) for epoch, cache in ((0, 0), (4, 1 << 30))
    )
    assert once == twice


def test_a_transform_gets_a_seed_per_row_that_depends_on_nothing_else(data):
    seeds = {}

    def transform(tensors, label, row_seeds):
        for row, seed in zip(tensors["x"][:, 0], row_seeds, strict=True):
            seeds.setdefault(int(row), set()).add(int(seed))
        return {"x": tensors["x"] + 0}, label

    for rank, nodes in ((0, 1), (0, 2), (1, 2)):
        batches(feed_of(data, rank, nodes, transform=transform), epoch=1)
    assert len(seeds) == ROWS
    assert all(len(found) == 1 for found in seeds.values())
    assert len(set.union(*seeds.values())) == ROWS


@pytest.mark.parametrize("readers", [0, 1])
def test_a_failing_transform_is_raised_where_chunks_are_taken(data, readers):
    def transform(tensors, label, seeds):
        raise ArithmeticError("no such pixel")

    feed = feed_of(data, transform=transform, readers=readers)
    with pytest.raises(ArithmeticError, match="no such pixel"):
        next(feed.epoch(0))
    feed.close()


def test_a_damaged_file_is_named(data, tmp_path):
    x = np.arange(3000, dtype=np.uint8).reshape(-1, 10)
    damaged = from_arrays(str(tmp_path / "damaged"), {"train": (x, np.zeros(300, np.int64))}, lanes=2, classes=1)
    file = tmp_path / "damaged" / next(iter(damaged.files("train")))
    content = bytearray(file.read_bytes())
    place = content.find(x[0].tobytes()[:8])
    assert place > 0
    content[place] ^= 255
    file.write_bytes(content)
    feed = Feed(damaged.split("train"), np.arange(2), batch_size=10)
    with pytest.raises(InputError, match=r"lanes-.*parquet.*row group"):
        list(feed.epoch(0))
    feed.close()


def test_the_checksum_is_of_row_ids(data):
    assert row_checksum(np.array([], np.uint64)) == 0


@pytest.mark.parametrize("readers", [1, 3, 5])
def test_each_reader_assembles_another_chunk_at_the_same_time(data, readers):
    together = threading.Barrier(readers, timeout=30)

    def meet(tensors, label, seeds):
        together.wait()
        return tensors, label

    feed = feed_of(data, readers=readers, transform=meet, batch_size=60)
    assert len(list(feed.epoch(0))) == 15
    feed.close()


def test_the_order_is_the_same_in_every_version():
    """Golden values: a change here changes the result of every run with the same seed."""
    feed = Feed(Rows([9, 3, 0, 12, 7, 6]), np.array([0, 2, 3, 5]), batch_size=10, seed=1, window=2, readers=0)
    assert [chunk.tensors[0].tolist() for chunk in feed.epoch(1)] == [
        [0, 3009, 5001, 1, 3005, 5003],
        [3, 3007, 5004, 5, 3008, 5000, 4],
        [3004, 5005, 2, 3010, 5002, 7, 3011],
        [6, 3006, 8, 3002, 3000, 3001, 3003],
    ]
    feed.close()


class Narrow(Rows):
    """Rows of nine bytes."""

    block_rows = 4096

    def __init__(self, lane_rows):
        super().__init__(lane_rows)
        self.tensors, self.label = [TensorSpec(name="x", dtype="uint8", shape=[])], None

    def read(self, lane, block):
        row_ids = super().read(lane, block).row_ids
        return Block(row_ids, {"x": row_ids.astype(np.uint8)}, None)


def test_the_order_of_narrow_rows_takes_little_more_memory_than_the_rows():
    """Three windows of rows, and 30 bytes for each row of one window."""
    lanes, rows = 16, 40_000
    feed = Feed(Narrow([rows] * lanes), np.arange(lanes), batch_size=1000, readers=0, chunk_bytes=1 << 16)
    feed.max_updates = 100
    tracemalloc.start()
    try:
        assert sum(chunk.seen.rows for chunk in feed.epoch(0)) == lanes * rows
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    feed.close()
    assert peak < (3 * 9 + 30) * lanes * 4 * Narrow.block_rows
