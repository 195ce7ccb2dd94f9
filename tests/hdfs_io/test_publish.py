"""Invariant 6: nothing half-written is ever read, and what is done is not done again."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from hdfs_io import filesystem
from hdfs_io.marks import CONFIG, SUCCESS, made_from
from hdfs_io.publish import OtherUnfinished, Output
from sparksplit.base.errors import UsageError
from tests.hdfs_io.outputs import fill, names, output, stage


def test_a_complete_output_is_done_for_the_same_hash_only(tmp_path: Path) -> None:
    path = tmp_path / "out"
    assert output(path).decide() == "fresh"
    stage(output(path))
    assert names(path) == [CONFIG, SUCCESS, "run.json"]
    assert output(path).decide() == "done"
    assert output(path).decide(going_on={"a"}) == "done"
    with pytest.raises(UsageError, match="made with another configuration; --overwrite replaces it"):
        output(path, "b").decide()
    assert output(path).decide(overwrite=True) == "fresh"
    assert output(path, "b").decide(overwrite=True) == "fresh"
    stage(output(path, "b"), "new")
    assert (path / "run.json").read_text() == "new"
    assert names(tmp_path) == ["out"]


def test_an_output_in_a_yarn_container_would_be_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with a relative path in cluster mode: the driver's working folder is the container's."""
    folder = tmp_path / "container_17_0001_01_000001"
    folder.mkdir()
    monkeypatch.chdir(folder)
    output("run")
    monkeypatch.setenv("CONTAINER_ID", folder.name)
    for path in ("run", folder / "runs" / "a"):
        with pytest.raises(UsageError, match=r"(run|a): is in the folder of this YARN container, .*; give an address"):
            output(path)
    output(tmp_path / "run")
    output("hdfs://host:8020/run")


def test_a_pipe_beside_an_output_is_no_hindrance(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    stage(output(f"{tmp_path}/out"), "new")
    assert names(tmp_path) == ["out", "pipe"]


def test_a_complete_output_is_done_for_the_same_input_only(tmp_path: Path) -> None:
    path = f"{tmp_path}/out"

    def made(config_hash: str, input_hash: str | None) -> Output:
        return Output(path, config_hash, "preprocess", None, input_hash)

    stage(made("a", "x"))
    assert made_from(path) == {"config_hash": "a", "input_hash": "x"}
    assert made("a", "x").decide() == "done"
    assert made("a", None).decide() == "done"  # nothing is known of the input by now
    with pytest.raises(UsageError, match="its input has changed since it was made; --overwrite replaces it"):
        made("a", "y").decide()
    with pytest.raises(UsageError, match="made with another configuration"):
        made("b", "y").decide()
    assert made("a", "y").decide(overwrite=True) == "fresh"
    stage(made("a", None))
    assert made_from(path) == {"config_hash": "a"} and made_from(f"{tmp_path}/none") == {}
    with pytest.raises(UsageError, match="its input has changed"):
        made("a", "x").decide()


def test_an_incomplete_output_is_replaced_or_resumed(tmp_path: Path) -> None:
    one = output(tmp_path / "run")
    fill(one, complete=False)
    assert one.decide() == one.decide(overwrite=True) == "fresh"
    assert one.decide(going_on={"a"}) == one.decide(overwrite=True, going_on={"a"}) == "resume"
    with pytest.raises(OtherUnfinished, match=r"is unfinished, with another configuration$") as caught:
        output(one.path, "b").decide(going_on={"b"})
    assert caught.value.config_hash == "a" and issubclass(OtherUnfinished, UsageError)
    with pytest.raises(OtherUnfinished, match=r"is unfinished$"):
        one.decide(going_on=set())
    assert output(one.path, "b").decide(going_on={"a", "b"}) == "resume"
    assert output(one.path, "b").decide(overwrite=True, going_on={"b"}) == "fresh"
    with one.claimed():
        one.begin()
        assert [name for name in names(tmp_path / "run") if not name.startswith(".writing-")] == [CONFIG]
        one.complete()
    assert one.decide() == "done"


def test_the_keys_that_differ_are_named(tmp_path: Path) -> None:
    """Complete or not, and only where the mark tells them."""

    def made(epochs: int) -> Output:
        return Output(f"{tmp_path}/out", f"hash of {epochs}", "train", keys={"epochs": epochs, "seed": 1})

    fill(made(3), complete=False)
    with pytest.raises(OtherUnfinished, match=r"is unfinished, with another configuration \(epochs was 3, is 4\)$"):
        made(4).decide(going_on={"hash of 4"})
    fill(made(3))
    expected = r"out: exists, made with another configuration \(epochs was 3, is 4\); --overwrite replaces it$"
    with pytest.raises(UsageError, match=expected):
        made(4).decide(going_on={"hash of 4"})
    with pytest.raises(UsageError, match=r"--overwrite replaces it; or leave it$"):
        Output(f"{tmp_path}/out", "b", "train", otherwise="or leave it").decide()


@pytest.mark.parametrize("in_place", [True, False])
def test_what_is_complete_is_on_the_disk_whoever_wrote_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_place: bool
) -> None:
    """Before its marker: a power failure leaves no complete output with half its files."""
    synced, before = set[int](), list[set[int]]()
    fsync, write = os.fsync, filesystem.write_bytes

    def noted(descriptor: int) -> None:
        synced.add(os.fstat(descriptor).st_ino)
        fsync(descriptor)

    def written(path: str, content: bytes, parents: bool = True) -> None:
        if not content:  # the marker's
            before.append(set(synced))
        write(path, content, parents)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(filesystem, "write_bytes", written)
    (fill if in_place else stage)(output(tmp_path / "out"))
    assert len(before) == 1
    assert (tmp_path / "out" / "run.json").stat().st_ino in before[0]
    assert {(tmp_path / "out").stat().st_ino, (tmp_path / "out" / SUCCESS).stat().st_ino} <= synced
    assert tmp_path.stat().st_ino in synced


