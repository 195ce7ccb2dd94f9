"""How far a comparison has got, and how long it will take."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from sparksplit.base.progress import Progress, say
from sparksplit.comparison.plan import Run

START_SECONDS = 3.0
"""Seconds of a run besides its training: to build and compile the model."""


def passes(run: Run) -> int:
    """Readings of the training set in a run; every number of nodes divides the plan's epochs."""
    return run.config.epochs


def estimate(runs: Sequence[Run], rows: int, rows_per_second: float) -> float:
    """How many seconds `runs` take, by one node's rate in mini-batches of B; nodes share this machine's cores."""
    cores = os.cpu_count() or 1
    found = 0.0
    for run in runs:
        at_once = min(run.processes, cores)
        # Virtual nodes exchange outside the compiled updates: about three times as slow, measured.
        slower = 3.0 if run.config.virtual else 1.5 if run.processes > 1 else 1.0
        found += START_SECONDS + slower * passes(run) * rows / max(1.0, rows_per_second) / at_once
    return found


def say_estimate(runs: Sequence[Run], rows: int, rows_per_second: float) -> None:
    """Say how long `runs` will take. rows: of the training set."""
    seconds = estimate(runs, rows, rows_per_second)
    say(f"one node trains {rows_per_second:,.0f} rows/s: {len(runs)} runs will take about {duration(seconds)}")


def duration(seconds: float) -> str:
    """Such as 40 s, 12 min or 3.5 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class ComparisonDisplay:
    """Progress over all runs, counted in passes, from the nodes' heartbeats. A context manager."""

    def __init__(self, runs: Sequence[Run], rows: int) -> None:
        self.runs, self.rows = list(runs), rows
        self.current = 0
        """The run that the cluster is at, by its index in `begin`'s list."""
        self._now: list[Run] = []
        self._before = 0.0
        self._done = 0.0
        self._began = time.monotonic()
        self._progress = Progress("comparing", float(sum(map(passes, runs))), "passes")

    def __enter__(self) -> ComparisonDisplay:
        self._progress.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._progress.update(float(sum(map(passes, self.runs))))
        self._progress.__exit__(kind, error, trace)

    def begin(self, runs: Sequence[Run]) -> None:
        """A cluster begins these runs, out of all that are left."""
        self._now, self.current = list(runs), 0
        first = [run.key for run in self.runs].index(runs[0].key)
        self._before = float(sum(passes(run) for run in self.runs[:first]))

    def state(self, rank: int, state: dict[str, Any]) -> None:
        """Take in what a heartbeat brought."""
        if rank != 0 or "run" not in state or not self._now:
            return
        self.current = int(state["run"])
        run = self._now[self.current]
        part = state["update"] / state["steps"] if state.get("steps") else 0.0
        finished = self._before + sum(passes(one) for one in self._now[: self.current])
        self._done = max(self._done, finished + min(1.0, part) * passes(run))
        self._progress.update(round(self._done, 1), self._text(run))

    def _text(self, run: Run) -> str:
        number = [one.key for one in self.runs].index(run.key) + 1
        kind = "virtual nodes" if run.config.virtual else "nodes" if run.config.node_count > 1 else "node"
        what = "try" if run.tried else "run"
        text = (
            f"{what} {number} of {len(self.runs)}: {run.way} on {run.config.node_count} {kind}, seed {run.config.seed}"
        )
        total, spent = sum(map(passes, self.runs)), time.monotonic() - self._began
        if self._done > 0 and spent > 10:
            text += f", about {duration(spent * (total - self._done) / self._done)} left"
        return text
