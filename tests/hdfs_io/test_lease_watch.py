"""Whether a lease's holder still runs: known at once on this machine, and on another one by watching the lease."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from hdfs_io import lease
from hdfs_io.lease import EXPIRE_SECONDS, WATCH_SECONDS, Holder
from sparksplit.base.errors import OutputInUse
from tests.hdfs_io.leases import ELSEWHERE, Time, mine, write


def test_one_of_another_version_that_is_renewed_is_alive(tmp_path: Path) -> None:
    file = tmp_path / ".out.owner"

    def renew() -> None:
        file.write_text(json.dumps({**asdict(ELSEWHERE), "new": 1}))

    renew()
    os.utime(file, (0, 0))
    with pytest.raises(OutputInUse, match=r"an unknown command \(the hidden \.owner file beside it is damaged\); wait"):
        mine(tmp_path, Time(at7=renew)).acquire()


def test_one_that_is_renewed_is_alive(tmp_path: Path) -> None:
    file = tmp_path / ".out.owner"
    time = Time(at7=lambda: write(file, replace(ELSEWHERE, renewed=6)))
    write(file, ELSEWHERE)
    with pytest.raises(
        OutputInUse, match=r"is being written by train on node7 \(process 4711\), since 2026-01-02 03:04"
    ):
        mine(tmp_path, time).acquire()
    assert time.looks == 7
    assert lease.read(str(file)) == replace(ELSEWHERE, renewed=6)


@pytest.mark.parametrize("age", [0.0, 30.0])
def test_one_that_is_not_renewed_expires(tmp_path, caplog, age):
    """By the file system's clock, whatever time its host believes it is."""
    write(tmp_path / ".out.owner", ELSEWHERE, age)
    time, one = Time(), None
    one = mine(tmp_path, time)
    one.acquire()
    assert one.held()
    assert time.now == pytest.approx(EXPIRE_SECONDS - age, abs=1)
    assert "/out: is being written by train on node7 (process 4711), since" in caplog.text
    one.release()


@pytest.mark.parametrize(("ahead", "turn"), [(30.0, False), (3600.0, False), (3600.0, True)])
def test_one_written_before_the_clock_went_back_is_not_watched_longer(tmp_path, ahead, turn):
    """By a command that was killed since. turn: another command was killed while it took the lease over."""
    write(tmp_path / ".out.owner", ELSEWHERE, -ahead)
    if turn:
        write(tmp_path / ".out.owner.other", replace(ELSEWHERE, owner="killed"), -ahead)
    time = Time()
    one = mine(tmp_path, time)
    one.acquire()
    assert one.held() and time.now == pytest.approx(EXPIRE_SECONDS, abs=1)
    one.release()


@pytest.mark.parametrize(
    "content",
    [
        "{",
        "[]",
        "{}",
        "",
        json.dumps(asdict(ELSEWHERE)),
        json.dumps({**asdict(ELSEWHERE), "owner": 5}),
        json.dumps({**asdict(ELSEWHERE), "pid": "4711"}),
        "0123456789abcdef",
    ],
)
def test_one_that_has_grown_old_is_watched_for_a_moment(tmp_path, content, caplog):
    file = tmp_path / ".out.owner"
    file.write_text(content)
    os.utime(file, (0, 0))
    time = Time()
    one = mine(tmp_path, time)
    one.acquire()
    assert time.now == pytest.approx(WATCH_SECONDS) and one.held()
    assert "waiting up to 15 s to see whether that command still runs" in caplog.text
    one.release()


def test_one_that_has_grown_old_and_is_renewed_is_alive(tmp_path: Path) -> None:
    """Its machine slept."""
    file = tmp_path / ".out.owner"
    write(file, ELSEWHERE, 3600)
    with pytest.raises(OutputInUse):
        mine(tmp_path, Time(at9=lambda: write(file, replace(ELSEWHERE, renewed=6)))).acquire()


