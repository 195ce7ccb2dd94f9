"""Both ends of a channel over loopback, as tests use them."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from typing import Any

from sparksplit.cluster.channel.line import Post
from sparksplit.cluster.channel.server import Channel
from sparksplit.cluster.member import NodeMember, Start
from sparksplit.network import wire


def post(channel: Channel, rank: int = 0, kind: Any = "node") -> Post:
    return Post(channel.address, channel.secret, rank, kind, channel.fingerprint)


def join(channel: Channel, rank: int, size: int = 2) -> NodeMember:
    return NodeMember(Start(post(channel, rank), size, "", {"a": rank}, {}, "", os.getpid()))


def until(condition: Callable[[], Any], seconds: float = 30) -> None:
    """Wait until the condition is true, which it must become in time, however busy the machine."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def said(channel: Channel, hello: Any, secret: str | None = None) -> dict[str, Any] | None:
    """The driver's answer to a hello, as whoever knows the secret (or `secret`) may give it."""
    with socket.create_connection(channel.address, 5) as connection:
        return wire.Wire(connection).introduce((secret or channel.secret).encode(), hello, time.monotonic() + 5)


def as_node(rank: int = 0, **other: Any) -> dict[str, Any]:
    return {"kind": "node", "rank": rank, "pid": 1, "host": "h", "life": "stranger", "heard": 0, **other}
