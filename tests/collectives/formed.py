"""Collectives between nodes that are threads of this process, and whose hosts are made up."""

from sparksplit.collectives.mixed import Mixed
from sparksplit.collectives.ring import Ring
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


def size(form):
    """The number of nodes of `formed_as`."""
    kind, place = form.split()
    return len(place) if kind == "mixed" else int(place)


def formed_as(form, waiting=lambda rank: lambda _: None, network=ANY, secrets=None):
    """Each node's collective. form: `ring 3` or `shared 3` for three nodes, or `mixed aab` for nodes on two hosts"""

    def connect(rank, gather):
        kind, place = form.split()
        secret = secrets[rank] if secrets else SECRET
        if kind == "ring":
            return Ring.connect(rank, int(place), "127.0.0.1", secret, gather, 20.0, waiting(rank), network)
        if kind == "shared":
            return Shared.connect(rank, int(place), secret, gather, waiting(rank))
        gather = on(place, gather)
        with meeting(gather) as met:
            return Mixed.across(met, rank, "127.0.0.1", secret, gather, waiting(rank), network, timeout=20)

    return in_threads(size(form), connect)


def closed(formed):
    for node in formed:
        node.close()
        node.close()
