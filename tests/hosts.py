"""Network namespaces as hosts: each has an address of its own, and no connection but the link that is made for it."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")

_CLONE_NEWNET = 0x40000000  # linux/sched.h


def lacking() -> str | None:
    """What this machine lacks for hosts, in a line; None where they can be made."""
    for program, package in (("ip", "iproute2"), ("unshare", "util-linux"), ("nsenter", "util-linux")):
        if shutil.which(program) is None:
            return f"needs the program {program} (Debian's package {package})"
    made = subprocess.run(
        ["unshare", "--net", "ip", "link", "add", "dev", "probe", "type", "veth", "peer", "name", "other"],
        capture_output=True,
        text=True,
        check=False,
    )
    return f"cannot make network namespaces: {' '.join(made.stderr.split())[:300]}" if made.returncode else None


@dataclass(frozen=True)
class Host:
    """address: its own. pid: of a process in its network; None: it is this process's."""

    address: str
    pid: int | None = None

    @property
    def enter(self) -> list[str]:
        """What to put before a command that is to run there."""
        return [] if self.pid is None else ["nsenter", f"--net=/proc/{self.pid}/ns/net"]

    def inside(self, function: Callable[[], Result]) -> Result:
        """What `function` returns, with the sockets that it makes in this host's network."""
        if self.pid is None:
            return function()

        def entered() -> Result:
            # Sockets belong to the network of the thread that makes them.
            libc = ctypes.CDLL(None, use_errno=True)
            with Path(f"/proc/{self.pid}/ns/net").open() as network:
                if libc.setns(network.fileno(), _CLONE_NEWNET):
                    raise OSError(ctypes.get_errno(), "setns")
            return function()

        with ThreadPoolExecutor(1) as thread:
            return thread.submit(entered).result()

    def do(self, *command: str) -> None:
        """Run a command there. Raises RuntimeError with what it said where it fails."""
        done = subprocess.run([*self.enter, *command], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {' '.join(done.stderr.split())}")


def new_network() -> subprocess.Popen[bytes]:
    """A process in a network of its own, which ends with its standard input, and so with this process."""
    holding = ["unshare", "--net", "sh", "-c", "echo; exec cat"]
    process = subprocess.Popen(holding, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()  # it is in its network
    return process


def link(near: Host, far: Host) -> None:
    """Join two hosts by the device `link` of each, and let them use it. far: in a network of its own."""
    near.do(*f"ip link add dev link type veth peer name link netns {far.pid}".split())
    for host in (near, far):
        host.do("ip", "address", "add", f"{host.address}/24", "dev", "link")
        for device in ("lo", "link"):
            host.do("ip", "link", "set", "dev", device, "up")


@contextmanager
def two_hosts() -> Iterator[tuple[Host, Host]]:
    """Two of them, joined by a link; gone afterwards, and when this process ends, however it does."""
    with new_network() as near, new_network() as far:
        hosts = Host("10.77.0.1", near.pid), Host("10.77.0.2", far.pid)
        link(*hosts)
        yield hosts
