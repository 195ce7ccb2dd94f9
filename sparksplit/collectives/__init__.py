"""Collectives sum arrays over the nodes: one small interface, its implementations, and the table of their names.

To add a collective, add a file here and a line in the table. A user's own collective needs neither: `collective:
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
"""The function that makes each collective on a node, by name. A function is imported only on the node, because
TensorFlow's collective must be created before anything else in TensorFlow.
"""

_IN_RING_ORDER = ("auto", "ring", "shared", "mixed")


def bits_of(name: str) -> str:
    """Return the name that stands for all collectives with bit-equal sums. Choosing among them cannot change a run's
    result.
    """
    return "ring" if name in _IN_RING_ORDER else name


def join(name: str, source: str | None, member: Member) -> Collective:
    """Return the collective with this name, between `member` and all other nodes. Return `Alone` for a single node.

    source: for a user's own collective, the result of user_functions.source_of. Raise FunctionError if the function
    cannot be loaded. Raise RunError or a subclass if the nodes cannot connect.
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
