"""A training run as the driver sees it: check, start the nodes, watch, publish."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hdfs_io.functions import FunctionError, is_own, source_of, split_name
from hdfs_io.prepared import PreparedDataSet
from hdfs_io.publish import Output, check_owner
from sparksplit.base.command import Options
from sparksplit.base.config import digest
from sparksplit.base.errors import NodeFailed, RunError, SparksplitError, UsageError
from sparksplit.base.progress import say
from sparksplit.base.session import spark_session
from sparksplit.model import keras_names
from sparksplit.model.builders import builder_source
from sparksplit.rows.ledger import Entry
from sparksplit.strategies import Strategy, find
from sparksplit.strategies.splits import BatchSplit, check_epochs, owned_by_rank
from sparksplit.training import attempts, checkpoints, report
from sparksplit.training.config import NOT_IN_HASH, TrainConfig, misfit
from sparksplit.training.display import RunDisplay
from sparksplit.training.messages import NodeResult, Payload
from sparksplit.training.record import RUN, RunRecord

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger(__name__)


def train(config: TrainConfig, options: Options, frame: DataFrame | None = None) -> RunRecord:
    """Train as `config` says; run.json, of an earlier identical run too.

    frame: rows to train on in place of the data set's training split, with `input_mode: spark`: a binary column for
        each of the data set's tensors (row-major, little-endian), its label, and `row_id` (bigint, a row's own;
        computed where there is none). The data set gives shapes, preprocessing, validation and test. Another frame is
        not seen as another configuration: redo with `options.overwrite`.

    Raises UsageError for what the user gave, before Spark starts where it can be known by then; RunError and its kinds
    where the run fails. What was published before a failure stays, and `--resume` goes on from it.
    """
    began = time.monotonic()
    data = open_data(config)
    if frame is not None and config.input_mode != "spark":
        raise config.error("input_mode", "must be spark to train on a DataFrame")
    if frame is not None:
        from sparksplit.handoff.feeding import check_columns

        check_columns(frame, data)
    sources = user_sources(config)
    keras_names.check(config, sources)
    way = way_of(config, sources, data)
    config_hash = run_hash(config, way, data, sources, frame is not None)
    output = Output(config.output, config_hash, "train", inputs_of(config, sources))
    numbers = range(1, data.manifest.lanes + 1)
    others = {
        run_hash(config, way, data, sources, frame is not None, nodes)
        for nodes in (*numbers, *({"virtual": number} for number in numbers))
    }
    with output.claimed(options.overwrite, options.resume, others) as decision:
        if decision == "done":
            say(f"{output.path}: is complete and was made with this configuration; nothing to do")
            return RunRecord.read(output.path)
        checkpoint = None
        if decision == "resume":
            output.go_on()
            checkpoint = checkpoint_of(output.folder, config.node_count)
            if checkpoint is not None:
                say(f"resuming from {checkpoint}")
        with spark_session("sparksplit train", config.processes + _feeders(config)) as spark:
            output.lease.tell(spark.sparkContext.applicationId)
            if checkpoint is None:
                output.begin()
            with _going_on(output):
                return _Run(spark, config, way, data, output, sources, frame).to_end(checkpoint, began)


def checkpoint_of(run: str, nodes: int) -> str | None:
    """The newest checkpoint in the folder of `run` that can be gone on from on `nodes` nodes; damaged ones are said."""
    found, damaged = checkpoints.newest_whole(run, nodes)
    for problem in damaged:
        say(problem)
    if damaged:
        say(f"{found} is taken instead" if found else "no checkpoint is whole; the run begins anew")
    return found


def inputs_of(config: TrainConfig, sources: Mapping[str, str]) -> dict[str, str]:
    """What a run reads, by the key that names it. sources: of `user_sources`."""
    functions = _functions(config)
    return {"data": config.data, **{key: split_name(functions[key])[0] for key in sources}, **config.own_file}


def _functions(config: TrainConfig) -> dict[str, str]:
    """The functions that the configuration names, and may be the user's own, by the key that names them."""
    found = {"model.build": config.model.build}
    if config.transform is not None:
        found["transform"] = config.transform
    tables = {"strategy": config.strategy, "collective": config.collective}
    return {**found, **{key: name for key, name in tables.items() if is_own(name)}}


