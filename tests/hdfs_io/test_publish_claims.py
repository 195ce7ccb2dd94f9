"""One command at a time fills an output."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hdfs_io import filesystem
from hdfs_io.fence import check_owner
from hdfs_io.lease import Lease
from hdfs_io.marks import CONFIG, SUCCESS
from sparksplit.base.errors import OutputInUse, RunError, exit_status
from tests.hdfs_io.leases import seize
from tests.hdfs_io.outputs import fill, names, output


@pytest.mark.parametrize("options", [{}, {"overwrite": True}, {"going_on": {"a"}}])
@pytest.mark.parametrize("which", ["stage", "fill"])
def test_the_same_command_while_the_first_still_runs_is_refused_and_touches_nothing(tmp_path, which, options):
    first = output(tmp_path / "out")
    with first.claimed():
        if which == "fill":
            first.begin()
            (tmp_path / "out" / "checkpoints").mkdir()
        else:
            (tmp_path / ".out.staging-0123abcd").mkdir()
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(
            OutputInUse, match=r"/out: is being written by train on \S+ \(process \d+\), since 20.*; wait"
        ):
            fill(output(tmp_path / "out"), **options)
        assert sorted(tmp_path.rglob("*")) == before
        check_owner(first.path, first.owner)
    assert exit_status(OutputInUse()) == 3
    assert not (tmp_path / ".out.owner").exists()
    fill(output(tmp_path / "out"), **options)


def test_one_that_lost_its_lease_touches_nothing(tmp_path, monkeypatch):
    """The second has taken over the first one's lease, and begun, when the first comes to what others have left."""
    first, second = output(tmp_path / "out"), output(tmp_path / "out")
    mend, refused = first._mend, []

    def late() -> None:
        seize(second.lease)
        with second.staging() as folder:
            Path(folder, "run.json").write_text("x")
            with pytest.raises(OutputInUse) as caught:
                mend()
            refused.append(caught.value)
        second.lease.release()
        raise refused[0]

    monkeypatch.setattr(first, "_mend", late)
    with pytest.raises(OutputInUse), first.claimed():
        pytest.fail("it is the second one's")
    assert names(tmp_path) == ["out"] and names(tmp_path / "out") == [CONFIG, SUCCESS, "run.json"]


def test_what_was_swept_away_meanwhile_does_not_become_the_output(tmp_path: Path) -> None:
    one = output(tmp_path / "out")
    with pytest.raises(RunError, match="temporary folder was removed"), one.claimed(), one.staging() as folder:
        shutil.rmtree(folder)
        filesystem.write_bytes(f"{folder}/data", b"the rest")
    assert names(tmp_path) == []


def test_a_done_output_is_left_alone_while_another_replaces_it(tmp_path: Path) -> None:
    fill(output(tmp_path / "out"))
    with output(tmp_path / "out").claimed(overwrite=True), output(tmp_path / "out").claimed() as decision:
        assert decision == "done"


def test_what_is_decided_counts_once_the_lease_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that was waited for may have completed the output."""
    monkeypatch.setattr(Lease, "_watch", lambda _, found: fill_without_a_lease(tmp_path / "out") or found)
    (tmp_path / ".out.owner").write_text("{}")
    with output(tmp_path / "out").claimed() as decision:
        assert decision == "done"


def fill_without_a_lease(path: Path) -> None:
    path.mkdir()
    (path / CONFIG).write_text('{"command": "train", "config_hash": "a"}')
    (path / SUCCESS).touch()


def test_the_lease_of_one_that_was_killed_when_it_had_completed_goes_with_the_next(tmp_path: Path) -> None:
    made = output(tmp_path / "out")
    fill(made)
    made.lease.holder = replace(made.lease.holder, started=1)  # as if its process had ended
    seize(made.lease)
    (tmp_path / "out" / ".writing-0123abcd").mkdir()
    before = [name for name in names(tmp_path / "out") if not name.startswith(".")]
    with output(tmp_path / "out").claimed() as decision:
        assert decision == "done"
        assert [each.name for each in tmp_path.iterdir()] == ["out"]
        assert names(tmp_path / "out") == before


@pytest.mark.parametrize("end", ["complete", "begin", "staging"])
def test_one_whose_lease_was_taken_over_ends_and_changes_nothing(tmp_path, end):
    """It was stopped, say, for longer than its lease lasted."""
    first = output(tmp_path / "out")
    second = Lease(first.path, "train")
    try:
        with pytest.raises(RunError, match="another run has taken over this output; this one ends"), first.claimed():
            if end == "staging":
                with first.staging() as folder:
                    seize(second)
                    Path(folder, "run.json").touch()
            else:
                first.begin()
                seize(second)
                getattr(first, end)()
        assert not (tmp_path / "out" / SUCCESS).exists()
        assert second.held()  # the first has not given it back for it
    finally:
        second.release()
    assert names(tmp_path) == ([] if end == "staging" else ["out"])
