"""The speed of Spark's hand-off, as the nodes see it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from sparksplit.diagnosis.node.runner import Runner
from sparksplit.rows.feed import RowSource
from sparksplit.training.node.process import Process

if TYPE_CHECKING:
    from sparksplit.cluster import Member

_STRETCHES = 8
_LOOK_SECONDS = 0.05


def handed_rows(process: Process, member: Member, runner: Runner) -> tuple[RowSource, list[float] | None]:
    """Return the training split once it has arrived, and the seconds per row of Spark's hand-off, for stretches of the
    feed.

    The seconds are None without a hand-off, or if all rows had arrived before the node waited for them.
    """
    if process.receiver is None:
        return process.prepared_rows(), None
    marks: list[tuple[float, int]] = []
    with member.phase("feeding"):
        while (fed := process.told()) is None:
            marks.append((time.monotonic(), process.receiver.rows))
            member.await_news(_LOOK_SECONDS)
        marks.append((time.monotonic(), process.receiver.rows))
        rows = process.spooled_rows(fed)
    with runner.phase():
        columns = stretches(marks)
        table = runner.table(*columns[0], *columns[1])
        seconds, arrived = table[:, :_STRETCHES].mean(0), table[:, _STRETCHES:].sum(0)
    return rows, [float(part / count) for part, count in zip(seconds, arrived, strict=True) if count] or None


def stretches(marks: list[tuple[float, int]]) -> tuple[list[float], list[float]]:
    """Return (seconds, rows) of equally long stretches of a node's feed. marks: (time in seconds, rows so far), in
    order."""
    last = marks[-1][1]
    # From the last mark before the first rows to the first mark with all rows.
    begin = max((place for place, (_, rows) in enumerate(marks) if rows == 0), default=0)
    end = next(place for place, (_, rows) in enumerate(marks) if rows == last)
    times, rows = zip(*marks[begin : max(end, begin) + 1], strict=True)
    edges = np.linspace(times[0], times[-1], _STRETCHES + 1)
    return np.diff(edges).tolist(), np.diff(np.interp(edges, times, rows)).tolist()
