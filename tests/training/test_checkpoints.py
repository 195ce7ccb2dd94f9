import errno
import io
import json
import os
import re
import shutil
import stat
from pathlib import Path

import numpy as np
import pytest

from hdfs_io import filesystem
from sparksplit.base.errors import InputError, RunError
from sparksplit.training import checkpoints
from sparksplit.training.checkpoints import Damaged
from sparksplit.training.progress_record import Progress
from tests.hdfs_io.leases import seize
from tests.hdfs_io.outputs import fenced, output
from tests.nodes import in_threads
from tests.training.records import epoch

STATE = {"v0000": np.arange(6, dtype=np.float32).reshape(2, 3), "v0001": np.array(3, np.int64)}


def write(run, update, nodes=1, keep=3, own=True):
    progress = Progress("hash", nodes, update, 0, 0, {"0": (3, str(2**64 - 1))}, [epoch(1)], 0.5, 3)

    def node(rank, gather):
        random = {"r0000": np.array([rank, 7])} if own else {}
        checkpoints.write(fence, progress, STATE, random, rank, gather, keep)

    with fenced(run) as fence:
        in_threads(nodes, node)
    return progress


def names(run):
    return [path.name for path in sorted((Path(run) / "checkpoints").iterdir())]


@pytest.mark.parametrize("nodes", [1, 3])
def test_every_node_reads_what_was_written(tmp_path, nodes):
    progress = write(tmp_path, 12, nodes)
    path = checkpoints.latest(str(tmp_path))
    assert path == f"{tmp_path}/checkpoints/update-000000012"
    assert checkpoints.progress_of(path) == progress
    for rank in range(nodes):
        found = checkpoints.read(path, rank)
        assert found.progress == progress
        assert found.own["r0000"].tolist() == [rank, 7]
        assert found.state.keys() == STATE.keys()
        for name, array in STATE.items():
            assert found.state[name].dtype == array.dtype
            assert np.array_equal(found.state[name], array)
    # A node that there was not has the own state of one that there was.
    assert checkpoints.read(path, nodes + 1).own["r0000"].tolist() == [1 % nodes, 7]
    assert checkpoints.newest_whole(str(tmp_path), nodes) == (path, [])


def test_one_that_can_be_seen_is_on_the_disk(tmp_path, monkeypatch):
    """Each file, and each name, before the name that makes it a checkpoint: a power failure takes none of them back."""
    synced, published = set(), []
    fsync, rename = os.fsync, filesystem.rename

    def noted(descriptor):
        found = os.fstat(descriptor)
        synced.add((found.st_ino, found.st_size) if stat.S_ISREG(found.st_mode) else found.st_ino)
        fsync(descriptor)

    def renamed(old, new):
        if Path(old).is_dir():
            parts = [path.stat() for path in Path(old).iterdir()]
            assert {(part.st_ino, part.st_size) for part in parts} | {Path(old).stat().st_ino} <= synced
            published.append(new)
            synced.discard(Path(new).parent.stat().st_ino)
        rename(old, new)

    monkeypatch.setattr(os, "fsync", noted)
    monkeypatch.setattr(filesystem, "rename", renamed)
    write(tmp_path, 12, nodes=2)
    assert published == [checkpoints.latest(str(tmp_path))]
    assert (tmp_path / "checkpoints").stat().st_ino in synced


def test_the_last_ones_stay_and_the_newest_is_by_number(tmp_path):
    for update in (5, 999_999_999, 1_000_000_000):
        write(tmp_path, update, keep=2)
    assert names(tmp_path) == ["update-1000000000", "update-999999999"]
    assert checkpoints.latest(str(tmp_path)).endswith("update-1000000000")
    # A run that has gone on with other nodes counts fewer updates, and is further all the same.
    write(tmp_path, 10, keep=2)
    assert names(tmp_path) == ["update-000000010"]


def test_none_without_a_run_or_a_checkpoint(tmp_path):
    assert checkpoints.latest(f"{tmp_path}/none") is None
    (tmp_path / "checkpoints" / ".update-000000001.abc").mkdir(parents=True)
    (tmp_path / "checkpoints" / "notes").mkdir()
    assert checkpoints.latest(str(tmp_path)) is None


