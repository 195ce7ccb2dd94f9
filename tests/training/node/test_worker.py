"""A node's training over its stretches, and what it tells of it, without Spark or TensorFlow."""

import json
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from sparksplit.base.config import parse
from sparksplit.base.errors import ConfigError, RunError
from sparksplit.collectives import Alone
from sparksplit.dataset.description import Description, FittedPreprocessing
from sparksplit.rows.ledger import Entry, Ledger
from sparksplit.strategies import STRATEGIES
from sparksplit.strategies.splits import BatchSplit
from sparksplit.training import report
from sparksplit.training.messages import NodeResult
from sparksplit.training.node import worker as node_worker
from sparksplit.training.node.tally import Clock
from sparksplit.training.node.worker import Worker
from sparksplit.training.progress_record import Progress, Resumed
from sparksplit.training.run_record import LossScale
from sparksplit.training.train_config import TrainConfig
from tests.nodes import in_threads
from tests.training.node.stand_ins import Counting, Member, Rows, Together, Variable, payload

LANES = (9, 3, 0, 12, 7, 6)
ROWS, BATCH, EPOCHS = sum(LANES), 6, 4
CASES = [
    ("single", {}), ("batch", {}), ("epoch", {}), ("epoch-delayed", {}), ("local", {"every": 4}),
    ("local", {"every": 5, "after": 9}),
]  # fmt: skip
SCALED = {"dynamic_scale": Variable(4.0), "iterations": Variable(0)}


class Weight:
    """What of a Keras variable is used; it starts at 0."""

    shape, dtype = (3,), "float32"

    def __init__(self):
        self.value = np.zeros(3, np.float32)

    def numpy(self):
        return self.value

    def assign(self, value):
        self.value = value


def process_of(member, strategy, rows, step=None, scaled=False, **keys):
    """The stand-in for Process: a data set in memory, a model of one weight, a step that counts.

    step: makes that step; the data set then has validation rows, too.
    scaled: whether the loss is scaled, by an optimizer that has made no update.
    """
    config = parse(
        TrainConfig,
        {
            "data": "d",
            "output": "o",
            "strategy": strategy,
            "nodes": member.size,
            "batch_size": BATCH,
            "epochs": EPOCHS,
            **keys,
        },
    )
    splits = {
        "train": SimpleNamespace(rows=ROWS),
        "validation": SimpleNamespace(rows=5 if step else 0),
        "test": SimpleNamespace(rows=5),
    }
    description = Description(tensors=[], label=None, preprocessing=FittedPreprocessing())
    manifest = SimpleNamespace(
        lanes=len(LANES), splits=splits, block_bytes=64, label=None, description=description, order="hash"
    )
    weight = Weight()
    return SimpleNamespace(
        config=config,
        payload=payload(),
        member=member,
        model=SimpleNamespace(trainable_variables=[weight], non_trainable_variables=[], variables=[weight]),
        optimizer=SimpleNamespace(variables=[], **(SCALED if scaled else {})),
        init=None,
        strategy=STRATEGIES[strategy],
        data=SimpleNamespace(manifest=manifest, split=lambda name: Rows([1, 4, 0, 0, 0, 0])),
        held_out=[name for name in ("validation", "test") if splits[name].rows],
        step=lambda sync, collective: (step or Counting)(),
        callbacks=lambda member, collective: None,
        random_states=list,
        transform=lambda: None,
        warmed_up=None,
        fed=None,
    )


def trained(strategy, size, progress=None, **keys):
    """(result, worker) of each node. keys: the configuration's, and `step` and `scaled` of process_of."""

    def work(rank, gather):
        member = Member(rank, size, gather)
        worker = Worker(
            process_of(member, strategy, LANES, **keys), member, Together(rank, size, gather) if size > 1 else Alone()
        )
        # Without TensorFlow's variables there is nothing to average: Counting.synchronise stands for it.
        for name in ("begin", "agree"):
            setattr(worker._sync, name, lambda *_: None)
        worker.begin()
        if progress is not None:
            worker._progress = progress
        return worker.train(Rows(LANES), {}, Clock(time.perf_counter())), worker

    return in_threads(size, work)


