"""What one node does, from its start to its result."""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import astuple, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hdfs_io import filesystem
from hdfs_io.lane_files import Layout
from hdfs_io.prepared import PreparedDataSet
from hdfs_io.publish import check_owner
from sparksplit.config import Source, parse
from sparksplit.errors import RunError
from training import checkpoints, order
from training.checkpoints import Progress
from training.chunks import Assembler, Transform
from training.cluster import Member
from training.config import TrainConfig
from training.feed import Feed, LanesOf, RowSource
from training.functions import FunctionError, load
from training.transport import Alone, Transport
from training.ways import WAYS

if TYPE_CHECKING:
    from training.handoff.arrival import ArrivingFeed
    from training.handoff.receiver import Receiver


def work(member: Member) -> dict[str, Any]:
    """Train as one node of the run that `member.payload` describes; the result, for the driver.

    payload: config (of TrainConfig), source (its places), run (the output folder), sources (users' files by key),
    config_hash, owner (of the output), checkpoint (a path or None), threads.
    """
    began = time.perf_counter()
    with member.phase("start"):
        payload = member.payload
        config = parse(TrainConfig, payload["config"], Source.from_json(payload["source"]))
        _configure(config, payload["threads"])
        session = _Session(member, config, began)
    return session.run()


def _configure(config: TrainConfig, threads: int) -> None:
    """Settings that must come before anything else in TensorFlow: threads, determinism, float type, seed."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import keras
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    for device in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(device, True)
    tf.config.experimental.enable_op_determinism()
    keras.config.set_floatx(config.dtype)
    keras.utils.set_random_seed(config.seed)


def _connect(member: Member, config: TrainConfig) -> Transport:
    if member.size == 1:
        return Alone()
    if config.transport == "tensorflow":
        from training.transport.tensorflow import TensorFlowTransport

        return TensorFlowTransport(member.rank, member.size, member.tf_config)
    from training.transport.ring import Ring

    def waiting(is_waiting: bool) -> None:
        member.state(waiting=is_waiting)

    return Ring.connect(
        member.rank,
        member.size,
        member.host,
        member.secret,
        member.gather,
        waiting=waiting,
    )


class _Session:
    """The parts of one node's training, put together."""

    def __init__(self, member: Member, config: TrainConfig, began: float) -> None:
        self._member, self._config, self._began = member, config, began
        self._run = str(member.payload["run"])
        self._data = PreparedDataSet.open(config.data, verify=False)
        # Spark feeds while the model is built.
        self._receiver = self._receive() if config.input_mode == "spark" else None
        self._transport = _connect(member, config)
        # Keras and all that imports it come after the settings and the collectives.
        from training import build
        from training.inputs import Inputs
        from training.rates import WarmedUp
        from training.step import Step

        sources = member.payload["sources"]
        manifest = self._data.manifest
        self._inputs = Inputs(manifest.description)
        described = build.describe(manifest.description, manifest.splits["train"].rows)
        self._model = build.build_model(config, sources.get("model.build"), described, self._inputs)
        way = WAYS[config.split]
        self._warmed_up = WarmedUp(member.size) if way.scaled_rate else None
        self._optimizer = build.build_optimizer(config, self._warmed_up)
        loss = build.build_loss(config, described, self._model, self._inputs)
        metrics = build.build_metrics(config, described, self._model, self._inputs)
        self._sync = way.sync(self._transport, config.sync)
        self._step = Step(self._model, self._optimizer, loss, metrics, self._inputs, self._sync, self._transport)
        self._scatter_random_states()
        self._split = way.split
        self._lanes = way.split.lanes(manifest.lanes, member.rank, member.size)
        self._batch_size = way.split.batch_size(config.batch_size, member.size)
        self._cache = config.cache_mb << 20
        self._feeds: list[Feed] = []
        self._round_steps = 0
        """Of the node with the most updates in a round; 0 where all have as many."""
        self._progress = self._restore()
        self._refuse_unequal("before training")

    def run(self) -> dict[str, Any]:
        from training.loop import Hooks, Loop, evaluate_once

        member, config = self._member, self._config
        train = self._train_feed()
        self._epochs = self._schedule(train)
        batch_size = max(1024, self._batch_size)
        own = order.owned_lanes(self._data.manifest.lanes, member.rank, member.size)
        validation, test = (
            self._feed(self._data.split(name), own, batch_size) if self._data.manifest.splits[name].rows else None
            for name in ("validation", "test")
        )
        every = None if config.checkpoint.every == "epoch" else config.checkpoint.every
        loop = Loop(
            self._step,
            train,
            validation,
            self._transport,
            member,
            Hooks(self._save, self._epoch_done),
            epochs=self._epochs,
            every=every,
            sync=self._sync,
            steps=lambda: self._round_steps or train.updates,
            progress=self._progress,
        )
        started = time.perf_counter() - self._began
        self._sync.begin(self._model)
        progress = loop.run()
        with member.phase("validation"):
            tested = evaluate_once(self._step, test)
        digest = self._refuse_unequal("after training")
        apart, steps = not self._sync.every_step, self._round_steps or train.updates
        syncs = progress.update // steps * -(-steps // (self._sync.every or steps)) if apart else progress.update
        if member.rank == 0:
            with member.phase("export"):
                from training.export import export

                self._data.description.write(self._run)
                export(self._model, self._inputs, self._run, member.local_dir)
        seconds = {name: round(value, 4) for name, value in loop.clock.seconds.items()}
        seconds["sync"] = round(self._transport.seconds, 4)
        self.close()
        return {
            "start_seconds": round(started, 4),
            "seconds": seconds,
            "ledger": progress.ledger,
            "history": progress.history,
            "updates": syncs if member.size > 1 else progress.update,
            "sync_every": (self._sync.every or "epoch") if apart else "step",
            "syncs": syncs if member.size > 1 else 0,
            "passes": max(own[-1] + 1 for own in self._epochs) if self._epochs[0] else len(progress.ledger),
            "own_rows": loop.own_rows,
            "sync_bytes": progress.sync_bytes,
            "weights": digest,
            "test": None if tested is None else {"loss": tested.loss, **tested.metrics},
            "resumed": progress.resumed,
            "host": member.host,
        }

    def close(self) -> None:
        for feed in self._feeds:
            feed.close()
        if self._receiver is not None:
            self._receiver.close()
        self._transport.close()

    def _receive(self) -> Receiver:
        """Open the port that Spark's tasks send this node's rows to."""
        from training.handoff.receiver import Receiver, token_of

        manifest, member = self._data.manifest, self._member
        schema = Layout.of(manifest).schema
        spool = Path(member.local_dir) / "spool"
        receiver = Receiver(member.host, token_of(member.secret), str(spool), schema, self._config.handoff.tls)
        member.announce(receiver=astuple(receiver.address))
        return receiver

    def _train_feed(self) -> Feed | ArrivingFeed:
        """The training split: of the prepared data set, or as Spark hands it over."""
        receiver, manifest, member, config = self._receiver, self._data.manifest, self._member, self._config
        if receiver is None:
            return self._own_feed(self._data.split("train"))
        from training.handoff.arrival import ArrivingFeed
        from training.handoff.spool import Spool

        def exact(fed: dict[str, Any]) -> Feed:
            files = receiver.finish(fed["partitions"])
            spool = Spool(files, manifest.description, fed["lane_rows"], self._lanes, manifest.block_rows)
            return self._own_feed(spool)

        def told() -> Any:
            if member.stopping.is_set():
                raise RunError("stopped by the driver")
            member.state(fed=receiver.rows)
            return member.heard("fed")

        if config.order == "arrival" and not self._progress.update:
            assembler = Assembler(manifest.tensors, manifest.label, config.seed, self._transform())
            return ArrivingFeed(
                receiver, assembler, self._transport, self._batch_size, told, exact, lambda: member.phase("feeding")
            )
        with member.phase("feeding"):
            while (fed := told()) is None:
                member.await_news(0.5)
            return exact(fed)

    def _own_feed(self, source: RowSource) -> Feed:
        if self._split.dealt_apart:
            lanes, size = self._data.manifest.lanes, self._member.size
            for rank in range(size):
                rows = sum(source.lane_rows[lane] for lane in self._split.lanes(lanes, rank, size))
                self._round_steps = max(self._round_steps, -(-rows // self._batch_size))
            source = LanesOf(source, self._lanes)
        return self._feed(source, self._lanes, self._batch_size, training=True)

    def _transform(self) -> Transform | None:
        config = self._config
        if config.transform is None:
            return None
        try:
            transform: Transform = load(config.transform, self._member.payload["sources"].get("transform"))
        except FunctionError as error:
            raise config.error("transform", str(error)) from error
        return transform

    def _schedule(self, train: Feed | ArrivingFeed) -> list[range]:
        """By rank, the epochs of the rounds that are left; ConfigError for other nodes within a round."""
        config, progress, size = self._config, self._progress, self._member.size
        before = progress.resumed[-1]["nodes_before"] if progress.resumed else size
        if self._split.dealt_apart:
            # A round has as many updates as the longest node: with other nodes another number.
            progress = self._progress = replace(progress, update=len(progress.history) * self._round_steps)
        steps = self._round_steps or train.updates if not self._split.shared else 1
        if before != size and progress.update % steps:
            raise config.error(
                "nodes", f"must be {before} (is {size}): the checkpoint lies within a round of {before} epochs"
            )
        if self._warmed_up is not None:
            self._warmed_up.updates.assign(train.updates)
        done = progress.history[-1]["epoch"] if progress.history else 0
        return [self._split.epochs(done, config.epochs, rank, size) for rank in range(size)]

    def _feed(self, source: RowSource, lanes: order.Ints, batch_size: int, training: bool = False) -> Feed:
        config = self._config
        row_bytes = sum(spec.row_bytes for spec in source.tensors)
        rows = sum(source.lane_rows[lane] for lane in lanes)
        feed = Feed(
            source,
            lanes,
            batch_size=batch_size,
            seed=config.seed,
            window=config.window,
            cache=self._cache,
            readers=config.readers,
            transform=self._transform() if training else None,
            copies=self._member.size if training and self._sync.every_step and self._split.every_row else 1,
            shuffled=training,
        )
        self._cache = max(0, self._cache - rows * row_bytes)
        self._feeds.append(feed)
        return feed

    # Checkpoints.

    def _random_states(self) -> list[Any]:
        """The model's random states, which differ per node."""
        return [
            variable
            for variable in self._model.non_trainable_variables
            if variable.name == "seed_generator_state" and variable.shape == (2,)
        ]

    def _scatter_random_states(self) -> None:
        """Give every node masks of its own for Dropout, reproducible from the seed."""
        for variable in self._random_states():
            first, second = variable.numpy()
            variable.assign([(int(first) + 0x9E3779B9 * self._member.rank) % 2**32, second])

    def _common(self) -> list[Any]:
        random = {id(variable) for variable in self._random_states()}
        shared = [variable for variable in self._model.variables if id(variable) not in random]
        return [*shared, *self._optimizer.variables] if self._sync.every_step else shared

    def _own_state(self) -> list[Any]:
        """What differs per node: random states, and the optimizer's state where nodes apply gradients of their own."""
        return [*self._random_states(), *([] if self._sync.every_step else self._optimizer.variables)]

    def _save(self, progress: Progress) -> None:
        metrics = self._step.metric_sums()
        if self._member.rank == 0:
            check_owner(self._run, self._member.payload["owner"])
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
        payload, member = self._member.payload, self._member
        if payload["checkpoint"] is None:
            return Progress(payload["config_hash"], member.size)
        path = str(payload["checkpoint"])
        checkpoint = checkpoints.read(path, member.rank)
        checkpoints.assign("v", self._common(), checkpoint.state, path)
        self._sync.restore(checkpoint.state)
        if checkpoint.own is not None and checkpoint.progress.nodes == member.size:
            checkpoints.assign("r", self._own_state(), checkpoint.own, path)
        elif not self._sync.every_step:
            # Another number of nodes: the optimizer begins afresh, but for its schedule.
            self._optimizer.iterations.assign(checkpoint.progress.update)
        # What all nodes had counted together goes on in one of them.
        if member.rank == 0:
            self._step.restore_metrics(checkpoint.state)
        progress = checkpoint.progress
        resumed: dict[str, Any] = {"update": progress.update, "nodes_before": progress.nodes, "nodes": member.size}
        if not self._sync.every_step and progress.nodes != member.size:
            resumed["optimizer"] = "reset"
        return replace(progress, nodes=member.size, resumed=[*progress.resumed, resumed])

    def _epoch_done(self, history: list[dict[str, Any]]) -> None:
        # Several epochs may end between two heartbeats.
        self._member.state(history=history[-20:])
        if self._member.rank == 0:
            with self._member.phase("checkpoint"):
                from training import report

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


def payload(
    config: TrainConfig, source: Source, run: str, sources: dict[str, str], config_hash: str, owner: str, threads: int
) -> dict[str, Any]:
    """What `work` needs, JSON-able; the checkpoint is added per attempt."""
    return {
        "config": {**config.model_dump(mode="json"), "data": filesystem.absolute(config.data)},
        "source": source.to_json(),
        "run": run,
        "sources": sources,
        "config_hash": config_hash,
        "owner": owner,
        "threads": threads,
        "checkpoint": None,
    }