def test_a_complete_output_stays_until_its_successor_is_complete(tmp_path: Path) -> None:
    path, beside = tmp_path / "run", tmp_path / ".run.next"
    fill(output(path), "old")
    # One that fails: the old one is as it was, and can be read.
    fill(output(path, "b"), "new", complete=False, overwrite=True)
    assert (path / "run.json").read_text() == "old" and (path / SUCCESS).exists()
    assert names(tmp_path) == [".run.next", "run"]
    assert output(path).decide() == "done"
    assert output(path).decide(overwrite=True, going_on={"a"}) == "fresh"  # what was begun is another's
    # The same command finds it again; without --overwrite, the complete one counts.
    again = output(path, "b")
    assert (again.decide(overwrite=True, going_on={"b"}), again.folder) == ("resume", str(beside))
    with pytest.raises(UsageError, match="exists, made with another configuration"):
        output(path, "b").decide(going_on={"b"})
    # Or begun anew.
    with output(path, "b").claimed(overwrite=True) as decision:
        assert decision == "fresh" and (beside / "run.json").exists()
    fill(output(path, "b"), "new", overwrite=True, going_on={"b"})
    assert (path / "run.json").read_text() == "new" and output(path, "b").decide() == "done"
    assert names(tmp_path) == ["run"]


def test_what_was_begun_beside_an_output_that_is_gone_is_resumed(tmp_path: Path) -> None:
    fill(output(tmp_path / "run"))
    fill(output(tmp_path / "run"), "new", complete=False, overwrite=True)
    shutil.rmtree(tmp_path / "run")
    assert output(tmp_path / "run").decide() == "fresh"
    fill(output(tmp_path / "run"), "new", going_on={"a"})
    assert (tmp_path / "run" / "run.json").read_text() == "new"


def test_what_was_once_begun_beside_an_output_is_not_resumed_after_a_fresh_one(tmp_path: Path) -> None:
    fill(output(tmp_path / "run"))
    fill(output(tmp_path / "run"), "half", complete=False, overwrite=True)
    shutil.rmtree(tmp_path / "run")  # by hand
    fill(output(tmp_path / "run"), "new")
    assert output(tmp_path / "run").decide(overwrite=True, going_on={"a"}) == "fresh"
    assert names(tmp_path) == ["run"]


def test_local_folders_and_files_follow_the_umask_of_the_process(tmp_path: Path) -> None:
    path = tmp_path / "new" / "out"
    before = os.umask(0o027)
    try:
        stage(output(path))
    finally:
        os.umask(before)
    modes = {entry.name: oct(entry.stat().st_mode & 0o777) for entry in (path.parent, path, *path.iterdir())}
    assert modes == {"new": "0o750", "out": "0o750", **dict.fromkeys((CONFIG, SUCCESS, "run.json"), "0o640")}
