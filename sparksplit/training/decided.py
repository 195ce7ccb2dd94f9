"""What a run with `strategy: auto` trains on: an earlier command's choice, a comparison's, or its nodes' own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hdfs_io.publish import Output
from sparksplit.base.errors import InputError, NodeFailed, SparksplitError
from sparksplit.base.progress import say
from sparksplit.training import checkpoints
from sparksplit.training.choice import Choice, note, noted
from sparksplit.training.inputs import RunInputs

if TYPE_CHECKING:
    from sparksplit.cluster import NodeCluster
    from sparksplit.cluster.placing import Executor

Follow = Callable[[RunInputs], Choice]
"""Returns the choice of the comparison that a run names."""


def decided(
    inputs: RunInputs, run: str | None, follow: Follow | None, on_executors: bool = True
) -> tuple[RunInputs, Choice | None]:
    """Return the choice of a run, and its inputs with the keys of that choice. The choice is None if the nodes must
    measure, or if the strategy chooses nothing.

    run: the folder of an unfinished run, whose choice holds. on_executors: whether there are executors for the nodes.
    Raise ConfigError if the choice does not fit the other keys, or needs executors.
    """
    choice = _earlier(run) if run is not None and inputs.strategy.chooses else None
    again = None if choice is None else choice.told_again(inputs.config.processes)
    if choice is None and (path := inputs.config.comparison) is not None and follow is not None:
        if run is not None and inputs.strategy.chooses and checkpoints.latest(run) is not None:
            # The checkpoints are those of other keys: the run has begun without a comparison, on one node.
            again = f"auto: {path} is not followed, because an earlier command began without it; --restart follows it"
        else:
            choice = follow(inputs)
    if choice is not None and choice.settings is not None:
        if choice.nodes > 1 and not on_executors:
            raise inputs.config.error(
                "strategy",
                f"an earlier command began on {choice.nodes} nodes, as a comparison recommends, and here are no "
                "executors for nodes; --restart begins anew without the comparison",
            )
        inputs = inputs.changed(choice.taken(inputs.config))
    if again is not None:
        say(again)
    return inputs, choice


def _earlier(run: str) -> Choice | None:
    """Return the choice of an earlier command, if there is one. Raise InputError if it cannot be read, although the run
    has checkpoints: they may be those of a comparison's strategy."""
    try:
        return noted(run)
    except InputError as error:
        if checkpoints.latest(run) is None:
            return None
        raise InputError(f"{error}; --restart chooses again, and starts from the beginning") from error


class Chosen(SparksplitError):
    """Fewer nodes were chosen than the present attempt has."""


@dataclass
class Choosing:
    """The number of nodes of a run whose strategy chooses it.

    output: where the choice is written down.
    most: number of nodes that there are.
    choice: None until it is made. With one node there is nothing to choose.
    """

    output: Output
    most: int
    choice: Choice | None = None
    executors: Sequence[Executor] = ()
    """The executors on which the chosen nodes have measured, if fewer than all nodes were chosen."""
    _lost: int = field(default=0, init=False)
    """How often a node was lost while the nodes measured."""

    @classmethod
    def of(cls, inputs: RunInputs, output: Output, choice: Choice | None) -> Choosing | None:
        """Return None if the strategy chooses nothing. inputs, choice: as from `decided`."""
        if choice is None and not inputs.strategy.chooses:
            return None
        most = inputs.config.processes
        return cls(output, most, None if choice is None else replace(choice, nodes=min(choice.nodes, most)))

    @property
    def is_open(self) -> bool:
        """Whether the number of nodes is still to be chosen."""
        return self.choice is None and self.most > 1

    @property
    def nodes(self) -> int:
        """The number of nodes that train or, before the choice, that measure."""
        return self.most if self.choice is None else self.choice.nodes

    def look(self, cluster: NodeCluster, seconds: Mapping[str, float] | None) -> None:
        """Choose once the nodes of `cluster` have measured. seconds: of a step by number of nodes; None until then.

        Raise Chosen if fewer nodes are to train. Otherwise the nodes go on.
        """
        if seconds is None:
            return
        self._choose(Choice.of(seconds))
        if self.nodes < self.most:
            self.executors = cluster.executors(self.nodes)
            raise Chosen(f"{self.nodes} of {self.most} nodes were chosen")
        for rank in range(self.nodes):
            cluster.tell(rank, "chosen", True)

    def cannot_measure(self, error: SparksplitError, states: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether to give up measuring: a node ran out of memory, a node made no progress, or a node was lost a
        second time.

        A node alone may have no room for the rows of a whole mini-batch, and the reason for its end may be unknown.
        error: why the attempt failed. states: the last states of its nodes. A loss before they measured does not count.
        """
        if not (self.is_open and isinstance(error, NodeFailed) and error.may_pass):
            return False
        if not any(state.get("measures") for state in states):
            return False
        self._lost += 1
        return error.memory or error.hangs or self._lost > 1

    def take_all(self) -> None:
        """Choose all nodes, without a measurement."""
        self._choose(Choice(self.most, {}))

    def _choose(self, choice: Choice) -> None:
        """Write down the choice. From then on, it holds for the run."""
        note(self.output.fence, choice)
        self.choice = choice
        say(choice.told())
