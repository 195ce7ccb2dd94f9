"""Progress: lines in a log, a bar on a terminal, and the tasks of Spark's jobs."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sparksplit.base import progress
from sparksplit.base.progress import Progress, say, saying, spark_progress
from tests.logs import without_times
from tests.replaced import replaced


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of progress stands still."""
    replaced(monkeypatch, progress, "time", monotonic=lambda: 100.0)


@pytest.mark.usefixtures("still")
def test_without_a_terminal_there_are_plain_lines(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = ""
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.05)
    with Progress("counting", 2000, "rows") as counting:
        counting.update(500, "loss 0.5")
        give_up = time.monotonic() + 30
        while not said:
            assert time.monotonic() < give_up
            time.sleep(0.02)
            said += capsys.readouterr().err
        say("by the way")
        counting.update(2000)
    printed = capsys.readouterr()
    said += printed.err
    lines = without_times(said).splitlines()
    assert printed.out == ""
    assert lines[0] == "counting: 25 %, 500 of 2,000 rows, 0 s, loss 0.5"
    assert "by the way" in lines
    assert lines[-1] == "counting: 100 %, 2,000 of 2,000 rows, 0 s, done"
    assert all(re.match(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d \S", line) for line in said.splitlines())


def test_ctrl_c_never_leaves_a_line_without_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Was: `label: class (integer)sparksplit diagnose: stopped by SIGINT`, where it came between text and line end."""
    written: list[str] = []

    class Interrupted(io.StringIO):
        def write(self, text: str) -> int:
            written.append(text)
            raise KeyboardInterrupt

    monkeypatch.setattr(sys, "stderr", Interrupted())
    with pytest.raises(KeyboardInterrupt):
        say("by the way")
    assert [text[-11:] for text in written] == ["by the way\n"]


@pytest.mark.usefixtures("still")
def test_short_work_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("counting", None, "rows") as counting:
        counting.update(3)
    assert without_times(capsys.readouterr().err) == "counting: 3 rows, 0 s, done\n"


@pytest.mark.usefixtures("still")
def test_a_share_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("measuring", 100.0, "%") as measuring:
        measuring.update(100.0, "the last part")
    assert without_times(capsys.readouterr().err) == "measuring: 100 %, 0 s, done\n"


@pytest.mark.usefixtures("still")
def test_work_that_fails_is_not_done(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyError), Progress("counting", 4, "rows") as counting:
        counting.update(1)
        raise KeyError
    assert without_times(capsys.readouterr().err) == "counting: 25 %, 1 of 4 rows, 0 s, stopped\n"
    assert "progress of counting" not in [thread.name for thread in threading.enumerate()]


@pytest.mark.usefixtures("still")
def test_all_that_is_known_so_far_is_not_all(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyError), Progress("counting", None, "tasks", grows=True) as counting:
        counting.update(5, total=5)
        raise KeyError
    assert without_times(capsys.readouterr().err) == "counting: 5 of 5 tasks so far, 0 s, stopped\n"
    with Progress("counting", None, "tasks", grows=True) as counting:
        counting.update(5, total=5)
    assert without_times(capsys.readouterr().err) == "counting: 100 %, 5 of 5 tasks, 0 s, done\n"


@pytest.mark.usefixtures("still")
def test_nothing_to_do_is_no_division(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("counting", 0, "rows"):
        pass
    assert without_times(capsys.readouterr().err) == "counting: 0 of 0 rows, 0 s, done\n"


def test_updates_from_many_threads(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("counting", 800, "rows") as counting:
        threads = [
            threading.Thread(target=lambda: [counting.update(done, "x") for done in range(100)]) for _ in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        counting.update(800)
    assert without_times(capsys.readouterr().err).splitlines()[-1].startswith("counting: 100 %")


def on_a_terminal(code: str, tmp_path: Path) -> tuple[str, str]:
    """(what a terminal as stderr, and what a file as stdout, received from Python that runs `code`)."""
    ours, theirs = pty.openpty()
    with (tmp_path / "out").open("wb") as out:
        child = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
        )
        os.close(theirs)
        received = b""
        try:
            while chunk := os.read(ours, 65536):
                received += chunk
        except OSError:  # Linux's end of file on a terminal whose other side is closed
            pass
        assert child.wait(timeout=60) == 0
    os.close(ours)
    return received.decode(), (tmp_path / "out").read_text()


def test_on_a_terminal_there_is_a_bar(tmp_path: Path) -> None:
    code = """
import logging
from sparksplit.base.progress import LogHandler, Progress, say
logging.basicConfig(handlers=[LogHandler()])
with Progress("outer", 10, "rows") as outer:
    with Progress("inner", None, "files") as inner:
        inner.update(3)
    outer.update(5, "loss [0.5]")
    say("said [bold]above[/bold]")
    logging.warning("logged above")
    print("for the reader of stdout")
    outer.update(10)
"""
    shown, out = on_a_terminal(code, tmp_path)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert out == "for the reader of stdout\n"
    for text in ("outer", "━━━", "10 of 10 rows", "3 files", "said [bold]above[/bold]\r\n", "logged above\r\n"):
        assert text in plain
    assert shown.endswith("\x1b[?25h") or shown.rstrip().endswith("\x1b[?25h")  # the cursor is back


def test_tasks_of_sparks_jobs_are_counted(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    spark.range(10).count()
    capsys.readouterr()
    with spark_progress(spark, "two jobs"):
        assert spark.sparkContext.parallelize(range(6), 6).map(lambda row: row + 1).sum() == 21
        assert spark.sparkContext.parallelize(range(4), 4).count() == 4
    said = without_times(capsys.readouterr().err).splitlines()  # a line every ten seconds before the last one
    assert re.fullmatch(r"two jobs: 100 %, 10 of 10 tasks, \d+ s, done", said[-1])


def test_skipped_stages_and_failing_jobs_do_not_confuse_the_count(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = spark.sparkContext.parallelize(range(6), 3).map(lambda row: (row % 2, row)).groupByKey(2)
    assert pairs.count() == 2
    capsys.readouterr()
    with spark_progress(spark, "again"):
        assert pairs.count() == 2
    assert ": 100 %, 2 of 2 tasks" in capsys.readouterr().err
    with pytest.raises(Exception, match="ZeroDivisionError"), spark_progress(spark, "broken"):
        spark.sparkContext.parallelize([0], 1).map(lambda row: 1 // row).count()
    assert capsys.readouterr().err.endswith("stopped\n")


def test_a_skipped_stage_never_counts() -> None:
    """Otherwise, the total would shrink when its job ends. One that waits for executors counts."""
    none = {"numActiveTasks": 0, "numCompletedTasks": 0, "numFailedTasks": 0}
    stages = {
        0: SimpleNamespace(stageId=0, numTasks=4, **none),  # to be skipped
        1: SimpleNamespace(stageId=1, numTasks=3, **none),
    }
    submitted = [1]
    jobs: dict[int, SimpleNamespace] = {}
    tracker = SimpleNamespace(
        getActiveJobsIds=list, getJobIdsForGroup=list, getActiveStageIds=lambda: submitted,
        getJobInfo=jobs.get, getStageInfo=stages.get,
    )  # fmt: skip
    spark: Any = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))
    tasks = progress._Tasks(spark)
    jobs[0] = SimpleNamespace(status="RUNNING", stageIds=[0, 1])
    assert tasks.count() == (0, 3)
    submitted.clear()
    stages[1].numCompletedTasks = 1
    assert tasks.count() == (1, 3)
    stages[1].numCompletedTasks, jobs[0].status = 3, "SUCCEEDED"
    assert tasks.count() == (3, 3)


def test_a_wait_that_cannot_be_looked_into_is_said_while_it_lasts(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    twice = threading.Event()

    def heard(line: str) -> None:
        lines.append(line)
        if len(lines) == 2:
            twice.set()

    monkeypatch.setattr(progress, "say", heard)
    with saying("Spark to start on yarn"):
        pass
    assert lines == []
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.001)
    with saying("Spark to start on yarn"):
        assert twice.wait(30)
    assert lines[1].startswith("waiting for Spark to start on yarn, ")
