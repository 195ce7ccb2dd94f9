"""The progress of a comparison, and an estimate of the remaining time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Hashable, Sequence
from itertools import groupby
from statistics import fmean
from types import TracebackType
from typing import Any

from sparksplit.base.progress import Progress, say
from sparksplit.comparison.compare_config import CompareConfig
from sparksplit.comparison.plan import Run

START_SECONDS = 3.0
"""Seconds of a run besides its training: to build and compile the model."""


def passes(run: Run) -> int:
    """Return the passes over the training set in a run. They equal the epochs, because every number of nodes divides
    the epochs."""
    return run.config.epochs


def _work(run: Run) -> float:
    """Return the estimated time of a run's passes, in passes of one node that has all cores of this machine."""
    at_once = min(run.processes, os.cpu_count() or 1)
    # Virtual nodes exchange outside the compiled updates, which was measured to be about three times as slow.
    slower = 3.0 if run.config.virtual else 1.5 if run.processes > 1 else 1.0
    return slower * passes(run) / at_once


def estimate(runs: Sequence[Run], rows: int, rows_per_second: float) -> float:
    """Return the estimated seconds of `runs`. rows: of the training set. rows_per_second: of one node, with the
    configured batch size."""
    return sum(START_SECONDS + _work(run) * rows / max(1.0, rows_per_second) for run in runs)


def say_plan(config: CompareConfig, runs: Sequence[Run]) -> None:
    """Say how many runs there will be. runs: the comparison's runs, without the hyperparameter search."""
    raised = runs[0].config.epochs
    if raised != config.epochs:
        numbers = ", ".join(map(str, sorted({*config.nodes, *config.virtual})))
        say(f"epochs: {config.epochs} are raised to {raised}, which {numbers} nodes divide: all passes are equal")
    virtual, references = (sum(one) for one in zip(*((run.config.virtual, run.reference) for run in runs), strict=True))
    among_them = f", {references} of them of `single` for the target alone" if references else ""
    if config.max_seeds is not None:
        say(f"at most, if {config.seeds} seeds do not decide the answer:")
    say(f"{len(runs) - virtual} runs on real nodes{among_them}, {virtual} on virtual ones")
    if config.tuning is not None:
        tuned = len({run.tuned_as for run in runs})
        say(
            f"before these, {config.tuning.tries * config.tuning.seeds * tuned} runs tune them: {config.tuning.tries} "
            f"tries for each of {tuned} strategies and numbers of nodes, judged by the validation rows"
        )


def duration(seconds: float) -> str:
    """Seconds in a suitable unit, such as 40 s, 12 min or 3.5 h."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


class Pace:
    """The time that runs and cluster starts have taken so far, and an estimate for further runs.

    Runs differ in length by strategy, number of nodes and batch size, and a cluster starts once for many runs. So the
    estimate uses the finished runs that are most like the run. If no finished run is like it, all finished runs count.
    """

    def __init__(self) -> None:
        self.starts: list[float] = []
        self.rate: float | None = None
        """Rows/s of one node, once measured. It gives an estimate before any run has finished."""
        self._known: dict[Hashable, tuple[int, float]] = {}
        """For each likeness: the number of finished runs, and the sum of their seconds per unit of work."""

    def finished(self, run: Run, seconds: float) -> None:
        """Record a finished run. seconds: its duration, without its cluster's start."""
        for key in _likenesses(run):
            number, total = self._known.get(key, (0, 0.0))
            self._known[key] = number + 1, total + max(0.0, seconds - START_SECONDS) / _work(run)

    def seconds(self, run: Run, rows: int) -> float | None:
        """Return the estimated seconds of a run; None if nothing is known of any run. rows: of the training set."""
        for key in _likenesses(run):
            if key in self._known:
                number, total = self._known[key]
                return max(0.0, START_SECONDS + _work(run) * total / number)
        return None if self.rate is None else estimate([run], rows, self.rate)

    def left(self, runs: Sequence[Run], rows: int, clusters: int) -> float | None:
        """Return the estimated seconds of `runs` and of `clusters` cluster starts; None if unknown."""
        estimates = [self.seconds(run, rows) for run in runs]
        known = [seconds for seconds in estimates if seconds is not None]
        if len(known) < len(estimates):
            return None
        return sum(known) + (clusters * fmean(self.starts) if self.starts else 0.0)


def _clusters(runs: Sequence[Run]) -> int:
    """Return the number of clusters that are started for `runs`, one after the other."""
    return len(list(groupby(run.cluster for run in runs)))


