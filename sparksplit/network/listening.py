"""Where a run's processes listen: address, ports, and whether their connections are encrypted."""

from __future__ import annotations

import array
import errno
import fcntl
import re
import socket
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv4Network, NetmaskValueError
from typing import TypeVar

from sparksplit.base.errors import ConfigError

_LOWEST, _HIGHEST = 1024, 65535
_SIOCGIFCONF = 0x8912
_ENTRY = 40  # bytes of a struct ifreq
_OPENED = TypeVar("_OPENED")


@dataclass(frozen=True)
class Network:
    """The network settings of the configuration.

    ports: first and last port to listen on; None: any free port.
    bind: a subnet (10.1.0.0/16) or an interface (eth1); None: the network that leads to the driver.
    tls: encrypt connections.
    kept: ports that other processes of this host will use.
    """

    ports: tuple[int, int] | None = None
    bind: str | None = None
    tls: bool = False
    kept: tuple[int, ...] = ()

    def address(self, otherwise: str) -> str:
        """Return this host's address in `bind`; without `bind`, return `otherwise`. Raise ConfigError if the host has
        no address there.
        """
        if self.bind is None:
            return otherwise
        addresses = list(own_addresses())
        wanted = IPv4Network(self.bind, strict=False) if "/" in self.bind else None
        for name, address in addresses:
            if name == self.bind or (wanted is not None and IPv4Address(address) in wanted):
                return address
        has = ", ".join(f"{address} ({name})" for name, address in addresses)
        raise ConfigError(f"bind: {socket.gethostname()} has no address in {self.bind}; it has {has}")

    def listen(self, host: str, backlog: int = 128) -> socket.socket:
        """Return a socket that listens at `host`."""
        return self.opened(lambda port: socket.create_server((host, port), backlog=backlog))

    def hold(self) -> socket.socket:
        """Return a socket that keeps a port on all interfaces until it is closed, for a server that starts later.

        The socket listens, because only a listening socket owns its port alone. This matters for a port where the
        kernel still remembers connections of nodes that have just ended, such as those of the previous attempt.
        """
        return self.listen("")

    def opened(self, opening: Callable[[int], _OPENED]) -> _OPENED:
        """Call `opening` for each allowed port until one is free, and return its result. Port 0 means any port.
        `opening` raises OSError for a port in use.

        Raise ConfigError if no port is free. Other errors of `opening` pass through.
        """
        if self.ports is None:
            return opening(0)
        low, high = self.ports
        for port in range(low, high + 1):
            if port not in self.kept:
                try:
                    return opening(port)
                except OSError as error:
                    if error.errno != errno.EADDRINUSE:
                        raise
        raise ConfigError(
            f"ports: none of {low}-{high} is free on {socket.gethostname()}; "
            "a host needs three ports for each of its nodes, and one for the driver"
        )


ANY = Network()
"""No restrictions."""


def parse_ports(text: str) -> tuple[int, int]:
    """Return `40000-40100` as (first, last). Raise ValueError for any other form."""
    match = re.fullmatch(r"\s*(\d{1,5})\s*-\s*(\d{1,5})\s*", text, re.ASCII)
    low, high = (int(match[1]), int(match[2])) if match else (0, 0)
    if not _LOWEST <= low <= high <= _HIGHEST:
        raise ValueError(f"must be two ports from {_LOWEST} to {_HIGHEST}, such as 40000-40100 (is {text!r})")
    return low, high


def check_bind(text: str) -> str:
    """Return `text` if it may be a subnet or an interface. Otherwise raise ValueError."""
    if "/" in text:
        try:
            IPv4Network(text, strict=False)
        except (AddressValueError, NetmaskValueError, ValueError):
            raise ValueError(f"must be a subnet such as 10.1.0.0/16, or an interface (is {text!r})") from None
    elif not re.fullmatch(r"[^\s/]{1,15}", text):
        raise ValueError(f"must be a subnet such as 10.1.0.0/16, or an interface (is {text!r})")
    return text


def own_addresses() -> Iterator[tuple[str, str]]:
    """Yield (interface, IPv4 address) of each address of this host."""
    room = array.array("B", bytes(1 << 16))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        asked = struct.pack("iL", len(room), room.buffer_info()[0])
        size = struct.unpack("iL", fcntl.ioctl(probe, _SIOCGIFCONF, asked))[0]
    for at in range(0, size, _ENTRY):
        name = bytes(room[at : at + 16]).split(b"\0", 1)[0].decode(errors="replace")
        yield name.partition(":")[0], socket.inet_ntoa(bytes(room[at + 20 : at + 24]))


def own_address_towards(driver: tuple[str, int]) -> str:
    """Return this host's address on the network that leads to the driver. No packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(driver)
        return str(probe.getsockname()[0])
