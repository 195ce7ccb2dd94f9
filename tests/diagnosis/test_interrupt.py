"""Ctrl-C in the middle of a diagnosis, in processes of their own, as a user sees it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import yaml


def training(folder: Path, digits: Path) -> dict[str, object]:
    return {"data": str(digits), "output": str(folder / "out"), "nodes": 2, "strategy": "batch"}


def preparation(folder: Path, digits: Path) -> dict[str, object]:
    rows = np.random.default_rng(0).integers(0, 1000, (200_000, 8))
    rows[:, -1] %= 3
    header = ",".join([*(f"x{number}" for number in range(7)), "label"])
    np.savetxt(folder / "rows.csv", rows, "%d", ",", header=header, comments="")
    return {
        "input": {"format": "csv", "path": str(folder / "rows.csv"), "label": "label"},
        "output": str(folder / "out"),
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made", "middle"),
    [
        pytest.param(training, r"diagnosing.*(variants|readers|settings): ", id="training"),
        pytest.param(preparation, r"preparing once", id="preparation"),
    ],
)
def test_ctrl_c_ends_a_diagnosis_and_leaves_nothing(digits, tmp_path, made, middle):
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(made(tmp_path, digits)))
    before = sorted(tmp_path.iterdir())
    process = subprocess.Popen(
        [sys.executable, "-m", "sparksplit.commands.cli", "diagnose", "--config", str(config)],
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stderr is not None
    lines: list[str] = []
    reached, ended = threading.Event(), threading.Event()

    def read() -> None:
        for line in process.stderr:
            lines.append(line)
            if re.search(middle, line):
                reached.set()
        ended.set()
        reached.set()

    reader = threading.Thread(target=read)
    reader.start()
    try:
        assert reached.wait(240) and not ended.is_set(), "".join(lines)
        if made is preparation:
            # Its tasks are at work.
            deadline = time.monotonic() + 60
            while not list(tmp_path.glob("*.out.diagnose*")):
                assert time.monotonic() < deadline, "".join(lines)
                time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        said, _ = process.communicate(timeout=60) if ended.wait(60) else ("", "")
    finally:
        process.kill()
        reader.join(60)
        process.wait(60)
    assert process.returncode == 130, "".join(lines)
    assert lines[-1] == "sparksplit diagnose: stopped by SIGINT\n"
    assert "Traceback" not in "".join(lines) and said == ""
    # Once the processes that it has started are gone, too, nothing writes any more.
    assert sorted(tmp_path.iterdir()) == before
