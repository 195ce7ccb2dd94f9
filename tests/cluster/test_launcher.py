"""What a launcher knows of its node's process."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import tracemalloc
from collections import deque
from pathlib import Path
from types import SimpleNamespace

import pytest

from sparksplit.base.errors import Passing
from sparksplit.cluster.failures import Failure
from sparksplit.cluster.faults import kind_and_text
from sparksplit.cluster.launcher import _copy, _Node, _scratch_folder
from tests.disks import make_read_only, small_disk
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


def test_a_nodes_output_is_read_on_where_it_cannot_be_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the disk of the executor's log is full: the node would wait for its reader in its next line."""

    class Full(io.StringIO):
        def flush(self) -> None:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys, "stderr", Full())
    output: deque[str] = deque()
    _copy(io.BytesIO(b"one\ntwo\n"), output)
    assert list(output) == ["one", "two"]


def test_a_line_that_never_ends_fills_neither_the_launchers_memory_nor_its_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A progress bar without newlines, say: 50 MB of it through a pipe."""
    shown = [0]

    def write(text: str) -> None:
        shown[0] += len(text)

    monkeypatch.setattr(sys, "stderr", SimpleNamespace(write=write, flush=lambda: None))
    program = "import sys\nfor _ in range(800):\n    sys.stdout.buffer.write(b'x' * (64 << 10))"
    output: deque[str] = deque()
    with subprocess.Popen([sys.executable, "-S", "-c", program], stdout=subprocess.PIPE) as node:
        assert node.stdout is not None
        tracemalloc.start()
        try:
            _copy(node.stdout, output)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert (shown, list(output)) == ([800 * (64 << 10)], ["x" * 500])
    assert peak < 2 << 20


def test_a_local_disk_that_is_read_only_lets_the_run_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with small_disk(tmp_path / "disk") as disk:
        make_read_only(disk)
        monkeypatch.setenv("SPARK_LOCAL_DIRS", str(disk))
        with pytest.raises(Passing, match=rf"^{disk} on .*: Read-only file system$") as caught, _scratch_folder(0):
            pass
    assert kind_and_text(caught.value)[0] is Failure.PASSING
