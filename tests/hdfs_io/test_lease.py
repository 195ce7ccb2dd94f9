"""Whose an output is: of several commands that want it, one gets it and keeps it."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from hdfs_io import filesystem, lease
from hdfs_io.lease import EXPIRE_SECONDS, Holder, Lease
from sparksplit.base.errors import InputError, OutputInUse, Passing, RunError
from tests.disks import small_disk
from tests.hdfs_io.leases import ELSEWHERE, Time, mine, seize, write


def test_it_lies_hidden_beside_what_it_stands_for() -> None:
    assert lease.file_of("/a/run") == "/a/.run.owner"
    assert lease.file_of("hdfs://h:1/run") == "hdfs://h:1/.run.owner"


def test_a_folder_of_another_user_is_told_of_the_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user does not know the lease's hidden file."""

    def refuse(*_: object) -> bool:
        raise PermissionError(errno.EACCES, "Permission denied: user=alice")

    monkeypatch.setattr(filesystem, "_link_new", refuse)
    with pytest.raises(InputError, match=f"^{tmp_path}/out: cannot be written: Permission denied: user=alice$"):
        mine(tmp_path).acquire()


def test_taken_held_and_given_back(tmp_path: Path) -> None:
    one = mine(tmp_path)
    assert not one.held()
    one.acquire()
    assert one.held()
    one.tell("application_1")
    found = lease.read(one.file)
    assert found == one.holder and found.here and not found.gone
    assert f"(process {os.getpid()}, application_1), since 20" in str(found)
    one.release()
    assert list(tmp_path.iterdir()) == []


def test_one_that_could_not_be_given_back_is_in_nobodys_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process lives on, as a notebook's does."""
    first, second = mine(tmp_path), mine(tmp_path)
    first.acquire()

    def away(path: str) -> None:
        raise Passing(f"{path}: HDFS has failed for 120 s")

    with monkeypatch.context() as patched:
        patched.setattr(filesystem, "remove", away)
        first.release()
    assert lease.read(first.file) == first.holder
    second.acquire()
    second.keep()
    second.release()
    assert list(tmp_path.iterdir()) == []


def test_the_one_that_wrote_last_holds_it(tmp_path: Path) -> None:
    first, second = mine(tmp_path), mine(tmp_path)
    first.acquire()
    seize(second)
    with pytest.raises(OutputInUse):
        first.tell("application_1")
    second.tell("application_2")
    first.release()
    assert second.held()


@pytest.mark.parametrize("there", [None, "dead"])
def test_of_many_that_begin_at_once_one_comes_through(tmp_path: Path, there: str | None) -> None:
    for round_ in range(50):
        folder = tmp_path / str(round_)
        folder.mkdir()
        leases = [mine(folder) for _ in range(4)]
        if there:
            write(folder / ".out.owner", replace(leases[0].holder, owner=there, started=0))
        start, through = threading.Barrier(4), []

        def take(one: Lease, start: threading.Barrier = start, through: list[Lease] = through) -> None:
            start.wait()
            with suppress(OutputInUse):
                one.acquire()
                one.keep()
                through.append(one)

        threads = [threading.Thread(target=take, args=[one]) for one in leases]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(through) == 1
        for one in leases:
            one.release()
        assert list(folder.iterdir()) == []


def test_one_that_comes_late_to_a_dead_owners_lease_removes_no_living_one(tmp_path, monkeypatch):
    """Another has taken that over and given it back, and a third begins now."""
    late, third = mine(tmp_path), mine(tmp_path)
    dead = replace(late.holder, owner="dead", started=0)
    read, before = lease.read, []

    def look(file: str) -> Holder | None:
        if file == late.file:
            before.append(file)
            if len(before) == 1:
                return dead
            if len(before) == 2:
                third.acquire()
                return None
        return read(file)

    monkeypatch.setattr(lease, "read", look)
    with pytest.raises(OutputInUse, match=r"by train on \S+ \(process \d+\)"):
        late.acquire()
    third.keep()
    third.release()
    assert list(tmp_path.iterdir()) == []


def test_one_taken_while_its_age_is_asked_is_not_taken_over(tmp_path, monkeypatch):
    one, other, age = mine(tmp_path), mine(tmp_path), lease.age
    write(tmp_path / ".out.owner", ELSEWHERE)

    def given_back_and_taken(file: str) -> float | None:
        (tmp_path / ".out.owner").unlink()
        found = age(file)
        other.acquire()
        monkeypatch.setattr(lease, "age", age)
        return found

    monkeypatch.setattr(lease, "age", given_back_and_taken)
    with pytest.raises(OutputInUse):
        one.acquire()
    other.keep()
    other.release()


