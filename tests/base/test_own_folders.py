"""Temporary folders of owners that were killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sparksplit.base.left import MARK, remove_left, session_folder
from sparksplit.base.own_folders import own_folder, sweep

OWNER = """
import os, signal, sys
from pathlib import Path
from sparksplit.base.own_folders import own_folder
with own_folder(Path(sys.argv[1]), "ours-") as folder:
    (folder / "spark").mkdir()
    (folder / "spark" / "file").touch()
    (folder / "link").symlink_to(sys.argv[2])
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_owner_has_left_goes_with_the_next(tmp_path: Path) -> None:
    parent, linked = tmp_path / "parent", tmp_path / "linked"
    linked.mkdir()
    (linked / "kept").touch()
    root = Path(__file__).parent.parent.parent
    subprocess.run([sys.executable, "-c", OWNER, parent, linked], cwd=root, check=False)
    (left,) = parent.iterdir()
    other = parent / "ours-of-somebody"  # nobody's lock in it
    other.mkdir()
    with own_folder(parent, "ours-") as folder:
        assert not left.exists()
        assert {*parent.iterdir()} == {folder, other}
        with own_folder(parent, "ours-"):
            assert folder.exists()
    assert list(parent.iterdir()) == [other]
    assert list(linked.iterdir()) == [linked / "kept"]


def test_a_stopped_process_of_a_killed_commands_cluster_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with session_folder() as living:
        dead = tmp_path / living.name.replace(living.name[-3:], "dead")
        dead.mkdir()
        (dead / ".lock").touch()
        command = [sys.executable, "-c", "import time; time.sleep(600)"]
        both = [subprocess.Popen(command, env={**os.environ, MARK: str(each)}) for each in (dead, living)]
        both[0].send_signal(signal.SIGSTOP)
        remove_left()
        assert both[0].wait(20) == -signal.SIGKILL
        assert both[1].poll() is None
        assert not dead.exists()
        both[1].kill()
        both[1].wait()


def test_a_link_that_somebody_has_put_there_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in (".lock", "precious"):
        (elsewhere / name).touch()
    (tmp_path / "mine-link").symlink_to(elsewhere)
    sweep(tmp_path, "mine-")
    assert sorted(path.name for path in elsewhere.iterdir()) == [".lock", "precious"]
