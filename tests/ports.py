"""Ports for daemons that are told beforehand where to listen."""

from __future__ import annotations

import random
import socket
from pathlib import Path


def free_ports(address: str, count: int) -> list[int]:
    """Ports of `address` that nothing listens at now.

    They are below those that the kernel gives to whoever asks for any port: one of these may be taken before the
    daemon listens or while it is down, even by a client's own attempt to reach it, which then talks to itself.

    Raises OSError where there are not so many.
    """
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    candidates, found = random.sample(range(min(10_000, first // 2), first), 50 * count), list[int]()
    for port in candidates:
        with socket.socket() as probe:
            try:
                probe.bind((address, port))
            except OSError:
                continue
        found.append(port)
        if len(found) == count:
            return found
    raise OSError(f"{count} free ports below {first} were not found on {address}")