def open_data(config: TrainConfig) -> PreparedDataSet:
    """The data set of a run. Raises UsageError where it cannot be trained on, or not by so many nodes."""
    data = PreparedDataSet.open(config.data)
    manifest = data.manifest
    if not manifest.splits["train"].rows:
        raise config.error("data", f"{data.path}: the training split has no rows")
    if manifest.label is None:
        raise config.error("data", f"{data.path}: has no label; prepare it with input.label")
    if config.node_count > manifest.lanes:
        raise config.error(
            "nodes",
            f"{config.node_count} nodes are more than the data set's {manifest.lanes} lanes; prepare it with more",
        )
    return data


def user_sources(config: TrainConfig) -> dict[str, str]:
    """The text of users' functions that are files, by the key that names them."""
    found = {}
    for key, name in _functions(config).items():
        try:
            text = builder_source(name) if key == "model.build" else source_of(name)
        except FunctionError as error:
            raise config.error(key, str(error)) from error
        if text is not None:
            found[key] = text
    return found


def way_of(config: TrainConfig, sources: dict[str, str], data: PreparedDataSet) -> Strategy:
    """The way of a run. Raises ConfigError where it does not exist, other keys do not go with it, or it leaves out rows
    of `data`."""
    try:
        way = find(config.strategy, sources.get("strategy"))
    except FunctionError as error:
        raise config.error("strategy", str(error)) from error
    if problem := misfit(config, way):
        raise config.error("strategy", problem)
    try:
        owned_by_rank(way.split, data.manifest.lanes, config.node_count)
        check_epochs(way.split, config.epochs, config.node_count)
    except Exception as error:  # a split of a user's own may fail in any way
        raise config.error("strategy", f"its split does not fit the data: {type(error).__name__}: {error}") from error
    return way


def _feeders(config: TrainConfig) -> int:
    """Executors that are needed beside the nodes'."""
    return 1 if config.input_mode == "spark" else 0


def run_hash(
    config: TrainConfig,
    way: Strategy,
    data: PreparedDataSet,
    sources: dict[str, str],
    has_frame: bool = False,
    nodes: int | dict[str, int] | None = None,
) -> str:
    """The hash of all that can change the run's result. nodes: in the configuration's place."""
    values = {key: value for key, value in config.model_dump(mode="json").items() if key not in NOT_IN_HASH}
    if way.any_nodes:
        del values["nodes"]
    elif nodes is not None:
        values["nodes"] = nodes
    hashed = {"command": "train", "config": values, "data": data.digest, "sources": sources}
    return digest({**hashed, "frame": True} if has_frame else hashed)


@contextmanager
def _going_on(output: Output) -> Iterator[None]:
    """Say how to go on where the block fails; what it has begun is removed where the user's own mistake ended it before
    its first checkpoint. The block's error is the one that is raised, whatever happens meanwhile."""
    try:
        yield
    except BaseException as error:
        try:
            found = checkpoints.latest(output.folder)
            if found is not None and not isinstance(error, UsageError):
                say(f"the last checkpoint is {found}; the same command with --resume goes on from it")
            elif found is None and isinstance(error, UsageError):
                output.abandon()
        except Exception as other:
            log.debug("%s: could not be looked at: %s", output.folder, other)
        raise


def threads(config: TrainConfig, spark: SparkSession) -> int:
    """TensorFlow's threads per operation."""
    if config.threads:
        return config.threads
    local = re.match(r"local-cluster\[\d+,\s*(\d+)", spark.sparkContext.master or "")
    return int(local[1]) if local else int(spark.conf.get("spark.executor.cores", "1") or "1")


