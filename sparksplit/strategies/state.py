"""The model's non-trainable variables: which of them training changes, and what syncs do with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any
from weakref import WeakKeyDictionary

_CHANGED: WeakKeyDictionary[Any, frozenset[int]] = WeakKeyDictionary()
"""By model, the ids of the non-trainable variables that a training step assigns."""
_READS = {"ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VariableShape", "VarIsInitializedOp"}
"""TensorFlow operations that do not change a variable. Any other operation on a variable counts as an assignment."""


def counters(model: Any) -> list[Any]:
    """Return the non-trainable integers that training changes. Syncs take the values of rank 0. Random states stay with
    their node."""
    return _changed(model, _counters(model))


def averaged_state(model: Any) -> list[Any]:
    """Return the non-trainable floats that training changes, such as BatchNorm's statistics. Syncs average them by
    rows."""
    return _changed(model, _floats(model))


def constants(model: Any) -> list[Any]:
    """Return the non-trainable variables that training does not change, such as frozen weights. They are never
    exchanged."""
    changed = {id(variable) for variable in (*counters(model), *averaged_state(model))}
    return [variable for variable in (*_counters(model), *_floats(model)) if id(variable) not in changed]


def observe(model: Any, forward: Callable[..., Any], signature: Sequence[Any]) -> None:
    """Find out which non-trainable variables a training step changes. Before this call, all of them count as changing.

    The function reads the graph, because no rule about layers is enough: a frozen BatchNorm keeps its statistics, but a
    frozen SpectralNormalization changes even its kernel.

    forward: runs the model as a training step does, from tensors of `signature`. It is traced, not run.
    """
    import tensorflow as tf

    if not _counters(model) and not _floats(model):
        return
    graph = tf.function(forward, input_signature=signature, autograph=False).get_concrete_function().graph
    # A variable that is read and assigned is captured once, by its handle.
    captured = {id(inner): id(handle) for handle, inner in graph.captures}
    assigned = {captured.get(id(tensor)) for tensor in _assigned(graph, tf.resource)}
    _CHANGED[model] = frozenset(
        id(variable) for variable in model.non_trainable_variables if id(variable.value.handle) in assigned
    )


def _changed(model: Any, variables: list[Any]) -> list[Any]:
    changed = _CHANGED.get(model) if variables else None
    return variables if changed is None else [variable for variable in variables if id(variable) in changed]


def _counters(model: Any) -> list[Any]:
    return [
        variable
        for variable in model.non_trainable_variables
        if "int" in variable.dtype and variable.name != "seed_generator_state"
    ]


def _floats(model: Any) -> list[Any]:
    return [variable for variable in model.non_trainable_variables if "float" in variable.dtype]  # bfloat16, too


def _assigned(graph: Any, resource: Any) -> Iterator[Any]:
    """Yield the handles of variables that some operation of `graph` may change. resource: the dtype of handles."""
    for operation in graph.get_operations():
        if operation.type in _READS:
            continue
        try:
            # Branches, loops and function calls list the inputs that they only read.
            read = set(operation.get_attr("_read_only_resource_inputs"))
        except ValueError:
            read = set()
        yield from (
            tensor for place, tensor in enumerate(operation.inputs) if tensor.dtype == resource and place not in read
        )