@pytest.mark.parametrize("renewed", [True, False])
def test_while_the_file_system_is_away_nobody_can_renew_it(tmp_path, monkeypatch, renewed):
    """A NameNode that was away for longer than a lease lasts answers questions before it takes what others write."""
    time, file, looks = Time(), tmp_path / ".out.owner", []
    read = lease.read

    def late(path: str) -> Holder | None:
        looks.append(time.now)
        if len(looks) == 5:
            time.now += 2 * EXPIRE_SECONDS
        if renewed and len(looks) == 9:
            write(file, replace(ELSEWHERE, renewed=6))
        return read(path)

    write(file, ELSEWHERE)
    monkeypatch.setattr(lease, "read", late)
    one = mine(tmp_path, time)
    if renewed:
        with pytest.raises(OutputInUse):
            one.acquire()
    else:
        one.acquire()
        one.release()
        assert time.now == pytest.approx(2 * EXPIRE_SECONDS + 1.5 + WATCH_SECONDS, abs=1)


@pytest.mark.parametrize("renewed", [True, False])
@pytest.mark.parametrize("within", ["a pause", "a question"])
def test_its_silence_does_not_count_while_who_watches_it_stands_still(tmp_path, monkeypatch, within, renewed):
    """For an hour, and its owner with it, as when the machine under two containers sleeps."""
    file, read, hour, still = tmp_path / ".out.owner", lease.read, 3600.0, []

    def stand_still() -> None:
        if not still:
            still.append(time.now)
            time.now += hour

    def asked(path: str) -> Holder | None:
        if within == "a question" and time.looks == 100:
            stand_still()
        return read(path)

    def renew() -> None:
        if renewed:
            write(file, replace(ELSEWHERE, renewed=6))

    time = Time(at100=lambda: within == "a pause" and stand_still(), at118=renew)
    write(file, ELSEWHERE)
    monkeypatch.setattr(lease, "read", asked)
    one = mine(tmp_path, time)
    if renewed:
        with pytest.raises(OutputInUse):
            one.acquire()
    else:
        one.acquire()
        one.release()
        more = WATCH_SECONDS - 10 if within == "a question" else 0
        assert time.now == pytest.approx(EXPIRE_SECONDS + hour + more, abs=1)


def test_a_file_system_that_answers_late_every_time_is_not_waited_for_without_end(tmp_path, monkeypatch):
    time, read = Time(), lease.read

    def late(path: str) -> Holder | None:
        time.now += 5
        return read(path)

    write(tmp_path / ".out.owner", ELSEWHERE)
    monkeypatch.setattr(lease, "read", late)
    one = mine(tmp_path, time)
    one.acquire()
    one.release()
    assert EXPIRE_SECONDS < time.now < 1000


def test_one_that_is_given_back_meanwhile_is_free(tmp_path: Path) -> None:
    file = tmp_path / ".out.owner"
    write(file, ELSEWHERE)
    time = Time(at3=file.unlink)
    one = mine(tmp_path, time)
    one.acquire()
    assert time.looks == 3 and one.held()
    one.release()


def test_a_dead_process_of_this_machine_holds_nothing(tmp_path: Path) -> None:
    """After kill -9, at once; also where its number is another process's by now."""
    own = mine(tmp_path).holder
    code = "import sys; sys.path.insert(0, '.'); from hdfs_io.lease import Lease; Lease('/', '')._create(sys.argv[1])"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / ".out.owner")], check=True)
    dead = lease.read(str(tmp_path / ".out.owner"))
    assert dead is not None and dead.machine == own.machine and dead.gone
    assert replace(own, started=(own.started or 0) - 1).gone and not own.gone
    for holder in (dead, replace(own, started=0)):
        write(tmp_path / ".out.owner", holder)
        time = Time()
        one = mine(tmp_path, time)
        one.acquire()
        assert time.looks == 0 and one.held()
        one.release()


