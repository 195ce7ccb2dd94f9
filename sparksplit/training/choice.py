"""The number of nodes that a run with `strategy: auto` trains on: the rule, and its record in the run's folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hdfs_io import filesystem
from hdfs_io.fence import Fence
from sparksplit.base.errors import InputError
from sparksplit.base.records import Record

LEAST = 0.05
"""The share of the time that a further node must save."""
_FILE = "_CHOICE"


def last_worth(seconds: Mapping[int, float], least: float = LEAST) -> int:
    """Return the number of nodes beyond which no further node saves at least `least` of the time.

    seconds: the time by number of nodes. A node that saves less may come before nodes that save more: strategies that
    share epochs gain only where the number of rounds falls.
    """
    best, *others = sorted(seconds)
    for nodes in others:
        # Each of the further nodes must save `least` on average.
        if seconds[nodes] <= seconds[best] * (1 - least) ** (nodes - best):
            best = nodes
    return best


@dataclass(frozen=True)
class Choice(Record):
    """The number of nodes that `strategy: auto` has chosen before the first update."""

    nodes: int
    """The chosen number of nodes."""
    seconds: dict[str, float]
    """Seconds of a step by number of nodes. Empty if a node ran out of memory while it measured."""

    @classmethod
    def of(cls, seconds: Mapping[str, float]) -> Choice:
        """Return the choice for these seconds of a step by number of nodes."""
        return cls(last_worth({int(nodes): value for nodes, value in seconds.items()}), dict(seconds))

    def told(self) -> str:
        """Return what was chosen and why, in a line."""
        if not self.seconds:
            return f"auto: batch on all {self.nodes} nodes; a node ran out of memory while it measured"
        most = max(map(int, self.seconds))
        further = f"{'a second one' if most == 2 else 'each further one'} would save less than {LEAST:.0%}".replace(
            "%", " %"
        )
        if self.nodes == 1:
            return f"auto: 1 node; {further}"
        times = self.seconds["1"] / self.seconds[str(self.nodes)]
        chosen = f"auto: batch on {self.nodes} nodes, {times:.1f} times as fast as 1"
        return chosen if self.nodes == most else f"{chosen}; {further}"


def note(run: Fence, choice: Choice) -> None:
    """Write `choice` into the folder of `run`."""
    run.write_json(filesystem.join(run.folder, _FILE), choice.to_json())


def noted(run: str, most: int) -> Choice | None:
    """Return the choice that `note` has written into the folder `run`, with at most `most` nodes; None if there is
    none."""
    try:
        file = filesystem.join(run, _FILE)
        choice = Choice.parse(filesystem.read_bytes(file), file)
    except InputError:
        return None
    return replace(choice, nodes=min(choice.nodes, most))
