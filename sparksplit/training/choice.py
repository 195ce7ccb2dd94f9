"""What a run with `strategy: auto` chooses: the rule for the number of nodes, and the record in the run's folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import pydantic

from hdfs_io import filesystem
from hdfs_io.errors import Missing
from hdfs_io.fence import Fence
from sparksplit.base.config import merged, nested, parse
from sparksplit.base.records import JsonObject, Record
from sparksplit.training.train_config import TrainConfig

LEAST = 0.05
"""The share of the time that a further node must save."""
_FILE = "_CHOICE"
_Number = Annotated[str, pydantic.StringConstraints(pattern=r"^[1-9][0-9]*$")]
"""A number of nodes, as a key in JSON."""


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


def between(size: int) -> list[int]:
    """Return the numbers of nodes to measure between 1 and `size`: powers of two, the largest one first."""
    return [1 << power for power in reversed(range(1, size.bit_length())) if 1 << power < size]


@dataclass(frozen=True)
class Choice(Record):
    """What `strategy: auto` has chosen before the first update."""

    nodes: pydantic.PositiveInt
    """The chosen number of nodes."""
    seconds: dict[_Number, pydantic.PositiveFloat]
    """Seconds of a step by number of nodes. Empty if nodes failed while they measured, or with `settings`."""
    settings: JsonObject | None = None
    """The keys that come from a comparison, by dotted key. None if the nodes have measured."""

    @classmethod
    def of(cls, seconds: Mapping[str, float]) -> Choice:
        """Return the choice for these seconds of a step by number of nodes."""
        return cls(last_worth({int(nodes): value for nodes, value in seconds.items()}), dict(seconds))

    def told(self) -> str:
        """Return what was chosen and why, in a line."""
        if self.settings is not None:
            return f"{_called(self.nodes, str(self.settings['strategy']))}, by a comparison"
        if not self.seconds:
            return f"auto: batch on all {self.nodes} nodes; nodes failed while they measured"
        most, one, chosen = max(map(int, self.seconds)), self.seconds.get("1"), self.seconds.get(str(self.nodes))
        times = f", {one / chosen:.1f} times as fast as 1" if one and chosen and self.nodes > 1 else ""
        why = ""
        if len(self.seconds) < len({1, most, *between(most)}):
            numbers = " and ".join(sorted(self.seconds, key=int))
            why = f"; only {numbers} nodes were measured, because more would take too long"
        elif self.nodes < most:
            why = f"; {'a second one' if most == 2 else 'each further one'} would save less than {100 * LEAST:g} %"
        return f"{_called(self.nodes)}{times}{why}"

    def told_again(self, most: int) -> str:
        """Return the choice of an earlier command in a line. most: the number of nodes that there are now."""
        if self.nodes > most:
            few = f"{_called(most)}, as there are no more; an earlier command chose {self.nodes}"
            return f"{few}; --restart chooses again"
        return f"{self.told()} (chosen by an earlier command; --restart chooses again)"

    def taken(self, config: TrainConfig) -> TrainConfig:
        """Return `config` with `settings`. Raise ConfigError if they do not fit its other keys."""
        if self.nodes > config.node_count:
            why = f"must be at least {self.nodes} (is {config.node_count}), as the comparison recommends"
            raise config.error("nodes", why)
        values = merged(config.model_dump(mode="json", exclude_unset=True), nested(self.settings or {}))
        return parse(TrainConfig, values, config.origin)


def _called(nodes: int, strategy: str = "batch") -> str:
    return "auto: 1 node" if nodes == 1 else f"auto: {strategy} on {nodes} nodes"


def note(run: Fence, choice: Choice) -> None:
    """Write `choice` into the folder of `run`."""
    run.write_json(filesystem.join(run.folder, _FILE), choice.to_json())


def noted(run: str) -> Choice | None:
    """Return the choice that `note` has written into the folder `run`; None if there is none. Raise InputError if it is
    damaged."""
    file = filesystem.join(run, _FILE)
    try:
        return Choice.parse(filesystem.read_bytes(file), file)
    except Missing:
        return None