@pytest.mark.parametrize("step", ["writing", "write_bytes", "write_json", "rename"])
def test_a_crash_at_any_step_leaves_the_previous_one_loadable(tmp_path, monkeypatch, step):
    before = write(tmp_path, 1)

    def crash(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(filesystem, step, crash)
        with pytest.raises(KeyboardInterrupt):
            write(tmp_path, 2)
    path = checkpoints.latest(str(tmp_path))
    assert checkpoints.read(path, 0).progress == before
    # The next one takes its place, and what the crash left is gone.
    write(tmp_path, 2)
    assert names(tmp_path) == ["update-000000001", "update-000000002"]


@pytest.mark.parametrize("moment", ["_pack", "_checksum"])
def test_one_whose_output_is_taken_over_while_it_is_written_says_so(tmp_path, monkeypatch, moment):
    """The folder that it is written into goes at any moment: that is no mistake in what was given."""
    first, second = output(tmp_path / "out"), output(tmp_path / "out")
    first.lease.acquire()
    first.begin()
    done = getattr(checkpoints, moment)

    def late(*arguments):
        seize(second.lease)
        second.go_on()
        return done(*arguments)

    monkeypatch.setattr(checkpoints, moment, late)
    with pytest.raises(RunError, match="another run has taken over this output; this one ends: train on"):
        checkpoints.write(first.fence, Progress("hash", 1), STATE, {}, 0, lambda name, value: [value], 3)
    assert checkpoints.latest(str(tmp_path / "out")) is None
    second.lease.release()
    first.lease.release()


def test_the_same_update_again_replaces_it(tmp_path):
    write(tmp_path, 1)
    write(tmp_path, 1, nodes=2)
    assert names(tmp_path) == ["update-000000001"]
    assert checkpoints.progress_of(checkpoints.latest(str(tmp_path))).nodes == 2


@pytest.mark.parametrize("content", [b"", b"no zip", "half", "flipped"])
def test_a_damaged_state_is_named(tmp_path, content):
    write(tmp_path, 1)
    path = checkpoints.latest(str(tmp_path))
    file = tmp_path / "checkpoints" / "update-000000001" / "state.npz"
    whole = file.read_bytes()
    if content == "half":
        content = whole[: len(whole) // 2]
    elif content == "flipped":
        place = whole.index(STATE["v0000"].tobytes())
        content = whole[:place] + b"\xff" + whole[place + 1 :]
    file.write_bytes(content)
    with pytest.raises(InputError, match=r"state\.npz: is damaged"):
        checkpoints.read(path, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is damaged: it is not valid JSON"),
        ("[]", "it does not describe a checkpoint"),
        ("{}", "it does not describe a checkpoint"),
        ('{"format_version": 99}', "another version"),
        ('{"format_version": 3, "colour": 3}', "it does not describe a checkpoint"),
        ('{"format_version": 3, "files": {}, "config_hash": "a", "nodes": 1}', "it does not describe a checkpoint"),
        ('{"format_version": 3, "files": {"state.npz": 3}, "config_hash": "a", "nodes": 1}', "it does not describe"),
    ],
)
def test_a_damaged_description_is_named(tmp_path, text, message):
    write(tmp_path, 1)
    path = checkpoints.latest(str(tmp_path))
    (tmp_path / "checkpoints" / "update-000000001" / "checkpoint.json").write_text(text)
    with pytest.raises(InputError, match=message):
        checkpoints.read(path, 0)


def damage(tmp_path, update, name="state.npz", content=b"no zip"):
    """Damage a file of the checkpoint `update`, or remove it; its path."""
    file = tmp_path / "checkpoints" / f"update-{update:09d}" / name
    if content is None:
        file.unlink()
    else:
        file.write_bytes(content)
    return file


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("state.npz", b"no zip", "state.npz: is damaged: it has 6 bytes, but {} were written"),
        ("node-1.npz", b"", "node-1.npz: is damaged: it has 0 bytes, but {} were written"),
        ("checkpoint.json", b"{", "checkpoint.json: is damaged: it is not valid JSON"),
        ("checkpoint.json", b"{}", "checkpoint.json: is damaged: it does not describe a checkpoint"),
        ("checkpoint.json", b"\xff", "checkpoint.json: is damaged: it is not valid JSON"),
        ("state.npz", None, "update-000000003: is damaged: state.npz is missing"),
        ("node-2.npz", None, "update-000000003: is damaged: node-2.npz is missing"),
        ("checkpoint.json", None, "update-000000003: is damaged: checkpoint.json is missing"),
    ],
)
def test_a_damaged_newest_one_is_named_and_the_one_before_is_taken(tmp_path, name, content, problem):
    for update in (1, 2, 3):
        write(tmp_path, update, nodes=3)
    problem = problem.format((tmp_path / "checkpoints" / "update-000000003" / name).stat().st_size)
    damage(tmp_path, 3, name, content)
    taken, problems = checkpoints.newest_whole(str(tmp_path), 3)
    assert taken == f"{tmp_path}/checkpoints/update-000000002"
    (found,) = problems
    assert found.startswith(f"{tmp_path}/checkpoints/update-000000003") and found.endswith(problem)
    # Nor does a node pass it over.
    rank = int(name[5]) if name.startswith("node") else 0
    with pytest.raises(Damaged, match=re.escape(problem)):
        checkpoints.read(f"{tmp_path}/checkpoints/update-000000003", rank)


def test_none_is_taken_where_all_are_damaged_and_each_is_named(tmp_path):
    for update in (1, 2):
        write(tmp_path, update)
        damage(tmp_path, update)
    taken, problems = checkpoints.newest_whole(str(tmp_path), 1)
    assert taken is None
    assert [Path(problem.split(":")[0]).parent.name for problem in problems] == ["update-000000002", "update-000000001"]
    assert checkpoints.newest_whole(f"{tmp_path}/none", 1) == (None, [])


