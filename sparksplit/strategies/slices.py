"""Exchange only the used rows of a large variable's gradient, for example of an embedding.

Each node sums its own gradients of each row of the variable. The nodes agree on the rows that any node used, and sum
only these rows, in the collective's order. The exchange consists of sums, so it works with every collective that allows
sums of varying shapes. The optimizer gets the whole gradient, with zeros elsewhere, as on one node: momentum and Adam
change all rows at each update.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from sparksplit.collectives import Collective

LARGE = 1 << 20
"""Bytes of a variable from which on the exchange of used rows pays off. It needs three more exchanges of 0.1 to 1 ms
each."""

Update = TypeVar("Update", bound=Callable[..., Any])


def takes_slices(update: Update) -> Update:
    """Mark a sync's `update` as accepting gradients as `used_rows` makes them. Without the mark, `update` gets whole
    gradients."""
    update.__dict__["takes_slices"] = True
    return update


def wants_slices(sync: Any) -> bool:
    """Whether `sync` takes gradients as `used_rows` makes them."""
    return bool(getattr(sync.update, "takes_slices", False))


def used_rows(gradient: Any, variable: Any) -> Any:
    """Return a gradient in the form in which a node sends it.

    A gradient of some rows of a large variable becomes tf.IndexedSlices, in which each row occurs once. Any other
    gradient becomes a whole tensor.
    """
    import tensorflow as tf

    size = tf.as_dtype(variable.dtype).size * variable.shape.num_elements()
    if not isinstance(gradient, tf.IndexedSlices) or size < LARGE:
        return tf.convert_to_tensor(gradient)
    return each_once(gradient)


def each_once(slices: Any) -> Any:
    """Return tf.IndexedSlices in which each row occurs once, with the sum of the row's entries in `slices`."""
    import tensorflow as tf

    indices, places = tf.unique(tf.cast(slices.indices, tf.int64))
    return tf.IndexedSlices(tf.math.unsorted_segment_sum(slices.values, places, tf.size(indices)), indices)


def no_rows(variable: Any) -> Any:
    """Return the result of `used_rows` for a large variable if no row was used."""
    import tensorflow as tf

    return tf.IndexedSlices(tf.zeros((0, *variable.shape[1:]), variable.dtype), tf.zeros(0, tf.int64))


def summed(collective: Collective, values: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
    """Return the sums of `values` over all nodes, as whole tensors.

    values: first the gradients of `variables`, as `used_rows` made them, then other tensors.
    Values that are tensors travel in one exchange, after the exchanges of the slices.
    """
    import tensorflow as tf

    slices = {place: value for place, value in enumerate(values) if isinstance(value, tf.IndexedSlices)}
    if not slices:
        return collective.sum_tensors(values)
    unions, rows = _summed_rows(collective, list(slices.values()))
    # Every node must exchange in the same order.
    with tf.control_dependencies(rows):
        sums = iter(collective.sum_tensors([value for place, value in enumerate(values) if place not in slices]))
    wholes = {
        place: tf.math.unsorted_segment_sum(row_sums[: tf.size(union)], union, variables[place].shape[0])
        for place, union, row_sums in zip(slices, unions, rows, strict=True)
    }
    return [
        tf.ensure_shape(wholes[place], variables[place].shape) if place in wholes else next(sums)
        for place in range(len(values))
    ]


def _summed_rows(collective: Collective, slices: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """For each of `slices`, return the rows that any node has, ascending [n], and the sums of these rows, [at least n,
    ...]."""
    import tensorflow as tf

    counts = tf.stack([tf.size(part.indices, tf.int64) for part in slices])
    rank = tf.one_hot(collective.rank, collective.size, dtype=tf.int64)
    # [node, slices]. A copy, like that of the indices below, because the next sums overwrite the collective's buffers.
    of_nodes = _copy(collective.sum_tensors([rank[:, None] * counts])[0])
    totals = tf.reduce_sum(of_nodes, 0)
    before = tf.reduce_sum(of_nodes[: collective.rank], 0)
    listed = []
    for number, part in enumerate(slices):
        after = rounded(totals[number]) - before[number] - counts[number]
        listed.append(tf.pad(part.indices, [[before[number], after]]))
    unions, rows = [], []
    for number, (part, indices) in enumerate(zip(slices, collective.sum_tensors(listed), strict=True)):
        union = tf.unique(tf.sort(_copy(indices)[: totals[number]])).y
        # tf.searchsorted does not work on a node without rows.
        places = tf.raw_ops.LowerBound(sorted_inputs=union[None], values=part.indices[None])[0]
        size = rounded(tf.size(union, tf.int64))
        unions.append(union)
        rows.append(tf.math.unsorted_segment_sum(part.values, places, size))
    return unions, collective.sum_tensors(rows)


def rounded(count: Any) -> Any:
    """Return an int64 tensor of at least 1, rounded up by less than an eighth.

    Mini-batches that use about as many rows then exchange arrays of equal size. The collective already has buffers for
    this size.
    """
    import tensorflow as tf

    powers = tf.constant([16 << bit for bit in range(48)], tf.int64)
    step = tf.bitwise.left_shift(tf.constant(1, tf.int64), tf.math.count_nonzero(count >= powers, dtype=tf.int64))
    return -(-tf.maximum(count, 1) // step) * step


def _copy(tensor: Any) -> Any:
    import tensorflow as tf

    return tf.raw_ops.DeepCopy(x=tensor)
