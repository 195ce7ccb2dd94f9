"""Invariant 6: a command whose output another one has taken over changes nothing any more, whenever that happened."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from hdfs_io import filesystem, lease
from hdfs_io.lease import EXPIRE_SECONDS
from hdfs_io.marks import CONFIG, SUCCESS
from hdfs_io.publish import Output
from sparksplit.base.errors import RunError, SparksplitError
from tests.hdfs_io.leases import mine, seize
from tests.hdfs_io.outputs import names, output, stage
from tests.prepare.interleaved import before_call

PARTS = "model.keras", "run.json"


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@contextmanager
def staged(one: Output) -> Iterator[None]:
    """What preprocess, predict, diagnose and from_arrays do with a claimed output."""
    with one.staging() as folder:
        yield
        for part in PARTS:
            filesystem.write_bytes(f"{folder}/{part}", one.config_hash.encode(), parents=False)
        one.made_of(folder, "input")


@contextmanager
def filled(one: Output) -> Iterator[None]:
    """What train and compare do."""
    one.begin()
    yield
    for part in PARTS:
        one.fence.write_bytes(f"{one.folder}/{part}", one.config_hash.encode())
    one.complete()


@contextmanager
def taking_over(one: Output, way: Callable[[Output], object]) -> Iterator[None]:
    """A successor of whoever holds the output, which it has begun to fill in the block, and completes at its end."""
    seize(one.lease)
    one._mend()
    one.decide(overwrite=True)
    with way(one):  # type: ignore[attr-defined]
        yield
    one._leave([])


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize("way", [staged, filled])
@pytest.mark.parametrize("goes_on", ["when the successor has finished", "while the successor works"])
def test_whenever_a_command_is_superseded_its_successors_output_is_the_one_that_stays(tmp_path, there, way, goes_on):
    """Before each call to the file system that the first one makes, whether or not an output is there already."""
    refused = 0
    for number in itertools.count():
        path = tmp_path / str(number) / "out"
        if there:
            stage(output(path, "old"), "old")
        first, second = output(path, "first"), output(path, "second")
        successor = taking_over(second, way)

        def supersede(successor=successor) -> None:
            successor.__enter__()
            if goes_on == "when the successor has finished":
                successor.__exit__(None, None, None)

        first.lease.acquire()
        first.decide(overwrite=True)
        try:
            with before_call(number, supersede) as calls, way(first):
                pass
        except SparksplitError as error:
            refused += isinstance(error, RunError) and "another run has taken over this output" in str(error)
        finally:
            if len(calls) > number and goes_on == "while the successor works":
                successor.__exit__(None, None, None)
            first._leave([])
        if len(calls) <= number:
            assert refused > 10
            return
        assert [(path / part).read_text() for part in PARTS] == ["second", "second"], calls
        assert '"config_hash": "second"' in (path / CONFIG).read_text()
        assert names(path) == [CONFIG, SUCCESS, *PARTS] and names(path.parent) == ["out"], calls


def test_a_staging_folder_without_its_mark_never_becomes_the_output(tmp_path: Path) -> None:
    """It was swept away, and what was still being written made it anew."""
    stage(output(tmp_path / "out"))
    for name in (".out.staging-0123abcd", ".out.next"):
        (tmp_path / name).mkdir()
        (tmp_path / name / SUCCESS).touch()
    with output(tmp_path / "out").claimed(overwrite=True):
        assert names(tmp_path / "out") == [CONFIG, SUCCESS, "run.json"]
    with pytest.raises(RunError, match="temporary folder was removed"):
        one = output(tmp_path / "out")
        with one.claimed(overwrite=True), one.staging() as folder:
            filesystem.remove(folder)
            one.made_of(folder, "input")
    assert names(tmp_path / "out") == [CONFIG, SUCCESS, "run.json"]


def test_a_late_renewal_steals_no_lease_back(tmp_path: Path) -> None:
    """The lease is taken over before whichever call of the renewal."""
    for number in itertools.count():
        (tmp_path / str(number)).mkdir()
        first, second = mine(tmp_path / str(number)), mine(tmp_path / str(number))
        first._take()
        taken: list[bool] = []

        def take_over(first=first, second=second, taken=taken) -> None:
            found = lease.read(first.file)
            assert found is not None
            taken.append(second._take_over(second.file, found))

        with before_call(number, take_over) as calls:
            first._write()
        if len(calls) <= number:
            assert number > 5
            return
        assert taken == [True] and second.held(), calls
        assert not first._write() and second.held()
        assert names(tmp_path / str(number)) == [".out.owner"]


@pytest.mark.parametrize("other", ["renews it", "takes it over too"])
def test_whatever_comes_between_while_a_lease_is_taken_over_one_has_it_and_knows(tmp_path, other):
    for number in itertools.count():
        folder = tmp_path / str(number)
        folder.mkdir()
        first, second, third = (mine(folder) for _ in range(3))
        first._take()
        found = lease.read(first.file)
        assert found is not None
        outcome: list[bool] = []

        def happen(folder=folder, first=first, third=third, found=found, outcome=outcome) -> None:
            if other == "renews it":
                outcome.append(first._write())
                return
            for file in folder.iterdir():  # the second one stood still for long
                then = file.stat().st_mtime - 2 * EXPIRE_SECONDS
                os.utime(file, (then, then))
            outcome.append(third._take_over(third.file, found))

        with before_call(number, happen) as calls:
            second_has = second._take_over(second.file, found)
        if len(calls) <= number:
            assert number > 5
            return
        rival = first if other == "renews it" else third
        assert second_has == second.held(), calls
        assert second_has or outcome == [True], calls
        assert rival._write() == rival.held() != second_has, calls


def test_a_machine_copied_from_the_same_snapshot_is_another_one(tmp_path: Path) -> None:
    """The two have one boot id; in the other, the process of that number is none of this lease's business."""
    own = mine(tmp_path).holder
    copied = replace(own, host="copy-7")
    assert own.here and not copied.here
    assert replace(own, started=0).gone and not replace(copied, started=0).gone


@pytest.mark.parametrize("way", [staged, filled])
def test_a_signal_at_any_moment_of_the_end_leaves_no_claim(tmp_path, way):
    """Ctrl-C in a notebook, whose kernel lives on: the next command begins at once."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    for number in itertools.count():
        path = tmp_path / str(number) / "out"
        one = output(path)
        try:
            with one.claimed(), way(one):
                watched = before_call(number, interrupt)
                calls = watched.__enter__()
        except KeyboardInterrupt:
            pass
        finally:
            watched.__exit__(None, None, None)
        if one.lease._thread is not None:
            one.lease._thread.join()
        stage(output(path))
        assert names(path.parent) == ["out"]
        if len(calls) <= number:
            assert number > 10
            return


def test_a_signal_while_a_claim_is_awaited_to_be_given_back_leaves_none(tmp_path, monkeypatch):
    """The lease's thread gives it back; no signal reaches that."""
    one = output(tmp_path / "out")

    def interrupt(timeout: float | None = None) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), one.claimed():
        thread = one.lease._thread
        assert thread is not None
        join = thread.join
        monkeypatch.setattr(thread, "join", interrupt)
    join()
    stage(output(tmp_path / "out"))


def test_a_signal_while_a_claim_is_taken_leaves_none(tmp_path: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    for number in itertools.count():
        path = tmp_path / str(number) / "out"
        one = output(path)
        try:
            with before_call(number, interrupt) as calls, one.claimed():
                pass
        except KeyboardInterrupt:
            pass
        stage(output(path))
        if len(calls) <= number:
            assert number > 10
            return
