"""Processes and folders that end with this one, however it ends."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

_KEEPER = str(Path(__file__).with_name("keeper.py"))
_STOP_SECONDS = 20.0


class Kept:
    """A command that is killed, with all that it started, by `stop`, or when this process ends, however it does."""

    def __init__(self, folder: Path, command: list[str], log: Path, environment: dict[str, str]) -> None:
        """Start `command` in `folder`, which exists as long as it runs; its output is appended to `log`."""
        self.log = log
        with log.open("ab") as output:
            # A session of its own: Ctrl-C is for the tests, which then stop this in order.
            self._keeper = subprocess.Popen(
                [sys.executable, _KEEPER, str(folder), *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env=environment,
                start_new_session=True,
            )

    @property
    def status(self) -> int | None:
        """The command's exit status (128 + number for a signal); None while it runs."""
        return self._keeper.poll()

    def wait(self, seconds: float) -> int:
        """The exit status; raises TimeoutError, quoting the log, where it takes longer. It then still runs."""
        try:
            return self._keeper.wait(seconds)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"still running after {seconds:.0f} s; its log ends:\n{tail(self.log)}") from None

    def stop(self) -> None:
        """Kill it (SIGKILL), and return when nothing of it is left; without effect where it has ended."""
        assert self._keeper.stdin is not None
        self._keeper.stdin.close()
        self._keeper.wait(_STOP_SECONDS)


class KeptFolder:
    """A temporary folder that is removed by `remove`, or when this process ends, however it does."""

    def __init__(self, prefix: str) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=prefix)).resolve()
        self._keeper = subprocess.Popen(
            [sys.executable, _KEEPER, str(self.path)], stdin=subprocess.PIPE, start_new_session=True
        )

    def remove(self) -> None:
        """Remove it; every `Kept` in it has to be stopped before."""
        assert self._keeper.stdin is not None
        self._keeper.stdin.close()
        self._keeper.wait(_STOP_SECONDS)


def tail(log: Path, lines: int = 30) -> str:
    """The last lines of a log file."""
    if not log.is_file():
        return f"({log} was not written)"
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])
