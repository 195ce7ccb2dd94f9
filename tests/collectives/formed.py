"""Collectives between nodes that are threads of this process, and whose hosts are made up."""

from sparksplit.collectives.mixed import Mixed
from sparksplit.collectives.shared import Shared
from sparksplit.collectives.together import meeting
from sparksplit.network.listening import ANY
from tests.nodes import in_threads

SECRET = b"known to all"


def on(hosts, gather):
    """`gather` of a node whose cluster is on these hosts, by rank: each letter is one."""

    def moved(name, value):
        found = gather(name, value)
        return (
            [[host, *each[1:]] for host, each in zip(hosts, found, strict=True)] if name == "shared memory" else found
        )

    return moved


def size(hosts):
    """The number of nodes."""
    return hosts if isinstance(hosts, int) else len(hosts)


def formed_on(hosts, waiting=lambda rank: lambda _: None, network=ANY, secrets=None):
    """Each node's collective. hosts: a number of nodes on one host, which share memory; or the host of each rank, a
    letter, for the mixed collective"""

    def connect(rank, gather):
        secret = secrets[rank] if secrets else SECRET
        if isinstance(hosts, int):
            return Shared.connect(rank, hosts, secret, gather, waiting(rank))
        gather = on(hosts, gather)
        with meeting(gather) as met:
            return Mixed.across(met, rank, "127.0.0.1", secret, gather, waiting(rank), network, timeout=20)

    return in_threads(size(hosts), connect)


def closed(formed):
    for node in formed:
        node.close()
        node.close()
