"""Temporary folders of owners that were killed, in places that others can write to."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from sparksplit.base.errors import Passing, exit_status
from sparksplit.base.own_folders import own_folder, sweep
from sparksplit.cluster.launcher import _scratch_folder
from sparksplit.commands import cli
from sparksplit.inference.trained import _local
from sparksplit.operations.check.probe import local_disks
from sparksplit.operations.devices.ask import _local_folder
from sparksplit.spark.left import MARK, remove_left, session_folder
from tests.disks import make_read_only, small_disk

OTHER = 65534
"""A user who is not this one."""

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


def _lock(folder: Path) -> None:
    (folder / ".lock").touch()


def _fifo(folder: Path) -> None:
    os.mkfifo(folder / ".lock", 0o666)


def _linked_lock(folder: Path) -> None:
    (folder / ".lock").symlink_to("precious")


@pytest.mark.parametrize("lock", [_fifo, _linked_lock])
def test_a_lock_that_is_no_file_is_neither_waited_for_nor_followed(
    tmp_path: Path, lock: Callable[[Path], None]
) -> None:
    folder = tmp_path / "mine-1"
    folder.mkdir()
    (folder / "precious").touch()
    lock(folder)
    sweep(tmp_path, "mine-")
    assert sorted(entry.name for entry in folder.iterdir()) == [".lock", "precious"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
@pytest.mark.parametrize("lock", [_lock, _fifo])
def test_another_users_folder_is_let_be(tmp_path: Path, lock: Callable[[Path], None]) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    folder = shared / "mine-1"
    folder.mkdir()
    (folder / "file").touch()
    lock(folder)
    for each in (folder, *folder.iterdir()):
        os.chown(each, OTHER, OTHER)
    ended: list[Path] = []
    with own_folder(shared, "mine-", ended.append) as own:
        assert {*shared.iterdir()} == {folder, own}
    assert sorted(entry.name for entry in folder.iterdir()) == [".lock", "file"]
    assert ended == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be two users")
@pytest.mark.timeout(120)
def test_a_whole_command_beside_another_users_folder_ends_and_lets_it_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each command looks for what earlier ones have left."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = tmp_path / "sparksplit-session-1"
    folder.mkdir()
    _fifo(folder)
    for each in (folder, folder / ".lock"):
        os.chown(each, OTHER, OTHER)
    assert cli.main(["train", "--set", "data=/nowhere", "--set", f"output={tmp_path}/run"]) == 2
    assert "/nowhere: not a prepared data set" in capsys.readouterr().err
    assert [*tmp_path.iterdir()] == [folder] and [*folder.iterdir()] == [folder / ".lock"]


def test_a_link_that_somebody_has_put_there_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    for name in (".lock", "precious"):
        (elsewhere / name).touch()
    (tmp_path / "mine-link").symlink_to(elsewhere)
    sweep(tmp_path, "mine-")
    assert sorted(path.name for path in elsewhere.iterdir()) == [".lock", "precious"]


def test_what_is_removed_is_what_was_looked_at(tmp_path: Path) -> None:
    """In a place without the sticky bit anybody can put a link where the folder was, at any time."""
    elsewhere, folder, away = tmp_path / "elsewhere", tmp_path / "mine-1", tmp_path / "away"
    for made in (elsewhere, folder):
        made.mkdir()
        _lock(made)
        (made / "data").mkdir()
        (made / "data" / "file").touch()

    def swap(_: Path) -> None:
        folder.rename(away)
        folder.symlink_to(elsewhere)

    sweep(tmp_path, "mine-", swap)
    assert sorted(entry.name for entry in elsewhere.rglob("*")) == [".lock", "data", "file"]
    assert list(away.iterdir()) == []


def test_a_place_that_cannot_be_used_is_the_hosts_failure(tmp_path: Path) -> None:
    """Such as one of Spark's local disks that has become read-only: another attempt may have another host."""
    with small_disk(tmp_path / "disk") as disk:
        make_read_only(disk)
        line = rf"^{disk} on {socket.gethostname()}: cannot be written: Read-only file system$"
        with pytest.raises(Passing, match=line), own_folder(disk, "ours-"):
            pass


def test_a_host_without_a_place_for_temporary_files_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All its disks are full or read-only: another attempt may have another host. The user named none of them."""
    gone = str(tmp_path / "gone")
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [gone])
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    line = rf"^temporary files on {socket.gethostname()}: cannot be written: No usable temporary .* \['{gone}'\]$"
    for use in (session_folder, local_disks, lambda: _scratch_folder(0).__enter__(), _local_folder):
        with pytest.raises(Passing, match=line) as caught:
            use()
        assert exit_status(caught.value) == 1
    with pytest.raises(Passing, match=line), _local("hdfs://nn:8020/run/saved_model"):
        pass
    remove_left()
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    assert list(local_disks()) == [str(tmp_path)] and _local_folder() == tmp_path


def test_an_error_of_the_block_stays_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="rows"), own_folder(tmp_path, "ours-") as folder:
        (folder / "rows").read_bytes()
    assert list(tmp_path.iterdir()) == []
