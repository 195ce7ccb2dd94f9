"""Shared memory where all nodes are on one host, the ring otherwise; which of them it is changes no bit of a result."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from sparksplit.collectives import ring, shared
from sparksplit.collectives.base import Collective
from sparksplit.collectives.together import Apart

if TYPE_CHECKING:
    from sparksplit.cluster import Member

log = logging.getLogger(__name__)


def join(member: Member) -> Collective:
    """The faster one of those that these nodes can have, with the reason."""
    made: Collective
    try:
        made = shared.join(member)
        made.name, made.reason = "shared", f"all {member.size} nodes are on one host"
    except Apart as error:
        made = ring.join(member)
        made.name, made.reason = "ring", str(error)
    if member.rank == 0:
        log.info("collective: %s: %s", made.name, made.reason)
    return made
