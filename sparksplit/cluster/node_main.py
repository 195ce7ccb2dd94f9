"""The node's own interpreter: `python -m sparksplit.cluster.node_main`, with its Start as JSON on stdin.

It imports neither Spark nor TensorFlow. The work function imports what it needs.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import logging
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from sparksplit.base.errors import CallbackFailed, Diverged, UsageError
from sparksplit.base.orphans import die_with_parent
from sparksplit.base.shown import ERR, OUT
from sparksplit.cluster.channel.limits import ORPHANED
from sparksplit.cluster.channel.line import Post
from sparksplit.cluster.failures import Failure
from sparksplit.cluster.faults import kind_and_text
from sparksplit.cluster.leaving import ASKING, reason_of, signals
from sparksplit.cluster.member import Member, NodeMember, Start


def main() -> int:
    """Run the work function. Return exit status 0 if the driver has the result."""
    die_with_parent()
    faulthandler.enable()
    # The launcher asks a hanging node for its stack. The answer comes even while TensorFlow or a system call holds the
    # node.
    faulthandler.register(signal.SIGUSR1, all_threads=False)
    # Ctrl-C reaches the whole foreground group, but only the driver decides when nodes end.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    values = json.loads(sys.stdin.readline())
    post = values.pop("post")
    start = Start(post=Post.of(post), **values)
    if os.getppid() != start.launcher:
        return ORPHANED
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    member = NodeMember(start)
    asked = signals()
    threading.Thread(target=_leave, args=(member, asked), name="signals", daemon=True).start()
    try:
        with member.phase("start"):
            function = _function(start.work)
        result = function(member)
        if not isinstance(result, dict):
            raise TypeError(f"{start.work} must return a dict (returned {type(result).__name__})")
        # Inside `try`, so that a result that cannot be sent is this node's error.
        heard = member.report_result(result)
    except BaseException as error:
        if not isinstance(error, UsageError | Diverged | CallbackFailed):
            traceback.print_exc(file=ERR)
        member.report_error(*kind_and_text(error))
        return 1
    return 0 if heard else 1


def _leave(member: NodeMember, descriptor: int) -> None:
    """Wait for a signal that asks this process to end. Then end it, at the latest when its grace is over."""
    while (number := os.read(descriptor, 1)[0]) not in ASKING:
        pass
    reason = reason_of(number)
    if member.leaving.ask(reason):
        member.announce(leaving=True)
        time.sleep(member.leaving.grace)
    member.report_error(Failure.PASSING, reason)
    OUT.flush()
    ERR.flush()
    os._exit(1)


def _function(work: str) -> Callable[[Member], dict[str, Any]]:
    module, _, name = work.partition(":")
    function: Callable[[Member], dict[str, Any]] = getattr(importlib.import_module(module), name)
    return function


if __name__ == "__main__":
    status = main()
    OUT.flush()
    ERR.flush()
    # Threads that TensorFlow or the work function left behind must not keep the node alive.
    os._exit(status)
