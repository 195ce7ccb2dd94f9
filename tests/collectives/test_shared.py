"""Shared memory between nodes that are threads of this process."""

import fcntl
import os
import secrets
import socket
from contextlib import suppress

import numpy as np
import pytest

from sparksplit.base.errors import PeerLost
from sparksplit.collectives import segment, together
from sparksplit.collectives.shared import Shared
from sparksplit.collectives.together import Apart
from sparksplit.network.seal import NONCE
from sparksplit.network.tls import Served
from tests.collectives.formed import SECRET, closed, formed_as
from tests.collectives.processes import in_use
from tests.collectives.test_ring import sums
from tests.nodes import in_threads


def test_results_are_aligned_cannot_be_written_to_and_survive_one_more_call():
    formed = formed_as("shared 2")

    def work(rank, _):
        first = formed[rank].sum([np.ones(3, np.float32), np.ones((5, 2), np.float32)])
        # Of other shapes, and more memory than there was.
        formed[rank].sum([np.zeros(1 << 20, np.float32)])
        with pytest.raises(ValueError, match="read-only"):
            first[0] += 1
        return [result.ctypes.data % 64 for result in first], [float(result.sum()) for result in first]

    assert in_threads(2, work) == [([0, 0], [6.0, 20.0])] * 2
    closed(formed)


def test_sums_outlive_what_they_were_made_with():
    formed = formed_as("shared 2")
    found = in_threads(2, lambda rank, _: formed[rank].sum([np.full(5, rank + 1.0)]))
    closed(formed)
    formed.clear()
    assert [result.tolist() for (result,) in found] == [[3.0] * 5] * 2


def test_a_python_built_for_an_old_glibc_shares_memory_too(monkeypatch):
    """As conda's and uv's are: the kernel can, but they have no name for it."""
    for module in (os, fcntl):
        for name in dir(module):
            if name.startswith(("memfd_create", "MFD_", "F_SEAL_", "F_ADD_SEALS")):
                monkeypatch.delattr(module, name)
    Served("127.0.0.1")  # TLS keeps its key in such a file, too
    formed = formed_as("shared 2")
    assert [found[0][0].tolist() for found in in_threads(2, lambda rank, _: sums(formed[rank], [np.ones(2)]))] == [
        [2, 2]
    ] * 2
    closed(formed)


def test_strangers_get_nothing_and_disturb_nobody():
    """They call first: with nonsense, with silence, and as a node that is expected."""
    strangers = []

    def connect(rank, gather):
        def gather_after_strangers(name, value):
            if rank == 0 and name == "shared memory":
                for said in (secrets.token_bytes(52), b"x", bytes(16) + b"\0\0\0\1" + secrets.token_bytes(32)):
                    strangers.append(socket.socket(socket.AF_UNIX))
                    strangers[-1].connect(f"\0{value[1]}")
                    strangers[-1].sendall(said)
            return gather(name, value)

        return Shared.connect(rank, 3, SECRET, gather_after_strangers)

    formed = in_threads(3, connect)
    assert [found[0][0].tolist() for found in in_threads(3, lambda rank, _: sums(formed[rank], [np.ones(2)]))] == [
        [3, 3]
    ] * 3
    for stranger in strangers:
        stranger.settimeout(5)
        with suppress(ConnectionError):
            data, descriptors, *_ = socket.recv_fds(stranger, 100, 10)
            assert len(data) <= NONCE and not descriptors  # the challenge
        stranger.close()
    closed(formed)


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("another net:[1]", "node 1 is on another host than node 0"),
        ("{kernel} net:[1]", "node 1 is in another network namespace than node 0"),
    ],
)
def test_nodes_that_cannot_reach_each_other_are_apart(place, problem):
    def connect(rank, gather):
        def elsewhere(name, value):
            if rank == 1 and name == "shared memory":
                value = [place.format(kernel=value[0].split()[0]), *value[1:]]
            return gather(name, value)

        with pytest.raises(Apart) as raised:
            Shared.connect(rank, 3, SECRET, elsewhere)
        return str(raised.value)

    assert in_threads(3, connect) == [problem] * 3


def test_one_node_that_cannot_is_told_on_all(monkeypatch):
    monkeypatch.setattr(together, "SECONDS", 0.5)

    def refused(name, rank, *rest):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(together, "_take", refused)
    with pytest.raises(Apart, match=r"in time; node 1 cannot share memory with the others: Permission denied$"):
        formed_as("shared 2")
    monkeypatch.setattr(together.platform, "machine", lambda: "aarch64")
    with pytest.raises(Apart, match=r"needs an x86 processor \(this is aarch64\)$"):
        formed_as("shared 2")


def test_memory_that_is_not_there_is_an_error(monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    formed = formed_as("shared 2")
    monkeypatch.setattr(segment.os, "posix_fallocate", full)

    def work(rank, _):
        error = MemoryError if rank == 0 else PeerLost
        with pytest.raises(error, match="share: No space left on device" if rank == 0 else "closed its connection"):
            formed[rank].sum([np.ones(1 << 20)])
        formed[rank].close()

    in_threads(2, work)
    with pytest.raises(Apart, match=r"cannot get \S* bytes of memory that .* share: No space left on device"):
        formed_as("shared 2")


def test_memory_has_no_name_and_keeps_its_size():
    formed = formed_as("shared 2")
    in_threads(2, lambda rank, _: sums(formed[rank], [np.ones(100)]))
    assert not in_use(set())
    descriptor = segment.allocated(1 << 20)
    for size in (0, 2 << 20):
        with pytest.raises(PermissionError):
            os.ftruncate(descriptor, size)
    os.close(descriptor)
    closed(formed)


def test_memory_that_cannot_be_handed_out_is_an_error_on_all(monkeypatch):
    """Such as for too many descriptors on their way; it was taken for the end of the node that was to get it."""

    def refused(*_):
        raise OSError(109, "Too many references: cannot splice")

    formed = formed_as("shared 2")
    monkeypatch.setattr(segment.socket, "send_fds", refused)

    def work(rank, _):
        error, said = (MemoryError, "cannot share further memory") if rank == 0 else (PeerLost, "closed its connection")
        with pytest.raises(error, match=said):
            formed[rank].sum([np.ones(1 << 20)])
        formed[rank].close()

    in_threads(2, work)


def test_a_first_node_that_may_not_listen_is_told_on_all(monkeypatch):
    class Confined(socket.socket):
        def bind(self, _):
            raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(together.socket, "socket", Confined)
    with pytest.raises(Apart, match=r"^node 0 cannot listen for the others: Permission denied$"):
        formed_as("shared 2")
