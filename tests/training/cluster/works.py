"""Work functions that the tests have nodes call; none imports TensorFlow."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

from sparksplit.errors import ConfigError, PeerLost
from training.cluster import Member


def greet(member: Member) -> dict[str, Any]:
    """What a node is given."""
    (Path(member.local_dir) / "spool").write_text("rows")
    return {
        "rank": member.rank,
        "size": member.size,
        "payload": member.payload,
        "host": member.host,
        "tf_config": member.tf_config,
        "local_dir": member.local_dir,
        "pid": os.getpid(),
        "launcher": os.getppid(),
        "heavy": [name for name in ("tensorflow", "pyspark") if name in sys.modules],
        "log_level": os.environ["TF_CPP_MIN_LOG_LEVEL"],
        "argv": Path("/proc/self/cmdline").read_text(),
        "secret_in_environment": member.secret.decode() in Path("/proc/self/environ").read_text(),
    }


def gather(member: Member) -> dict[str, Any]:
    """Several rendezvous, the same name twice among them."""
    first = member.gather("address", {"rank": member.rank, "host": member.host})
    return {"first": first, "again": [member.gather("sum", member.rank + turn) for turn in range(20)]}


def fail(member: Member) -> dict[str, Any]:
    """The rank in the payload fails as the payload says; the others wait for it for ever."""
    how, who = member.payload["how"], member.payload["rank"]
    member.state(update=0)
    if member.rank == who:
        if member.payload.get("pids"):
            Path(member.payload["pids"]).write_text(f"{os.getpid()} {os.getppid()} {member.local_dir}")
        time.sleep(member.payload.get("after", 0.2))
        print("these are my last words", flush=True)
        if how == "raise":
            raise ValueError("a value\nof two lines")
        if how == "usage":
            raise ConfigError("model: its output (None, 7) does not fit the 10 classes")
        if how == "exit":
            os._exit(7)
        if how == "no result":
            return None  # type: ignore[return-value]
        if how == "SIGSTOP":
            os.kill(os.getpid(), signal.SIGSTOP)
        if how == "SIGKILL":
            os.kill(os.getpid(), signal.SIGKILL)
    elif how == "echo":
        pass
    member.state(waiting=member.rank != who)
    while not member.stopping.wait(0.05):
        if member.payload.get("echo") and member.rank != who:
            raise PeerLost(f"lost node {who}")
    return {"stopped": True}


def busy(member: Member) -> dict[str, Any]:
    """Reports updates until it is told to stop, or for as many seconds as the payload says."""
    end = time.monotonic() + member.payload.get("seconds", 60)
    update = 0
    while time.monotonic() < end and not member.stopping.wait(0.01):
        update += 1
        member.state(update=update, loss=1 / update)
    return {"updates": update, "stopped": member.stopping.is_set()}