def _likenesses(run: Run) -> list[Hashable]:
    """Return the likenesses of a run, the closest first. Runs that share one of these values are alike."""
    group = run.tuned_as if run.tried else run.group  # all tries of a strategy are alike
    processes, rows = (run.processes, run.config.virtual), (run.config.batch_size, run.config.local_batch_size)
    return [("try", group, run.tried), ("group", group), ("rows", processes, rows), ("nodes", processes), ("any",)]


class ComparisonDisplay:
    """Progress over all runs, counted in passes, from the nodes' heartbeats. A context manager.

    later: runs that follow all of `runs`, for the remaining time. pace: the time that runs have taken so far.
    """

    def __init__(
        self,
        runs: Sequence[Run],
        rows: int,
        later: Sequence[Run] = (),
        pace: Pace | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.runs, self.rows, self.later = list(runs), rows, list(later)
        self.pace = pace or Pace()
        self.current = 0
        """The index of the cluster's current run in `begin`'s list."""
        self._clock = clock
        self._now: list[Run] = []
        self._before = 0.0
        self._done = 0.0
        self._part = 0.0
        self._since = clock()
        self._is_starting = True
        is_tuning = any(run.tried for run in self.runs)
        self._progress = Progress("tuning" if is_tuning else "comparing", float(sum(map(passes, runs))), "passes")

    def __enter__(self) -> ComparisonDisplay:
        self._progress.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end_run()
        if kind is None:
            self._progress.update(float(sum(map(passes, self.runs))))
        self._progress.__exit__(kind, error, trace)

    def begin(self, runs: Sequence[Run]) -> None:
        """Note that a cluster begins `runs`, which are some of the remaining runs."""
        self._end_run()
        self._now, self.current = list(runs), 0
        self._since, self._is_starting = self._clock(), True
        first = [run.key for run in self.runs].index(runs[0].key)
        self._before = float(sum(passes(run) for run in self.runs[:first]))

    def state(self, rank: int, state: dict[str, Any]) -> None:
        """Update the progress from a heartbeat."""
        if rank != 0 or "run" not in state or not self._now:
            return
        if self._is_starting:
            self.pace.starts.append(self._clock() - self._since)
            self._since, self._is_starting = self._clock(), False
        if int(state["run"]) != self.current:
            self._part = 1.0
            self._end_run()
            self.current = int(state["run"])
        run = self._now[self.current]
        self._part = min(1.0, state["update"] / state["steps"]) if state.get("steps") else 0.0
        finished = self._before + sum(passes(one) for one in self._now[: self.current])
        self._done = max(self._done, finished + self._part * passes(run))
        self._progress.update(round(self._done, 1), self._text(run))

    def _end_run(self) -> None:
        """Note the end of the current run. A run that failed before its end does not count for the pace."""
        if self._now and not self._is_starting and self._part == 1.0:
            self.pace.finished(self._now[self.current], self._clock() - self._since)
        self._since, self._part = self._clock(), 0.0

    def left(self) -> float | None:
        """Return the estimated seconds until everything is done; None if unknown."""
        place = self._place()
        here, spent = self.runs[place:], self._clock() - self._since
        whole = self.pace.seconds(here[0], self.rows)
        clusters = _clusters(here) - 1 + _clusters(self.later)
        others = self.pace.left([*here[1:], *self.later], self.rows, clusters)
        return None if others is None or whole is None else max(0.0, whole - spent) + others

    def say_estimate(self, rows_per_second: float) -> None:
        """Say how long everything takes, before the first run; nothing after it."""
        if self.pace.starts:
            return
        runs, clusters = [*self.runs, *self.later], _clusters(self.runs) + _clusters(self.later)
        start = self._clock() - self._since  # includes Spark's hand-off, if there is one
        about = duration(clusters * start + estimate(runs, self.rows, rows_per_second))
        say(
            f"one node trains {rows_per_second:,.0f} rows/s at first: {len(runs)} runs will take about {about}, with "
            f"{clusters} starts of {duration(start)}"
        )

    def _place(self) -> int:
        """The index of the current run among all runs."""
        return [one.key for one in self.runs].index(self._now[self.current].key)

    def _text(self, run: Run) -> str:
        number = self._place() + 1
        kind = "virtual nodes" if run.config.virtual else "nodes" if run.config.node_count > 1 else "node"
        what = "try" if run.tried else "run"
        text = (
            f"{what} {number} of {len(self.runs)}: {run.name} on {run.config.node_count} {kind}, seed {run.config.seed}"
        )
        left = self.left()
        return text if left is None else f"{text}, about {duration(left)} left"
