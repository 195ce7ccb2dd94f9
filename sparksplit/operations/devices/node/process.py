"""The fresh interpreter: `python -m sparksplit.operations.devices.node.process`, with an Order as JSON on stdin.

The process writes each part as a line of JSON once the part is measured. No measured part is lost if the process is
killed.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import traceback
from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from sparksplit.base.errors import UsageError
from sparksplit.base.orphans import die_with_parent
from sparksplit.base.shown import ERR, OUT
from sparksplit.cluster.channel.limits import ORPHANED
from sparksplit.cluster.failures import Failure
from sparksplit.cluster.faults import kind_and_text
from sparksplit.model.tensorflow import import_tensorflow
from sparksplit.operations.devices.ask import Order


def main() -> int:
    """Measure the parts that the order asks for. Return the exit status: 0 if all parts were measured."""
    die_with_parent()
    # Ctrl-C reaches the whole foreground group, but only the parent decides when this process ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    order = Order(**json.loads(sys.stdin.readline()))
    if os.getppid() != order.parent:
        return ORPHANED
    # Send prints of libraries and of the user's model to stderr. Only parts go to the parent.
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as parent:
        os.dup2(2, 1)

        def tell(name: str, value: Any) -> None:
            parent.write(json.dumps([name, value]) + "\n")
            parent.flush()

        try:
            for name, value in _parts(order, lambda what: tell("doing", what)):
                tell(name, value)
        except BaseException as error:
            if not isinstance(error, UsageError):
                traceback.print_exc(file=ERR)
            kind, text = kind_and_text(error)
            tell("usage" if kind in (Failure.USAGE, Failure.INPUT) else "failed", text)
            return 1
    return 0


def _parts(order: Order, doing: Any) -> Iterator[tuple[str, Any]]:
    if order.training is not None:
        from sparksplit.operations.devices.node.step import look

        yield "step", asdict(look(order.training, order.threads, doing))
        return
    import_tensorflow()
    from sparksplit.operations.devices.node.measure import measure

    yield from measure(order.threads, order.gpu_mebibytes * 2.0**20, order.cores, order.cpu, doing)


if __name__ == "__main__":
    status = main()
    OUT.flush()
    ERR.flush()
    # Threads that TensorFlow or the user's model left behind must not keep the process alive.
    os._exit(status)
