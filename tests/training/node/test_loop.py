"""The loop's states without Spark or TensorFlow: what counts as what, where it saves, and how it goes on and ends."""

import sys
import time
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sparksplit.base.errors import Diverged, InputError, Passing, PeerLost, RunError
from sparksplit.collectives import Alone
from sparksplit.rows.feed import Feed
from sparksplit.training import report
from sparksplit.training.node import loop as loops
from sparksplit.training.node.looks import Looks
from sparksplit.training.node.loop import Hooks, Loop
from sparksplit.training.node.schedule import Rounds
from sparksplit.training.node.tally import Clock, Tally
from sparksplit.training.progress_record import Progress
from sparksplit.training.spent import ROUNDS, total
from sparksplit.training.stopping import Watch
from tests.nodes import in_threads
from tests.training.node.stand_ins import Counting, Member, Rows, Together

LANES = (9, 3, 0, 12, 7, 6)
BATCH = 5
PER_EPOCH = 8


class Node:
    """One node that owns every `size`-th lane and shares mini-batches; `run` gives what it has made of them."""

    def __init__(
        self,
        collective=None,
        step=None,
        epochs=2,
        every="epoch",
        sync_every=None,
        progress=None,
        watch=None,
        seconds=None,
        **feed,
    ):
        self.collective, self.step = collective or Alone(), step or Counting()
        rank, size = self.collective.rank, self.collective.size
        self.saved, self.histories, self.best = [], [], []
        self.member = Member(rank, size)
        self.feed = Feed(Rows(LANES), np.arange(rank, len(LANES), size), batch_size=BATCH, **feed)
        progress = progress or Progress("", size)
        done = len(progress.history)
        self.clock = Clock(began=time.perf_counter())
        self.clock.go_on(progress.spent, {"start": 100.0})
        self.clock.begin_training(progress.since_round)
        self.saver = SimpleNamespace(seconds=0.0, check=lambda: None)
        ending = lambda: self.member.stopping.is_set() or self.member.leaving.is_set()  # noqa: E731
        looks = Looks(self.collective, self.saver, seconds, ending, progress.step, 60.0, rounds=sync_every is not None)
        self.loop = Loop(
            self.step,
            self.feed,
            Feed(Rows([4, 0]), np.array([rank]) if rank < 2 else np.array([], np.int64), batch_size=4, shuffled=False),
            self.collective,
            self.member,
            Hooks(
                self.saved.append,
                lambda history: self.histories.append(list(history)),
                lambda: self.best.append(self.step.evaluations),
            ),
            rounds=Rounds([range(done, epochs)] * size, first=0, steps=PER_EPOCH),
            sync=SimpleNamespace(every_step=sync_every is None, every=sync_every),
            every=every,
            looks=looks if seconds else None,
            watch=watch,
            tally=Tally(progress, self.collective),
            clock=self.clock,
        )

    def run(self):
        try:
            return self.loop.run()
        finally:
            self.feed.close()


def without_times(progress):
    history = [replace(record, seconds=None, rows_per_second=None) for record in progress.history]
    times = dict.fromkeys(("seconds", "spent", "since_round", "sync_bytes"))
    return {**vars(progress), **times, "history": history}


def test_it_needs_no_tensorflow():
    """In a fresh interpreter, since other tests of this one import it."""
    import subprocess

    code = (
        "import sys, sparksplit.training.node.loop, sparksplit.training.node.worker;"
        "print('tensorflow' in sys.modules, 'pyspark' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False"]


def test_an_epoch_is_recorded_once_and_saved_at_its_end():
    node = Node()
    end = node.run()
    assert (end.update, end.step, end.syncs) == (2 * PER_EPOCH, 2 * PER_EPOCH, 0)
    assert [(record.epoch, record.updates, record.steps, record.rows) for record in end.history] == [
        (1, 8, 8, 37), (2, 16, 16, 37),
    ]  # fmt: skip
    assert end.history[0].train == {"loss": 1.0, "accuracy": 0.5}
    assert end.history[0].validation == {"loss": 2.0, "accuracy": 0.25}
    assert [progress.step for progress in node.saved] == [8, 16]
    assert [len(history) for history in node.histories] == [1, 2]
    assert node.member.phases == ["validation", "checkpoint"] * 2
    assert end.ledger == node.saved[1].ledger and [entry[0] for entry in end.ledger.values()] == [37, 37]
    assert end.seconds >= 100.0
    assert {"steps": 16} in node.member.states