def test_one_renewed_after_the_last_look_is_not_taken_over(tmp_path, monkeypatch):
    file, create, time = tmp_path / ".out.owner", filesystem.create_bytes, Time()
    write(file, ELSEWHERE)

    def renewed(path: str, content: bytes, named: str) -> bool:
        monkeypatch.setattr(filesystem, "create_bytes", create)
        write(file, replace(ELSEWHERE, renewed=6))
        return create(path, content, named)

    monkeypatch.setattr(filesystem, "create_bytes", renewed)
    with pytest.raises(OutputInUse, match="train on node7"):
        mine(tmp_path, time).acquire()
    assert lease.read(str(file)) == replace(ELSEWHERE, renewed=6)


@pytest.mark.parametrize("last", ["before", "after"])
def test_who_is_killed_taking_over_is_in_nobodys_way(tmp_path, last):
    """Neither before it has written its lease nor after that; and nothing of it stays."""
    write(tmp_path / ".out.owner", replace(mine(tmp_path).holder, owner="0123abcd4567", started=0))
    code = """
import os, sys
from hdfs_io import filesystem
from hdfs_io.lease import Lease
def killed(*_):
    os.kill(os.getpid(), 9)
if sys.argv[2] == "before":
    filesystem.write_bytes = killed
filesystem.remove = killed
Lease(sys.argv[1], "train").acquire()
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "out"), last], check=False)
    assert len(list(tmp_path.iterdir())) == 2
    time = Time()
    one = mine(tmp_path, time)
    one.acquire()
    assert time.looks == 0 and one.held()
    later = 1e9 * (1 + EXPIRE_SECONDS) + (tmp_path / ".out.owner").stat().st_mtime_ns
    os.utime(tmp_path / ".out.owner", ns=(int(later), int(later)))
    for name in lease.left_over(one.path, filesystem.entries(str(tmp_path))):
        (tmp_path / name).unlink()
    one.release()
    assert list(tmp_path.iterdir()) == []


def test_what_killed_commands_left_of_a_lease_is_known_once_it_is_old(tmp_path: Path) -> None:
    one = mine(tmp_path)
    one.acquire()
    hidden = "..out.owner.0123abcd", ".out.owner.0123abcd", ".out.owner.unknown", "...out.owner.0123abcd.0123abcd"
    others = ".out.owner.txt", ".out.owner.0123abcd.old", "out.owner.0123abcd.txt", ".outer.owner.0123abcd"
    for name in hidden + others:
        (tmp_path / name).touch()
    assert lease.left_over(one.path, filesystem.entries(str(tmp_path))) == []
    for name in hidden + others:
        os.utime(tmp_path / name, (0, 0))
    assert lease.left_over(one.path, filesystem.entries(str(tmp_path))) == sorted(hidden)
    one.release()


def test_on_a_full_disk_nobody_loses_a_lease(tmp_path: Path) -> None:
    """An owner that could not renew it meanwhile still holds it when there is room again."""
    with small_disk(tmp_path / "disk") as disk:
        write(disk / ".out.owner", ELSEWHERE, 3600)
        before = sorted(disk.iterdir())
        with suppress(OSError), (disk / "data").open("wb", buffering=0) as file:
            while file.write(bytes(4096)):
                pass
        with pytest.raises(RunError, match="No space left"):
            mine(disk).acquire()
        assert lease.read(str(disk / ".out.owner")) == ELSEWHERE
        assert sorted(disk.iterdir()) == [*before, disk / "data"]


def test_one_that_was_anothers_meanwhile_is_lost(tmp_path: Path) -> None:
    """The other one may have completed what this one would begin."""
    first, second = mine(tmp_path), mine(tmp_path)
    first.acquire()
    seize(second)
    second.release()
    with pytest.raises(OutputInUse, match="/out: another command has written this output in the meantime; run"):
        first.tell("application_1")
    assert not (tmp_path / ".out.owner").exists()
    first.release()


def test_thread_goes_on_after_any_error(tmp_path, monkeypatch):
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.001)
    one, failed = mine(tmp_path), threading.Event()
    write_bytes = filesystem.write_bytes

    def fail_once(path: str, content: bytes) -> None:
        if one.holder.renewed == 3 and not failed.is_set():
            failed.set()
            raise MemoryError
        write_bytes(path, content)

    monkeypatch.setattr(filesystem, "write_bytes", fail_once)
    one.acquire()
    assert one._thread is not None
    while one.holder.renewed < 6 and one._thread.is_alive():
        one._thread.join(0.001)
    assert failed.is_set() and one._thread.is_alive()
    one.release()


def test_it_is_renewed_until_it_is_taken_over(tmp_path, monkeypatch):
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.001)
    one = mine(tmp_path)
    one.acquire()
    assert one._thread is not None
    while one.holder.renewed < 4:
        one._thread.join(0.001)
    while one._thread.is_alive():  # again where it renews in this very moment
        write(tmp_path / ".out.owner", ELSEWHERE)
        one._thread.join(0.01)
    one.release()
    assert lease.read(one.file) == ELSEWHERE
