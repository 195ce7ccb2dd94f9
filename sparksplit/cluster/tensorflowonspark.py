"""The one place that imports TensorFlowOnSpark: it reserves, launches, assigns GPUs and makes TF_CONFIG.

TensorFlowOnSpark ends the whole Spark application when a cluster fails (`sc.stop`, `sys.exit`), leaves state in module
globals, listens on all interfaces, unpickles what anyone sends, and polls once a second. So that a failed run leaves a
driver that can start the next one, it gets stand-ins for the few things it uses: the SparkContext, its reservation
server, its feed's manager (we have our own feed), and `time.sleep`. Written against version 2.2.5.
"""

from __future__ import annotations

import io
import logging
import os
import pickle
import socket
import struct
import sys
import threading
import time
import types
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from sparksplit.base.reading import read_exactly
from sparksplit.base.reasons import spark_reason
from sparksplit.cluster.faults import kind_and_text
from sparksplit.cluster.launcher import NodeEnded, map_fun
from sparksplit.cluster.line import Line, Post
from sparksplit.cluster.requirements import lost_executors
from sparksplit.cluster.wire import BACKLOG, accept, limit_until, own_address_towards

if TYPE_CHECKING:
    from pyspark import SparkContext

log = logging.getLogger(__name__)

POLL = 0.02
"""Seconds between two looks at the reservations, here and in TensorFlowOnSpark's client."""
LONGEST_RESERVATION = 1 << 20
RESERVATION_SECONDS = 5.0
"""Limit for one message: TensorFlowOnSpark's server reads them one after the other."""

_NOT_RETRIED = "the tasks that hold nodes are not retried"

_one_start = threading.Lock()


class Job:
    """The Spark job whose tasks hold the nodes, one task per node.

    arguments: as map_fun wants them, JSON-able except for the tuple in `post`.
    """

    def __init__(self, sc: SparkContext, name: str, nodes: int, arguments: dict[str, Any]) -> None:
        self._sc, self._group, self._nodes, self._arguments = sc, name, nodes, arguments
        self._server: Any = None
        self._status: dict[str, str] = {}
        self._cancelled = False

    def start(self, host: str, watch: Callable[[int], None]) -> None:
        """Return when all nodes have reserved their places; TensorFlowOnSpark then calls the launchers.

        host: the driver's own address. watch: called every few milliseconds with the number of nodes that have
        registered; it ends the start by raising.
        """
        modules = import_tensorflowonspark()
        # Registered nodes learn of the last one only when they ask again, so `close_reservations` comes later.
        self._server = _reservation_server(modules, self._nodes, host, watch)
        with _one_start, _replaced(modules.cluster, tf_status=self._status, reservation=_Reservation(self._server)):
            modules.cluster.run(
                _SparkContext(self._sc, self._group, self._arguments),
                map_fun,
                self._arguments,
                num_executors=self._nodes,
                num_ps=0,
                input_mode=modules.cluster.InputMode.TENSORFLOW,
                master_node="chief",
                release_port=True,
            )

    @property
    def failure(self) -> str | None:
        """Why Spark gave the job up, in one line; None while it has not."""
        error = self._status.get("error")
        if error is None:
            return None
        hint = "; give executors the package by --py-files or an installation" if "No module named" in error else ""
        reason = spark_reason(error)
        return (self._lost_executor() if _NOT_RETRIED in reason else None) or reason + hint

    def _lost_executor(self) -> str | None:
        """The executor that Spark lost last: the reason for trying the tasks again, where no task gave one."""
        try:
            lost = lost_executors(self._sc)
        except Exception as error:
            log.debug("Spark does not answer: %s", error)
            return None
        return lost[-1] if lost else None

    def close_reservations(self) -> None:
        """Close the reservation server's port; by then every launcher must have been called, or the run be over."""
        if self._server is not None:
            self._server.close()

    def active(self) -> bool:
        """Whether Spark is still running it."""
        try:
            tracker = self._sc.statusTracker()
            active = set(tracker.getActiveJobsIds())
            return any(job in active for job in tracker.getJobIdsForGroup(self._group))
        except Exception as error:
            log.debug("Spark does not answer, so it runs nothing: %s", error)
            return False

    def cancel(self) -> None:
        """Have Spark end its tasks; a task whose Python does not end is killed by Spark after two seconds."""
        if not self._cancelled:
            self._cancelled = True
            try:
                self._sc.cancelJobGroup(self._group)
            except Exception as error:
                log.debug("Spark does not answer, so it has nothing to cancel: %s", error)


