"""Syncs: what the nodes exchange, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from sparksplit.collectives import Collective
from sparksplit.collectives.narrow import narrowed, widened
from sparksplit.strategies.outer import Outer
from sparksplit.strategies.slices import summed, takes_slices
from sparksplit.strategies.state import averaged_state, counters

if TYPE_CHECKING:
    from sparksplit.training.config import SyncConfig

Array = npt.NDArray[Any]


class Sync(Protocol):
    """What happens between the nodes' gradients and their weights.

    every_step: whether the nodes exchange at every step, and so hold the same weights and optimizer state after it.
    every: how many steps of its own a node takes between two syncs within a round; None: no sync within a round.
    """

    every_step: bool
    every: int | None

    def __init__(self, collective: Collective, settings: SyncConfig) -> None:
        """settings: the configuration's `sync`."""

    def update(self, values: Sequence[Any], model: Any, optimizer: Any) -> Any:
        """Apply one update, inside a tf.function; returns the mini-batch's mean loss, over all nodes if `every_step`.

        values: this node's part of the means over the rows of the mini-batch (all nodes' rows, if `every_step`): the
        gradients, one per trainable variable; the non-trainable float variables that training changes, times the node's
        share of the rows, in float32 where they are narrower; the loss. Gradients are tensors, except for an `update`
        that is marked with `takes_slices`. Where the optimizer scales the loss they are of the scaled one, and its
        `apply` takes the scale out.
        """

    def begin(self, model: Any) -> None:
        """Take the present weights as those that all nodes have."""

    def agree(self, model: Any, rows: int) -> None:
        """Make the nodes agree; every node must call it. rows: how many this node has trained on since."""

    def state(self) -> dict[str, Array]:
        """What a checkpoint must hold besides the weights; the same on every node."""

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Go on from what `state` returned, which may be among other arrays."""


class StepSync:
    """Gradients at every step, summed over the nodes and applied by every node alike.

    Each node's part is a sum over its rows divided by the rows of the whole mini-batch. With these weights, N nodes
    equal one: the mean over a mini-batch does not depend on who computed it. Of a large embedding only the rows travel
    that the mini-batch used. Non-trainable integers come from rank 0.
    """

    every_step = True
    every: int | None = None

    def __init__(self, collective: Collective, settings: SyncConfig) -> None:
        self._collective = collective

    @takes_slices
    def update(self, values: Sequence[Any], model: Any, optimizer: Any) -> Any:
        import tensorflow as tf

        trainable, state, whole = model.trainable_variables, averaged_state(model), counters(model)
        is_first = int(self._collective.rank == 0)
        firsts = [tf.cast(variable.value, tf.int64) * is_first for variable in whole]
        sums = summed(self._collective, [*values, *firsts], trainable)
        optimizer.apply(sums[: len(trainable)], trainable)
        if self._collective.size > 1:
            averages, firsts = sums[len(trainable) : len(values) - 1], sums[len(values) :]
            for variable, value in zip([*state, *whole], [*averages, *firsts], strict=True):
                # The variable would keep this very tensor, which may lie in buffers that the next sums overwrite.
                variable.assign(tf.raw_ops.DeepCopy(x=tf.cast(value, variable.dtype)))
        return sums[len(values) - 1]

    def begin(self, model: Any) -> None:
        return

    def agree(self, model: Any, rows: int) -> None:
        return

    def state(self) -> dict[str, Array]:
        return {}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        return


class LocalSync:
    """Each node applies its own gradients. Now and then the changes of the weights since the last sync are averaged by
    rows, and an outer optimiser applies the average. Non-trainable floats are averaged by rows, integers come from rank
    0.

    The inner optimizer's state stays with its node. Local SGD: Stich, "Local SGD Converges Fast and Communicates
    Little" (2018); the outer optimisers: sparksplit.strategies.outer.
    """

    every_step = False

    def __init__(self, collective: Collective, settings: SyncConfig) -> None:
        self._collective = collective
        self.every: int | None = settings.every
        self._outer = Outer(settings.outer, settings.outer_learning_rate, settings.outer_momentum)
        self._plain = settings.outer == "none"
        self._agreed: list[Array] = []

    def update(self, values: Sequence[Any], model: Any, optimizer: Any) -> Any:
        trainable = model.trainable_variables
        optimizer.apply(values[: len(trainable)], trainable)
        return values[-1]

    def begin(self, model: Any) -> None:
        self._agreed = [np.array(array) for array in _numbers(model.trainable_variables)]

    def agree(self, model: Any, rows: int) -> None:
        if self._collective.size == 1 and self._plain:
            return
        trainable, state, whole = model.trainable_variables, averaged_state(model), counters(model)
        changes = [now - agreed for now, agreed in zip(_numbers(trainable), self._agreed, strict=True)]
        parts = [np.asarray(part) * rows for part in (*changes, *_numbers(state))]
        is_first = int(self._collective.rank == 0)
        firsts = [np.asarray(variable.numpy(), np.int64) * is_first for variable in whole]
        *sums, total = self._collective.sum([*parts, *firsts, np.array(rows, np.int64)])
        if not int(total):
            return
        averages = [np.asarray(part / int(total), part.dtype) for part in sums[: len(parts)]]
        applied = self._outer.changes(averages[: len(trainable)])
        _assign(trainable, [agreed + change for agreed, change in zip(self._agreed, applied, strict=True)])
        if self._collective.size > 1:
            _assign([*state, *whole], [*averages[len(trainable) :], *sums[len(parts) :]])
        self.begin(model)

    def state(self) -> dict[str, Array]:
        return self._outer.state()

    def restore(self, arrays: Mapping[str, Array]) -> None:
        self._outer.restore(arrays)


class RoundSync(LocalSync):
    """Weights, averaged by rows, only at the end of each round.

    Averaging separately trained models: McDonald et al., "Distributed Training Strategies for the Structured
    Perceptron" (2010), as iterative parameter mixing.
    """

    def __init__(self, collective: Collective, settings: SyncConfig) -> None:
        super().__init__(collective, settings)
        self.every = None


def _numbers(variables: Sequence[Any]) -> list[Array]:
    """The variables' values, none narrower than float32: times a node's rows, float16 would overflow."""
    return widened([np.asarray(variable.numpy()) for variable in variables])


def _assign(variables: Sequence[Any], values: Sequence[Array]) -> None:
    like = [np.asarray(variable.numpy()) for variable in variables]
    for variable, value in zip(variables, narrowed(values, like), strict=True):
        variable.assign(value)
