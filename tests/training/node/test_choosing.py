"""The seconds of a step on fewer and on more nodes, by a clock that only steps, exchanges and transforms move."""

from __future__ import annotations

import threading
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.base.config import parse
from sparksplit.dataset.arrays import from_arrays
from sparksplit.dataset.description import TensorSpec
from sparksplit.strategies import STRATEGIES
from sparksplit.training.node import choosing
from sparksplit.training.train_config import TrainConfig
from tests.nodes import in_threads
from tests.training.node.stand_ins import Member, Rows, Together, Variable

BATCH, BASE, PER_ROW, EXCHANGE, PER_READ = 64, 1e-3, 1e-4, 5e-4, 1e-3
CLOCK = threading.local()


def passes(seconds):
    """Move this node's clock on."""
    CLOCK.now = getattr(CLOCK, "now", 0.0) + seconds


def read(tensors, label, seeds):
    """A transform whose time is that of its rows."""
    passes(PER_READ * len(seeds))
    return tensors, label


class Step:
    """A step that takes a time by its rows, and changes the weights, the metric and the optimizer's count."""

    def __init__(self, collective, variables):
        self._collective, self._variables = collective, variables

    def variables(self):
        return self._variables

    def train(self, chunk):
        shares = np.diff(chunk.offsets)
        assert chunk.share is None and set(chunk.rows.tolist()) <= {BATCH} and len(chunk.rows) == len(shares)
        passes(sum(BASE + PER_ROW * rows for rows in shares.tolist()))
        if self._collective.size > 1:
            passes(EXCHANGE * len(shares))
            self._collective.seconds += (EXCHANGE + 1.0) * len(shares)
            self._collective.waited += 1.0 * len(shares)
        for variable in self._variables:
            variable.assign(variable.numpy() + len(shares))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = str(tmp_path_factory.mktemp("choosing") / "data")
    x = np.arange(900, dtype=np.int32).reshape(-1, 1)
    return from_arrays(folder, {"train": (x, np.arange(900) % 7)}, lanes=12)


def measured(data, size, monkeypatch, **keys):
    """What the nodes measure, by rank; no node's variables have changed."""
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
            step=lambda sync, collective: Step(collective, variables),
        )
        collective = Together(rank, size, gather)
        member = Member(rank, size, gather)
        found = choosing.measured(process, member, collective, Step(collective, variables))
        assert metric.resets == 1 and variables[0].numpy().tolist() == [1.0, rank] and variables[1].numpy() == 7
        return found

    return in_threads(size, work)


def test_fewer_nodes_take_the_exchange_of_fewer(data, monkeypatch):
    """The exchange of two nodes takes 2/3 of the time of the exchange of four."""
    first, *others = measured(data, 4, monkeypatch)
    assert list(first) == [1, 4, 2] and others == [{}] * 3
    assert first[1] == pytest.approx(BASE + PER_ROW * BATCH)
    assert first[4] == pytest.approx(BASE + PER_ROW * BATCH / 4 + EXCHANGE)
    assert first[2] == pytest.approx(BASE + PER_ROW * BATCH / 2 + EXCHANGE * (1 / 2) / (3 / 4))


@pytest.mark.parametrize("cache_mb", [512, 0])
def test_a_step_takes_as_long_as_a_node_transforms_its_rows(data, monkeypatch, cache_mb):
    first, _ = measured(data, 2, monkeypatch, transform="mine.py:read", cache_mb=cache_mb)
    assert first == {nodes: pytest.approx(PER_READ * BATCH / nodes) for nodes in (1, 2)}


def test_where_steps_are_slow_fewer_numbers_of_nodes_are_measured(data, monkeypatch):
    monkeypatch.setattr(choosing, "SECONDS", 0.1)
    assert measured(data, 8, monkeypatch)[0].keys() == {1, 8, 4}


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


@given(st.integers(2, 70))
def test_powers_of_two_are_between_one_node_and_all(size):
    found = choosing.fewer(size)
    assert found == sorted((power for power in (2, 4, 8, 16, 32, 64) if power < size), reverse=True)


@given(st.integers(0, 500), st.integers(1, 9), st.integers(0, 5))
def test_shares_are_even_and_leave_out_no_row(rows, nodes, further):
    batch = SimpleNamespace(offsets=[0, rows])
    cut = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(choosing, "share_of", lambda batch, begin, count, total: cut.append((begin, count)))
        for rank in range(nodes + further):
            choosing._share(batch, rank, nodes)
    assert [place for begin, count in cut for place in range(begin, begin + count)] == list(range(rows))
    assert {count for _, count in cut[:nodes]} <= {rows // nodes, -(-rows // nodes)}
