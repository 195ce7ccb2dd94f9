"""The only module that imports TensorFlowOnSpark, which reserves, launches, assigns GPUs and makes TF_CONFIG.

TensorFlowOnSpark ends the whole Spark application when a cluster fails (`sc.stop`, `sys.exit`), and leaves state in
module globals. Its reservation server listens on all interfaces, unpickles data from anyone, waits for one message
after the other, and polls once a second.

This module replaces the few things that TensorFlowOnSpark uses, so that the driver can start another run after a
failure. The replacements are the SparkContext, the feed's manager (we have our own feed), and both ends of the
reservations, which travel over the nodes' channel. Written against version 2.2.5.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import socket
import sys
import threading
import time
import types
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sparksplit.cluster import launcher, placing
from sparksplit.cluster.channel.line import Line, Post
from sparksplit.cluster.channel.server import Channel
from sparksplit.cluster.faults import before_start
from sparksplit.cluster.launcher import NodeEnded, map_fun
from sparksplit.cluster.place import own_place
from sparksplit.cluster.stuck import ended_without_failures, holders, replace_stuck, tasks_failed
from sparksplit.network.listening import own_address_towards
from sparksplit.spark.executors import lost_executors
from sparksplit.spark.jvm import limited
from sparksplit.spark.reasons import is_raised, spark_reason

if TYPE_CHECKING:
    from pyspark import SparkContext

log = logging.getLogger(__name__)

POLL = 0.02
"""Seconds between two looks at the reservations."""

WAIT = 0.5
"""Seconds between two calls of `wait` while another job starts."""

_one_start = threading.Lock()


class NotRetried(RuntimeError):
    """Spark retries a task that held a node. The reason for the end of the first attempt comes from elsewhere."""


class Job:
    """The Spark job whose tasks hold the nodes, one task per node.

    arguments: arguments of map_fun, JSON-able except for the tuple in `post`.
    executors: one executor for each node. None: any executors, host by host.
    """

    def __init__(
        self,
        sc: SparkContext,
        name: str,
        nodes: int,
        arguments: dict[str, Any],
        executors: Sequence[placing.Executor] | None = None,
    ) -> None:
        self._sc, self._group, self._nodes, self._arguments = sc, name, nodes, arguments
        self._executors = executors
        self._status: dict[str, str] = {}
        self._cancelled = False

    def start(self, channel: Channel, watch: Callable[[int], None], wait: Callable[[], None]) -> None:
        """Return when all nodes have reserved their places. TensorFlowOnSpark then calls the launchers.

        watch: called every POLL seconds with the number of nodes that have registered. An error of `watch` ends the
            start.
        wait: called every WAIT seconds while nodes of another job start in this process. An error of `wait` ends the
            wait.
        """
        modules = import_tensorflowonspark()
        while not _one_start.acquire(timeout=WAIT):
            wait()
        try:
            self._run(modules, channel, watch)
        finally:
            _one_start.release()

    def _run(self, modules: Any, channel: Channel, watch: Callable[[int], None]) -> None:
        with _replaced(modules.cluster, tf_status=self._status, reservation=_Server(channel, watch)):
            modules.cluster.run(
                _SparkContext(self._sc, self._group, self._arguments, self._executors),
                map_fun,
                self._arguments,
                num_executors=self._nodes,
                num_ps=0,
                input_mode=modules.cluster.InputMode.TENSORFLOW,
                master_node="chief",
                release_port=True,
            )

    def host_of(self, rank: int) -> str | None:
        """Return the host of a node's executor, as Spark names it; None if Spark does not answer."""
        try:
            with limited(self._sc._gateway):
                return placing.host_of(self._sc, self._group, rank)
        except Exception as error:
            log.debug("Spark does not say where node %d is: %s", rank, error)
            return None

    def holders(self) -> dict[int, str]:
        """The executors of the nodes' running tasks, by rank."""
        return holders(self._sc, self._group)

    @property
    def tasks_failed(self) -> bool:
        """Whether a task of the job has failed, or was lost with its executor. A second attempt of a task holds no
        node."""
        return tasks_failed(self._sc, self._group)

    @property
    def failure(self) -> str | None:
        """Why Spark gave up the job, in one line; None if Spark has not."""
        error = self._status.get("error")
        if error is None:
            return None
        if is_raised(NotRetried, error):
            return self._lost_executor() or "a task that held a node ended, for an unknown reason"
        return spark_reason(error)

    @property
    def cancelled(self) -> bool:
        """Whether someone has cancelled the job, in Spark's pages or in the program that owns the session."""
        try:
            return self.failure is not None and ended_without_failures(self._sc, self._group)
        except Exception as error:
            log.debug("Spark does not say whether the job was cancelled: %s", error)
            return False

    def _lost_executor(self) -> str | None:
        """Return the executor that Spark lost last. It is the reason why Spark tries the tasks again, if no task gave a
        reason."""
        try:
            with limited(self._sc._gateway):
                lost = lost_executors(self._sc)
        except Exception as error:
            log.debug("Spark does not answer: %s", error)
            return None
        return str(lost[-1]) if lost else None

    def active(self) -> bool:
        """Return whether Spark is still running the job."""
        try:
            with limited(self._sc._gateway):
                tracker = self._sc.statusTracker()
                active = set(tracker.getActiveJobsIds())
                return any(job in active for job in tracker.getJobIdsForGroup(self._group))
        except Exception as error:
            log.debug("Spark does not answer, so it runs nothing: %s", error)
            return False

    def cancel(self) -> None:
        """Have Spark end the job's tasks. Spark kills a task's Python if it has not ended after two seconds."""
        if not self._cancelled:
            self._cancelled = True
            try:
                with limited(self._sc._gateway):
                    self._sc.cancelJobGroup(self._group)
            except Exception as error:
                log.debug("Spark does not answer, so it has nothing to cancel: %s", error)

    def free(self) -> list[str]:
        """Wait for the end of the cancelled tasks. Return the executors that Spark was asked to replace, because their
        tasks did not end."""
        return replace_stuck(self._sc, self._group)


