"""Where benchmarks/diagnose.py plants its limits: an HDFS whose DataNodes send no faster than they are told to."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_DEVICE = ["dev", "lo"]
_CLASS = ["tc", "class", "replace", *_DEVICE, "parent", "1:", "classid"]
_SLOW, _OTHER = "1:2", "1:1"
_BURST = 256 << 10
"""Bytes that may go at once, more than a packet of loopback and than a tick of the kernel's clock."""


class SlowStorage:
    """An HDFS on the loopback of this network namespace. uri: hdfs://HOST:PORT."""

    def __init__(self, uri: str, ports: list[int]) -> None:
        self.uri = uri
        _do(["tc", "qdisc", "replace", *_DEVICE, "root", "handle", "1:", "htb", "default", "1"])
        _do([*_CLASS, _OTHER, "htb", *_rate("100gbit")])
        self.limit(None)
        for port in ports:
            match = ["match", "ip", "sport", str(port), "0xffff"]
            _do(["tc", "filter", "add", *_DEVICE, "parent", "1:", "protocol", "ip", "u32", *match, "flowid", _SLOW])

    def limit(self, megabytes: float | None) -> None:
        """Have all DataNodes together send no more than so many MB (10^6 bytes) in a second from now on; None: all."""
        _do([*_CLASS, _SLOW, "htb", *_rate("100gbit" if megabytes is None else f"{megabytes * 8000:.0f}kbit")])


@contextmanager
def slow_storage() -> Iterator[SlowStorage]:
    """Only inside slow_link_hosts.isolated: it changes what loopback carries."""
    from sparksplit.spark.settings.java import java_home
    from tests.hadoop.cluster import HadoopCluster
    from tests.hadoop.jars import fetch

    java = java_home()
    with HadoopCluster(fetch(java), java) as cluster:
        yield SlowStorage(cluster.uri, cluster.data_ports)


def _rate(rate: str) -> list[str]:
    return ["rate", rate, "burst", str(_BURST), "cburst", str(_BURST), "quantum", str(_BURST)]


def _do(command: list[str], **more: Any) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {' '.join(done.stderr.split())}")
