"""Syncs: what the nodes exchange, and when."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from sparksplit.collectives import Collective
from sparksplit.collectives.narrow import widened_tensors
from sparksplit.strategies.outer import Outer
from sparksplit.strategies.slices import summed, takes_slices
from sparksplit.strategies.state import averaged_state, counters

if TYPE_CHECKING:
    from sparksplit.strategies.sync_config import SyncConfig

Array = npt.NDArray[Any]


class Sync(Protocol):
    """The exchange between the nodes' gradients and their weights.

    every_step: whether the nodes exchange at every step. All nodes then have the same weights and optimizer state after
        it.
    every: steps of a node between two syncs within a round. None: no sync within a round.
    """

    every_step: bool
    every: int | None

    def __init__(self, collective: Collective, settings: SyncConfig) -> None:
        """settings: the configuration's `sync`."""

    def update(self, values: Sequence[Any], model: Any, optimizer: Any) -> Any:
        """Apply one update, inside a tf.function. Return the mini-batch's mean loss, over all nodes if `every_step`.

        values: this node's part of the means over the rows of the mini-batch (over all nodes' rows if `every_step`):
        - the gradients, one per trainable variable
        - the non-trainable float variables that training changes, times the node's share of the rows, in at least
          float32
        - the loss

        Gradients are tensors, unless `update` is marked with `takes_slices`. If the optimizer scales the loss, the
        gradients belong to the scaled loss, and the optimizer's `apply` removes the scale.
        """

    def begin(self, model: Any) -> None:
        """Take the present weights as the weights that all nodes have."""

    def agree(self, model: Any, rows: int) -> None:
        """Make the nodes agree. Every node must call this. rows: rows that this node has trained on since the last
        sync."""

    def state(self) -> dict[str, Array]:
        """Return the arrays that a checkpoint must hold in addition to the weights. They are the same on every node."""

    def restore(self, arrays: Mapping[str, Array]) -> None:
        """Go on from the result of `state`. `arrays` may also hold other arrays."""


