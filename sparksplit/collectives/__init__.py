"""Collectives: what sums arrays over the nodes. One small interface, what implements it, and the table of their names.

A new one is a file beside this one and a line in the table. A user's own needs neither: `collective:
path/to/file.py:function` names a function that takes the node's `Member` and returns a `Collective`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sparksplit.base.errors import RunError, SparksplitError
from sparksplit.base.user_functions import FunctionError, load
from sparksplit.collectives.base import Alone, Collective, PeerTimeout

if TYPE_CHECKING:
    from sparksplit.cluster import Member

__all__ = ["COLLECTIVES", "Alone", "Collective", "PeerTimeout", "bits_of", "join"]

COLLECTIVES = {
    "auto": "sparksplit.collectives.auto:join",
    "ring": "sparksplit.collectives.ring:join",
    "shared": "sparksplit.collectives.shared:join",
    "mixed": "sparksplit.collectives.mixed:join",
    "tensorflow": "sparksplit.collectives.tensorflow:join",
}
"""By name, the function that makes it on a node. Each is imported only there: one must be TensorFlow's first."""

_IN_RING_ORDER = ("auto", "ring", "shared", "mixed")


def bits_of(name: str) -> str:
    """The name of a collective whose sums have the same bits: which of these it is cannot change a run's result."""
    return "ring" if name in _IN_RING_ORDER else name


def join(name: str, source: str | None, member: Member) -> Collective:
    """The collective of that name, between `member` and all other nodes; for a node on its own, `Alone`.

    source: for a user's own, what user_functions.source_of returned. Raises FunctionError where it cannot be loaded,
    RunError and its subclasses where the nodes do not come together.
    """
    if member.size == 1:
        return Alone()
    make = load(COLLECTIVES.get(name, name), source)
    try:
        made = make(member)
    except SparksplitError:
        raise
    except Exception as error:
        raise RunError(f"collective: {name} failed: {type(error).__name__}: {error}") from error
    if not isinstance(made, Collective):
        raise FunctionError(f"{name} returned {type(made).__name__}, not a sparksplit.collectives.Collective")
    made.name = made.name or name
    return made
