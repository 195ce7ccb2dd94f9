"""Training with larger mini-batches from one checkpoint."""

from __future__ import annotations

from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from sparksplit.base.config import parse
from sparksplit.collectives import Alone
from sparksplit.dataset.arrays import from_arrays
from sparksplit.diagnosis.messages import Effort
from sparksplit.diagnosis.node.rig import Rig
from sparksplit.diagnosis.node.runner import Runner
from sparksplit.planning import branching
from sparksplit.planning.branching import branched, parted
from sparksplit.planning.useful import LOSSES, useful
from sparksplit.strategies import STRATEGIES
from sparksplit.training.node.feeds import Feeds
from sparksplit.training.node.process import Process
from sparksplit.training.train_config import TrainConfig
from tests.training.node.stand_ins import Member, Rows, Variable, payload

ROWS, BATCH = 900, 8


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return made(str(tmp_path_factory.mktemp("branching") / "data"))


def made(folder, order="hash"):
    random = np.random.default_rng(0)
    x = random.normal(size=(ROWS, 4)).astype(np.float32)
    x[:, 0] = np.arange(ROWS) / ROWS  # names the row
    y = x[:, 1] - x[:, 2] + 0.1 * random.normal(size=ROWS).astype(np.float32)
    return from_arrays(folder, {"train": (x, y)}, lanes=12, order=order)


def config(data, **keys):
    return parse(
        TrainConfig, {"data": data.path, "output": "o", "batch_size": BATCH, "epochs": 4, "readers": 0, **keys}
    )


class Step:
    """A step whose weight is the learning rate, and which writes down its rows since the last checkpoint."""

    def __init__(self, rate):
        self.weight, self.seen, self.looks, self._rate = Variable(np.zeros(1)), [], [], rate

    def variables(self):
        return [self.weight]

    def train(self, chunk):
        assert chunk.share is None
        self._rate.iterations.assign(self._rate.iterations.numpy() + chunk.updates)
        for begin, end in zip(chunk.offsets[:-1], chunk.offsets[1:], strict=True):
            self.seen.append((end - begin, chunk.tensors[0][begin:end, 0].copy(), float(self._rate.learning_rate())))
        return np.zeros(chunk.updates)

    def gradients(self, chunk):
        return [[each[1][:2]] for each in self.seen[-2:]]

    def evaluate(self, chunks):
        self.looks.append(len(self.seen))
        return SimpleNamespace(loss=float(len(self.seen)))


@pytest.mark.parametrize("updates", [32, 76, 128])  # a part of an epoch, about an epoch, and several
def test_all_branches_see_the_same_rows_and_none_whose_loss_is_computed(data, updates):
    asked = config(data, optimizer={"name": "adam", "learning_rate": 0.5})
    optimizer = SimpleNamespace(_learning_rate=0.5, iterations=Variable(np.array(0)))
    step = Step(optimizer)
    process = SimpleNamespace(
        config=asked, data=data, optimizer=optimizer, strategy=STRATEGIES["single"], transform=lambda: None,
        step=lambda sync, collective: step,
    )  # fmt: skip
    feeds = Feeds(process, Member(), Alone())

    def feed(source, batch_size, transform=True):
        return feeds.training(
            source, STRATEGIES["single"].split, STRATEGIES["single"].sync(Alone(), asked.sync), batch_size
        )

    rig = SimpleNamespace(
        process=process, config=asked, strategy=STRATEGIES["single"], feed=feed, end=feeds.end, reset=step.seen.clear
    )
    training, held_out = parted(data.split("train"))
    made = branching._Branching(
        rig, {1: 1.0, 2: 2**0.5, 4: 2.0}, training, held_out, SimpleNamespace(heed=lambda: None), 1e-3
    )
    trained = sum(made.extents(updates))
    assert abs(trained - updates * BATCH) < 4 * BATCH
    unseen = {value for chunk in made._held_out for value in chunk.tensors[0][:, 0].tolist()}
    assert len(unseen) == sum(held_out.lane_rows)
    repeat = made.repeat(0, updates)
    checkpoint, *looks = step.looks
    assert repeat.before == checkpoint > 0 and len(looks) == 3 * LOSSES
    begin, by_branch, rows_at_looks = checkpoint, [], []
    for place, (times, rate) in enumerate(zip((1, 2, 4), (0.5, 0.5 * 2**0.5, 1.0), strict=True)):
        own = looks[place * LOSSES : (place + 1) * LOSSES]
        end = own[-1]
        assert repeat.after[place] == np.mean(own)
        rows_at_looks.append([sum(size for size, *_ in step.seen[begin:look]) for look in own])
        sizes, rows, rates = zip(*step.seen[begin:end], strict=True)
        assert max(sizes) == times * BATCH and sizes.count(times * BATCH) >= len(sizes) * 0.9
        assert rates == pytest.approx([rate] * len(rates))
        by_branch.append(np.concatenate(rows))
        begin = end
    assert rows_at_looks[0] == rows_at_looks[1] == rows_at_looks[2] == sorted({*rows_at_looks[0]})
    assert len(by_branch[0]) == trained and not unseen & {*by_branch[0].tolist()}
    for others in by_branch[1:]:
        assert others.tolist() == by_branch[0].tolist()
    before = np.concatenate([rows for _, rows, _ in step.seen[:checkpoint]])
    assert len(before) == trained and before.tolist() != by_branch[0].tolist()
    feeds.close()


