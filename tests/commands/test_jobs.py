"""The files in jobs/: each is its command, for spark-submit."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest

from sparksplit.commands import ending
from sparksplit.commands.cli import COMMANDS

JOBS = Path(__file__).parents[2] / "jobs"


def test_every_command_has_a_job() -> None:
    assert sorted(path.stem for path in JOBS.glob("*.py")) == sorted(COMMANDS)


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_a_job_is_its_command(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [f"{command}.py", "--help"])
    # The job's own end would end this process at once if an earlier test has left a thread that waits for HDFS.
    monkeypatch.setattr(ending, "end", sys.exit)
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(JOBS / f"{command}.py"), run_name="__main__")
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith(f"usage: sparksplit {command} ")
