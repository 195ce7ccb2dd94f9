"""A node that a signal asks to end."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from sparksplit.cluster import node_main
from sparksplit.cluster.leaving import Leaving, reason_of
from tests.replaced import replaced

ASKED = """
import hashlib, os, threading
from sparksplit.cluster.leaving import signals
descriptor = signals()
threading.Thread(target=lambda: os._exit(os.read(descriptor, 1)[0])).start()
print(flush=True)
hashlib.pbkdf2_hmac('sha256', b'', b'', 10**9)  # no handler runs meanwhile
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_is_heard_at_once_whatever_the_main_thread_does(number: signal.Signals) -> None:
    process = subprocess.Popen([sys.executable, "-c", ASKED], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout as output:
        output.readline()
    try:
        process.send_signal(number)
        assert process.wait(60) == number
    finally:
        process.kill()
        process.wait()


FORKED = """
import multiprocessing, os, select, time
from sparksplit.cluster.leaving import signals
descriptor = signals()
child = multiprocessing.get_context('fork').Process(target=time.sleep, args=(600,))
child.start()
child.terminate()
child.join(60)
print(child.exitcode, select.select([descriptor], [], [], 0)[0])
child.kill()
"""


def test_a_process_that_the_work_has_forked_can_be_ended_and_is_not_the_node() -> None:
    """As a pool's are, when it is closed."""
    ended = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=120, check=True)
    assert ended.stdout == "-15 []\n"


class Ended(BaseException):
    pass


@pytest.mark.parametrize("heeded", [False, True])
def test_a_node_ends_at_once_or_after_its_grace(monkeypatch: pytest.MonkeyPatch, heeded: bool) -> None:
    """In between, its work looks at `leaving`."""
    seen: list[object] = []

    class Member:
        leaving = Leaving()
        announce = staticmethod(lambda **state: seen.append(state))
        report_error = staticmethod(lambda *error: seen.append(error))

    def end(status: int) -> None:
        raise Ended(status)

    member = Member()
    member.leaving.heeded, member.leaving.grace = heeded, 0.2
    heard = [bytes([number]) for number in (signal.SIGALRM, signal.SIGTERM)]  # the first one is its work's own
    replaced(monkeypatch, node_main, "os", read=lambda *_: heard.pop(0), _exit=end)
    began = time.monotonic()
    with pytest.raises(Ended, match="1"):
        node_main._leave(member, -1)  # type: ignore[arg-type]
    assert member.leaving.is_set() and member.leaving.reason == "was asked to end (SIGTERM)"
    assert seen == [*([{"leaving": True}] if heeded else []), ("passing", "was asked to end (SIGTERM)")]
    assert not heeded or time.monotonic() - began >= 0.2


def test_spark_hangs_up_where_an_executor_has_gone() -> None:
    assert reason_of(signal.SIGHUP) == "its executor was lost"
