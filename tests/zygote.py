"""A process that has imported TensorFlow and becomes nodes: `python -m tests.zygote SOCKET`, while its parent lives.

A node that is forked from it begins at once, where a new interpreter computes for five seconds to import everything.
Each connection is a node's: a line with its Start, the file for its output and what is to befall a node of some rank,
then two lines back, its pid and its exit status (minus the signal's number).
"""

from __future__ import annotations

import ctypes
import functools
import gc
import importlib
import io
import json
import os
import signal
import socket
import sys
from contextlib import suppress
from typing import Any

from sparksplit.base.orphans import die_with_parent
from sparksplit.cluster import node_main
from sparksplit.model.tensorflow import import_tensorflow

_LATER = (
    "collectives.auto",
    "comparison.node",
    "diagnosis.node.variants",
    "diagnosis.node.work",
    "handoff.spool",
    "model.build",
    "model.export",
    "training.node.loop",
    "training.node.main",
    "training.report",
    "training.node.virtual",
)


def main(path: str) -> None:
    """Listen at `path` until this process is ended."""
    die_with_parent()
    _import_all()
    gc.freeze()
    # Those who wait for nodes are not waited for.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen(16)
        while True:
            connection, _ = server.accept()
            with connection:
                if not os.fork():
                    server.close()
                    _serve(connection)


def _import_all() -> None:
    """All that nodes import; nothing of it may start TensorFlow's runtime, which does not survive a fork."""
    import_tensorflow()
    for name in ("tensorboard.summary", *(f"sparksplit.{name}" for name in _LATER)):
        importlib.import_module(name)


def _serve(connection: socket.socket) -> None:
    die_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with connection.makefile("rw") as lines:
        asked = json.loads(lines.readline())
        pid = os.fork()
        if not pid:
            connection.close()
            _become(asked)
        print(pid, file=lines, flush=True)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        print(status, file=lines, flush=True)
    os._exit(0)


def _become(asked: dict[str, Any]) -> None:
    """Be a node to the end, as sparksplit.cluster.node_main is one in an interpreter of its own."""
    output = os.open(asked["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor in (1, 2):
        os.dup2(output, descriptor)
    rank = asked["start"]["post"]["rank"]
    sys.argv = ["node_main", f"rank={rank}"]
    ctypes.CDLL(None).prctl(15, f"node-{rank}".encode())  # the process's name, by which tests find it
    sys.stdin = io.StringIO(json.dumps(asked["start"] | {"launcher": os.getppid()}) + "\n")
    status = 1
    try:
        if (fate := asked["fate"]) is not None and fate["rank"] == rank:
            _await(**fate)
        status = node_main.main()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(status)


def _await(rank: int, signum: int, before: str, once: str) -> None:
    """Send this process a signal before its first call of `before` (`module:name`; nothing: at once), unless a process
    has had it, which `once` then says."""

    def befall() -> None:
        with suppress(FileExistsError):
            os.close(os.open(once, os.O_CREAT | os.O_EXCL))
            os.kill(os.getpid(), signum)

    if not before:
        befall()
        return
    module, _, path = before.partition(":")
    *outer, name = path.split(".")
    holder = functools.reduce(getattr, outer, importlib.import_module(module))
    function = getattr(holder, name)

    @functools.wraps(function)
    def befallen(*arguments: Any, **named: Any) -> Any:
        befall()
        return function(*arguments, **named)

    setattr(holder, name, befallen)


if __name__ == "__main__":
    main(sys.argv[1])
