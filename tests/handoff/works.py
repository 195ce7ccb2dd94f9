"""Work functions that the tests of feeding have nodes call; none imports TensorFlow."""

from __future__ import annotations

import time
from dataclasses import astuple
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from sparksplit.cluster import Member
from sparksplit.dataset.lane_files import Layout
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.handoff.receiver import Receiver, token_of


def leave(member: Member) -> dict[str, Any]:
    """Return once the first rows have come, long before they all have."""
    data = PreparedDataSet.open(member.payload["data"], verify=False)
    spool = str(Path(member.local_dir) / "spool")
    receiver = Receiver(member.host, token_of(member.secret), spool, Layout.of(data.manifest).schema)
    member.announce(receiver=astuple(receiver.address))
    while not receiver.rows:
        time.sleep(0.01)
    receiver.close()
    return {"rows": receiver.rows}


def spool_to_a_full_disk(member: Member) -> dict[str, Any]:
    """Take rows, onto the small disk in the payload, as a node that trains does."""
    from sparksplit.training.node.process import Process

    data = PreparedDataSet.open(member.payload["data"], verify=False)
    spool = str(Path(member.payload["disk"]) / str(member.rank))
    receiver = Receiver(member.host, token_of(member.secret), spool, Layout.of(data.manifest).schema)
    member.announce(receiver=astuple(receiver.address))
    process: Any = SimpleNamespace(member=member, receiver=receiver)
    while Process.told(process) is None:
        member.await_news(0.05)
    return {}


def take_all(member: Member) -> dict[str, Any]:
    """Take all rows, and return how many they were."""
    data = PreparedDataSet.open(member.payload["data"], verify=False)
    spool = str(Path(member.local_dir) / "spool")
    receiver = Receiver(member.host, token_of(member.secret), spool, Layout.of(data.manifest).schema)
    member.announce(receiver=astuple(receiver.address))
    while (fed := member.heard("fed")) is None:
        member.await_news(0.05)
    receiver.finish(fed["partitions"])
    return {"rows": sum(rows for _, rows, _ in fed["partitions"])}
