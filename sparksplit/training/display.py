"""The display of a run while it trains: progress, and a line for each epoch, from the nodes' heartbeats."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any

from sparksplit.base.progress import Lines, Progress, say, show
from sparksplit.training import report
from sparksplit.training.callbacks.prints import new_lines
from sparksplit.training.progress_record import METRICS, EpochRecord
from sparksplit.training.run_record import RUN

_FEW = 8
"""Up to so many nodes are all in the line of progress. With more nodes, the line has three."""
_DOING = {"feeding": "wait for rows from Spark", "measuring": "measure how long a step takes"}
"""What nodes do before their first step, by phase."""
_SHOW_SECONDS = 0.5
"""Seconds between two looks at all nodes, if there are more than `_FEW`. A thousand nodes send 500 heartbeats a second.
"""


class RunDisplay:
    """Progress on the terminal or in the log, from the nodes' heartbeats. A context manager.

    epochs_said: the last epoch that needs no line any more.
    said: called with each epoch that gets a line.
    name: the name of the run, if others train at the same time. The caller begins the lines of `say` with it.
    prints: whether to show what callbacks print. False where stderr shows the stdout of the nodes anyway.
    """

    def __init__(
        self,
        nodes: int,
        epochs_said: int = 0,
        said: Callable[[EpochRecord], None] | None = None,
        name: str = "",
        prints: bool = True,
    ) -> None:
        self._epochs_said, self._said = epochs_said, said
        self._title, self._prefix = name or "training", f"{name}: " if name else ""
        self.states: list[dict[str, Any]] = [{} for _ in range(nodes)]
        self._marks: list[tuple[float, float, float] | None] = [None] * nodes
        """The node's time, its rows and its seconds in exchanges at the start of the measurement of its rates."""
        self._rates: list[tuple[float, float]] = [(0.0, 0.0)] * nodes
        self._progress: Progress | None = None
        self._feeding: Progress | None = None
        self.rows_to_feed: int | None = None
        self._init_said = self._traceback_shown = False
        self._prints, self._printed = prints, 0
        self._shown = float("-inf")
        self._began, self._lines = time.monotonic(), Lines()

    def __enter__(self) -> RunDisplay:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._show()
        for progress in (self._feeding, self._progress):
            if progress is not None:
                progress.__exit__(kind, error, trace)

    @property
    def reached(self) -> int:
        """The last step that a node, real or virtual, has reported."""
        return max(int(state.get("reached") or state.get("update", 0)) for state in self.states)

    def _is_due(self, now: float) -> bool:
        """Return whether to look at all nodes at the heartbeat of one node."""
        if len(self.states) > _FEW and now - self._shown < _SHOW_SECONDS:
            return False
        self._shown = now
        return True

    def _show(self) -> None:
        """Show how far the run is."""
        if self._progress is not None:
            # The total shrinks if the run stops early.
            done = min(other.get("update", 0) for other in self.states)
            self._progress.update(done, self._text(), next(state["steps"] for state in self.states if "steps" in state))

    def _show_feeding(self) -> None:
        fed = sum(state.get("fed", 0) for state in self.states)
        if not fed or not self.rows_to_feed:
            return
        if self._feeding is None:
            self._feeding = Progress("feeding", self.rows_to_feed, "rows").__enter__()
        # A repeated task has sent some rows twice. So only the beginning of training shows that all rows have arrived.
        self._feeding.update(min(fed, self.rows_to_feed - 1))

    def state(self, rank: int, state: dict[str, Any]) -> None:
        """Take in the state of a heartbeat."""
        self.states[rank] = state
        if "at" in state:
            self._rate(rank, state["at"], state["rows"], state["sync_seconds"])
        now = time.monotonic()
        if rank == 0 and "init" in state and not self._init_said:
            self._init_said = True
            say(state["init"])
        if rank == 0:
            self._show_callbacks(state)
        if "steps" not in state:
            if self._is_due(now):
                self._show_feeding()
            if self._feeding is None:
                what = _DOING.get(state.get("phase") or "", "load TensorFlow and the data")
                self._lines.say(f"the nodes {what}, {now - self._began:.0f} s")
            return
        if self._feeding is not None:
            assert self.rows_to_feed is not None
            self._feeding.update(self.rows_to_feed)
            self._feeding.__exit__(None, None, None)
            self._feeding = None
        if self._progress is None:
            self._progress = Progress(self._title, state["steps"], "steps").__enter__()
        for values in state.get("history", []) if rank == 0 else []:
            record = EpochRecord.from_json(values, "node 0")
            if record.epoch > self._epochs_said:
                self._epochs_said = record.epoch
                say(_epoch_line(record, state["epochs"]))
                if self._said is not None:
                    self._said(record)
        if self._is_due(now):
            self._show()

    def _show_callbacks(self, state: dict[str, Any]) -> None:
        """Show what callbacks have printed on node 0 since its last report, and the error of a callback."""
        if self._prints and "printed" in state:
            for line in new_lines(state["printed"], self._printed):
                show(self._prefix + line)
            self._printed = state["printed"][0]
        if state.get("traceback") and not self._traceback_shown:
            self._traceback_shown = True
            show(state["traceback"].rstrip())

    def _rate(self, rank: int, at: float, rows: float, waited: float) -> None:
        """Take in how far a node was at the time `at` of its own clock. Heartbeats may come late, several at once."""
        since, rows_then, waited_then = mark = self._marks[rank] or (at, rows, waited)
        self._marks[rank] = mark
        if at - since >= 1 and rows > rows_then:
            self._rates[rank] = ((rows - rows_then) / (at - since), (waited - waited_then) / (at - since))
            self._marks[rank] = (at, rows, waited)

    def _text(self) -> str:
        state = self.states[0]
        if state.get("phase") and state["phase"] != "start":
            return f"epoch {state.get('epoch', 0) + 1}, {state['phase']}"
        parts = [f"epoch {state.get('epoch', 0) + 1}/{state.get('epochs')}"]
        if "loss" in state:
            parts.append(f"loss {state['loss']:.4f}")
        total = sum(rate for rate, _ in self._rates)
        if total:
            parts.append(f"{total:,.0f} rows/s")
        if len(self._rates) > 1 and total:
            parts.append(f"per node, with time in exchanges: {'; '.join(self._shares())}")
        return ", ".join(parts)

    def _shares(self) -> Iterator[str]:
        """Yield each node's rows/s and its share of time in exchanges.

        Of many nodes, yield three: the node that waits least (all others wait for it), the median node, and the node
        that waits most.
        """

        def share(rank: int) -> str:
            rate, wait = self._rates[rank]
            return f"{rank}: {rate:,.0f} rows/s, {wait:.0%}"

        if len(self._rates) <= _FEW:
            yield from map(share, range(len(self._rates)))
            return
        measured = [rank for rank, (rate, _) in enumerate(self._rates) if rate]
        by_wait = sorted(measured, key=lambda rank: self._rates[rank][1])
        for name, rank in (("least", by_wait[0]), ("median", by_wait[len(by_wait) // 2]), ("most", by_wait[-1])):
            yield f"{name} {share(rank)}"


def _epoch_line(record: EpochRecord, epochs: int) -> str:
    measured = {"train": record.train, "validation": record.validation or {}}
    parts = [f"{name} {report.written(values, ' ')}" for name, values in measured.items() if values]
    line = " ".join((f"epoch {record.epoch}/{epochs}:", *parts))
    if record.rows_per_second is not None:
        line += f", {record.rows_per_second:,.0f} rows/s"
    lost = [f"{name} {key}" for name, values in measured.items() for key in report.undefined(values)]
    return line + (f"; {', '.join(lost)}: null in {METRICS} and {RUN}" if lost else "")
