"""Choose the collective: shared memory if all nodes are on one host, shared memory and TCP if some hosts hold several
nodes, otherwise the ring.

The choice changes no bit of a result.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from sparksplit.collectives import mixed, ring, shared
from sparksplit.collectives.base import Collective
from sparksplit.collectives.together import Apart, Meeting, meeting, runs_of, spread

if TYPE_CHECKING:
    from sparksplit.cluster import Member

log = logging.getLogger(__name__)


def join(member: Member) -> Collective:
    """Return the fastest of these collectives that the nodes support, with the reason."""
    made: Collective
    with meeting(member.gather) as met:
        name, reason = chosen(met)
        try:
            if name == "shared":
                made = shared.joined(member, met)
            elif name == "mixed":
                made = mixed.joined(member, met)
        except Apart as error:
            name, reason = "ring", str(error)
    if name == "ring":
        made = ring.join(member)
    made.name, made.reason = name, reason
    if member.rank == 0:
        log.info("collective: %s: %s", name, reason)
    return made


def chosen(met: Meeting) -> tuple[str, str]:
    """Return (collective's name, reason) for nodes that have met."""
    nodes, hosts, runs = len(met.places), len(set(met.places)), runs_of(met.places)
    if met.problem:
        return "ring", met.problem
    if met.apart is None:
        return "shared", f"all {nodes} nodes are on one host"
    if hosts == nodes:
        return "ring", met.apart
    if len(runs) == nodes:
        return "ring", "no two nodes with consecutive ranks are on one host"
    return "mixed", spread(met.places)
