"""Out of memory: distinguishes a node's own error, a kill by the kernel and a kill by YARN, and says what helps."""

from __future__ import annotations

import re
import signal
from contextlib import suppress
from pathlib import Path

ERRORS = frozenset(("MemoryError", "ResourceExhaustedError", "ArrowMemoryError"))
"""Errors of Python, TensorFlow and Arrow for missing memory. They are listed by name, because nothing here imports
TensorFlow or Arrow."""
ON_YARN = re.compile(r"(exceeding|beyond)\W+(?:the\W+)?(?:'?(?:physical|virtual)'?\W+)?memory", re.IGNORECASE)
_EXIT = re.compile(r"exit(?:ed with)?\s*(?:code|status):?\s*(137|143)\b", re.IGNORECASE)
HELP = "more spark.executor.memoryOverhead, or a smaller batch_size or cache_mb, may help"
_HELP_GPU = "a smaller batch_size may help"


def own_error(name: str, text: str) -> str:
    """Return the text for a node's own error."""
    # Only TensorFlow's text names the device.
    on_gpu = name == "ResourceExhaustedError" and "GPU" in text
    return f"ran out of {'GPU ' if on_gpu else ''}memory ({name}{': ' if text else ''}{text}); " + (
        _HELP_GPU if on_gpu else HELP
    )


def signal_text(number: int, for_memory: bool | None) -> str:
    """Return the text for a node that a signal ended. for_memory: as NodeRecord.killed_for_memory."""
    name = signal.Signals(number).name
    if number != signal.SIGKILL:
        return f"was ended by {name}"
    if for_memory:
        return f"was ended by {name}, by the kernel for lack of memory; {HELP}"
    if for_memory is None:
        return f"was ended by {name} (from outside, or by the kernel for lack of memory)"
    return f"was ended by {name} (from outside: the kernel ended nothing for lack of memory)"


def executor_text(reason: str) -> tuple[str, bool]:
    """Return (text for Spark's `reason` for losing an executor, whether the reason was memory)."""
    if ON_YARN.search(reason):
        return f"{reason}; its container needed more memory: {HELP}", True
    if match := _EXIT.search(reason):
        sent = "SIGKILL, which a system also sends to a process that takes too much memory" if match[1] == "137" else ""
        return f"{reason} ({sent or 'SIGTERM: it was preempted, stopped, or took too much memory'})", False
    return reason, False


def kills(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Return how many processes the kernel has ended for lack of memory; None if the kernel does not count.

    The count is for this process's control group, or otherwise for this host.
    """
    for file, key in _counters(proc, cgroups):
        with suppress(OSError, ValueError, IndexError):
            for line in file.read_text(encoding="ascii").splitlines():
                name, _, count = line.partition(" ")
                if name == key:
                    return int(count)
    return None


def _counters(proc: Path, cgroups: Path) -> list[tuple[Path, str]]:
    """Return the kernel's counters as (file, key), the closest to this process first."""
    counters = []
    with suppress(OSError):
        for line in (proc / "self" / "cgroup").read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if not controllers:
                counters.append((cgroups / path.lstrip("/") / "memory.events", "oom_kill"))
            elif "memory" in controllers.split(","):
                counters.append((cgroups / "memory" / path.lstrip("/") / "memory.oom_control", "oom_kill"))
    return [*counters, (proc / "vmstat", "oom_kill")]
