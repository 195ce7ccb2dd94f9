"""Where a run's processes listen: on which address, on which ports, and whether what they exchange is encrypted."""

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
    """What the configuration says.

    ports: the first and the last that may be listened on; None: any free one. bind: a subnet (10.1.0.0/16) or an
    interface (eth1); None: whatever leads to the driver. tls: whether connections are encrypted. kept: ports that
    others of this host are going to use.
    """

    ports: tuple[int, int] | None = None
    bind: str | None = None
    tls: bool = False
    kept: tuple[int, ...] = ()

    def address(self, otherwise: str) -> str:
        """This host's address in `bind`; without one, `otherwise`. Raises ConfigError where it has none there."""
        if self.bind is None:
            return otherwise
        own = list(own_addresses())
        wanted = IPv4Network(self.bind, strict=False) if "/" in self.bind else None
        for name, address in own:
            if name == self.bind or (wanted is not None and IPv4Address(address) in wanted):
                return address
        has = ", ".join(f"{address} ({name})" for name, address in own)
        raise ConfigError(f"bind: {socket.gethostname()} has no address in {self.bind}; it has {has}")

    def listen(self, host: str, backlog: int = 128) -> socket.socket:
        """A socket that listens at `host`."""
        return self.opened(lambda port: socket.create_server((host, port), backlog=backlog))

    def hold(self) -> socket.socket:
        """A socket that keeps a port of all interfaces until it is closed, for a server that will be started then.

        It listens: only so is it alone at a port where connections of nodes that have just ended are still remembered,
        as those of the attempt before may be.
        """
        return self.listen("")

    def opened(self, opening: Callable[[int], _OPENED]) -> _OPENED:
        """What `opening` returns for the first port that is free; 0 is any. It raises OSError for one that is not.

        Raises ConfigError where none is, and whatever else `opening` raises.
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
"""No wishes."""


def parse_ports(text: str) -> tuple[int, int]:
    """`40000-40100` as (first, last); raises ValueError for anything else."""
    found = re.fullmatch(r"\s*(\d{1,5})\s*-\s*(\d{1,5})\s*", text, re.ASCII)
    low, high = (int(found[1]), int(found[2])) if found else (0, 0)
    if not _LOWEST <= low <= high <= _HIGHEST:
        raise ValueError(f"must be two ports from {_LOWEST} to {_HIGHEST}, such as 40000-40100 (is {text!r})")
    return low, high


def check_bind(text: str) -> str:
    """`text`, where it may be a subnet or an interface; raises ValueError for anything else."""
    if "/" in text:
        try:
            IPv4Network(text, strict=False)
        except (AddressValueError, NetmaskValueError, ValueError):
            raise ValueError(f"must be a subnet such as 10.1.0.0/16, or an interface (is {text!r})") from None
    elif not re.fullmatch(r"[^\s/]{1,15}", text):
        raise ValueError(f"must be a subnet such as 10.1.0.0/16, or an interface (is {text!r})")
    return text


def own_addresses() -> Iterator[tuple[str, str]]:
    """(interface, IPv4 address) of each address that this host has."""
    room = array.array("B", bytes(1 << 16))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        asked = struct.pack("iL", len(room), room.buffer_info()[0])
        size = struct.unpack("iL", fcntl.ioctl(probe, _SIOCGIFCONF, asked))[0]
    for at in range(0, size, _ENTRY):
        name = bytes(room[at : at + 16]).split(b"\0", 1)[0].decode(errors="replace")
        yield name.partition(":")[0], socket.inet_ntoa(bytes(room[at + 20 : at + 24]))


def own_address_towards(driver: tuple[str, int]) -> str:
    """The address of this host on the network that leads to the driver; no packet is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(driver)
        return str(probe.getsockname()[0])
