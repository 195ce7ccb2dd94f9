"""The driver's address, by which the nodes of a run reach it."""

from __future__ import annotations

import socket
from collections.abc import Mapping

from sparksplit.base.errors import ConfigError
from sparksplit.network.listening import Network

LOOPBACK = "127.0.0.1"


def driver_addresses(settings: Mapping[str, str], network: Network, beside_driver: bool) -> tuple[str, str]:
    """Return (the address that the driver listens on, the address by which nodes reach it).

    settings: Spark's.
    network: where the run's processes listen.
    beside_driver: whether all nodes are on the driver's machine. No network is needed then.

    Raise ConfigError if the driver's host is unknown, or has no address in `network`.
    """
    known_as = LOOPBACK if beside_driver else _own_address(settings.get("spark.driver.host") or "")
    if network.bind is not None:
        known_as = network.address(known_as)
    elif not beside_driver:
        return settings.get("spark.driver.bindAddress") or known_as, known_as
    return known_as, known_as


def _own_address(host: str) -> str:
    """Return the IP address of `host`, the driver's name for itself. Raise ConfigError if the host is unknown."""
    try:
        # An empty name would mean all interfaces.
        return socket.gethostbyname(host or "unknown.invalid")
    except OSError as error:
        raise ConfigError(f"spark.driver.host: unknown host {host!r} ({error})") from None
