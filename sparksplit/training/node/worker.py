"""One node's training, from its last checkpoint to its result; a process has one, or plays many virtual ones."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hdfs_io.publish import check_owner
from sparksplit.base.errors import RunError
from sparksplit.collectives import Collective
from sparksplit.rows import order
from sparksplit.rows.chunks import Assembler
from sparksplit.rows.feed import Feed, LanesOf, RowSource
from sparksplit.strategies import STRATEGIES
from sparksplit.strategies.splits import SharedLanes, Split
from sparksplit.strategies.syncs import Sync
from sparksplit.training import checkpoints
from sparksplit.training.checkpoints import Progress
from sparksplit.training.messages import NodeResult
from sparksplit.training.node.process import Process
from sparksplit.training.record import EpochRecord, Resumed
from sparksplit.training.report import finite

if TYPE_CHECKING:
    from sparksplit.cluster import Member
    from sparksplit.handoff.arrival import ArrivingFeed
    from sparksplit.training.node.step import Step


@dataclass
class Stretch:
    """Rounds that are trained in one way: a run's, or those before and after it goes over to another.

    until: the epochs that have been run at its end. begins: those before it, in `first` steps.
    steps: steps of a round, those of the node with the most; known once the rows are.
    """

    split: Split
    sync: Sync
    step: Step
    until: int
    begins: int = 0
    first: int = 0
    steps: int = 0


class Worker:
    """A node of the run of `process`, as `member` numbers it, that exchanges by `collective`.

    like: another virtual node's step, whose graphs this one uses, too.
    """

    def __init__(self, process: Process, member: Member, collective: Collective, like: Step | None = None) -> None:
        self._process, self._member, self._collective = process, member, collective
        self._config, self._run = process.config, process.payload.run
        self._model, self._optimizer = process.model, process.optimizer
        collective.reset()
        self._sync = process.way.sync(collective, self._config.sync)
        self.step = like.with_sync(self._sync, collective) if like else process.step(self._sync, collective)
        self._feeds: list[Feed] = []
        self._cache = 0 if self._config.virtual else self._config.cache_mb << 20

    @property
    def goes_on(self) -> bool:
        """Whether the run has been trained already, up to a checkpoint."""
        return self._progress.step > 0

    def begin(self) -> None:
        """Take the state that the run begins or goes on with."""
        for variable in self._process.random_states():
            # Masks of each node's own for Dropout, reproducible from the seed.
            first, second = variable.numpy()
            variable.assign([(int(first) + 0x9E3779B9 * self._member.rank) % 2**32, second])
        self._progress = self._restore()
        self._refuse_unequal("before training")

    def train(self, rows: RowSource | None, held: dict[str, RowSource], began: float) -> NodeResult:
        """Train to the end; the result, for the driver. rows: None where training begins while they arrive.

        held: the sources of validation and test where they are not read from the prepared data set.
        began: when the process did (time.perf_counter).
        """
        from sparksplit.training.node.loop import Hooks, Loop, evaluate_once

        member, config = self._member, self._config
        validation, test = (self._held_out(name, held) for name in ("validation", "test"))
        arriving = self._arriving_feed() if rows is None else None
        started = time.perf_counter() - began
        seconds: dict[str, float] = {}
        own_rows = 0
        total_rows = 0 if rows is None else sum(rows.lane_rows)
        for stretch in self._stretches(total_rows):
            feed = arriving if rows is None else self._feed_of(rows, stretch)
            assert feed is not None
            epochs = self._schedule(stretch, feed)
            loop = Loop(
                stretch.step,
                feed,
                validation,
                self._collective,
                member,
                Hooks(self._save, self._epoch_done),
                epochs=epochs,
                every=None if config.checkpoint.every == "epoch" else config.checkpoint.every,
                sync=stretch.sync,
                first=stretch.first,
                steps=lambda stretch=stretch, feed=feed: stretch.steps or feed.updates,  # type: ignore[misc]
                to_come=None if rows is None else self._to_come(stretch, rows),
                progress=self._progress,
                began=began,
                seconds_before=self._process.payload.seconds_before,
            )
            loop.own_rows = own_rows
            stretch.sync.begin(self._model)
            self._progress = loop.run()
            stretch.steps = stretch.steps or feed.updates
            own_rows = loop.own_rows
            for name, value in loop.clock.seconds.items():
                seconds[name] = round(seconds.get(name, 0.0) + value, 4)
            if feed in self._feeds:
                # Its memory is the next stretch's.
                self._feeds.remove(feed)
                feed.close()
        with member.phase("validation"):
            tested = evaluate_once(stretch.step, test)
        digest = self._refuse_unequal("after training")
        if member.rank == 0 and not self._process.payload.record_only:
            with member.phase("export"):
                from sparksplit.model.export import export

                self._process.data.description.write(self._run)
                export(self._model, self._process.inputs, self._run, member.local_dir)
        self.close()
        return NodeResult(
            progress=self._progress,
            passes=max(own[-1] + 1 for own in epochs) if epochs[0] else len(self._progress.ledger),
            sync_every="step" if stretch.sync.every_step else stretch.sync.every or "epoch",
            test=None if tested is None else finite({"loss": tested.loss, **tested.metrics}),
            weights=digest,
            host=member.host,
            start_seconds=round(started, 4),
            seconds=seconds,
        )

    def close(self) -> None:
        """End reading."""
        for feed in self._feeds:
            feed.close()

    # Rows.

    def _stretches(self, rows: int) -> Iterator[Stretch]:
        """The stretches that are not over, each when its turn has come."""
        config, way = self._config, self._process.way
        per_epoch = order.updates_per_epoch(rows, config.batch_size)
        before = min(config.epochs, -(-config.sync.after // per_epoch)) if config.sync.after else 0
        if self._progress.epochs < before or before == config.epochs:
            batch = STRATEGIES["batch"]
            sync = batch.sync(self._collective, config.sync)
            # A node that was handed its rows has those of the way's own lanes alone.
            split = batch.split if way.split.every_row else SharedLanes(way.split)
            yield Stretch(split, sync, self.step.with_sync(sync, self._collective), before)
        if before < config.epochs:
            yield Stretch(way.split, self._sync, self.step, config.epochs, before, before * per_epoch)

    def _feed_of(self, rows: RowSource, stretch: Stretch) -> Feed:
        size, lanes = self._member.size, self._process.data.manifest.lanes
        own = stretch.split.lanes(lanes, self._member.rank, size)
        batch_size = self._batch_size(stretch.split)
        if stretch.split.dealt_apart:
            stretch.steps = self._steps(stretch.split, rows)
            rows = LanesOf(rows, own)
        copies = size if stretch.sync.every_step and stretch.split.every_row else 1
        everyone = self._everyone(stretch.split, stretch.sync)
        return self._feed(rows, own, batch_size, training=True, copies=copies, everyone=everyone)

    def _batch_size(self, split: Split) -> int:
        own = split.batch_size(self._config.batch_size, self._member.size)
        return (self._config.local_batch_size or own) if split.dealt_apart else own

    def _steps(self, split: Split, rows: RowSource) -> int:
        """Of a round: those of the node with the most."""
        count, size = sum(rows.lane_rows), self._member.size
        if split.dealt_apart:
            lanes = (split.lanes(self._process.data.manifest.lanes, rank, size) for rank in range(size))
            count = max(sum(rows.lane_rows[lane] for lane in own) for own in lanes)
        return order.updates_per_epoch(count, self._batch_size(split))

    def _to_come(self, stretch: Stretch, rows: RowSource) -> tuple[int, int] | None:
        """(steps, epochs) of the run where it goes over to its own way after this stretch; None where it does not."""
        if stretch.until == self._config.epochs:
            return None
        split, per_epoch = (
            self._process.way.split,
            order.updates_per_epoch(sum(rows.lane_rows), self._config.batch_size),
        )
        epochs = [
            split.epochs(stretch.until, self._config.epochs, rank, self._member.size)
            for rank in range(self._member.size)
        ]
        steps = stretch.until * per_epoch + len(epochs[0]) * self._steps(split, rows)
        return steps, max(own[-1] + 1 for own in epochs)

    def _everyone(self, split: Split, sync: Sync) -> list[order.Ints] | None:
        """The nodes' lanes, where their chunks must hold the same mini-batches: sums match by the turn of a loop."""
        lanes, size = self._process.data.manifest.lanes, self._member.size
        if not (self._collective.same_graphs and sync.every_step):
            return None
        return [split.lanes(lanes, rank, size) for rank in range(size)]

    def _arriving_feed(self) -> ArrivingFeed:
        """Rows of the first epoch as Spark hands them over."""
        from sparksplit.handoff.arrival import ArrivingFeed

        process, member, config = self._process, self._member, self._config
        assert process.receiver is not None
        manifest, split = process.data.manifest, process.way.split
        own = split.lanes(manifest.lanes, member.rank, member.size)
        batch_size = split.batch_size(config.batch_size, member.size)
        everyone = self._everyone(split, self._sync)
        return ArrivingFeed(
            process.receiver,
            Assembler(manifest.tensors, manifest.label, config.seed, process.transform()),
            self._collective,
            batch_size,
            process.told,
            lambda fed: self._feed(process.spooled_rows(fed), own, batch_size, training=True, everyone=everyone),
            lambda: member.phase("feeding"),
        )

    def _held_out(self, name: str, held: dict[str, RowSource]) -> Feed | None:
        data, member = self._process.data, self._member
        if not data.manifest.splits[name].rows:
            return None
        own = order.owned_lanes(data.manifest.lanes, member.rank, member.size)
        batch_size = max(1024, self._process.way.split.batch_size(self._config.batch_size, member.size))
        return self._feed(held.get(name) or data.split(name), own, batch_size)

    def _feed(
        self,
        source: RowSource,
        lanes: order.Ints,
        batch_size: int,
        *,
        training: bool = False,
        copies: int = 1,
        everyone: Sequence[order.Ints] | None = None,
    ) -> Feed:
        config = self._config
        row_bytes = sum(spec.row_bytes for spec in source.tensors)
        feed = Feed(
            source,
            lanes,
            batch_size=batch_size,
            seed=config.seed,
            window=config.window,
            cache=self._cache,
            readers=config.readers,
            transform=self._process.transform() if training else None,
            copies=copies,
            shuffled=training,
            everyone=everyone,
        )
        if not training:
            self._cache = max(0, self._cache - row_bytes * sum(source.lane_rows[lane] for lane in lanes))
        self._feeds.append(feed)
        return feed

    def _schedule(self, stretch: Stretch, feed: Feed | ArrivingFeed) -> list[range]:
        """By rank, the epochs of the rounds that are left; ConfigError for other nodes within a round."""
        progress, size = self._progress, self._member.size
        before = progress.resumed[-1].nodes_before if progress.resumed else size
        if stretch.split.dealt_apart:
            # A round has as many steps as the longest node: with other nodes another number.
            rounds = len(progress.history) - stretch.begins
            progress = self._progress = replace(progress, step=stretch.first + rounds * stretch.steps)
        steps = stretch.steps or feed.updates if not stretch.split.shared else 1
        if before != size and (progress.step - stretch.first) % steps:
            raise self._config.error(
                "nodes", f"must be {before} (is {size}): the checkpoint lies within a round of {before} epochs"
            )
        if self._process.warmed_up is not None:
            self._process.warmed_up.updates.assign(feed.updates)
        return [stretch.split.epochs(self._progress.epochs, stretch.until, rank, size) for rank in range(size)]

    # Checkpoints.

    def _common(self) -> list[Any]:
        random = {id(variable) for variable in self._process.random_states()}
        shared = [variable for variable in self._model.variables if id(variable) not in random]
        return [*shared, *self._optimizer.variables] if self._sync.every_step else shared

    def _own_state(self) -> list[Any]:
        """What differs per node: random states, and the optimizer's state where nodes apply gradients of their own."""
        return [*self._process.random_states(), *([] if self._sync.every_step else self._optimizer.variables)]

    def _save(self, progress: Progress) -> None:
        if self._process.payload.record_only:
            return
        metrics = self.step.metric_sums()
        if self._member.rank == 0:
            check_owner(self._process.payload.output, self._process.payload.owner)
        checkpoints.write(
            self._run,
            progress,
            {**checkpoints.named("v", self._common()), **metrics, **self._sync.state()},
            checkpoints.named("r", self._own_state()),
            self._member.rank,
            self._member.gather,
            self._config.checkpoint.keep,
        )

    def _restore(self) -> Progress:
        payload, member = self._process.payload, self._member
        path = payload.checkpoint
        if path is None:
            return Progress(payload.config_hash, member.size)
        checkpoint = checkpoints.read(path, member.rank, member.size)
        checkpoints.assign("v", self._common(), checkpoint.state, path)
        self._sync.restore(checkpoint.state)
        if checkpoint.own is not None:
            checkpoints.assign("r", self._own_state(), checkpoint.own, path)
        elif not self._sync.every_step:
            # Another number of nodes: the optimizer begins afresh, but for its schedule.
            self._optimizer.iterations.assign(checkpoint.progress.step)
        # What all nodes had counted together goes on in one of them.
        if member.rank == 0:
            self.step.restore_metrics(checkpoint.state)
        progress = checkpoint.progress
        afresh = not self._sync.every_step and progress.nodes != member.size
        resumed = Resumed(progress.update, progress.nodes, member.size, "reset" if afresh else None)
        return replace(progress, nodes=member.size, resumed=[*progress.resumed, resumed])

    def _epoch_done(self, history: list[EpochRecord]) -> None:
        # Several epochs may end between two heartbeats.
        self._member.state(history=[record.to_json() for record in history[-20:]])
        if self._member.rank == 0 and not self._process.payload.record_only:
            with self._member.phase("checkpoint"):
                from sparksplit.training import report

                report.publish_metrics(self._run, history)
                report.publish_events(self._run, history, self._member.local_dir)

    def _refuse_unequal(self, when: str) -> str:
        """The digest of the weights; RunError where the ranks do not hold the same bits."""
        digest = hashlib.sha256()
        for variable in self._model.trainable_variables:
            digest.update(variable.numpy().tobytes())
        own = digest.hexdigest()[:16]
        all_digests = self._member.gather(f"weights {when}", own)
        if len(set(all_digests)) > 1:
            raise RunError(f"the nodes' weights differ {when}: {', '.join(all_digests)} by rank")
        return own