def import_tensorflowonspark() -> types.SimpleNamespace:
    """TensorFlowOnSpark's modules, patched once in each process; TensorFlow itself is not imported (2.5 s, 400 MB)."""
    stand_in = None
    if "tensorflow" not in sys.modules:
        stand_in = types.ModuleType("tensorflow")
        for name in ("compat", "io"):
            setattr(stand_in, name, stand_in)
        stand_in.__version__ = "2"  # type: ignore[attr-defined]
        sys.modules["tensorflow"] = stand_in
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        with warnings.catch_warnings():
            # Its use of pkg_resources is deprecated, but that does not concern our users.
            warnings.simplefilter("ignore")
            from tensorflowonspark import TFCluster, TFManager, TFSparkNode, reservation, util
    finally:
        if stand_in is not None:
            del sys.modules["tensorflow"]
        # It configures the root logger when imported.
        root.handlers[:] = handlers
        root.setLevel(level)
    reservation.time = types.SimpleNamespace(sleep=lambda seconds: time.sleep(POLL), time=time.time)
    TFManager.start = lambda authkey, queues, mode="local": _Manager()
    # The file tells its feed tasks which node is theirs; ours do not need it, and it would be left behind.
    util.write_executor_id = lambda number: None
    # It logs Spark's whole stack trace as an error after the driver has said what happened.
    logging.getLogger(TFCluster.__name__).setLevel(logging.CRITICAL)
    return types.SimpleNamespace(cluster=TFCluster, node=TFSparkNode, reservation=reservation, util=util)


class NodeTask:
    """What Spark runs for each node: TensorFlowOnSpark's own function, made fit for a Python worker that is reused.

    pickled: that function; it is unpickled only while TensorFlow's stand-in is in place.
    """

    def __init__(self, pickled: bytes, post: Post) -> None:
        self.pickled, self.post = pickled, post

    def __call__(self, rows: Iterable[int]) -> Iterable[None]:
        from pyspark import TaskContext, cloudpickle

        task = TaskContext.get()
        assert task is not None
        if task.attemptNumber() > 0:
            # The first attempt has reserved its place: a second one would reserve twice.
            raise RuntimeError(f"{_NOT_RETRIED}; the first attempt's error is the cause")
        environment, modules = dict(os.environ), None
        try:
            modules = import_tensorflowonspark()
            modules.util.get_ip_address = lambda: own_address_towards(self.post.driver)
            modules.node.TFSparkNode.mgr = None
            cloudpickle.loads(self.pickled)(rows)
        except NodeEnded:
            raise
        except Exception as error:
            # Spark shows only the last attempt's error.
            line = Line(Post(self.post.driver, self.post.secret, task.partitionId(), "task"))
            line.deliver(error=f"before its start: {kind_and_text(error)[1]}", kind="own")
            line.close()
            raise
        finally:
            if modules is not None:
                modules.node.TFSparkNode.mgr = None
            os.environ.clear()
            os.environ.update(environment)
        return ()


class _Manager:
    """Stands in for TensorFlowOnSpark's manager process, which only its own feed needs."""

    address = ""

    def get(self, key: str) -> None:
        return None

    def set(self, key: str, value: object) -> None:
        return None


