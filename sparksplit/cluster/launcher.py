"""Starts a node in a fresh interpreter, watches it, and cleans up after it: TensorFlowOnSpark's map_fun on an executor,
or a thread of the driver.

The node is started with exec, because a fork of Spark's Python worker would hold threads of Arrow and gRPC in an
unknown state. The node stays in the process group of Spark's Python daemon. The daemon's SIGHUP ends both when the
executor is gone.
"""

from __future__ import annotations

import collections
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Any

from hdfs_io.errors import using_own
from sparksplit.base.orphans import python_path
from sparksplit.base.own_folders import own_folder, temporary_folder
from sparksplit.base.reading import short_lines
from sparksplit.base.shown import ERR
from sparksplit.cluster import memory
from sparksplit.cluster.channel.limits import ORPHAN, ORPHANED
from sparksplit.cluster.channel.line import Line, Post
from sparksplit.cluster.leaving import GRACE
from sparksplit.cluster.member import Start
from sparksplit.cluster.place import own_place

OUTPUT_LINES = 30
STACK_SECONDS = 0.2
PREFIX = "sparksplit-node-"
TEMPORARY = "tmp"
"""Folder for temporary files, beside the node's own folder."""


def called() -> None:
    """Called once the launcher is connected to the driver.

    A task replaces this function, to end the task's own connection. Until then, that connection has shown that the task
    is alive.
    """


def show_in_log(piece: bytes) -> None:
    """Print a piece of a node's output to this process's stderr, which `yarn logs` shows."""
    # If the disk is full, the node's output must still be read.
    print(piece.decode(errors="replace"), end="", file=ERR, flush=True)


class NodeEnded(Exception):
    """The node ended without a result. The driver already knows the reason."""


class ExecutorEnded(NodeEnded):
    """Spark's Python daemon sent SIGHUP, because its executor is gone."""


def map_fun(arguments: dict[str, Any], context: Any) -> None:
    """Like `run_node`, on an executor. context: TensorFlowOnSpark's TFNodeContext."""
    run_node(arguments, context.executor_id, json.loads(os.environ["TF_CONFIG"]), called, show_in_log)


def run_node(
    arguments: dict[str, Any],
    rank: int,
    tf_config: dict[str, Any],
    called: Callable[[], None],
    show: Callable[[bytes], None],
    show_print: Callable[[bytes], None] | None = None,
    variables: Mapping[str, str] | None = None,
) -> None:
    """Run one node to its end. If the node fails, tell the driver and raise NodeEnded.

    arguments: post (without the rank), size, work and payload, as in `Start`. local_dirs, if it is there: folders on
        local disks as in SPARK_LOCAL_DIRS, which takes precedence.
    called: called once the launcher is connected to the driver. Its error is raised, and the node does not start.
    show, show_print, variables: as for `_Node`.
    """
    post = replace(Post.of(arguments["post"]), rank=rank, kind="launcher")
    node = _Node(show, show_print, variables)
    over, orphaned = threading.Event(), threading.Event()

    def message(received: dict[str, Any]) -> None:
        if "kill" in received:
            over.set()
            if received.get("hung") == post.rank:
                node.write_stack()
            node.kill()

    def silence(reason: str) -> None:
        orphaned.set()
        over.set()
        node.kill()

    def state() -> dict[str, Any]:
        return {"stopped": True} if node.is_stopped() else {}

    line = Line(post, state=state, on_message=message, on_silence=silence)
    try:
        line.send(place=own_place())
        called()
        with ExitStack() as stack:
            folder = stack.enter_context(_scratch_folder(post.rank, arguments.get("local_dirs", "")))
            ending = stack.enter_context(_signals(node))
            stack.callback(node.end)
            start = Start(
                post=replace(post, kind="node"),
                size=arguments["size"],
                work=arguments["work"],
                payload=arguments["payload"],
                tf_config=tf_config,
                local_dir=folder,
                launcher=os.getpid(),
            )
            before = memory.kills()
            status, output = node.run(start)
            after = memory.kills()
            if signal.SIGHUP in ending:
                raise ExecutorEnded
        for_memory = None if before is None or after is None else after > before
        # A driver that was only suspended may still read this. It must not take the launcher's SIGKILL for the node's
        # own end.
        line.deliver(ended=ORPHANED if orphaned.is_set() else status, output=output, killed_for_memory=for_memory)
        if status:
            # Spark would retry a failed task at once, with its own log. So wait for the driver to cancel the job first.
            over.wait(ORPHAN)
            raise NodeEnded(f"node {post.rank} ended with status {status}: {output[-1] if output else 'no output'}")
    except ExecutorEnded:
        line.deliver(ended=-signal.SIGHUP, output=[])
        raise
    finally:
        line.close()


