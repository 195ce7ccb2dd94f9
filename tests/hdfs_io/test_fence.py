"""A superseded command, or an attempt that another has followed, changes nothing in the folder that it filled."""

from __future__ import annotations

from pathlib import Path

import pytest

from hdfs_io import fence as fences
from hdfs_io import filesystem, lease
from hdfs_io.fence import Fence
from sparksplit.base.errors import RunError
from tests.hdfs_io.leases import seize
from tests.hdfs_io.outputs import names, output


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def upload(fence: Fence, path: str, scratch: Path) -> None:
    (scratch / "inner").mkdir(parents=True, exist_ok=True)
    (scratch / "inner" / "a").write_text("old")
    fence.upload(scratch, path)


WRITES = {
    "a file": lambda fence, scratch: fence.write_bytes(f"{fence.folder}/metrics.jsonl", b"old"),
    "json": lambda fence, scratch: fence.write_json(f"{fence.folder}/run.json", {"whose": "old"}),
    "a file in a folder": lambda fence, scratch: fence.write_json(f"{fence.folder}/runs/a.json", "old"),
    "a folder": lambda fence, scratch: upload(fence, f"{fence.folder}/tensorboard", scratch),
    "a new folder": lambda fence, scratch: upload(fence, f"{fence.folder}/saved_model", scratch),
    "removing": lambda fence, scratch: fence.remove(f"{fence.folder}/checkpoints/update-000000001"),
}


def fill(fence: Fence, scratch: Path) -> None:
    """What the newer one has written."""
    for name in ("metrics.jsonl", "run.json", "runs/a.json"):
        fence.write_bytes(f"{fence.folder}/{name}", b"new")
    scratch.mkdir(exist_ok=True)
    (scratch / "state").write_text("new")
    for name in ("tensorboard", "checkpoints/update-000000001"):
        fence.upload(scratch, f"{fence.folder}/{name}")


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("takes", ["begin", "go_on"])
def test_a_superseded_command_is_refused_and_told_by_whom(tmp_path, write, takes):
    first, second = output(tmp_path / "out"), output(tmp_path / "out")
    first.lease.acquire()
    first.begin()
    fill(first.fence, tmp_path / "new")
    seize(second.lease)
    getattr(second, takes)()
    fill(second.fence, tmp_path / "new")
    before = everything(tmp_path / "out")
    with pytest.raises(
        RunError,
        match=r"/out: another run has taken over this output; this one ends: train on \S+ \(process \d+\), since",
    ):
        write(first.fence, tmp_path / "old")
    assert everything(tmp_path / "out") == before
    second.complete()
    assert not [name for name in names(tmp_path / "out") if name.startswith(".")]
    second.lease.release()
    first.lease.release()


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_one_that_stands_still_between_its_look_and_its_rename_is_refused_too(tmp_path, write, monkeypatch):
    """Its lease is taken over, and its output resumed and filled, after it has seen that the lease is its own."""
    first, second = output(tmp_path / "out"), output(tmp_path / "out")
    first.lease.acquire()
    first.begin()
    fill(first.fence, tmp_path / "new")
    before = {}
    looked = fences.check_owner

    def late(path: str, owner: str) -> None:
        looked(path, owner)
        if not before:
            before["now"] = {}
            seize(second.lease)
            second.go_on()
            fill(second.fence, tmp_path / "new")
            before["now"] = everything(tmp_path / "out")

    monkeypatch.setattr(fences, "check_owner", late)
    with pytest.raises(RunError, match="another run has taken over this output; this one ends: train on"):
        write(first.fence, tmp_path / "old")
    assert everything(tmp_path / "out") == before["now"]
    second.lease.release()
    first.lease.release()


def test_one_that_stands_still_before_its_next_attempt_leaves_the_fence_of_its_successor(tmp_path, monkeypatch):
    first, second = output(tmp_path / "out"), output(tmp_path / "out")
    first.lease.acquire()
    first.begin()
    looked = fences.check_owner

    def late(path: str, owner: str) -> None:
        looked(path, owner)
        if owner == first.owner and second._fence is None:
            seize(second.lease)
            second.go_on()

    monkeypatch.setattr(fences, "check_owner", late)
    for _ in range(2):
        with pytest.raises(RunError, match="another run has taken over this output"):
            first.enclose()
    assert [name for name in names(tmp_path / "out") if name.startswith(".")] == [second.fence.name]
    fill(second.fence, tmp_path / "new")
    second.lease.release()
    first.lease.release()


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_node_of_an_attempt_that_another_has_followed_is_refused(tmp_path, write):
    one = output(tmp_path / "out")
    with one.claimed():
        one.begin()
        earlier = one.fence
        fill(one.enclose(), tmp_path / "new")
        before = everything(tmp_path / "out")
        with pytest.raises(RunError, match="a newer attempt of this run writes this output now, so this attempt ends"):
            write(earlier, tmp_path / "old")
        assert everything(tmp_path / "out") == before


def test_what_is_replaced_is_replaced_whole_and_nothing_stays_behind(tmp_path):
    one = output(tmp_path / "out")
    with one.claimed():
        one.begin()
        fence = one.fence
        fill(fence, tmp_path / "new")
        for write in WRITES.values():
            write(fence, tmp_path / "old")
        assert names(Path(fence._own)) == []
        one.complete()
    found = everything(tmp_path / "out")
    assert found["metrics.jsonl"] == found["tensorboard/inner/a"] == b"old" and "tensorboard/state" not in found
    assert names(tmp_path / "out" / "checkpoints") == []


def test_a_folder_that_is_filled_while_it_is_removed_goes_all_the_same(tmp_path, monkeypatch):
    one = output(tmp_path / "out")
    removed, tries = filesystem.remove, []

    def busy(path: str) -> None:
        tries.append(path)
        if len(tries) < 4:
            raise RunError(f"{path}: cannot be removed: Directory not empty")
        removed(path)

    with one.claimed():
        one.begin()
        earlier = one.fence
        monkeypatch.setattr(filesystem, "remove", busy)
        one.enclose()
        assert not Path(earlier._own).exists() and len(tries) == 4
    assert lease.read(one.lease.file) is None
