"""Text for people: that it cannot be written fails no work and changes no exit status."""

from __future__ import annotations

import ast
import io
import logging
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

import pytest
from rich.console import Console

from sparksplit.base import progress
from sparksplit.base.progress import LogHandler, Progress, say
from sparksplit.base.shown import OUT, finished

ROOT = Path(__file__).parents[2]


@contextmanager
def unwritable(kind: str) -> Iterator[TextIO | None]:
    """Yield a stream that nothing can be written to, as the process's stderr may be."""
    if kind == "none":
        yield None
        return
    if kind == "full disk":
        stream = os.fdopen(os.open("/dev/full", os.O_WRONLY), "w", buffering=1)
    elif kind == "closed terminal":
        terminal, descriptor = pty.openpty()
        stream = os.fdopen(descriptor, "w", buffering=1)
        os.close(terminal)
    else:
        reader, descriptor = os.pipe()
        stream = os.fdopen(descriptor, "w", buffering=1)
        os.close(reader)
    if kind == "closed":
        stream.close()
    try:
        yield stream
    finally:
        with suppress(OSError):
            stream.close()


KINDS = ["full disk", "closed terminal", "reader gone", "closed", "none"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_log_that_cannot_be_written_fails_no_work(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.01)
    record = logging.LogRecord("a", logging.WARNING, "a.py", 1, "it is %s", ("late",), None)
    with unwritable(kind) as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        say("a line " * 10_000)
        LogHandler().emit(record)
        with Progress("counting", 2000, "rows") as counting:
            for done in range(5):
                counting.update(done)
                say("by the way")
        assert finished(2) == 2


def test_a_bar_on_a_terminal_that_closes_fails_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    terminal, descriptor = pty.openpty()
    shown = ""
    with suppress(OSError), os.fdopen(descriptor, "w", buffering=1) as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        with Progress("counting", 2000, "rows") as counting:
            say("by the way")
            while "by the way" not in shown:
                shown += os.read(terminal, 1 << 16).decode()
            os.close(terminal)
            print("a library's line", file=sys.stderr)
            counting.update(1000)
            say("by the way")
        monkeypatch.undo()
    assert progress._terminal.bars is None


def test_a_record_that_cannot_be_formatted_fails_no_work(capsys: pytest.CaptureFixture[str]) -> None:
    LogHandler().emit(logging.LogRecord("a", logging.WARNING, "a.py", 1, "%d rows", ("many",), None))
    assert "'%d rows'" in capsys.readouterr().err


@pytest.mark.parametrize("kind", KINDS)
def test_a_result_that_cannot_be_written_fails_no_work(
    kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with unwritable(kind) as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        Console(file=OUT).print("a line " * 10_000)
        print("a line " * 10_000, file=OUT, flush=True)
        assert finished(0) == 0


def test_characters_that_the_encoding_lacks_become_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(kept, encoding="ascii"))
    print("50 \u00b5s", file=OUT, flush=True)
    assert kept.getvalue() == b"50 \\xb5s\n"


PROGRAM = """
import sys
from sparksplit.base.shown import OUT, finished
print("a line " * int(sys.argv[1]), file=OUT)
print("what libraries log", file=sys.stderr) if sys.argv[3:] else None
sys.exit(finished(int(sys.argv[2]), only_text="only_text" in sys.argv))
"""
FULL = "sparksplit: stdout: the result could not be written: No space left on device\n"


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("words", ["1", "10000"])
@pytest.mark.parametrize(
    ("place", "arguments", "status", "err"),
    [
        (">&-", ["0"], 0, ""),
        ("| true", ["0"], 0, ""),
        ("| true", ["0", "only_text"], 0, "what libraries log\n"),
        (">/dev/full", ["0"], 0, FULL),
        (">/dev/full", ["0", "only_text"], 1, "what libraries log\n" + FULL),
        (">/dev/full 2>/dev/full", ["2"], 2, ""),
        (">/dev/null 2>&-", ["3"], 3, ""),
    ],
)
def test_the_exit_status_is_the_works(
    unbuffered: str, words: str, place: str, arguments: list[str], status: int, err: str
) -> None:
    program = ["bash", "-c", f'sleep 0.2 | "$@" {place}; exit ${{PIPESTATUS[1]}}', "bash"]
    python = [sys.executable, "-c", PROGRAM, words, *arguments]
    environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
    ended = subprocess.run([*program, *python], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (status, err)


@pytest.mark.parametrize(
    ("place", "arguments", "status"),
    [("2>/dev/full", "unknown", 2), ("2>&-", "unknown", 2), (">/dev/full", "--help", 1), ("| true", "--help", 0)],
)
def test_the_program_ends_with_its_status(place: str, arguments: str, status: int) -> None:
    line = f"'{sys.executable}' -m sparksplit.commands.cli {arguments} {place}; exit ${{PIPESTATUS[0]}}"
    ended = subprocess.run(["bash", "-c", line], cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == status and "Traceback" not in ended.stderr and "Exception" not in ended.stderr


def test_nothing_is_printed_in_another_way() -> None:
    """A bare `print` and a console of rich raise where nothing can be written."""
    for file in sorted((ROOT / "sparksplit").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name | ast.Attribute):
                name = ast.unparse(node.func)
                streams = [ast.unparse(one.value) for one in node.keywords if one.arg == "file"]
                if name in ("print", "Console", "traceback.print_exc"):
                    assert streams in (["OUT"], ["ERR"]), f"{file}:{node.lineno}: {ast.unparse(node)}"