@pytest.mark.parametrize(
    ("reason", "on_device", "gpus", "said"),
    [
        ("all 2 nodes are on one host", False, ["GPU:0"], [report.copies("shared", 12)]),
        ("all 2 nodes are on one host", False, [], []),
        ("all 2 nodes are on one host", True, ["GPU:0"], []),
        ("", False, ["GPU:0"], []),
    ],
)
def test_where_the_sums_were_chosen_one_node_says_what_they_cost_gpus(
    monkeypatch, caplog, reason, on_device, gpus, said
):
    monkeypatch.setattr("tensorflow.config.list_logical_devices", lambda kind: gpus)

    def work(rank, gather):
        member, collective = Member(rank, 2, gather), Together(rank, 2, gather)
        collective.name, collective.reason, collective.on_device = "shared", reason, on_device
        worker = Worker(process_of(member, "batch", LANES), member, collective)
        worker._sync.begin = lambda *_: None
        worker.begin()

    with caplog.at_level("INFO"):
        in_threads(2, work)
    assert [record.message for record in caplog.records if record.message.startswith("collective: ")] == said


def expected(strategy, size, every, after):
    """(updates, steps, syncs, passes) as the design's table of strategies has them."""
    per_pass = -(-ROWS // BATCH)
    if strategy in ("single", "batch"):
        steps = updates = EPOCHS * per_pass
        passes = EPOCHS
    elif strategy in ("epoch", "epoch-delayed"):
        rounds = -(-EPOCHS // size)
        passes, steps = size * rounds, rounds * per_pass
        updates = steps if strategy == "epoch" else rounds
    else:
        own = max(1, BATCH // size)
        longest = max(-(-sum(LANES[rank::size]) // own) for rank in range(size))
        before = -(-after // per_pass)
        passes, steps = EPOCHS, before * per_pass + (EPOCHS - before) * longest
        updates = before * per_pass + (EPOCHS - before) * -(-longest // every)
    return (updates, steps, updates, passes) if size > 1 else (steps, steps, 0, passes)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize(("strategy", "sync"), CASES)
def test_updates_steps_syncs_and_passes_are_those_of_the_table_of_strategies(strategy, sync, size):
    """All records agree: the result, its history, and what the driver's progress shows."""
    if strategy == "single" and size > 1:
        with pytest.raises(ConfigError, match="nodes must be 1"):
            trained(strategy, size)
        return
    for result, worker in trained(strategy, size, **({"sync": sync} if sync else {})):
        updates, steps, syncs, passes = expected(strategy, size, sync.get("every"), sync.get("after", 0))
        progress = result.progress
        assert (progress.update, progress.step, progress.syncs, result.passes) == (updates, steps, syncs, passes)
        last = progress.history[-1]
        assert (last.updates, last.steps, last.epoch) == (updates, steps, passes)
        shown = [state for state in worker._member.states if "steps" in state or "update" in state]
        assert {state["steps"] for state in shown if "steps" in state} == {steps}
        assert {state["epochs"] for state in worker._member.states if "epochs" in state} == {passes}
        assert [state["update"] for state in shown if "update" in state][-1] <= steps
        assert result.seen == Ledger.from_json(progress.ledger).seen(range(passes))
        assert result.seen.exact(entry_of_all())
        assert result.test == {"loss": 2.0, "accuracy": 0.25}


@pytest.mark.parametrize(
    ("strategy", "sync"), [("epoch-delayed", {}), ("local", {"every": 4}), ("local", {"every": 5, "after": 9})]
)
def test_steps_are_left_out_of_the_nodes_own(strategy, sync):
    """With `local`, node 0 has fewer steps than node 1, by which the run counts. None of them made an update."""
    for result, worker in trained(strategy, 2, scaled=True, **({"sync": sync} if sync else {})):
        assert result.loss_scale == LossScale(4.0, sum(updates for _, updates in worker.step.chunks))
        if worker._member.rank == 0:
            assert (result.loss_scale.left_out < result.progress.step) == (strategy == "local")


def test_what_crosses_to_the_driver_does_not_grow_with_the_epochs():
    """A message to the driver has a longest length, and a run any number of epochs."""
    (few, _), (many, _) = (trained("batch", 2, epochs=epochs)[0] for epochs in (3, 300))
    sizes = [len(json.dumps(each.to_json())) for each in (many, few.in_brief(), many.in_brief())]
    assert sizes[0] > 20 * sizes[1]
    assert abs(sizes[2] - sizes[1]) < 200, "the digits of counts and seconds"
    told = NodeResult.from_json(many.in_brief().to_json(), "a node's result")
    assert (told.seen, told.passes, told.progress.update) == (many.seen, 300, many.progress.update)


class Judged(Counting):
    """A step whose validations, after each round, give losses that are the least after the second."""

    def __init__(self, done=0):
        super().__init__()
        self.done = done

    def evaluate(self, chunks):
        self.done += 1
        return SimpleNamespace(loss=abs(self.done - 2.0), metrics={}, rows=5)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize(("strategy", "sync"), [*CASES, ("local", {"every": 5, "after": 19})])
def test_a_run_that_stops_early_is_the_beginning_of_the_whole(strategy, sync, size):
    """After its third round, which with sync.after is one of `local`, or the last that is not. The ledger is exact over
    the epochs that were trained."""
    if strategy == "single" and size > 1:
        return
    keys = {**({"sync": sync} if sync else {}), "epochs": 6 * size}
    whole = trained(strategy, size, **keys)[0][0]
    keys |= {"early_stop": {"patience": 1}, "step": Judged}
    stopped = trained(strategy, size, **keys)
    for result, worker in stopped:
        third = whole.progress.history[2]
        end = result.progress
        assert (end.update, end.step, end.epochs) == (third.updates, third.steps, third.epoch)
        assert (len(end.history), result.passes, end.watched.epoch) == (3, third.epoch, end.history[1].epoch)
        assert end.ledger == {str(epoch): whole.progress.ledger[str(epoch)] for epoch in range(result.passes)}
        assert result.seen.exact(entry_of_all())
        assert [state["steps"] for state in worker._member.states if "steps" in state][-1] == end.step
    # Killed before it has told so, it does nothing more.
    for result, _ in trained(strategy, size, stopped[0][0].progress, **{**keys, "step": lambda: Judged(3)}):
        first = stopped[0][0]
        assert (result.progress.history, result.progress.ledger) == (first.progress.history, first.progress.ledger)
        assert (result.passes, result.sync_every) == (first.passes, first.sync_every)


@pytest.mark.parametrize(("keep_best", "kept"), [(None, 2), (True, 2), (False, 4)])
def test_the_model_ends_with_the_weights_that_it_is_to_keep(keep_best, kept):
    """Of the second round, the best; or, after three rounds, those of the moment: here each round adds 1, to 1."""

    def work(rank, gather):
        member = Member(rank, 2, gather)
        process = process_of(member, "batch", LANES, Judged, early_stop={"patience": 1}, keep_best=keep_best)
        worker = Worker(process, member, Together(rank, 2, gather))
        weight = process.model.variables[0]
        worker._epoch_done = lambda history: weight.assign(np.full(3, 1.0 + len(history), np.float32))
        worker.begin()
        weight.assign(np.ones(3, np.float32))
        worker.train(Rows(LANES), {}, Clock(time.perf_counter()))
        return weight.value.tolist()

    assert in_threads(2, work) == [[float(kept)] * 3] * 2


def test_a_run_that_never_comes_to_local_agreed_at_every_step():
    """sync.after is more than all of its steps."""
    for after, every in ((10_000, "step"), (9, 5), (0, 5)):
        [(result, _), _] = trained("local", 2, sync={"every": 5, "after": after})
        assert result.sync_every == every


def entry_of_all():
    from sparksplit.dataset.row_ids import row_checksum

    ids = np.concatenate([np.arange(rows) + 1000 * lane for lane, rows in enumerate(LANES)]).astype(np.uint64)
    return Entry(ROWS, row_checksum(ids))


class Halves(BatchSplit):
    """Mini-batches of half the rows."""

    def batch_size(self, batch_size, nodes):
        return batch_size // 2


def test_another_number_of_nodes_counts_its_updates_on():
    """`local`: two nodes have made six of four epochs' syncs; one goes on, whose every step is an update."""
    first = trained("local", 2, sync={"every": 4}, epochs=2)[0][0].progress
    progress = replace(first, nodes=1, resumed=[Resumed(first.update, 2, 1)])
    [(result, _)] = trained("local", 1, progress, sync={"every": 4})
    end, own = result.progress, -(-ROWS // BATCH)
    assert (end.update, end.syncs, end.step) == (first.update + 2 * own, first.syncs, 4 * own)
    assert result.seen.exact(entry_of_all())


def test_another_number_of_nodes_looks_from_the_steps_that_it_counts_itself(monkeypatch):
    """Or more nodes, whose mini-batches are fewer, would not look for a checkpoint until they had as many steps."""
    first = trained("local", 1, epochs=2, sync={"every": 4}, local_batch_size=2)[0][0].progress

    class Begun(Exception):
        pass

    def looks(*arguments, rounds):
        raise Begun(arguments[4])

    monkeypatch.setattr(node_worker, "Looks", looks)

    def work(rank, gather):
        member = Member(rank, 3, gather)
        process = process_of(member, "local", LANES, sync={"every": 4}, local_batch_size=2)
        process.payload = payload(record_only=False)
        worker = Worker(process, member, Together(rank, 3, gather))
        worker.begin()
        worker._progress = replace(first, nodes=3, resumed=[Resumed(first.update, 1, 3)])
        with pytest.raises(Begun) as begun:
            worker.train(Rows(LANES), {}, Clock(time.perf_counter()))
        return begun.value.args[0]

    longest = max(-(-sum(LANES[rank::3]) // 2) for rank in range(3))
    assert first.step == 2 * -(-ROWS // 2) > in_threads(3, work)[0] == 2 * longest


@pytest.mark.parametrize(("strategy", "within"), [("epoch", False), ("local", True)])
def test_within_a_round_the_nodes_must_be_those_of_before(strategy, within):
    """A round has as many epochs as nodes with `epoch`, and one epoch with `local`."""
    progress = Progress("", 3, update=3, step=3, within_round=within, resumed=[Resumed(3, 2, 3)])
    with pytest.raises(ConfigError, match=r"must be 2 \(is 3\): the checkpoint lies within a round that 2 nodes began"):
        trained(strategy, 3, progress)


@pytest.mark.parametrize("fed", [None, (5, str(2**64 - 1))])
def test_a_checkpoint_names_the_rows_that_a_data_frame_gave(fed):
    """A restart can compare the rows that the DataFrame gives then."""
    saved = []

    def work(rank, gather):
        member = Member(rank, 1, gather)
        process = process_of(member, "single", LANES)
        process.fed = fed
        worker = Worker(process, member, Alone())
        worker.begin()
        worker._state.save = saved.append
        worker.train(Rows(LANES), {}, Clock(time.perf_counter()))

    in_threads(1, work)
    assert [Progress.from_json(each.to_json(), "a checkpoint").fed for each in saved] == [fed]


def test_a_test_loss_that_is_no_finite_number_is_null():
    evaluation = SimpleNamespace(loss=float("inf"), metrics={"accuracy": float("nan")}, rows=3)

    def work(rank, gather):
        member = Member(rank, 1, gather)
        process = process_of(member, "single", LANES)
        process.step = lambda sync, collective: Counting(evaluation=evaluation)
        worker = Worker(process, member, Alone())
        worker.begin()
        return worker.train(Rows(LANES), {}, Clock(time.perf_counter()))

    assert in_threads(1, work)[0].test == {"loss": None, "accuracy": None}


def test_a_progress_line_tells_records_from_checkpoints(monkeypatch):
    """A NameNode that stands still holds training while records are published, unlike checkpoints."""
    phases = []

    def work(rank, gather):
        member = Member(rank, 1, gather)
        publishing = SimpleNamespace(
            publish_history=lambda fence, history, scratch: phases.append((len(history), member.phases[-1])),
            publish_model=lambda process, scratch: None,
        )
        monkeypatch.setattr("sparksplit.training.node.publishing", publishing, raising=False)
        worker = Worker(process_of(member, "single", LANES), member, Alone())
        worker._publishes = True
        worker.begin()
        worker.train(Rows(LANES), {}, Clock(time.perf_counter()))

    in_threads(1, work)
    assert phases[0] == (1, "records") and phases[-1] == (EPOCHS, "records")


def test_weights_that_differ_end_the_run():
    def work(rank, gather):
        member = Member(rank, 2, gather)
        process = process_of(member, "batch", LANES)
        process.model.trainable_variables = [SimpleNamespace(numpy=lambda: np.full(3, rank))]
        Worker(process, member, Together(rank, 2, gather)).begin()

    with pytest.raises(RunError, match=r"the nodes' weights differ before training: \w{16} on 0; \w{16} on 1"):
        in_threads(2, work)
