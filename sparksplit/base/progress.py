"""Show progress of work that takes more than a few seconds: a bar on a terminal, plain lines in a log.

Everything goes to stderr, so that stdout holds only the command's result. Lines that cannot be written are dropped.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from sparksplit.base.shown import ERR, OUT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.status import SparkStageInfo

LINE_SECONDS = 10.0
"""Seconds between two lines if there is no terminal."""

STAMP = "%Y-%m-%d %H:%M:%S"
"""Time format of a line in a log, as in the log's other lines."""

_POLL_SECONDS = 0.5
_LAG_SECONDS = 1.0
"""Spark may not yet have counted the tasks that ended within this time."""
_LOOK_AHEAD = 16  # job numbers to ask for at once: more than Spark starts between two polls


class _Terminal:
    """The bars of all open `Progress` objects. rich allows one live display at a time."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.bars: Bars | None = None
        self.open = 0

    def enter(self) -> Bars:
        with self.lock:
            if self.bars is None:
                self.bars = Bars(
                    TextColumn("{task.description}"),
                    BarColumn(),
                    TextColumn("{task.fields[amount]}"),
                    TimeElapsedColumn(),
                    TextColumn("{task.fields[text]}"),
                    console=Console(file=ERR),
                    # A redirected stdout goes to its reader, not to the terminal.
                    redirect_stdout=OUT.isatty(),
                )
                self.bars.start()
            self.open += 1
            return self.bars

    def leave(self) -> None:
        with self.lock:
            self.open -= 1
            if self.open == 0 and self.bars is not None:
                self.bars.stop()
                self.bars = None


_terminal = _Terminal()


_beginning = threading.local()


@contextmanager
def begun_with(name: str) -> Iterator[None]:
    """Begin the lines that `say` prints with `name`, in this thread, while the block lasts."""
    _beginning.text = f"{name}: "
    try:
        yield
    finally:
        del _beginning.text


def say(text: str) -> None:
    """Print one line on stderr: above the bar if there is a bar, with a timestamp if stderr is not a terminal.

    Thread-safe.
    """
    line = text.lstrip("\n")
    text = text[: len(text) - len(line)] + (line := getattr(_beginning, "text", "") + line)
    blank = text[: len(text) - len(line)]
    show(text if ERR.isatty() else f"{blank}{time.strftime(STAMP)} {line}")


def show(text: str) -> None:
    """Print a line on stderr as it is: above the bar if there is a bar. Thread-safe."""
    with _terminal.lock:
        if _terminal.bars is not None:
            _terminal.bars.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            # The line and its end are one write: Ctrl-C between two would put the next line behind this one.
            print(f"{text}\n", end="", file=ERR, flush=True)


class LogHandler(logging.Handler):
    """Write log records, which have their own time, like `say`, so that they do not break the bar."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            show(self.format(record))
        except Exception:  # the record's values do not fit its text
            self.handleError(record)


class Progress:
    """Progress of one piece of work, as a context manager. Thread-safe.

    title: name of the work.
    total: number of `unit`s; None if unknown.
    unit: what is counted, in the plural; "%" of a total of 100 if nothing is counted.
    grows: the total may still grow, so no percentage is shown before the end.
    """

    def __init__(self, title: str, total: float | None, unit: str, grows: bool = False) -> None:
        self.title, self.total, self.unit = title, total, unit
        self._final = not grows
        self.done = 0.0
        self.text = ""
        self._started = time.monotonic()
        self._finished = threading.Event()
        self._bars: Bars | None = None
        self._lines: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._started = time.monotonic()
        if ERR.isatty():
            self._bars = _terminal.enter()
            self._task = self._bars.add_task(self.title, total=self.total, amount="", text="")
        else:
            self._lines = threading.Thread(target=self._print_lines, name=f"progress of {self.title}", daemon=True)
            self._lines.start()
        return self

    def update(self, done: float, text: str = "", total: float | None = None) -> None:
        """Set how many units are `done`, a short line of `text` to show, and a new `total` if it grew."""
        self.done, self.text = done, text
        if total is not None:
            self.total = total
        if self._bars is not None:
            self._bars.update(self._task, completed=done, total=self.total, text=text, amount=self._amount())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._finished.set()
        outcome = "done" if kind is None else "stopped"
        self._final = self._final or kind is None
        if self._bars is not None:
            self._bars.update(self._task, amount=self._amount(), text=self.text if kind is None else outcome)
            self._bars.stop_task(self._task)
            _terminal.leave()
        elif self._lines is not None:
            self._lines.join()
            say(self._line(outcome))

    def _print_lines(self) -> None:
        while not self._finished.wait(LINE_SECONDS):
            say(self._line(self.text))

    def _line(self, text: str) -> str:
        seconds = time.monotonic() - self._started
        # Round down, so that 100 % means everything.
        share = ""
        if self.total and self._final and self.unit != "%":
            share = f"{math.floor(100 * self.done / self.total)} %, "
        return f"{self.title}: {share}{self._amount()}, {seconds:.0f} s{', ' + text if text else ''}"

    def _amount(self) -> str:
        of = f" of {self.total:,.10g}" if self.total is not None and self.unit != "%" else ""
        return f"{self.done:,.10g}{of} {self.unit}{'' if self._final else ' so far'}"