HALF_DEAD = """
import ctypes, os, sys, threading
from pathlib import Path

def live_on():
    while ") Z " not in Path("/proc/self/stat").read_text():
        pass
    print("its first thread has ended", flush=True)
    sys.stdin.read()
    os._exit(0)

threading.Thread(target=live_on).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_process_lives_as_long_as_any_of_its_threads() -> None:
    """The kernel shows it as a zombie from the end of the first one on; a killed one's may yet wait for a disk."""
    process = subprocess.Popen([sys.executable, "-c", HALF_DEAD], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    with process.stdout, process.stdin:
        process.stdout.readline()
        started = lease._started(process.pid)
        assert started is not None and not lease._ended(process.pid, started)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)  # a zombie all of whose threads have ended
    assert lease._ended(process.pid, started)
    process.wait()
    assert lease._ended(process.pid, started)


def test_a_process_that_proc_hides_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With hidepid, /proc shows other users' processes as if they were not there. Signal 0 still finds them."""
    real = Path.read_text

    def hidden(path: Path, *arguments: Any, **options: Any) -> str:
        if path.name == "stat":
            raise FileNotFoundError(path)
        return real(path, *arguments, **options)

    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        started = lease._started(sleeper.pid)
        monkeypatch.setattr(Path, "read_text", hidden)
        write(tmp_path / ".out.owner", replace(mine(tmp_path).holder, owner="x", pid=sleeper.pid, started=started))
        with pytest.raises(OutputInUse):
            mine(tmp_path, Time(at2=lambda: write(tmp_path / ".out.owner", ELSEWHERE))).acquire()
        write(tmp_path / ".out.owner", replace(mine(tmp_path).holder, owner="x", pid=sleeper.pid, started=started))
        time = Time(at4=lambda: (sleeper.kill(), sleeper.wait()))
        one = mine(tmp_path, time)
        one.acquire()
        assert time.looks == 4 and one.held()
        one.release()
    finally:
        sleeper.kill()
        sleeper.wait()


@pytest.mark.skipif(os.getuid() != 0, reason="only root may mount another /proc and become other users")
@pytest.mark.parametrize("hidepid", [1, 2])
def test_another_users_living_command_is_waited_for_where_proc_is_hidden(tmp_path: Path, hidepid: int) -> None:
    holder = (
        "import sys; from hdfs_io.lease import Lease; Lease('/', '')._create(sys.argv[1]); print(flush=True); input()"
    )
    seen = "import sys; from hdfs_io import lease; print(lease.read(sys.argv[1]).gone)"
    line = (
        f"mount -t proc -o hidepid={hidepid} proc /proc || exit 9; exec setpriv --clear-groups --regid 2000 "
        '--reuid {} --inh-caps +dac_read_search,+dac_override --ambient-caps +dac_read_search,+dac_override "$@"'
    )
    file = str(tmp_path / ".out.owner")

    def command(user: int, code: str) -> list[str]:
        return ["unshare", "-m", "sh", "-c", line.replace("{}", str(user)), "sh", sys.executable, "-c", code, file]

    with subprocess.Popen(command(2001, holder), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as living:
        assert living.stdin is not None and living.stdout is not None
        if not living.stdout.readline():
            pytest.skip("this machine does not let root mount /proc")
        assert subprocess.run(command(2002, seen), capture_output=True, text=True, check=False).stdout == "False\n"
        living.communicate(b"\n")
    assert subprocess.run(command(2002, seen), capture_output=True, text=True, check=False).stdout == "True\n"


def test_a_living_process_of_this_machine_is_waited_for_too(tmp_path: Path) -> None:
    """One that is ending, a killed command's child say, gives it back; only this very process would wait for itself."""
    sleeper = subprocess.Popen(["sleep", "60"])
    try:
        holder = replace(mine(tmp_path).holder, owner="x", pid=sleeper.pid, started=lease._started(sleeper.pid))
        write(tmp_path / ".out.owner", holder)
        time = Time(at4=lambda: (sleeper.kill(), sleeper.wait()))
        one = mine(tmp_path, time)
        one.acquire()
        assert time.looks == 4
        with pytest.raises(OutputInUse):
            mine(tmp_path).acquire()
        one.release()
    finally:
        sleeper.kill()
        sleeper.wait()
