"""What a launcher knows of its node's process."""

from __future__ import annotations

import signal
import subprocess
import sys

from sparksplit.cluster.launcher import _Node
from tests.nodes import until


def test_a_stopped_process_is_told_from_a_slow_one() -> None:
    node = _Node()
    assert not node.is_stopped()
    node._process = process = subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert not node.is_stopped()
        process.send_signal(signal.SIGSTOP)
        until(node.is_stopped)
        assert node.is_stopped(), "looking changes nothing"
        process.send_signal(signal.SIGCONT)
        until(lambda: not node.is_stopped())
        process.send_signal(signal.SIGSTOP)
        until(node.is_stopped)
    finally:
        node.end()
        process.communicate()
    assert not node.is_stopped() and process.returncode == -signal.SIGKILL
