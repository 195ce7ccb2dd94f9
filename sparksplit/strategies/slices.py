"""Gradients of large arrays of which a mini-batch used a few rows, such as an embedding's: only these rows travel.

A node adds up its own rows' gradients; the nodes agree on which rows any of them used, and sum just these, in the
collective's order. It is made of sums alone, so every collective whose sums' shapes may vary can do it. The optimizer
is given the whole gradient, with zeros elsewhere, as on one node: momentum and Adam change all rows at each update.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from sparksplit.collectives import Collective

LARGE = 1 << 20
"""Bytes from which on a variable's rows are worth three more exchanges, each of which takes 0.1 to 1 ms."""

Update = TypeVar("Update", bound=Callable[..., Any])


def takes_slices(update: Update) -> Update:
    """Mark a sync's `update` as one that takes gradients as `used_rows` makes them; all others are given whole ones."""
    update.__dict__["takes_slices"] = True
    return update


def wants_slices(sync: Any) -> bool:
    """Whether `sync` takes gradients as `used_rows` makes them."""
    return bool(getattr(sync.update, "takes_slices", False))


def used_rows(gradient: Any, variable: Any) -> Any:
    """What a node sends of a gradient: if it is of some rows of a large variable, tf.IndexedSlices in which each row
    occurs once; otherwise all of it, a tensor."""
    import tensorflow as tf

    size = tf.as_dtype(variable.dtype).size * variable.shape.num_elements()
    if not isinstance(gradient, tf.IndexedSlices) or size < LARGE:
        return tf.convert_to_tensor(gradient)
    return each_once(gradient)


def each_once(slices: Any) -> Any:
    """tf.IndexedSlices in which each row occurs once, with the sum of what `slices` has for it."""
    import tensorflow as tf

    indices, places = tf.unique(tf.cast(slices.indices, tf.int64))
    return tf.IndexedSlices(tf.math.unsorted_segment_sum(slices.values, places, tf.size(indices)), indices)


def no_rows(variable: Any) -> Any:
    """What `used_rows` would give for a large variable of which no row was used."""
    import tensorflow as tf

    return tf.IndexedSlices(tf.zeros((0, *variable.shape[1:]), variable.dtype), tf.zeros(0, tf.int64))


def summed(collective: Collective, values: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
    """The sums over all nodes of `values`, whose first ones are the gradients of `variables`, as `used_rows` made them.

    All of them whole tensors; those that were tensors in one exchange, after the others'.
    """
    import tensorflow as tf

    slices = {place: value for place, value in enumerate(values) if isinstance(value, tf.IndexedSlices)}
    if not slices:
        return collective.sum_tensors(values)
    unions, rows = _summed_rows(collective, list(slices.values()))
    # In the same order on every node.
    with tf.control_dependencies(rows):
        sums = iter(collective.sum_tensors([value for place, value in enumerate(values) if place not in slices]))
    wholes = {
        place: tf.math.unsorted_segment_sum(found[: tf.size(union)], union, variables[place].shape[0])
        for place, union, found in zip(slices, unions, rows, strict=True)
    }
    return [
        tf.ensure_shape(wholes[place], variables[place].shape) if place in wholes else next(sums)
        for place in range(len(values))
    ]


def _summed_rows(collective: Collective, slices: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """For each of `slices`: (the rows that any node has, ascending [n]; their sums, [at least n, ...])."""
    import tensorflow as tf

    counts = tf.stack([tf.size(part.indices, tf.int64) for part in slices])
    rank = tf.one_hot(collective.rank, collective.size, dtype=tf.int64)
    # [node, slices]. Copied, like the indices: the collective's buffers are for the next sums.
    of_nodes = _copy(collective.sum_tensors([rank[:, None] * counts])[0])
    totals = tf.reduce_sum(of_nodes, 0)
    before = tf.reduce_sum(of_nodes[: collective.rank], 0)
    listed = []
    for number, part in enumerate(slices):
        after = rounded(totals[number]) - before[number] - counts[number]
        listed.append(tf.pad(part.indices, [[before[number], after]]))
    unions, rows = [], []
    for number, (part, found) in enumerate(zip(slices, collective.sum_tensors(listed), strict=True)):
        union = tf.unique(tf.sort(_copy(found)[: totals[number]])).y
        # tf.searchsorted does not take a node without rows.
        places = tf.raw_ops.LowerBound(sorted_inputs=union[None], values=part.indices[None])[0]
        size = rounded(tf.size(union, tf.int64))
        unions.append(union)
        rows.append(tf.math.unsorted_segment_sum(part.values, places, size))
    return unions, collective.sum_tensors(rows)


def rounded(count: Any) -> Any:
    """An int64 tensor, at least 1, rounded up by less than an eighth: mini-batches that use about as many rows then
    exchange arrays of the same size, for which a collective already has its buffers."""
    import tensorflow as tf

    powers = tf.constant([16 << bit for bit in range(48)], tf.int64)
    step = tf.bitwise.left_shift(tf.constant(1, tf.int64), tf.math.count_nonzero(count >= powers, dtype=tf.int64))
    return -(-tf.maximum(count, 1) // step) * step


def _copy(tensor: Any) -> Any:
    import tensorflow as tf

    return tf.raw_ops.DeepCopy(x=tensor)