class StepSync:
    """Gradients are summed over the nodes at every step, and every node applies the sums.

    Each node's part is a sum over its rows, divided by the rows of the whole mini-batch. So the mean over a mini-batch
    does not depend on the number of nodes. Of a large embedding, the nodes exchange only the rows that the mini-batch
    used. Non-trainable integers come from rank 0.
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
                # Without a copy, the variable would keep this tensor. The next sums may overwrite the tensor's buffer.
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
    """Each node applies its own gradients, and syncs average the changes of the weights.

    A sync averages the changes since the last sync by rows. An outer optimiser applies the average. Constraints on
    weights also hold after a sync. Non-trainable floats are averaged by rows. Non-trainable integers come from rank 0.

    The inner optimizer's state stays with its node. Local SGD: Stich, "Local SGD Converges Fast and Communicates
    Little" (2018). Outer optimisers: sparksplit.strategies.outer.
    """

    every_step = False

    def __init__(self, collective: Collective, settings: SyncConfig) -> None:
        self._collective = collective
        self.every: int | None = settings.every
        self._outer = Outer(settings.outer, settings.outer_learning_rate, settings.outer_momentum)
        self._alone = collective.size == 1 and not self._outer.remembers
        self._agreed: list[Any] = []
        """The weights of the last sync, as variables. Narrower weights are kept in float32, because weights times a
        node's rows would overflow."""
        self._velocities: list[Any] = []
        self._restored: list[Array] = []
        self._together: Callable[[Any], Any] | None = None

    def update(self, values: Sequence[Any], model: Any, optimizer: Any) -> Any:
        trainable = model.trainable_variables
        optimizer.apply(values[: len(trainable)], trainable)
        return values[-1]

    def begin(self, model: Any) -> None:
        if self._alone:
            return
        import tensorflow as tf

        weights = _values(model.trainable_variables)
        if self._together is not None:
            for agreed, weight in zip(self._agreed, weights, strict=True):
                agreed.assign(weight)
            return
        self._agreed = [tf.Variable(weight, trainable=False) for weight in weights]
        if self._outer.remembers:
            velocities = self._restored or [tf.zeros_like(weight) for weight in weights]
            self._velocities = [tf.Variable(velocity, trainable=False) for velocity in velocities]
        self._together = partial(self._agree, model)
        if self._collective.in_graphs:
            # Traced now, and called once per sync. Training fills the caches between two syncs. One call per variable
            # would then cost more than the arithmetic (docs/speed.md).
            signature = [tf.TensorSpec((), tf.int64)]
            function = tf.function(self._together, input_signature=signature, autograph=False)
            self._together = function.get_concrete_function()

    def agree(self, model: Any, rows: int) -> None:
        if self._alone:
            return
        assert self._together is not None  # by `begin`
        import tensorflow as tf

        with self._collective.unhidden():
            self._together(tf.constant(rows, tf.int64))
        self._collective.account(1)

    def _agree(self, model: Any, rows: Any) -> None:
        """rows: an int64 tensor."""
        import tensorflow as tf

        trainable, state, whole = model.trainable_variables, averaged_state(model), counters(model)
        changes = [now - agreed for now, agreed in zip(_values(trainable), self._agreed, strict=True)]
        parts = [part * tf.cast(rows, part.dtype) for part in (*changes, *_values(state))]
        is_first = int(self._collective.rank == 0)
        firsts = [tf.cast(variable.value, tf.int64) * is_first for variable in whole]
        given = [*parts, *firsts, rows]
        pairs = zip(self._collective.sum_tensors(given), given, strict=True)
        *sums, total = [tf.ensure_shape(each, like.shape) for each, like in pairs]

        def apply() -> None:
            averages = [part / tf.cast(total, part.dtype) for part in sums[: len(parts)]]
            applied, velocities = self._outer.changes(averages[: len(trainable)], self._velocities)
            for variable, agreed, change in zip(trainable, self._agreed, applied, strict=True):
                weight = tf.cast(agreed + change, variable.dtype)
                if variable.constraint is not None:  # the average may break the constraint
                    weight = tf.cast(variable.constraint(weight), variable.dtype)
                variable.assign(weight)
                agreed.assign(tf.cast(weight, agreed.dtype))
            for kept, velocity in zip(self._velocities, velocities, strict=True):
                kept.assign(velocity)
            if self._collective.size > 1:
                values = [*averages[len(trainable) :], *sums[len(parts) :]]
                for variable, value in zip([*state, *whole], values, strict=True):
                    # Without a copy, the variable would keep this tensor, which may lie in the collective's buffers.
                    variable.assign(tf.raw_ops.DeepCopy(x=tf.cast(value, variable.dtype)))

        tf.cond(total > 0, apply, lambda: None)

    def state(self) -> dict[str, Array]:
        velocities = [velocity.numpy() for velocity in self._velocities] or self._restored
        return {f"u{place:04d}": velocity for place, velocity in enumerate(velocities)}

    def restore(self, arrays: Mapping[str, Array]) -> None:
        self._restored = [np.array(arrays[name]) for name in sorted(arrays) if name[0] == "u"]
        for kept, velocity in zip(self._velocities, self._restored, strict=False):  # none before `begin`
            kept.assign(velocity)


class RoundSync(LocalSync):
    """Weights are averaged by rows, only at the end of each round.

    Averaging separately trained models: McDonald et al., "Distributed Training Strategies for the Structured
    Perceptron" (2010), as iterative parameter mixing.
    """

    def __init__(self, collective: Collective, settings: SyncConfig) -> None:
        super().__init__(collective, settings)
        self.every = None


def _values(variables: Sequence[Any]) -> list[Any]:
    """Return the values of `variables` as tensors, none narrower than float32."""
    import tensorflow as tf

    return widened_tensors([tf.convert_to_tensor(variable.value) for variable in variables])
