"""The driver's part of a diagnosis of training: start the nodes, watch them, and keep the measurements."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any

from hdfs_io import filesystem
from hdfs_io.publish import Output
from sparksplit.base.config import Config, digest
from sparksplit.base.errors import Cancelled, SparksplitError
from sparksplit.base.progress import Progress, say
from sparksplit.base.records import Json
from sparksplit.cluster.requirements import explained
from sparksplit.diagnosis.measured import Failed, Measured
from sparksplit.diagnosis.messages import DiagnosisPayload, Effort
from sparksplit.diagnosis.settings import written
from sparksplit.spark.application import called
from sparksplit.spark.session import spark_session
from sparksplit.strategies.splits import owned_by_rank
from sparksplit.training.inputs import RunInputs, open_data
from sparksplit.training.messages import settled
from sparksplit.training.own_models import with_compiled
from sparksplit.training.place import threads
from sparksplit.training.train_config import TrainConfig

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


COMMAND = "diagnose"
SUFFIXES = {COMMAND: "-diagnosis", "plan": "-plan"}
"""The suffix of the folder of a command's result, after the name of the configuration's output."""


def diagnose(config: TrainConfig, effort: Effort | None = None) -> Measured:
    """Measure the parts of a training step on the nodes of a cluster. Nothing is trained or written.

    Raise UsageError for the user's mistakes, before Spark starts if they can be known by then. Raise RunError or a
    subclass if a node fails before the step has been measured. If a node fails later, the failure is recorded with the
    tried settings. Other nodes then continue without these settings.
    """
    if config.virtual:
        raise config.error("nodes", "must be real ones to be diagnosed: virtual ones take turns (nodes: N)")
    config, _own = with_compiled(config)
    data = open_data(config)
    inputs = RunInputs.of(config, data)
    with spark_session(called("diagnose", config.output), config.processes + config.feeders) as spark:
        payload = DiagnosisPayload(
            config=settled(config, data, inputs.initial),
            places=config.origin.to_json(),
            sources=inputs.sent(None),
            threads=threads(config, spark),
            init=None if inputs.initial is None else inputs.initial.digest,
            effort=effort or Effort(),
        )

        def nodes(payload: DiagnosisPayload) -> Measured:
            return _nodes(spark, inputs, payload)

        return gone_on(nodes, payload, config.max_restarts)


class Ended(Exception):
    """The nodes have failed. why: the error. found: the measurements so far; None before the step was measured.

    trying: the tried settings that made the nodes fail; None if only the configuration's settings were used.
    """

    def __init__(self, why: SparksplitError, found: Measured | None, trying: dict[str, Json] | None) -> None:
        super().__init__(str(why))
        self.why, self.found, self.trying = why, found, trying


def gone_on(nodes: Callable[[DiagnosisPayload], Measured], payload: DiagnosisPayload, restarts: int) -> Measured:
    """Return the measurements of `nodes`.

    If nodes fail with tried settings, other nodes continue without these settings, at most `restarts` times. After
    that, or after a failure without tried settings, return the measurements so far. Raise the nodes' error if there are
    none, or if the job was cancelled.
    """
    while True:
        try:
            return nodes(payload)
        except Ended as ended:
            so_far = ended.found or payload.known
            if so_far is None or isinstance(ended.why, Cancelled):
                raise ended.why from None
            failed = Failed(ended.trying or {}, " ".join(str(ended.why).split()))
            so_far = replace(so_far, failed=[*so_far.failed, failed])
            if not ended.trying:
                return so_far
            say(f"{written(ended.trying)} could not be tried: {failed.error}")
            if not restarts:
                ended_by = Failed({}, "nodes have failed more often than max_restarts allows")
                return replace(so_far, failed=[*so_far.failed, ended_by])
            restarts -= 1
            payload = replace(payload, known=so_far)


@contextmanager
def claimed(config: Config, output: str, command: str = COMMAND) -> Iterator[Output]:
    """Hold the right to write the result of `command` for a configuration whose output is `output`. Yield the result's
    folder.

    Raise UsageError if the folder holds something else. Raise OutputInUse if the same command is writing there.
    """
    path = filesystem.absolute(output).rstrip("/") + SUFFIXES[command]
    folder = Output(path, digest({"command": command, "config": config.model_dump(mode="json")}), command)
    with folder.claimed(overwrite=True):
        yield folder


def leave(output: Output, files: Mapping[str, bytes]) -> str:
    """Replace the content of the folder by `files`, by name. Return the folder's path. Use this within `claimed`."""
    with output.staging() as folder:
        for name, content in files.items():
            filesystem.write_bytes(filesystem.join(folder, name), content)
    return output.path


def _nodes(spark: SparkSession, inputs: RunInputs, payload: DiagnosisPayload) -> Measured:
    from sparksplit.cluster import NodeCluster

    config, data, since = inputs.config, inputs.data, time.time()
    display = _Display(config.processes)
    try:
        with (
            display,
            NodeCluster(
                spark,
                config.processes,
                "sparksplit.diagnosis.node.work:work",
                payload.to_json(),
                limits=config.limits,
                network=config.network,
                on_state=display.state,
                spare=config.feeders,
            ) as cluster,
        ):
            if config.input_mode != "spark":
                results = cluster.run()
            else:
                from sparksplit.handoff.feeding import Feeding

                cluster.start()
                owned = owned_by_rank(inputs.strategy.split, data.manifest.lanes, config.processes)
                with Feeding(spark, data, None, cluster, display.states, owned) as feeding:
                    results = cluster.run(feeding.go_on)
    except SparksplitError as error:
        state = display.states[0]
        so_far = None if "found" not in state else Measured.from_json(state["found"], "what the nodes have measured")
        raise Ended(explained(error, spark, since), so_far, state.get("trying")) from error
    return Measured.from_json(results[0], "what the nodes have measured")


_PARTS = {"variants": (0.0, 0.55), "readers": (0.55, 0.8), "settings": (0.8, 1.0)}
"""The approximate part of the progress that each stage takes: from, to."""


class _Display:
    """Progress on the terminal or in the log, from the first node's heartbeats. A context manager."""

    def __init__(self, nodes: int) -> None:
        self.states: list[dict[str, Any]] = [{} for _ in range(nodes)]
        self._progress = Progress("diagnosing", 100.0, "%")
        self._done = 0.0

    def __enter__(self) -> _Display:
        self._progress.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._progress.update(100.0)
        self._progress.__exit__(kind, error, trace)

    def state(self, rank: int, state: dict[str, Any]) -> None:
        """Update the progress from a heartbeat."""
        self.states[rank] = state
        if rank or "measuring" not in state:
            return
        begin, end = _PARTS[state["measuring"]]
        self._done = max(self._done, begin + (end - begin) * state["part"])
        self._progress.update(round(100 * self._done), f"{state['measuring']}: {state['variant']}")