def import_tensorflowonspark() -> types.SimpleNamespace:
    """Return TensorFlowOnSpark's modules, patched for this process. TensorFlow is not imported (2.5 s, 400 MB)."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        with warnings.catch_warnings():
            # Its use of pkg_resources is deprecated, which is of no interest to our users.
            warnings.simplefilter("ignore")
            _put_off("tensorflowonspark.compat")
            from tensorflowonspark import TFCluster, TFManager, TFSparkNode, reservation, util
    finally:
        # The import configures the root logger.
        root.handlers[:] = handlers
        root.setLevel(level)
    TFManager.start = lambda authkey, queues, mode="local": _Manager()
    # The file shows TensorFlowOnSpark's feed tasks which node is theirs. Our tasks do not need it, and nobody would
    # remove it.
    util.write_executor_id = lambda number: None
    # It logs Spark's whole stack trace as an error, after the driver has reported the failure.
    logging.getLogger(TFCluster.__name__).setLevel(logging.CRITICAL)
    return types.SimpleNamespace(cluster=TFCluster, node=TFSparkNode, reservation=reservation, util=util)


def _put_off(name: str) -> None:
    """Import a module only when something in it is used. This module imports TensorFlow.

    A replacement for TensorFlow itself would be wrong: another thread that imports TensorFlow at that time would get
    it.
    """
    spec = importlib.util.find_spec(name)
    if name in sys.modules or spec is None or spec.loader is None:
        return
    module, load = importlib.util.module_from_spec(spec), spec.loader.exec_module

    def used(attribute: str) -> Any:
        if attribute.startswith("__"):  # asked by the import system, and by code that looks at all modules
            raise AttributeError(attribute)
        del module.__getattr__
        load(module)
        return getattr(module, attribute)

    module.__getattr__ = used  # type: ignore[method-assign]
    sys.modules[name] = module


class NodeTask:
    """The function that Spark runs for each node: TensorFlowOnSpark's own function, made fit for a reused Python
    worker.

    pickled: TensorFlowOnSpark's function. It is unpickled only after `import_tensorflowonspark` was called.
    """

    def __init__(self, pickled: bytes, post: Post) -> None:
        self.pickled, self.post = pickled, post

    def __call__(self, rows: Iterable[int]) -> Iterable[None]:
        from pyspark import TaskContext, cloudpickle

        task = TaskContext.get()
        assert task is not None
        if task.attemptNumber() > 0:
            # The first attempt has reserved its place. A second attempt would reserve twice.
            raise NotRetried("the tasks that hold nodes are not retried")
        environment, modules = dict(os.environ), None
        reservations = _Client(replace(self.post, rank=task.partitionId()))
        try:
            reservations.call()
            modules = import_tensorflowonspark()
            modules.reservation.Client = lambda address: reservations
            modules.util.get_ip_address = lambda: self.post.network.address(own_address_towards(self.post.driver))
            if self.post.network.ports is not None:
                reservations.held = self.post.network.hold()
                os.environ["TENSORFLOW_PORT"] = str(reservations.held.getsockname()[1])
            modules.node.TFSparkNode.mgr = None
            launcher.called = reservations.end
            cloudpickle.loads(self.pickled)(rows)
        except NodeEnded:
            raise
        except Exception as error:
            # Spark shows only the last attempt's error.
            kind, text = before_start(error)
            with suppress(OSError, ValueError):  # if the driver is gone
                reservations.say(error=text, kind=kind)
            raise
        finally:
            reservations.end()
            if modules is not None:
                modules.node.TFSparkNode.mgr = None
            os.environ.clear()
            os.environ.update(environment)
        return ()


class _Manager:
    """Replaces TensorFlowOnSpark's manager process, which only its own feed needs."""

    address = ""

    def get(self, key: str) -> None:
        return None

    def set(self, key: str, value: object) -> None:
        return None


