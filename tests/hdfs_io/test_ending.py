"""The end of a command while HDFS is away: all tidying together has one short time."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from hdfs_io import ending, filesystem, hdfs_client, lease
from hdfs_io.hdfs_client import Unavailable, repeat
from hdfs_io.publish import Output
from sparksplit.base.errors import RunError
from tests.hdfs_io.name_node import AWAY, NameNode, use

OUT = "hdfs://nn:8020/runs/out"
LONG = 3600.0
"""A patience that no test can wait for."""
DEADLINE = 60.0


@pytest.fixture
def namenode(monkeypatch: pytest.MonkeyPatch) -> Iterator[NameNode]:
    one = NameNode("/runs")
    use(one, monkeypatch)
    monkeypatch.setattr(hdfs_client, "PATIENCE", LONG)
    monkeypatch.setattr(hdfs_client, "STALL", LONG)
    monkeypatch.setattr(hdfs_client, "FIRST_CONTACT", LONG)
    monkeypatch.setattr(lease, "EXPIRE_SECONDS", LONG)
    monkeypatch.setattr(ending, "SECONDS", 0.2)
    monkeypatch.setattr(ending, "LAST_SECONDS", 0.1)
    yield one
    if one.silent is not None:
        one.silent.set()


def ends(work: Callable[[], None]) -> BaseException | None:
    """Return the error of `work`, which must end within DEADLINE."""
    caught: list[BaseException | None] = []

    def run() -> None:
        try:
            work()
            caught.append(None)
        except BaseException as error:
            caught.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(DEADLINE)
    assert caught, "it still waits"
    return caught[0]


def output() -> Output:
    return Output(OUT, "hash", "preprocess")


def staged(namenode: NameNode, error: BaseException, silent: bool) -> None:
    """What preprocess and predict do: `error` comes after HDFS has gone."""
    one = output()
    with one.claimed(overwrite=True), one.staging() as folder:
        filesystem.write_bytes(f"{folder}/part", b"x")
        go(namenode, silent)
        raise error


def filled(namenode: NameNode, error: BaseException, silent: bool) -> None:
    """What train and compare do."""
    one = output()
    with one.claimed(overwrite=True):
        one.begin()
        go(namenode, silent)
        raise error


def go(namenode: NameNode, silent: bool) -> None:
    if silent:
        namenode.silent = threading.Event()
    else:
        namenode.away = AWAY


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Unavailable("HDFS has failed for 120 s")])
@pytest.mark.parametrize("silent", [False, True])
@pytest.mark.parametrize("way", [staged, filled])
def test_a_command_ends_soon_though_hdfs_is_away(namenode, way, silent, error):
    """Whether its calls fail at once, or are not answered."""
    assert ends(lambda: way(namenode, error, silent)) is error


def test_an_overwritten_output_is_not_put_back_for_long(namenode):
    """HDFS goes away between the two renames."""
    first, second = output(), output()
    with first.claimed(), first.staging():
        pass
    rename = namenode.rename

    def once(old: str, new: str, overwrite: bool) -> None:
        rename(old, new, overwrite)
        if ".old-" in new:
            namenode.away = AWAY
            raise KeyboardInterrupt

    namenode.rename = once

    def work() -> None:
        with second.claimed(overwrite=True), second.staging():
            pass

    assert isinstance(ends(work), KeyboardInterrupt)


def test_the_next_call_in_the_process_has_its_full_patience(namenode: NameNode) -> None:
    """As in a notebook, after Ctrl-C."""
    with pytest.raises(KeyboardInterrupt):
        staged(namenode, KeyboardInterrupt(), silent=False)
    assert ending.current().until == math.inf
    until = time.monotonic() + 3 * (ending.SECONDS + ending.LAST_SECONDS)

    def comes_back() -> str:
        if time.monotonic() < until:
            raise AWAY
        return "back"

    assert repeat(OUT, comes_back) == "back"


def test_work_around_a_failed_block_has_its_full_patience(namenode: NameNode) -> None:
    until = time.monotonic() + 3 * (ending.SECONDS + ending.LAST_SECONDS)

    def comes_back() -> str:
        if time.monotonic() < until:
            raise AWAY
        return "back"

    with ending.block():
        with ending.block(), pytest.raises(RunError, match="this command ends: Connection refused"):
            ending.begin()
            repeat(OUT, comes_back)
        assert repeat(OUT, comes_back) == "back"


def test_what_is_to_be_tidied_late_is_tidied_if_hdfs_answers(namenode: NameNode) -> None:
    """As after a last checkpoint for which `checkpoint.grace` allows a minute."""
    one = output()
    with pytest.raises(KeyboardInterrupt), one.claimed(overwrite=True):
        one.begin()
        assert "/runs/.out.owner" in namenode.files
        ending.begin()
        ending.current().until -= 2 * ending.SECONDS
        raise KeyboardInterrupt
    assert not any(".owner" in path or ".writing-" in path for path in namenode.files)


def test_after_that_time_all_calls_together_wait_for_a_moment(namenode: NameNode) -> None:
    namenode.silent = threading.Event()
    with ending.block():
        ending.begin()
        ending.current().until -= 2 * ending.SECONDS
        for number in range(50):
            with pytest.raises(RunError, match="this command ends" if number else "no answer within 0 s"):
                filesystem.exists(OUT)
    assert len(namenode.asked) == 1


def test_a_signal_ends_the_blocks_around_it_too() -> None:
    with ending.block():
        with pytest.raises(KeyboardInterrupt), ending.block():
            ending.begin()
            until = ending.current().until
            raise KeyboardInterrupt
        assert ending.current().until == until
    assert ending.current().until == math.inf


def test_another_commands_end_leaves_its_neighbour_alone(namenode: NameNode) -> None:
    """Two functions in two threads of a notebook."""
    seen: list[float] = []

    def other() -> None:
        with ending.block():
            begun.wait(DEADLINE)
            seen.append(ending.current().until)

    begun = threading.Event()
    thread = threading.Thread(target=other)
    thread.start()
    with ending.block():
        ending.begin()
        begun.set()
        thread.join()
    assert seen == [math.inf]


def test_a_renewal_of_the_lease_that_waits_for_hdfs_is_given_up(namenode, monkeypatch):
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.01)

    def work() -> None:
        with output().claimed(overwrite=True):
            asked = len(namenode.asked)
            namenode.away = AWAY
            while len(namenode.asked) == asked:
                time.sleep(0.01)
            raise KeyboardInterrupt

    assert isinstance(ends(work), KeyboardInterrupt)
    assert not any(thread.name.startswith("lease ") for thread in threading.enumerate())


def test_files_of_a_write_that_failed_for_long_are_named_in_one_line(namenode, monkeypatch, caplog):
    """Each attempt has used a name of its own."""
    monkeypatch.setattr(hdfs_client, "PATIENCE", 0.1)
    monkeypatch.setattr(hdfs_client, "FIRST_CONTACT", 0.05)
    monkeypatch.setattr("hdfs_io.hdfs.FIRST_CONTACT", 0.05)
    create = namenode.create

    def refused(path: str, options: object) -> object:
        namenode.away = AWAY
        return create(path, options)

    namenode.create = refused
    with pytest.raises(RunError, match="/runs/file: HDFS has failed for 0 s"):
        filesystem.write_bytes("hdfs://nn:8020/runs/file", b"x")
    (line,) = (record.getMessage() for record in caplog.records if "is left" in record.getMessage())
    assert line.startswith("hdfs://nn:8020/runs/.file.") and "more beside it): " in line


def test_an_hdfs_that_answers_again_is_asked_again(namenode: NameNode) -> None:
    with ending.block():
        ending.begin()
        ending.current().until -= 2 * ending.SECONDS
        ending.current().rest /= 100
        assert filesystem.exists(OUT) is False
        assert ending.current().rest == ending.LAST_SECONDS
