"""One node's training, from its last checkpoint to its result. A process has one worker, or one per virtual node."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from sparksplit.cluster.leaving import GRACE
from sparksplit.collectives import Collective
from sparksplit.rows.feed import RowSource
from sparksplit.rows.ledger import Ledger
from sparksplit.strategies import STRATEGIES
from sparksplit.strategies.syncs import Sync
from sparksplit.training.messages import NodeResult
from sparksplit.training.node.feeds import Feeds
from sparksplit.training.node.looks import Looks
from sparksplit.training.node.process import Process
from sparksplit.training.node.saver import Saver
from sparksplit.training.node.schedule import Schedule, Stretch, is_within_round, own_steps, step_at
from sparksplit.training.node.state import State
from sparksplit.training.node.tally import Clock, Tally
from sparksplit.training.progress_record import EpochRecord, Progress, Values
from sparksplit.training.report import copies, finite
from sparksplit.training.run_record import RunCollective
from sparksplit.training.stopping import watch_of

if TYPE_CHECKING:
    from sparksplit.cluster import Member
    from sparksplit.rows.feed import Feed
    from sparksplit.training.node.compiled.step import Evaluation, Step

log = logging.getLogger(__name__)

_PUBLISHING = 10
"""Shortest pause after a publication of the history, as a multiple of the time that it took. An epoch may take less."""


class Worker:
    """A node of the run of `process`. `member` gives its number and its cluster, `collective` sums over the nodes.

    like: another virtual node's step, whose graphs this worker uses too.
    """

    def __init__(self, process: Process, member: Member, collective: Collective, like: Step | None = None) -> None:
        self._process, self._member, self._collective = process, member, collective
        self._config = process.config
        collective.reset()
        self._sync = process.strategy.sync(collective, self._config.sync)
        self.step = like.with_sync(self._sync, collective) if like else process.step(self._sync, collective)
        self.saver = Saver(member, beside=not self._config.virtual)
        self._state = State(process, member, self._sync, self.step, self.saver)
        self._feeds = Feeds(process, member, collective)
        self._watch = watch_of(self._config, process.data.manifest)
        self._callbacks = process.callbacks(member, collective)
        self._publishes = member.rank == 0 and not process.payload.record_only
        self._published, self._publish_after = 0, 0.0

    def begin(self) -> None:
        """Take the state that the run begins or goes on with."""
        self._progress = self._state.begin()
        self._saved = self._progress.step
        self._state.agreed_digest("before training")
        self._say_what_copies_cost()

    def train(self, rows: RowSource, held: dict[str, RowSource], clock: Clock) -> NodeResult:
        """Train to the end of the run, which may be an early stop. Return the result for the driver.

        held: the sources of validation and test rows, if they are not read from the prepared data set.
        clock: the clock of this process, since it began.
        """
        from sparksplit.training.node.loop import Hooks, Loop, evaluate_once

        member, checkpoint = self._member, self._config.checkpoint
        # From here on, the driver measures this node's progress by updates.
        member.state(update=self._progress.step)
        validation, test = (self._feeds.held_out(name, held) for name in ("validation", "test"))
        clock.go_on(self._progress.spent, self._process.payload.before)
        self._clock = clock
        tally = Tally(self._progress, self._collective)
        schedule = self._schedule(rows)
        # A run may have stopped early, but was killed before it reported this. Its end is in the stretch of its last
        # epoch.
        stretches = schedule.stretches(self._progress.epochs - self._has_stopped)
        self._go_on(stretches[0], tally)
        untrained = self._untrained(test or validation, clock)
        looks = self._looks(tally.step)
        self._heed(looks is not None)
        if self._callbacks is not None:
            self._callbacks.begin(self._progress, self._process.payload.checkpoint is not None, self._has_stopped)
        clock.begin_training(self._progress.since_round)
        for stretch in stretches:
            sync, step = self._sync_and_step(stretch)
            feed = self._feeds.training(rows, stretch.split, sync, schedule.rows_of_batch(stretch.split))
            if self._process.warmed_up is not None:
                self._process.warmed_up.updates.assign(feed.updates)
            rounds = schedule.rounds(stretch, self._progress.epochs)
            loop = Loop(
                step,
                feed,
                validation,
                self._collective,
                member,
                Hooks(self._saving(stretch), self._epoch_done, self._best_seen, self._written),
                rounds=rounds,
                sync=sync,
                every=checkpoint.every,
                looks=looks,
                watch=self._watch,
                tally=tally,
                clock=clock,
                callbacks=self._callbacks,
            )
            with clock.training(step, self._collective):
                step.begin()
            self._progress = loop.run()
            self._feeds.end(feed)
            if self._has_stopped:
                break
        self._heed(False)
        self._publish(self._progress.history)
        with clock.spent_on("checkpoint"), member.phase("checkpoint"):
            if self._saved != self._progress.step:
                self._saving(stretch)(self._progress)
        self._state.end()
        if self._callbacks is not None:
            self._callbacks.end()
        with member.phase("validation"), clock.validating(step, "test"):
            tested = evaluate_once(step, test)
            jackknife = self._jackknife(step, "validation" if test is None else "test", test or validation, held)
        weights = self._state.agreed_digest("after training")
        if self._publishes:
            with member.phase("export"), clock.spent_on("export"):
                from sparksplit.training.node import publishing

                publishing.publish_model(self._process, member.local_dir)
        with clock.spent_on("checkpoint"), member.phase("checkpoint"):
            self.saver.wait()
        self.close()
        passes = rounds.passes if rounds.epochs[0] and not self._has_stopped else len(self._progress.ledger)
        return NodeResult(
            progress=self._progress,
            seen=Ledger.from_json(self._progress.ledger).seen(range(passes)),
            passes=passes,
            sync_every="step" if sync.every_step else sync.every or "epoch",
            test=_values(tested),
            untrained=untrained,
            jackknife=jackknife,
            weights=weights,
            host=member.host,
            seconds={name: round(value, 4) for name, value in clock.spent.items()},
            init=self._process.init,
            loss_scale=self._state.loss_scale(self._progress, own_steps(stretch, self._progress.step, feed.updates)),
            threads=self._process.payload.threads,
            collective=_described(self._collective),
        )

    def _untrained(self, rows: Feed | None, clock: Clock) -> Values | None:
        """Return the model's loss and metrics before training, if asked for. Every node must call this."""
        if not self._process.payload.untrained:
            return None
        from sparksplit.training.node.loop import evaluate_once

        with self._member.phase("validation"), clock.validating(self.step, "test"):
            return _values(evaluate_once(self.step, rows))

    def _jackknife(
        self, step: Step, name: str, rows: Feed | None, held: dict[str, RowSource]
    ) -> dict[str, list[float]] | None:
        """Return how far each lane's rows move the loss and the metrics, if asked for. Every node must call this."""
        if not self._process.payload.jackknife or rows is None:
            return None
        return step.jackknife(self._feeds.by_lane(name, rows, held), self._process.data.manifest.lanes)

    def close(self) -> None:
        """Close the feeds."""
        self._feeds.close()

    def _heed(self, heeds: bool) -> None:
        """Set whether this node writes a checkpoint before it ends, if it is asked to end."""
        leaving = self._member.leaving
        leaving.heeded, leaving.grace = heeds, min(GRACE, self._config.checkpoint.grace)
        self._member.state(saves=heeds)

    def _looks(self, begun: int) -> Looks | None:
        """Return when checkpoints are due by time, or because a node is asked to end; None for a run that keeps no
        checkpoints.

        begun: the run's steps so far, as this number of nodes counts them.
        """
        member, config = self._member, self._config
        if self._process.payload.record_only:
            return None
        return Looks(
            self._collective,
            self.saver,
            config.checkpoint.seconds,
            lambda: member.stopping.is_set() or member.leaving.is_set(),
            begun,
            config.phase_timeout,
            rounds=not self._process.strategy.split.shared,
        )

    def _saving(self, stretch: Stretch) -> Callable[[Progress], None]:
        """Return the function that begins to write a checkpoint within `stretch`."""

        def save(progress: Progress) -> None:
            within = is_within_round(stretch, progress.step)
            self._state.save(replace(progress, within_round=within, fed=self._process.fed))
            self._saved = progress.step

        return save

    def _written(self) -> None:
        self.saver.wait()
        # Rank 0 publishes the checkpoint once all other nodes have done their part.
        self._member.gather(f"published {self._saved}", None)

    def _schedule(self, rows: RowSource) -> Schedule:
        config = self._config
        return Schedule(
            self._process.strategy.split,
            self._member.size,
            self._process.data.manifest.lanes,
            rows.lane_rows,
            config.epochs,
            config.batch_size,
            config.local_batch_size,
            config.sync.after,
        )

    def _sync_and_step(self, stretch: Stretch) -> tuple[Sync, Step]:
        if stretch.own:
            return self._sync, self.step
        sync = STRATEGIES["batch"].sync(self._collective, self._config.sync)
        return sync, self.step.with_sync(sync, self._collective)

    def _go_on(self, stretch: Stretch, tally: Tally) -> None:
        """Begin where the run is in `stretch`. Raise ConfigError if this number of nodes cannot go on from there."""
        resumed, size = self._progress.resumed, self._member.size
        before = resumed[-1].nodes_before if resumed else size
        if before == size:
            return
        tally.step = self._saved = step_at(stretch, len(tally.history), tally.step)
        if self._progress.within_round or is_within_round(stretch, tally.step):
            within = f"the checkpoint lies within a round that {before} nodes began"
            raise self._config.error("nodes", f"must be {before} (is {size}): {within}")

    @property
    def _has_stopped(self) -> bool:
        progress, watch = self._progress, self._watch
        stopped = progress.changed is not None and progress.changed.stopped is not None
        return stopped or (watch is not None and watch.ends(progress.watched))

    def _best_seen(self) -> None:
        if self._config.keeps_best:
            self._state.keep_best()

    def _epoch_done(self, history: list[EpochRecord]) -> None:
        # Several epochs may end between two heartbeats.
        self._member.state(history=[record.to_json() for record in history[-20:]])
        if time.monotonic() >= self._publish_after:
            self._publish(history)

    def _publish(self, history: list[EpochRecord]) -> None:
        """Publish the rounds, if there are new rounds."""
        if not self._publishes or len(history) == self._published:
            return
        began = time.monotonic()
        with self._clock.spent_on("records"), self._member.phase("records"):
            from sparksplit.training.node import publishing

            publishing.publish_history(self._process.payload.fence, history, self._member.local_dir)
        now, self._published = time.monotonic(), len(history)
        self._publish_after = now + _PUBLISHING * (now - began)

    def _say_what_copies_cost(self) -> None:
        """Log the cost of copies, if the collective was chosen for the user and does not sum on the GPUs that there
        are."""
        collective = self._collective
        if self._member.rank or not collective.reason or collective.on_device:
            return
        import tensorflow as tf

        if tf.config.list_logical_devices("GPU"):
            trained = self._process.model.trainable_variables
            # 16-bit values are exchanged as float32.
            sizes = [math.prod(each.shape) * max(4, tf.as_dtype(each.dtype).size) for each in trained]
            log.info("%s", copies(collective.name, sum(sizes)))


def _described(collective: Collective) -> RunCollective | None:
    if collective.size == 1:
        return None
    return RunCollective(collective.name, collective.reason or None)


def _values(evaluation: Evaluation | None) -> Values | None:
    return None if evaluation is None else finite({"loss": evaluation.loss, **evaluation.metrics})
