"""The parts that a process has once, for its node or all its virtual nodes: data, model, compiled step, open ports."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sparksplit.base.errors import RunError
from sparksplit.base.user_functions import FunctionError, load
from sparksplit.dataset.joined import open_joined
from sparksplit.dataset.lane_files import Layout
from sparksplit.model.description import data_description
from sparksplit.model.graphs import class_weights
from sparksplit.rows.feed import RowSource
from sparksplit.rows.ledger import EntryJson
from sparksplit.rows.transforms import Transform
from sparksplit.rows.unfit import by_id
from sparksplit.strategies import Strategy, find
from sparksplit.training import report
from sparksplit.training.callbacks.running import Running
from sparksplit.training.messages import Payload
from sparksplit.training.run_record import RunInit
from sparksplit.training.train_config import TrainConfig

if TYPE_CHECKING:
    from sparksplit.cluster import Member
    from sparksplit.collectives import Collective
    from sparksplit.handoff.receiver import Receiver
    from sparksplit.training.node.compiled.step import Step


class Process:
    """One TensorFlow process of a run. Raise ConfigError for mistakes in the model and its training.

    rows: the training split, if an earlier process of this node was handed it.
    """

    def __init__(self, member: Member, payload: Payload, config: TrainConfig, rows: RowSource | None = None) -> None:
        self.member, self.payload, self.config, self._rows = member, payload, config, rows
        self.data = open_joined(config.data, verify=False)
        self.strategy: Strategy = find(config.strategy, self._source_text("strategy"))
        self.nodes = config.node_count
        # Opened now, so that Spark sends rows while the model is built.
        self.receiver = self._receive() if config.input_mode == "spark" and rows is None else None
        self.fed: EntryJson | None = None
        """The ledger entry of all rows of the run's DataFrame, once these have arrived; None without a DataFrame."""

    def build(self) -> None:
        """Make the model and everything that belongs to it. Call this after the collective is made, because
        TensorFlow's must come first."""
        with self.member.phase("compiling"):
            self._build()

    def _build(self) -> None:
        from sparksplit.model import build
        from sparksplit.model.graphs.inputs import Inputs
        from sparksplit.model.graphs.weights import Weights
        from sparksplit.model.rates import WarmedUp, settable

        config, manifest = self.config, self.data.manifest
        self.inputs = Inputs(manifest.description)
        described = data_description(manifest.description, manifest.splits["train"].rows)
        # Only rank 0's model is saved, and none in a comparison.
        scratch = None if self.member.rank or self.payload.record_only else self.member.local_dir
        self.model = build.build_model(config, self._source_text("model.build"), described, self.inputs, scratch)
        self.init = self._take_weights()
        self.warmed_up = WarmedUp(self.nodes) if self.strategy.scaled_rate else None
        self.optimizer = build.build_optimizer(config, self.warmed_up)
        self.rate = None if self.payload.callbacks is None else settable(self.optimizer, self.warmed_up)
        self.loss = build.build_loss(config, described, self.model, self.inputs)
        means = manifest.splits["train"].label_means
        self.metrics = build.build_metrics(config, described, self.model, self.inputs, means)
        self.weights = Weights(
            manifest.description, class_weights.of(config, manifest), config.reduction, config.metric_weights
        )

    def _take_weights(self) -> RunInit | None:
        """Begin with the weights that `init` names, unless the run has a checkpoint. Return their record; None without
        `init`."""
        file, payload = self.config.init, self.payload
        if file is None:
            return None
        from sparksplit.model import initial_weights

        content = initial_weights.weights_in(file)
        if initial_weights.digest_of(content) != payload.init:
            raise RunError(f"{file}: its weights have changed since the run began")
        try:
            taken = initial_weights.take(self.model, content, self.member.local_dir, apply=payload.checkpoint is None)
        except ValueError as error:
            raise self.config.error("init", f"{file}: {error}") from error
        record = RunInit(file, initial_weights.digest_of(content), taken.layers, taken.fresh)
        if payload.checkpoint is None:
            self.member.state(init=report.begins_with(record))
        return record

    def step(self, sync: Any, collective: Any) -> Step:
        """Return the compiled updates with this sync and collective."""
        from sparksplit.training.node.compiled.step import Step

        made = self.model, self.optimizer, self.loss, self.metrics, self.inputs
        with self.member.phase("compiling"):
            return Step(
                *made,
                sync,
                collective,
                self.weights,
                lambda: self.member.phase("compiling"),
                self.config.accumulate,
                self.config.jit_compile,
            )

    def callbacks(self, member: Member, collective: Collective) -> Running | None:
        """Return the callbacks on the node `member`; None if the run has none."""
        sent = self.payload.callbacks
        if sent is None:
            return None
        return Running(sent, self.model, self.optimizer, self.rate, member, collective, self.config.epochs)

    @property
    def held_out(self) -> list[str]:
        """Which of `validation` and `test` have rows that the run looks at."""
        names = ["validation"] if self.payload.untested else ["validation", "test"]
        return [name for name in names if self.data.manifest.splits[name].rows]

    def random_states(self) -> list[Any]:
        """The model's random states, which differ from node to node."""
        return [
            variable
            for variable in self.model.non_trainable_variables
            if variable.name == "seed_generator_state" and variable.shape == (2,)
        ]

    def transform(self) -> Transform | None:
        """Return the user's function on rows; None if there is none. Raise ConfigError if it cannot be loaded."""
        config = self.config
        if config.transform is None:
            return None
        try:
            transform: Transform = load(config.transform, self._source_text("transform"))
        except FunctionError as error:
            raise config.error("transform", str(error)) from error
        return transform

    def prepared_rows(self) -> RowSource:
        """Return the training split as it was prepared."""
        return self.data.split("train")

    def spooled_rows(self, fed: dict[str, Any]) -> RowSource:
        """Return the training split as Spark has handed it over. fed: the driver's message after all rows were fed."""
        from sparksplit.handoff.spool import Spool

        assert self.receiver is not None
        manifest = self.data.manifest
        files = self.receiver.finish(fed["partitions"])
        lanes = np.array(fed["lanes"], np.int64)
        # Other rows are a DataFrame's, and have no place in the data set.
        place = self.data.split("train").place_of if fed["prepared"] else by_id
        numbered = manifest.order == "given"
        spool = Spool(files, manifest.description, fed["lane_rows"], lanes, manifest.block_rows, place, numbered)
        if fed["prepared"] and len(self.data.paths) == 1:
            spool.verify(self.data.path, self.data.segments("train"))
        if not fed["prepared"]:
            rows, checksum = fed["content"]
            self.fed = rows, checksum
        return spool

    def told(self) -> Any:
        """Return the driver's message after all rows were fed; None before. Raise the error that kept this node from
        taking its rows."""
        member = self.member
        if member.stopping.is_set():
            raise RunError("stopped by the driver")
        if self.receiver is not None:
            if self.receiver.failure is not None:
                raise self.receiver.failure
            member.state(fed=self.receiver.rows)
        return member.heard("fed")

    def await_rows(self) -> RowSource:
        """Wait for the training split and return it."""
        if self.receiver is None:
            return self.prepared_rows() if self._rows is None else self._rows
        with self.member.phase("feeding"):
            while (fed := self.told()) is None:
                self.member.await_news(0.5)
            return self.spooled_rows(fed)

    def close(self) -> None:
        """Close the port."""
        if self.receiver is not None:
            self.receiver.close()

    def _source_text(self, key: str) -> str | None:
        return self.payload.sources.get(key)

    def _receive(self) -> Receiver:
        """Open the port to which Spark's tasks send this process's rows."""
        from sparksplit.handoff.receiver import Receiver, token_of

        member = self.member
        schema = Layout.of(self.data.manifest).schema
        spool = Path(member.local_dir) / "spool"
        receiver = Receiver(member.host, token_of(member.secret), str(spool), schema, member.network)
        member.announce(receiver=astuple(receiver.address))
        return receiver
