"""Gradient accumulation: a node computes its rows of a mini-batch in parts, one after the other, with the memory of one
part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from sparksplit.collectives.narrow import narrowed_tensors, widened_tensors
from sparksplit.strategies.slices import each_once


def accumulated(share: Sequence[Any], parts: int, compute: Callable[[Sequence[Any]], list[Any]]) -> list[Any]:
    """Return the sums of `compute` over all parts. Call this inside a graph.

    share: the node's rows of the mini-batch, as columns [rows, ...]; at least one row.
    parts: number of parts. Their sizes differ by one row at most. The first part has rows; parts without rows are left
        out.
    compute: turns some of the rows into tensors and tf.IndexedSlices. Their order and shapes are always the same,
        except for the number of rows in the slices.

    16-bit values are summed in float32 and rounded once. A part begins when the sums of the parts before it are ready.
    """
    known = share[0].shape[0]
    rows = tf.shape(share[0])[0] if known is None else known
    even = known // parts if known is not None and known % parts == 0 else None

    def edge(number: Any) -> Any:
        return -(-number * rows // parts)  # rounded up, so that the first part has rows

    def part(number: Any) -> list[Any]:
        if even:
            return compute([rows_of(column, number * even, even) for column in share])
        return compute([column[edge(number) : edge(number + 1)] for column in share])

    first = part(0)
    if parts == 1:
        return first

    def added(number: Any, sums: Sequence[Any]) -> list[Any]:
        # Slices are concatenated. Rows that occur several times are summed at the end.
        return [
            tf.concat([before, more], 0) if listed else before + more
            for before, more, listed in zip(sums, _flat(part(number)), _are_listed(first), strict=True)
        ]

    def step(number: Any, *sums: Any) -> Any:
        if even:
            return (number + 1, *added(number, sums))
        any_rows = edge(number + 1) > edge(number)
        return (number + 1, *tf.cond(any_rows, lambda: added(number, sums), lambda: list(sums)))

    begin = _flat(first)
    shapes = [
        tf.TensorShape([None, *tensor.shape[1:]]) if listed else tensor.shape
        for tensor, listed in zip(begin, _are_listed(first), strict=True)
    ]
    _, *sums = tf.while_loop(
        lambda number, *_: number < parts,
        step,
        (tf.constant(1), *begin),
        shape_invariants=(tf.TensorShape([]), *shapes),
        parallel_iterations=1,
    )
    return _like(first, sums)


def rows_of(column: Any, begin: Any, count: int) -> Any:
    """Return column[begin:begin + count], with a static shape."""
    rest = column.shape[1:]
    return tf.slice(column, [begin, *[0] * rest.rank], [count, *rest])


def _flat(values: Sequence[Any]) -> list[Any]:
    """Return the tensors to sum and, for slices, the rows and indices to concatenate."""
    flat: list[Any] = []
    for value in values:
        flat += [value.values, value.indices] if isinstance(value, tf.IndexedSlices) else widened_tensors([value])
    return flat


def _are_listed(values: Sequence[Any]) -> list[bool]:
    """Return, for each tensor of `_flat`, whether it is concatenated."""
    return [listed for value in values for listed in ([True] * 2 if isinstance(value, tf.IndexedSlices) else [False])]


def _like(values: Sequence[Any], flat: Sequence[Any]) -> list[Any]:
    """Undo `_flat`. values: the result of the first part."""
    sums = iter(flat)
    return [
        each_once(tf.IndexedSlices(next(sums), next(sums)))
        if isinstance(value, tf.IndexedSlices)
        else narrowed_tensors([next(sums)], [value])[0]
        for value in values
    ]