@pytest.mark.parametrize("every", [1, 3, 8, 11])
def test_from_each_of_its_checkpoints_a_run_ends_alike(every):
    """Within an epoch, at its end, and where a checkpoint does not fall on it."""
    straight = Node(every=every, epochs=3)
    end = straight.run()
    assert [progress.step for progress in straight.saved] == list(range(every, 3 * PER_EPOCH + 1, every))
    for saved in straight.saved:
        again = Node(every=every, epochs=3, progress=Progress.from_json(saved.to_json(), "a test"))
        assert without_times(again.run()) == without_times(end)
        assert [progress.step for progress in again.saved] == [
            progress.step for progress in straight.saved if progress.step > saved.step
        ]


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("sync_every", [None, 3])
def test_from_each_checkpoint_that_the_clock_wanted_a_run_ends_alike(size, sync_every):
    """Whatever the nodes' chunks are. Apart, each has losses of its own, whose sum has the same bits."""

    def nodes(every, seconds, progress=None, leave=False):
        def work(rank, gather):
            collective = Together(rank, size, gather) if size > 1 else Alone()
            own = 3 * rank if sync_every else 0
            step = Counting(lambda chunk: 1 / (chunk.first + np.arange(chunk.updates) + own + 1.1))
            node = Node(collective, step, 3, every, sync_every, progress, seconds=seconds)
            if leave:
                node.member.leaving.set()
            try:
                return without_times(node.run()), node
            except Passing:
                return None, node

        return in_threads(size, work)

    straight = [end for end, _ in nodes(None, None)]
    often = nodes(None, 1e-9)
    assert [end for end, _ in often] == straight
    saved = [[progress.step for progress in node.saved] for _, node in often]
    assert len(saved[0]) > 2 and all(steps == saved[0] for steps in saved)
    assert any(step % PER_EPOCH for step in saved[0])
    for progress in often[0][1].saved:
        again = Progress.from_json(progress.to_json(), "a test")
        assert [end for end, _ in nodes(None, None, again)] == straight
    # Asked to end, they leave a checkpoint, at once.
    for end, node in nodes(None, 1e9, leave=True):
        assert end is None and [progress.step for progress in node.saved] == [sync_every or 1]


def test_an_epoch_within_which_a_run_has_gone_on_has_the_seconds_of_both_parts():
    """Otherwise all of its rows would seem to have been trained in the second part's time."""
    straight = Node(every=3, epochs=1)
    straight.run()
    saved = straight.saved[1]
    assert (saved.step, saved.loss_rows) == (6, 30) and 0 < total(saved.since_round) <= total(saved.spent)
    earlier = {"feed": 400.0, "compute": 600.0, "checkpoint": 1000.0}
    end = Node(every=3, epochs=2, progress=replace(saved, spent=earlier, since_round=earlier)).run()
    first, second = end.history
    assert 1000 < first.seconds.train < 1100 and 2000 < first.seconds.total < 2100
    assert first.rows_per_second == 0.0 and second.seconds.total < 100
    assert 2100 < end.seconds == total(end.spent) < 2200


def test_the_seconds_of_rounds_add_up_to_those_of_the_run():
    """What comes after a round's record, such as its checkpoint, is the next round's."""
    node = Node(every=3, epochs=3)
    node.saver.check = lambda: time.sleep(0.001)
    end = node.run()
    for record in end.history:
        parts = [getattr(record.seconds, name) for name in ROUNDS]
        assert sum(parts) == pytest.approx(record.seconds.total, abs=1e-6) and min(parts) >= 0
    in_rounds = sum(record.seconds.total for record in end.history)
    before = node.saved[-1].spent["start"]
    assert end.seconds == pytest.approx(before + in_rounds + total(end.since_round), abs=2e-3)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("sync_every", [None, 3, 8, 100])
def test_an_update_is_a_change_that_all_nodes_share(size, sync_every):
    """Each step if they agree at every step or there is one node, otherwise each sync. Steps are those of the nodes."""

    def work(rank, gather):
        collective = Together(rank, size, gather) if size > 1 else Alone()
        node = Node(collective, sync_every=sync_every)
        return node.run(), node.step

    nodes = in_threads(size, work)
    syncs = {None: PER_EPOCH, 3: 3, 8: 1, 100: 1}[sync_every]
    updates = PER_EPOCH if size == 1 else syncs
    for end, step in nodes:
        assert [(record.updates, record.steps) for record in end.history] == [(updates, 8), (2 * updates, 16)]
        assert (end.update, end.step, end.syncs) == (2 * updates, 16, 0 if size == 1 else 2 * syncs)
        if sync_every:
            assert len(step.weighed) == 2 * syncs
            curve = report.learning_curve(end.history)
            assert [(point.updates, point.steps) for point in curve] == [(updates, 8), (2 * updates, 16)]
    assert sum(sum(step.weighed) for _, step in nodes) == 2 * sum(LANES)


