"""Work functions that the tests have nodes call; none imports TensorFlow."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from sparksplit.base.errors import ConfigError, PeerLost
from sparksplit.cluster import Member


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
        "temporary": tempfile.gettempdir(),
        "pid": os.getpid(),
        "heavy": [name for name in ("tensorflow", "pyspark") if name in sys.modules],
        "log_level": os.environ["TF_CPP_MIN_LOG_LEVEL"],
        "argv": Path("/proc/self/cmdline").read_text(),
        "secret_in_environment": member.secret.decode() in Path("/proc/self/environ").read_text(),
    }


def gather(member: Member) -> dict[str, Any]:
    """Several rendezvous, of one name too."""
    first = member.gather("address", {"rank": member.rank, "host": member.host})
    return {"first": first, "again": [member.gather("sum", member.rank + turn) for turn in range(20)]}


def busy(member: Member) -> dict[str, Any]:
    """Reports updates until it is told to stop, or for as many seconds as the payload says."""
    end = time.monotonic() + member.payload.get("seconds", 60)
    update = 0
    while time.monotonic() < end and not member.stopping.wait(0.01):
        update += 1
        member.state(update=update, loss=1 / update)
    return {"updates": update, "stopped": member.stopping.is_set()}


def suffer(member: Member) -> dict[str, Any]:
    """Tell where it runs, wait for the others; then one rank fails as the payload says and the others wait for it.

    payload: folder (for a file of facts per rank), rank (which one fails), how, echo (whether the others notice).
    """
    facts = {"pid": os.getpid(), "launcher": os.getppid(), "local_dir": member.local_dir}
    member.state(update=3)
    # What is written last says that this node has told.
    temporary = Path(member.payload["folder"]) / f"{member.rank}.tmp"
    temporary.write_text(json.dumps(facts))
    member.gather("told", None)
    temporary.rename(temporary.with_suffix(".json"))
    if member.rank == member.payload["rank"]:
        print("these are my last words", flush=True)
        _fail(member.payload.get("how"))
    member.state(waiting=member.rank != member.payload["rank"])
    while not member.stopping.wait(0.02):
        if member.payload.get("echo") and member.rank != member.payload["rank"]:
            raise PeerLost("the next node closed its connection")
    return {"stopped": True}


def _fail(how: str | None) -> None:
    if how == "raise":
        raise ValueError("a text\nof two lines")
    if how == "usage":
        raise ConfigError("model.build: its output (None, 7) does not fit the 10 classes")
    if how == "exit":
        os._exit(7)
    if how == "slowly":
        time.sleep(0.3)
        raise ValueError("the first cause")


def no_result(member: Member) -> dict[str, Any]:
    """Returns what is no dict."""
    return [1]  # type: ignore[return-value]


def no_json(member: Member) -> dict[str, Any]:
    """Returns a dict that is no JSON."""
    return {"value": object()}


def stop_and_tell(member: Member) -> dict[str, Any]:
    """Writes a file when it is asked for an orderly end."""
    (Path(member.payload["folder"]) / f"{member.rank}.json").write_text(json.dumps({"pid": os.getpid()}))
    if member.stopping.wait(60):
        (Path(member.payload["folder"]) / f"{member.rank}.stopped").touch()
    return {}