class _Node:
    """The node's process. Any thread may call `kill`, even before the process exists.

    show: called with every piece of its output.
    show_print: called instead with every piece of its stdout, which does not belong to its last lines then. Nodes print
        nothing there, so it is what the user's code prints. None: stdout is output like stderr.
    variables: environment variables of the process, beside this process's.
    """

    def __init__(
        self,
        show: Callable[[bytes], None] = show_in_log,
        show_print: Callable[[bytes], None] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self._show, self._show_print, self._variables = show, show_print, variables or {}
        self._lock = threading.Lock()
        self._killed = False
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, start: Start) -> tuple[int, list[str]]:
        """Start the process and wait for its end. Return (exit status or minus the signal's number, last lines of
        output)."""
        # Temporary files that libraries (such as TensorFlow's AutoGraph) leave behind are removed with the node's
        # folder.
        temporary = str(Path(start.local_dir).with_name(TEMPORARY))
        environment = {**os.environ, "PYTHONPATH": python_path(), "TMPDIR": temporary}
        environment.update(self._variables)
        with self._lock:
            if self._killed:
                return -signal.SIGKILL, []
            process = self._process = subprocess.Popen(
                # -P: the working directory holds the user's files, not our modules. The rank shows which node it is in
                # lists of processes.
                [sys.executable, "-P", "-u", "-m", "sparksplit.cluster.node_main", f"rank={start.post.rank}"],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if self._show_print is None else subprocess.PIPE,
            )
        assert process.stdin is not None and process.stdout is not None
        output: collections.deque[str] = collections.deque(maxlen=OUTPUT_LINES)
        copies: list[tuple[IO[bytes], collections.deque[str], Callable[[bytes], None]]]
        copies = [(process.stdout, output, self._show)]
        if self._show_print is not None:
            assert process.stderr is not None
            copies = [
                (process.stderr, output, self._show),
                (process.stdout, collections.deque(maxlen=0), self._show_print),
            ]
        readers = [threading.Thread(target=_copy, args=each, daemon=True) for each in copies]
        for reader in readers:
            reader.start()
        with suppress(BrokenPipeError), process.stdin as stdin:
            stdin.write(json.dumps(asdict(start)).encode() + b"\n")
        status = process.wait()
        # A process that the node started may hold the pipe open. Then use the lines read so far.
        for reader in readers:
            reader.join(1)
        return status, list(output)

    def is_stopped(self) -> bool:
        """Return whether the process is stopped, for example by SIGSTOP.

        Before the process has connected to the driver, nothing else distinguishes a stopped process from a slow start.
        """
        if self._process is None:
            return False
        try:
            status = os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:  # it has ended
            return False
        return status is not None

    def kill(self) -> None:
        """Send SIGKILL, which also ends a stopped process."""
        with self._lock:
            self._killed = True
            if self._process is not None and self._process.poll() is None:
                self._process.kill()

    def ask_to_end(self, signum: int) -> None:
        """Ask the node to end. Kill it if it has not ended within its grace."""
        with self._lock:
            self._killed = self._killed or self._process is None
            if self._process is not None and self._process.poll() is None:
                self._process.send_signal(signum)
        time.sleep(GRACE + 1)
        self.kill()

    def write_stack(self) -> None:
        """Make the node write the stack of its main thread into its output."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                self._process.send_signal(signal.SIGUSR1)
        time.sleep(STACK_SECONDS)

    def end(self) -> None:
        """Kill the process and wait until it is gone. Its folder is free only then."""
        self.kill()
        if self._process is not None:
            self._process.wait()


def _copy(source: IO[bytes], output: collections.deque[str], show: Callable[[bytes], None] = show_in_log) -> None:
    with source:
        output.extend(short_lines(source, show))


@contextmanager
def _signals(node: _Node) -> Iterator[set[int]]:
    """Let `node` end within its grace on SIGTERM or SIGHUP to this process. Yield the set of signals that have come.

    SIGHUP comes from Spark's Python daemon. The node's folder is removed in both cases.
    """
    came: set[int] = set()

    def end(signum: int, frame: object) -> None:
        came.add(signum)
        # In a thread, because the signal may have interrupted code that holds the node's lock.
        threading.Thread(target=node.ask_to_end, args=(signum,), daemon=True).start()

    if threading.current_thread() is not threading.main_thread():
        yield came
        return
    before = {signum: signal.signal(signum, end) for signum in (signal.SIGHUP, signal.SIGTERM)}
    try:
        yield came
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


@contextmanager
def _scratch_folder(rank: int, local_dirs: str = "") -> Iterator[str]:
    """Yield a new folder on Spark's local disks, removed at the end. Also remove the folders of killed predecessors.

    local_dirs: folders on these disks, if SPARK_LOCAL_DIRS does not name them.
    """
    # In this variable, Spark gives its Python workers the directories of its own block manager.
    folders = (os.environ.get("SPARK_LOCAL_DIRS") or local_dirs or str(temporary_folder())).split(",")
    with own_folder(Path(folders[rank % len(folders)]), PREFIX) as folder:
        scratch = folder / "scratch"
        with using_own(str(folder)):
            scratch.mkdir()
            (folder / TEMPORARY).mkdir()
        yield str(scratch)