@pytest.mark.parametrize("size", [2, 3])
def test_chunks_are_alike_on_all_nodes_where_sums_match_by_the_turn_of_a_loop(size, monkeypatch):
    """One node is so slow that its own clock would have it make shorter chunks; one has fewer rows than the other."""
    monkeypatch.setattr(loops, "_CHUNK_SECONDS", 0.004)

    def slowed(rank):
        def losses(chunk):
            time.sleep(0.002 * chunk.updates if rank == 0 else 0)
            return np.ones(chunk.updates)

        return losses

    def work(rank, gather):
        everyone = [np.arange(other, len(LANES), size) for other in range(size)]
        node = Node(Together(rank, size, gather, same_graphs=True), Counting(slowed(rank)), 3, everyone=everyone)
        node.run()
        return node.step.chunks

    first, *others = in_threads(size, work)
    assert sum(updates for _, updates in first) == 3 * PER_EPOCH
    assert all(chunks == first for chunks in others)
    assert max(updates for _, updates in first) > 1, "the clock does say something"


@settings(max_examples=40, deadline=None)
@given(
    lane_rows=st.lists(st.integers(0, 30), min_size=4, max_size=9),
    size=st.integers(2, 4),
    batch_size=st.integers(1, 20),
    chunk_bytes=st.integers(1, 600),
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    contiguous=st.booleans(),
)
@example(lane_rows=[5, 9, 5, 5, 5, 9], size=4, batch_size=3, chunk_bytes=600, lengths=[9], contiguous=False)
def test_a_feed_ends_chunks_where_every_node_does(lane_rows, size, batch_size, chunk_bytes, lengths, contiguous):
    """Whatever lanes the nodes own, and whichever lengths they agree on while they go."""
    lanes = np.arange(len(lane_rows))
    everyone = np.array_split(lanes, size) if contiguous else [lanes[rank::size] for rank in range(size)]

    def ends(own):
        feed = Feed(Rows(lane_rows), own, batch_size=batch_size, chunk_bytes=chunk_bytes, window=1, everyone=everyone)
        found = []
        for place, chunk in enumerate(feed.epoch(0)):
            found.append(chunk.first + chunk.updates)
            feed.max_updates = lengths[place % len(lengths)]
        feed.close()
        return found

    first, *others = [ends(own) for own in everyone]
    assert all(found == first for found in others)
    assert (first[-1] if first else 0) == -(-sum(lane_rows) // batch_size)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_metric_that_is_no_finite_number_is_null_and_ends_nothing(value):
    evaluation = SimpleNamespace(loss=value, metrics={"recall": value, "accuracy": 0.5}, rows=3)
    end = Node(step=Counting(metrics={"accuracy": value}, evaluation=evaluation)).run()
    for record in end.history:
        assert record.train == {"loss": 1.0, "accuracy": None}
        assert record.validation == {"loss": None, "recall": None, "accuracy": 0.5}
    assert Node(progress=end, epochs=3).run().history[:2] == end.history


def test_a_training_loss_that_is_no_number_ends_the_run_before_it_is_saved():
    def losses(chunk):
        return np.where(np.arange(chunk.first, chunk.first + chunk.updates) == 2, np.nan, 1.0)

    node = Node(step=Counting(losses), every=1)
    with pytest.raises(Diverged, match=r"epoch 1, step 3: the loss is nan; a smaller optimizer.learning_rate may help"):
        node.run()
    assert [progress.step for progress in node.saved] == [1, 2]


def test_weights_that_the_last_update_has_spoilt_are_not_saved():
    node = Node(step=Counting(finite=False))
    with pytest.raises(Diverged, match=r"epoch 1, step 8: the loss is no number from here on, since weights are not"):
        node.run()
    assert (node.saved, node.histories) == ([], [])


def test_it_stops_when_the_driver_says_so():
    node = Node(every=1)

    def losses(chunk):
        node.member.stopping.set()
        return np.ones(chunk.updates)

    node.step._losses = losses
    with pytest.raises(RunError, match="stopped by the driver"):
        node.run()
    assert node.saved == []


class Judged(Counting):
    """A step whose n-th validation gives the n-th of `losses`; `done` were given before."""

    def __init__(self, losses, done=0):
        super().__init__()
        self.judgements, self.evaluations = losses, done

    def evaluate(self, chunks):
        self.evaluations += 1
        return SimpleNamespace(loss=self.judgements[self.evaluations - 1], metrics={"accuracy": 0.25}, rows=3)


LOSSES = [2.0, 1.0, 1.5, float("nan"), 1.0, 0.5]
WATCH = Watch("loss", False, 3)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("sync_every", [None, 3])
def test_all_nodes_stop_where_rank_0_sees_no_improvement(size, sync_every):
    """Whatever the others have made of the same rows: here they see one at every validation, or never."""
    others = [LOSSES, [6.0, 5.0, 4.0, 3.0, 2.0, 1.0], [float("nan")] * 6]

    def work(rank, gather):
        collective = Together(rank, size, gather) if size > 1 else Alone()
        node = Node(collective, Judged(others[rank]), epochs=6, sync_every=sync_every, watch=WATCH)
        return node.run(), node

    for end, node in in_threads(size, work):
        assert (end.epochs, end.step, len(node.histories), len(node.saved)) == (5, 5 * PER_EPOCH, 5, 5)
        assert (end.watched.best, end.watched.epoch, end.watched.waited) == (1.0, 2, 3)
        assert end.watched.update == end.history[1].updates
        assert node.best == [1, 2]
        assert [entry[0] for entry in end.ledger.values()] == [sum(LANES)] * 5
        # The bar's end is where it has stopped.
        lengths = [state["steps"] for state in node.member.states if "steps" in state]
        assert (lengths[0], lengths[-1]) == (6 * PER_EPOCH, 5 * PER_EPOCH)


@pytest.mark.parametrize("every", [None, 1, 3, 8, 11])
def test_from_each_of_its_checkpoints_a_run_stops_alike(every):
    """Also from those within an epoch, and from the one that it was about to end with."""
    straight = Node(step=Judged(LOSSES), epochs=6, every=every, watch=WATCH)
    end = straight.run()
    assert end.step == 5 * PER_EPOCH
    for saved in straight.saved:
        progress = Progress.from_json(saved.to_json(), "a test")
        step = Judged(LOSSES, done=len(saved.history))
        again = Node(step=step, epochs=6, every=every, progress=progress, watch=WATCH)
        assert without_times(again.run()) == without_times(end)
        assert again.best == [number for number in straight.best if number > len(saved.history)]


def test_what_is_watched_without_patience_ends_nothing():
    node = Node(step=Judged(LOSSES), epochs=6, watch=Watch("loss", False))
    end = node.run()
    assert (end.epochs, end.watched.best, end.watched.epoch, node.best) == (6, 0.5, 6, [1, 2, 6])


def test_without_a_watch_nothing_is_exchanged_for_it():
    def sums(watch):
        def work(rank, gather):
            node = Node(Together(rank, 2, gather), Judged([1.0, 2.0]), watch=watch)
            assert (node.run().watched is None) == (watch is None)
            return node.collective.sums

        return in_threads(2, work)[0]

    assert sums(WATCH) - sums(None) == 2, "one at each validation"


def with_suspect(node):
    """Let the second chunk hold a value that is no number."""
    epoch = node.feed.epoch

    def chunks(*given, **more):
        for number, chunk in enumerate(epoch(*given, **more)):
            yield replace(chunk, suspect="file 7: x holds nan") if number == 1 else chunk

    node.feed.epoch = chunks
    return node


def broken(chunk):
    """A sum whose peer has ended, in the second chunk."""
    if chunk.suspect:
        raise PeerLost("node 1 has ended")
    return np.ones(chunk.updates)


def lost(chunk):
    return np.full(chunk.updates, np.nan if chunk.suspect else 1.0)


@pytest.mark.parametrize(
    ("losses", "says"),
    [
        (lost, r"^file 7: x holds nan, and so epoch 1, step 2: the loss is nan; a smaller "),
        (
            lambda chunk: np.ones(chunk.updates),
            r"^file 7: x holds nan, and so epoch 1, step 2: the loss is no number from",
        ),
        (broken, r"^file 7: x holds nan$"),
    ],
)
def test_a_row_that_spoils_the_weights_is_named(losses, says):
    """Where the loss says so, where it does not, and where another node has seen it first."""
    node = with_suspect(Node(step=Counting(losses, finite=False), every=3))
    with pytest.raises(InputError, match=says):
        node.run()
    assert node.saved == []


def test_a_model_that_knows_what_to_do_with_nan_trains_on():
    node = with_suspect(Node(step=Counting()))
    assert node.run().update == 2 * PER_EPOCH
    with pytest.raises(PeerLost):
        with_suspect(Node(step=Counting(broken))).run()


def test_weights_that_are_no_numbers_are_not_saved_within_an_epoch():
    node = Node(step=Counting(finite=False), every=3)
    with pytest.raises(Diverged, match=r"epoch 1, step 3: the loss is no number from here on, since weights are not"):
        node.run()
    assert node.saved == []