class _SparkContext:
    """The part of a SparkContext that TFCluster.run uses. It cannot stop the real SparkContext."""

    def __init__(
        self, sc: SparkContext, group: str, arguments: dict[str, Any], executors: Sequence[placing.Executor] | None
    ) -> None:
        self._jsc = sc._jsc
        self._sc, self._group, self._arguments, self._executors = sc, group, arguments, executors

    def parallelize(self, values: Iterable[int], slices: int) -> _Rdd:
        executors = self._executors or placing.host_by_host(placing.executors_there(self._sc), slices)
        if executors is None:
            rdd = self._sc.parallelize(values, slices)
        else:
            rdd = placing.parallelize(self._sc, list(values), executors)
        return _Rdd(self._sc, rdd, self._group, self._arguments)


class _Rdd:
    """An RDD whose job has its own job group. TFCluster calls it in a thread, and threads do not inherit job groups."""

    def __init__(self, sc: SparkContext, rdd: Any, group: str, arguments: dict[str, Any]) -> None:
        self._sc, self._rdd, self._group, self._arguments = sc, rdd, group, arguments

    # The name is pyspark's.
    def foreachPartition(self, function: Callable[..., Any]) -> None:  # noqa: N802
        from pyspark import cloudpickle

        self._sc.setJobGroup(self._group, "sparksplit nodes", interruptOnCancel=True)
        self._rdd.foreachPartition(NodeTask(cloudpickle.dumps(function), Post.of(self._arguments["post"])))


class _Server:
    """Replaces the module `reservation` within TFCluster, and its server. The channel takes the reservations."""

    def __init__(self, channel: Channel, watch: Callable[[int], None]) -> None:
        self._channel, self._watch = channel, watch

    # The name is TensorFlowOnSpark's.
    def Server(self, count: int) -> _Server:  # noqa: N802
        return self

    def start(self) -> tuple[str, int]:
        return self._channel.address

    def await_reservations(self, sc: object, status: object = None, timeout: float = 0) -> list[dict[str, Any]]:
        while None in (reservations := self._channel.reservations()):
            self._watch(sum(each is not None for each in reservations))
            time.sleep(POLL)
        return [each for each in reservations if each is not None]


class _Client:
    """Replaces TensorFlowOnSpark's reservation client in a task. It is the task's connection to the driver until the
    launcher's."""

    def __init__(self, post: Post) -> None:
        self._post = post
        self._line: Line | None = None
        self.held: socket.socket | None = None
        """Keeps TensorFlow's port until the node is started."""
        self._answered = threading.Event()
        self._reservations: list[dict[str, Any]] | None = None

    def call(self) -> None:
        """Connect to the driver. From then on, the driver knows whether this process is alive."""
        self._open().send(place=own_place())

    def say(self, **message: Any) -> None:
        """Tell the driver something, and wait until the driver has it."""
        self._open().deliver(**message)

    def get_reservations(self) -> list[dict[str, Any]]:
        return []  # asked before this task reserves; no earlier ones, because no task is retried

    def register(self, reservation: dict[str, Any]) -> None:
        # The other fields are for TensorFlowOnSpark's feed.
        wanted = ("executor_id", "host", "job_name", "task_index", "port", "tb_pid", "tb_port")
        self._open().send(reserve={name: reservation[name] for name in wanted})

    def await_reservations(self) -> list[dict[str, Any]]:
        self._answered.wait()
        if self._reservations is None:
            raise ConnectionError("the driver is gone")
        return self._reservations

    # TensorFlowOnSpark calls this before there is a launcher, so the connection must stay.
    def close(self) -> None:
        return

    def end(self) -> None:
        """Close the connection, and free the port."""
        if self._line is not None:
            self._line.close()
        self._line = None
        if self.held is not None:
            self.held.close()

    def _open(self) -> Line:
        if self._line is None:
            self._line = Line(self._post, on_message=self._message, on_silence=lambda reason: self._answered.set())
        return self._line

    def _message(self, message: dict[str, Any]) -> None:
        if "reserved" in message:
            self._reservations = list(message["reserved"])
            self._answered.set()


@contextmanager
def _replaced(module: types.ModuleType, **values: Any) -> Iterator[None]:
    before = {name: getattr(module, name) for name in values}
    try:
        for name, value in values.items():
            setattr(module, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(module, name, value)
