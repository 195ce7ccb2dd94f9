"""Invariant 6: a failure, a crash or a kill, whenever it comes, loses neither the old output nor the new one."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from hdfs_io import filesystem
from hdfs_io.marks import CONFIG, SUCCESS
from hdfs_io.publish import Output
from sparksplit.base.errors import InputError, RunError, UsageError
from tests.hdfs_io.outputs import fill, names, output, stage


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    one = output(tmp_path / "out")

    def fail(content: str) -> None:
        with one.claimed(overwrite=True), one.staging() as folder:
            Path(folder, "run.json").write_text(content)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail("first")
    assert list(tmp_path.iterdir()) == []
    stage(one)
    with pytest.raises(KeyboardInterrupt):
        fail("second")
    assert Path(one.path, "run.json").read_text() == "x"
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("which", [stage, fill])
def test_folders_that_a_failure_made_go_with_it(tmp_path: Path, which: Callable[[Output], None]) -> None:
    (tmp_path / "there").mkdir()
    for one in (output(tmp_path / "new/deep/out"), output(tmp_path / "there/out")):
        with pytest.raises(InputError), one.claimed(), one.staging():
            raise InputError("the input is wrong")
        assert names(tmp_path) == ["there"] and names(tmp_path / "there") == []
    with pytest.raises(RunError), output(tmp_path / "new/deep/out").claimed():
        (tmp_path / "new/another's").touch()
        raise RunError("the input is wrong")
    assert names(tmp_path / "new") == ["another's"]
    which(output(tmp_path / "next/deep/out"))
    assert names(tmp_path / "next/deep") == ["out"]


@pytest.mark.parametrize("which", ["stage", "fill"])
@pytest.mark.parametrize("crash", range(1, 6))
def test_a_crash_while_publishing_loses_neither(tmp_path, monkeypatch, which, crash):
    """At each rename and removal at the end; the next command finds the old one or the new one, complete."""
    do = {"stage": stage, "fill": fill}[which]
    do(output(tmp_path / "out", command="train"), "old")
    calls = 0

    def then_killed(function):
        def call(*arguments):
            nonlocal calls
            calls += Path(arguments[0]).is_dir() and SUCCESS in names(Path(arguments[0]))
            if calls >= crash:
                raise KeyboardInterrupt if threading.current_thread() is threading.main_thread() else OSError
            function(*arguments)

        return call

    with monkeypatch.context() as patched:
        for name in ("rename", "remove"):
            patched.setattr(filesystem, name, then_killed(getattr(filesystem, name)))
        try:
            do(output(tmp_path / "out", "b"), "new", overwrite=True)
        except KeyboardInterrupt:
            pass
        else:
            assert crash > 3
    for holder in tmp_path.glob(".out.owner"):  # a kill leaves it, to be known as a dead process's
        holder.unlink()
    found = []
    for config_hash in ("a", "b"):
        try:
            with output(tmp_path / "out", config_hash).claimed() as decision:
                found.append((config_hash, decision))
        except UsageError:
            pass
    ((made, decision),) = found
    content = (tmp_path / "out" / "run.json").read_text()
    assert decision == "done" and content == {"a": "old", "b": "new"}[made]


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), RunError("out: Input/output error")])
@pytest.mark.parametrize("happens", [True, False])
@pytest.mark.parametrize("which", [stage, fill])
def test_a_signal_or_a_failure_in_a_rename_leaves_an_output(tmp_path, monkeypatch, which, number, error, happens):
    """A signal comes while the disk syncs, or while HDFS answers: the rename may have happened."""
    which(output(tmp_path / "out"), "old")
    rename, calls = filesystem.rename, []

    def interrupted(old: str, new: str) -> None:
        calls.extend([old] if Path(old, SUCCESS).exists() else [])
        if len(calls) != number or happens:
            rename(old, new)
        if len(calls) == number:
            calls.append("")
            raise error

    with monkeypatch.context() as patched, pytest.raises(type(error)) as caught:
        patched.setattr(filesystem, "rename", interrupted)
        which(output(tmp_path / "out", "b"), "new", overwrite=True)
    assert caught.value is error
    published = number == 2 and happens
    assert (tmp_path / "out" / "run.json").read_text() == ("new" if published else "old")
    with output(tmp_path / "out", "b" if published else "a").claimed() as decision:
        assert decision == "done"


def killed_while_removing(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Removing a folder stops when this many of its entries are gone, in the order of their names; marks are first."""

    def remove(path: str) -> None:
        for number, entry in enumerate(sorted(Path(path).iterdir())):
            if number == after:
                raise KeyboardInterrupt
            entry.unlink()

    monkeypatch.setattr(filesystem, "remove", remove)