class Lines:
    """Say every LINE_SECONDS what the process waits for, first after LINE_SECONDS.

    For waits that are mostly shorter.
    """

    def __init__(self) -> None:
        self._last = time.monotonic()

    def say(self, text: str) -> None:
        """Say `text` if LINE_SECONDS have passed since the last line."""
        if (now := time.monotonic()) - self._last >= LINE_SECONDS:
            self._last = now
            say(text)


@contextmanager
def saying(what: str) -> Iterator[None]:
    """Say every LINE_SECONDS what the process waits for, while the block lasts. For waits without visible progress."""
    began, over = time.monotonic(), threading.Event()

    def run() -> None:
        while not over.wait(LINE_SECONDS):
            say(f"waiting for {what}, {time.monotonic() - began:.0f} s")

    thread = threading.Thread(target=run, name=f"waiting for {what}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


class _Tasks:
    """Count the tasks of the Spark jobs that start after this object was made."""

    def __init__(self, spark: SparkSession) -> None:
        self.tracker = spark.sparkContext.statusTracker()
        # Spark numbers its jobs in order. After they have ended, only jobs outside any group can be listed.
        listed = [*self.tracker.getActiveJobsIds(), *self.tracker.getJobIdsForGroup()]
        self.next = max(listed, default=-1) + 1
        self.running: set[int] = set()
        self.ended = 0

    def count(self) -> tuple[int, int]:
        """Return (completed tasks, known tasks)."""
        for job in range(self.next, self.next + _LOOK_AHEAD):
            if self.tracker.getJobInfo(job) is not None:
                self.running.update(range(self.next, job + 1))
                self.next = job + 1
        completed = known = 0
        submitted = set(self.tracker.getActiveStageIds())
        for job in sorted(self.running):
            info = self.tracker.getJobInfo(job)
            stages = [self.tracker.getStageInfo(stage) for stage in info.stageIds] if info else []
            done = sum(stage.numCompletedTasks for stage in stages if stage)
            if info is None or info.status != "RUNNING":
                # An ended job runs no more tasks.
                self.running.discard(job)
                self.ended += done
            else:
                completed += done
                # A stage that Spark has not submitted may be skipped, because an earlier job has its result.
                known += sum(stage.numTasks for stage in stages if stage and _has_begun(stage, submitted))
        return self.ended + completed, self.ended + known


def _has_begun(stage: SparkStageInfo, submitted: Collection[int]) -> bool:
    return stage.stageId in submitted or stage.numActiveTasks + stage.numCompletedTasks + stage.numFailedTasks > 0


@contextmanager
def spark_progress(spark: SparkSession, title: str) -> Iterator[None]:
    """Show the completed and known tasks of the Spark jobs that start inside the block.

    The total grows while Spark adds jobs: Spark plans a query's later stages from the sizes of its earlier stages.
    """
    finished = threading.Event()

    def watch(progress: Progress) -> None:
        try:
            tasks = _Tasks(spark)
            ready.set()
            last = False
            while not last:
                last = finished.wait(_POLL_SECONDS)
                done, known = tasks.count()
                end = time.monotonic() + _LAG_SECONDS
                while last and done < known and time.monotonic() < end:
                    time.sleep(0.05)
                    done, known = tasks.count()
                progress.update(done, total=known)
        except Exception as error:  # the session may end during a query; the block itself reports that error
            logging.getLogger(__name__).debug("the progress of %r is no longer known: %s", title, error)
        finally:
            ready.set()

    ready = threading.Event()
    with Progress(title, None, "tasks", grows=True) as progress:
        # The thread has its own connection to the JVM, so it never waits for the work inside the block.
        watcher = threading.Thread(target=watch, args=(progress,), name=f"progress of {title}", daemon=True)
        watcher.start()
        ready.wait(timeout=5)
        try:
            yield
        finally:
            finished.set()
            watcher.join(timeout=5)