class _SparkContext:
    """The part of a SparkContext that TFCluster.run uses; it cannot stop the real one."""

    def __init__(self, sc: SparkContext, group: str, arguments: dict[str, Any]) -> None:
        self._jsc = sc._jsc
        self._sc, self._group, self._arguments = sc, group, arguments

    def parallelize(self, values: Iterable[int], slices: int) -> _Rdd:
        return _Rdd(self._sc, self._sc.parallelize(values, slices), self._group, self._arguments)


class _Rdd:
    """An RDD whose job has its own group. TFCluster calls it in a thread, which does not inherit job groups."""

    def __init__(self, sc: SparkContext, rdd: Any, group: str, arguments: dict[str, Any]) -> None:
        self._sc, self._rdd, self._group, self._arguments = sc, rdd, group, arguments

    # The name is pyspark's.
    def foreachPartition(self, function: Callable[..., Any]) -> None:  # noqa: N802
        from pyspark import cloudpickle

        self._sc.setJobGroup(self._group, "sparksplit nodes", interruptOnCancel=True)
        self._rdd.foreachPartition(NodeTask(cloudpickle.dumps(function), Post(**self._arguments["post"])))


class _Reservation:
    """Stands in for the module `reservation` within TFCluster: hands out a server that was made before."""

    def __init__(self, server: Any) -> None:
        self._server = server

    # The name is TensorFlowOnSpark's.
    def Server(self, count: int) -> Any:  # noqa: N802
        return self._server


def _reservation_server(modules: types.SimpleNamespace, nodes: int, host: str, watch: Callable[[int], None]) -> Any:
    """A reservation server on the driver's own address that unpickles only plain values, and ends when it should.

    A class inside a function, because its base class must not be imported before it is needed.
    """

    class Server(modules.reservation.Server):  # type: ignore[misc, name-defined]
        done: bool = False

        def start_listening_socket(self) -> socket.socket:
            listening = _Listening(socket.AF_INET, socket.SOCK_STREAM)
            listening.bind((host, 0))
            listening.listen(BACKLOG)
            self.listening: tuple[str, int] = listening.getsockname()[:2]
            return listening

        def get_server_ip(self) -> str:
            return host

        def receive(self, connection: socket.socket) -> Any:
            deadline = time.monotonic() + RESERVATION_SECONDS
            (length,) = struct.unpack(">I", _exactly(connection, 4, deadline))
            if length > LONGEST_RESERVATION:
                raise ValueError(f"a reservation of {length} bytes")
            return _PlainUnpickler(io.BytesIO(_exactly(connection, length, deadline))).load()

        def await_reservations(self, sc: object, status: object = None, timeout: float = 0) -> Any:
            while not self.reservations.done():
                watch(nodes - self.reservations.remaining())
                time.sleep(POLL)
            return self.reservations.get()

        def close(self) -> None:
            if not self.done and hasattr(self, "listening"):
                self.done = True
                # Its thread waits in select for up to 60 s; a connection wakes it, unless it is ending by itself.
                with suppress(ConnectionError), socket.create_connection(self.listening, 2):
                    pass

    return Server(nodes)


class _PlainUnpickler(pickle.Unpickler):
    """Loads dicts, lists, strings, bytes and numbers; any class or function, the way to run code, is refused."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"a reservation must not hold {module}.{name}")


class _Listening(socket.socket):
    """Keeps going where `accept` fails: TensorFlowOnSpark's thread would end, and nobody could register any more."""

    def accept(self) -> tuple[socket.socket, Any]:
        accepted = accept(super().accept)
        assert accepted is not None
        return accepted


def _exactly(connection: socket.socket, size: int, deadline: float) -> bytes:
    def receive(most: int) -> bytes:
        limit_until(connection, deadline)
        return connection.recv(most)

    data = read_exactly(receive, size)
    if len(data) < size:
        raise EOFError("a reservation was cut")
    return data


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
