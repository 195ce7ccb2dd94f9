from pathlib import Path

import numpy as np
import pytest

from hdfs_io import filesystem
from sparksplit.errors import InputError
from tests.nodes import in_threads
from training import checkpoints
from training.checkpoints import Progress

STATE = {"v0000": np.arange(6, dtype=np.float32).reshape(2, 3), "v0001": np.array(3, np.int64)}


def write(run, update, nodes=1, keep=3, own=True):
    progress = Progress("hash", nodes, update, {"0": [3, str(2**64 - 1)]}, [{"epoch": 1}], 0.5, 3)

    def node(rank, gather):
        random = {"r0000": np.array([rank, 7])} if own else {}
        checkpoints.write(str(run), progress, STATE, random, rank, gather, keep)

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
    assert checkpoints.read(path, nodes).own is None


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


@pytest.mark.parametrize("step", ["write_bytes", "write_json", "rename"])
def test_a_crash_at_any_step_leaves_the_previous_one_loadable(tmp_path, monkeypatch, step):
    before = write(tmp_path, 1)

    def crash(*_):
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
        ("{", "is not valid JSON"),
        ("[]", "is not a checkpoint's description"),
        ("{}", "is not a checkpoint's description"),
        ('{"format_version": 99}', "another version"),
        ('{"format_version": 2, "colour": 3}', "is not a checkpoint's description"),
    ],
)
def test_a_damaged_description_is_named(tmp_path, text, message):
    write(tmp_path, 1)
    path = checkpoints.latest(str(tmp_path))
    (tmp_path / "checkpoints" / "update-000000001" / "checkpoint.json").write_text(text)
    with pytest.raises(InputError, match=message):
        checkpoints.read(path, 0)


def test_a_missing_state_is_named(tmp_path):
    write(tmp_path, 1)
    path = checkpoints.latest(str(tmp_path))
    (tmp_path / "checkpoints" / "update-000000001" / "state.npz").unlink()
    with pytest.raises(InputError, match=r"state\.npz"):
        checkpoints.read(path, 0)


class Variable:
    """What of a Keras variable is used."""

    def __init__(self, value):
        self.value = np.asarray(value)
        self.shape = self.value.shape

    def numpy(self):
        return self.value

    def assign(self, value):
        self.value = value


def test_variables_are_known_by_their_place():
    saved = checkpoints.named("v", [Variable([1.0, 2.0]), Variable(3)])
    assert list(saved) == ["v0000", "v0001"]
    fresh = [Variable([0.0, 0.0]), Variable(0)]
    checkpoints.assign("v", fresh, saved, "here")
    assert [variable.value.tolist() for variable in fresh] == [[1.0, 2.0], 3]


@pytest.mark.parametrize("variables", [[[0.0, 0.0, 0.0], 0], [[0.0, 0.0], 0, 0]])
def test_another_models_checkpoint_is_refused(variables):
    saved = checkpoints.named("v", [Variable([1.0, 2.0]), Variable(3)])
    with pytest.raises(InputError, match="here: does not fit this model and optimizer"):
        checkpoints.assign("v", [Variable(value) for value in variables], saved, "here")