@pytest.mark.parametrize("after", range(3))
def test_an_unfinished_output_that_was_being_removed_is_not_in_the_way(tmp_path, monkeypatch, after):
    fill(output(tmp_path / "out"), complete=False)
    with monkeypatch.context() as patched:
        killed_while_removing(patched, after)
        if after < 2:
            with pytest.raises(KeyboardInterrupt):
                fill(output(tmp_path / "out"))
    for holder in tmp_path.glob(".out.owner"):
        holder.unlink()
    fill(output(tmp_path / "out"), "new")
    assert (tmp_path / "out" / "run.json").read_text() == "new" and names(tmp_path) == ["out"]


@pytest.mark.parametrize("after", range(3))
def test_what_is_left_of_a_replaced_output_is_never_taken_for_one(tmp_path, monkeypatch, after):
    stage(output(tmp_path / "out"), "old")
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        killed_while_removing(patched, after)
        stage(output(tmp_path / "out"), "new")
    for path in (tmp_path / ".out.owner", *(tmp_path / "out").iterdir()):
        path.unlink()
    (tmp_path / "out").rmdir()  # the new one is removed by hand
    with output(tmp_path / "out").claimed() as decision:
        assert decision == "fresh"
    assert names(tmp_path) == []


def test_what_cannot_be_removed_is_said_and_tried_again(tmp_path, monkeypatch, caplog):
    """Files that a reader holds open keep their folder on NFS."""
    stage(output(tmp_path / "out"), "old")

    def refuse(path: str) -> None:
        if Path(path).is_dir():
            raise InputError(f"{path}: cannot be removed: Directory not empty")
        Path(path).unlink()

    with monkeypatch.context() as patched:
        patched.setattr(filesystem, "remove", refuse)
        for content in ("new", "newer"):
            stage(output(tmp_path / "out"), content)
            assert "could not be removed" in caplog.text and "Directory not empty" in caplog.text
            assert (tmp_path / "out" / "run.json").read_text() == content
    stage(output(tmp_path / "out"))
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RunError("the first cause")])
def test_an_error_is_not_hidden_by_one_of_the_cleaning_after_it(tmp_path, monkeypatch, error):
    def refuse(path: str, *_: str) -> None:
        raise RunError(f"{path}: Input/output error")

    one = output(tmp_path / "out")
    with pytest.raises(type(error)) as caught, one.claimed(), one.staging():
        for name in ("rename", "remove"):
            monkeypatch.setattr(filesystem, name, refuse)
        raise error
    assert caught.value is error


def test_what_killed_predecessors_left_is_removed(tmp_path: Path) -> None:
    for name in (".out.staging-0123abcd", ".out.old-0123abcd", ".out.gone-0123abcd"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text("x")
    (tmp_path / ".out.old-0123abcd" / CONFIG).write_text(json.dumps({"command": "train"}))
    (tmp_path / "out").mkdir()
    (tmp_path / ".other.staging-0123abcd").mkdir()
    stage(output(tmp_path / "out"))
    assert names(tmp_path) == [".other.staging-0123abcd", "out"]


def test_what_killed_predecessors_left_of_a_lease_is_removed_once_it_is_old(tmp_path: Path) -> None:
    for name in ("..out.owner.0123abcd", ".out.owner.0123abcd", ".out.owner.unknown", ".out.owner.txt"):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (0, 0))
    (tmp_path / ".out.owner.4567abcd").touch()
    fill(output(tmp_path / "out"))
    assert names(tmp_path) == [".out.owner.4567abcd", ".out.owner.txt", "out"]


def test_why_an_output_could_not_take_its_place_is_told_where_nothing_else_works_either(tmp_path, monkeypatch):
    stage(output(tmp_path / "out"), "old")
    rename, calls = filesystem.rename, []

    def fail(old: str, new: str) -> None:
        calls.append(old)
        if len(calls) > 1:
            raise RunError(f"failure {len(calls) - 1}")
        rename(old, new)

    with monkeypatch.context() as patched, pytest.raises(RunError, match=r"^failure 1$"):
        patched.setattr(filesystem, "rename", fail)
        stage(output(tmp_path / "out"), "new")
    with output(tmp_path / "out").claimed() as decision:
        assert decision == "done"
    assert (tmp_path / "out" / "run.json").read_text() in ("old", "new")
