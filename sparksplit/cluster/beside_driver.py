"""Nodes in processes of the driver's own machine, for a Spark whose master has no executors.

Launchers are threads of the driver. All else is as on executors: the channel, the node's interpreter, its folder and
its end.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sparksplit.base.progress import show
from sparksplit.cluster import launcher, one_gpu
from sparksplit.cluster.channel.line import Line, Post
from sparksplit.cluster.channel.server import Channel
from sparksplit.cluster.faults import before_start

if TYPE_CHECKING:
    from pyspark import SparkContext

log = logging.getLogger(__name__)


class Launchers:
    """The threads that hold the nodes, one thread per node. It has the methods of tensorflowonspark.Job.

    sc: not used.
    arguments: as for launcher.run_node.
    """

    failure: str | None = None
    cancelled = False
    tasks_failed = False

    def __init__(self, sc: SparkContext, name: str, nodes: int, arguments: dict[str, Any]) -> None:
        self._arguments = arguments
        self._ending = threading.Event()
        self._threads = [
            # The kernel ends a node together with the thread that has started it. So the node ends with the driver.
            threading.Thread(target=self._launch, args=(rank,), name=f"{name} node {rank}", daemon=True)
            for rank in range(nodes)
        ]

    def start(self, channel: Channel, watch: Callable[[int], None], wait: Callable[[], None]) -> None:
        """Return at once. The launchers then call the driver's `channel`. watch, wait: not used."""
        for thread in self._threads:
            thread.start()

    def _launch(self, rank: int) -> None:
        try:
            launcher.run_node(self._arguments, rank, {}, self._called, _show, _show_print, one_gpu.environment())
        except launcher.NodeEnded as error:
            log.debug("node %d: %s", rank, error)
        except Exception as error:
            log.debug("node %d was not started", rank, exc_info=True)
            kind, text = before_start(error)
            with suppress(OSError, ValueError):  # if the driver has ended the run meanwhile
                line = Line(replace(Post.of(self._arguments["post"]), rank=rank, kind="task"))
                line.deliver(error=text, kind=kind)
                line.close()

    def _called(self) -> None:
        """Raise NodeEnded if the run has ended before this launcher could be told."""
        if self._ending.is_set():
            raise launcher.NodeEnded("not started, because the run has ended")

    def host_of(self, rank: int) -> str | None:
        """Return None: no other host could hold the node."""
        return None

    def holders(self) -> dict[int, str]:
        """Return {}: no executor holds a node."""
        return {}

    def active(self) -> bool:
        """Return whether a launcher is still running."""
        return any(thread.is_alive() for thread in self._threads)

    def cancel(self) -> None:
        """Keep launchers that have not called the driver from starting their nodes. The others are told."""
        self._ending.set()

    def free(self) -> list[str]:
        """Return []: there is nothing to replace."""
        return []


def _show(piece: bytes) -> None:
    """Log a piece of a node's stderr, for `--debug`. It has what TensorFlow logs at its start, for example."""
    log.debug("node| %s", piece.decode(errors="replace").rstrip())


def _show_print(piece: bytes) -> None:
    """Show what the user's code in a node prints: a callback, or the function that builds the model."""
    show(piece.decode(errors="replace").rstrip("\r\n"))