@pytest.mark.parametrize("nodes", [2, 3])
def test_each_nodes_own_state_matters_to_any_number_of_nodes(tmp_path, nodes):
    write(tmp_path, 1, nodes=3)
    whole = checkpoints.latest(str(tmp_path))
    write(tmp_path, 2, nodes=3)
    damage(tmp_path, 2, "node-2.npz", None)
    assert checkpoints.newest_whole(str(tmp_path), nodes)[0] == whole


def test_a_model_without_states_of_the_nodes_own_needs_none(tmp_path):
    write(tmp_path, 1, nodes=2, own=False)
    path = checkpoints.latest(str(tmp_path))
    assert sorted(filesystem.listing(path)) == ["checkpoint.json", "state.npz"]
    assert checkpoints.newest_whole(str(tmp_path), 2) == (path, [])
    assert checkpoints.read(path, 1).own == {}


def test_what_cannot_be_read_is_not_called_damaged(tmp_path, monkeypatch):
    """A DataNode that is away, say: the checkpoint may be whole."""
    write(tmp_path, 1)
    write(tmp_path, 2)

    def away(path):
        raise InputError(f"{path}: cannot be read: Input/output error")

    monkeypatch.setattr(filesystem, "open_input", away)
    with pytest.raises(InputError, match="cannot be read") as caught:
        checkpoints.newest_whole(str(tmp_path), 1)
    assert not isinstance(caught.value, Damaged)


def test_another_versions_is_not_called_damaged(tmp_path):
    write(tmp_path, 1)
    write(tmp_path, 2)
    damage(tmp_path, 2, "checkpoint.json", b'{"format_version": 99}')
    wanted = (
        r"by another version of sparksplit \(format_version .+, not \d+\)\. Go on with that version, or begin anew "
        r"with --restart$"
    )
    with pytest.raises(InputError, match=wanted) as caught:
        checkpoints.newest_whole(str(tmp_path), 1)
    assert not isinstance(caught.value, Damaged)


def test_whatever_digit_of_a_description_is_wrong_it_is_damaged(tmp_path):
    """It is valid still, and would go on somewhere else in the rows."""
    write(tmp_path, 1)
    file = tmp_path / "checkpoints" / "update-000000001" / "checkpoint.json"
    whole = file.read_text()
    for place, letter in enumerate(whole):
        if letter.isdigit():
            file.write_text(whole[:place] + str((int(letter) + 1) % 10) + whole[place + 1 :])
            with pytest.raises(InputError, match=r"is damaged|another version"):
                checkpoints.check(str(file.parent))
    file.write_text(json.dumps(json.loads(whole)))
    checkpoints.check(str(file.parent))


@pytest.mark.parametrize("name", ["checkpoint.json", "state.npz", ""])
def test_what_is_of_the_wrong_kind_is_passed_over(tmp_path, name):
    write(tmp_path, 1)
    write(tmp_path, 2)
    path = tmp_path / "checkpoints" / "update-000000002" / name
    if name:
        path.unlink()
        path.mkdir()
    else:
        shutil.rmtree(path)
        path.touch()
    taken, problems = checkpoints.newest_whole(str(tmp_path), 1)
    assert taken == f"{tmp_path}/checkpoints/update-000000001" and len(problems) == bool(name)


def test_one_that_is_removed_while_it_is_looked_at_is_passed_over(tmp_path, monkeypatch):
    write(tmp_path, 1)
    write(tmp_path, 2)
    open_input = filesystem.open_input

    def gone(path):
        shutil.rmtree(tmp_path / "checkpoints" / "update-000000002", ignore_errors=True)
        return open_input(path)

    monkeypatch.setattr(filesystem, "open_input", gone)
    assert checkpoints.newest_whole(str(tmp_path), 1) == (f"{tmp_path}/checkpoints/update-000000001", [])


def test_an_error_while_a_file_is_read_names_it(tmp_path, monkeypatch):
    class Broken(io.BytesIO):
        def read(self, _size):
            raise OSError(errno.EIO, "Input/output error")

    write(tmp_path, 1)
    monkeypatch.setattr(checkpoints, "_READERS", 1)
    open_input = filesystem.open_input
    monkeypatch.setattr(filesystem, "open_input", lambda path: Broken() if ".npz" in path else open_input(path))
    with pytest.raises(RunError, match=r"update-000000001/\S+\.npz: cannot be read: Input/output error"):
        checkpoints.newest_whole(str(tmp_path), 1)


def test_whatever_byte_of_a_state_is_wrong_it_is_damaged(tmp_path):
    write(tmp_path, 1)
    path = checkpoints.latest(str(tmp_path))
    file = Path(path) / "state.npz"
    whole = file.read_bytes()
    for place in range(0, len(whole), 7):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        taken, (problem,) = checkpoints.newest_whole(str(tmp_path), 1)
        assert taken is None and problem.endswith("is damaged: its checksum differs from what was written")