def test_lanes_are_parted_as_far_as_rows_are_wanted(monkeypatch):
    training, held_out = parted(Rows([5, 0, 9, 7, 3, 8]))
    assert held_out.lane_rows == [5, 0, 0, 0, 0, 8] and training.lane_rows == [0, 0, 9, 7, 3, 0]
    monkeypatch.setattr(branching, "_HELD_OUT", 5)
    assert parted(Rows([5, 0, 9, 7, 3, 8]))[1].lane_rows == [5, 0, 0, 0, 0, 0]
    training, held_out = parted(Rows([0, 4]))
    assert sum(training.lane_rows) == 0 and sum(held_out.lane_rows) == 4


def test_a_schedule_goes_on_by_rows_with_the_factor():
    schedule = keras.optimizers.schedules.PolynomialDecay(1.0, 100, 0.0)
    optimizer = keras.optimizers.SGD(schedule)
    weight = keras.Variable(0.0)
    optimizer.build([weight])
    rate = branching._Rate(optimizer)
    update = tf.function(lambda: optimizer.apply([tf.constant(-1.0)], [weight]))

    def moved() -> float:
        before = float(weight.numpy())
        update()
        return float(weight.numpy()) - before

    rate.set(1.0, 1)
    assert [moved() for _ in range(3)] == pytest.approx([1.0, 0.99, 0.98], abs=1e-5)
    rate.set(2.0, 4)
    assert [moved() for _ in range(3)] == pytest.approx([2 * 0.97, 2 * 0.93, 2 * 0.89], abs=1e-5)


def found(data, rate, seconds=600.0, per_update=1e-3, **keys):
    member = Member()
    asked = config(
        data, model={"build": "mlp", "params": {"hidden": []}}, optimizer={"name": "sgd", "learning_rate": rate}, **keys
    )
    process = Process(member, payload(), asked)
    process.build()
    runner = Runner(member, Alone(), Effort(block=0.02))
    rig = Rig(process, member, Alone(), asked.model_copy(update={"strategy": "single"}), process.await_rows(), runner)
    try:
        rows = rig.sample if rig.in_memory is None else rig.sample.held(rig.in_memory.at_hand)
        return branched(rig, rows, runner, seconds, per_update)
    finally:
        rig.close()


def test_small_learning_rates_do_not_part_and_large_ones_do(data):
    slow = found(data, 0.01)
    assert slow.problem is None and slow.batch_sizes == [8, 16, 32] and slow.rate_factors == [1.0, 2.0, 4.0]
    assert useful(slow).batch_size == 32
    assert useful(slow).branches[1].share.mean == pytest.approx(1, abs=0.03)
    fast = useful(found(data, 0.3))
    assert fast.branches[1].learns == "less"


@pytest.mark.parametrize(
    ("keys", "problem"),
    [({"seconds": 0.5, "per_update": 1.0}, "seconds"), ({"epochs": 1, "batch_size": 64}, "rows")],
)
def test_too_few_seconds_or_rows_are_told(data, keys, problem):
    short = found(data, 0.01, **keys)
    assert short.problem == problem and not short.repeats
    assert (short.needed is not None and short.needed > 0.5) == (problem == "seconds")


def test_rows_in_a_given_order_are_not_sampled(tmp_path):
    """Some lanes of them are every n-th row, and their first blocks are the first rows of the source."""
    assert found(made(str(tmp_path / "data"), "given"), 0.01).problem == "order"