@dataclass
class _Run:
    spark: SparkSession
    config: TrainConfig
    way: Strategy
    data: PreparedDataSet
    output: Output
    sources: dict[str, str]
    frame: DataFrame | None
    epochs_said: int = 0
    """The last epoch whose line has been printed, by this command or the one that it goes on from."""

    def to_end(self, checkpoint: str | None, began: float) -> RunRecord:
        """Run the nodes, again from the last checkpoint where one dies, and publish run.json and _SUCCESS."""
        config = self.config
        preparing = time.monotonic() - began
        before = attempts.Attempts()
        if checkpoint is not None:
            before, self.epochs_said = attempts.before(self.output.folder, checkpoint)
        given = Payload.of(config, self.output, self.sources, self.output.config_hash, threads(config, self.spark))
        restarts = 0

        def so_far() -> attempts.Attempts:
            return attempts.Attempts(before.restarts + restarts, before.seconds + time.monotonic() - began)

        try:
            while True:
                attempts.note(self.output.folder, now := so_far())
                try:
                    attempt = replace(given, checkpoint=checkpoint, seconds_before=now.seconds)
                    results, trained_on, launched = self._nodes(attempt)
                    break
                except NodeFailed as error:
                    if restarts >= config.max_restarts:
                        raise
                    restarts += 1
                    try:
                        check_owner(self.output.path, self.output.owner)
                        checkpoint = checkpoint_of(self.output.folder, config.node_count)
                    except SparksplitError as other:
                        raise NodeFailed(f"{error}; it cannot be restarted: {other}", error.rank) from other
                    say(f"{error}; restart {restarts} of {config.max_restarts} from {checkpoint or 'the beginning'}")
        except BaseException:
            self._note_end(so_far())
            raise
        if names := report.undefined(results[0].test or {}):
            say(f"test: {', '.join(names)}: not finite; null in {RUN}")
        around = report.Circumstances(
            run_id=f"{self.output.config_hash}-{int(time.time())}",
            config_hash=self.output.config_hash,
            restarts=so_far().restarts,
            application_id=str(self.spark.sparkContext.applicationId),
            start=round(preparing + launched + results[0].start_seconds, 3),
            total=round(so_far().seconds, 3),
        )
        record = report.record(config, self.way, self.data, results, trained_on, around)
        record.write(self.output.folder)
        if not record.ledger.exact:
            raise RunError(f"the ledger is not exact: {record.to_json()['ledger']}; this is a defect of sparksplit")
        attempts.forget(self.output.folder)
        self.output.complete()
        return record

    def _note_end(self, found: attempts.Attempts) -> None:
        """Keep what a failed attempt has cost, where that is still this command's to say."""
        try:
            check_owner(self.output.path, self.output.owner)
            attempts.note(self.output.folder, found)
        except Exception as error:
            log.debug("what this attempt has cost is not kept: %s", error)

    def _nodes(self, payload: Payload) -> tuple[list[NodeResult], Entry, float]:
        """(the nodes' results, the rows of a pass that the ledger must have, the seconds that starting them took)."""
        from sparksplit.cluster import NodeCluster

        config = self.config

        def said(epoch: int) -> None:
            self.epochs_said = epoch

        with RunDisplay(config.processes, self.epochs_said, said) as display:
            if config.input_mode == "spark" and self.frame is None:
                copies = config.processes if self.way.split.every_row else 1
                display.rows_to_feed = copies * self.data.manifest.splits["train"].rows
            launching = time.monotonic()
            with NodeCluster(
                self.spark,
                config.processes,
                "sparksplit.training.node.main:work",
                payload.to_json(),
                start_timeout=config.start_timeout,
                stall_timeout=config.stall_timeout,
                on_state=display.state,
                spare=_feeders(config),
            ) as cluster:
                cluster.start()
                launched = time.monotonic() - launching
                rows = self.data.manifest.splits["train"]
                trained_on = Entry(rows.rows, rows.checksum)
                if config.input_mode == "spark":
                    from sparksplit.handoff.feeding import Feeding

                    lanes = self.data.manifest.lanes
                    # One process that plays all nodes gets the lanes of all.
                    split = BatchSplit() if config.virtual else self.way.split
                    owned = owned_by_rank(split, lanes, config.processes)
                    with Feeding(self.spark, self.data, self.frame, cluster, display.states, owned) as feeding:
                        results = cluster.run(feeding.go_on)
                        trained_on = feeding.fed()
                else:
                    results = cluster.run()
        return [NodeResult.from_json(result, "a node's result") for result in results], trained_on, launched
