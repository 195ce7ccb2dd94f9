"""Turns a graph's nodes and a profile's events into counts and shares. Pure, and without TensorFlow's classes."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sparksplit.operations.devices.devices_record import OnCpu, OperationTime
from sparksplit.operations.devices.sizes import median

MATRIX_PRODUCTS = re.compile(r"\w*MatMul\w*|Einsum|CudnnRNN\w*")
CONVOLUTIONS = re.compile(r"\w*Conv[123]D\w*|\w*FusedConv\w*|\w*DepthwiseConv\w*")
CROSSING = frozenset(("_Recv", "_HostRecv"))
"""Nodes that receive a tensor from another device."""
STRUCTURE = re.compile(
    "_Arg|_Retval|_DeviceArg|_DeviceRetval|_Send|_Recv|_HostSend|_HostRecv|NoOp|Const|Enter|Exit|Merge|Switch|"
    "NextIteration|LoopCond|Identity|IdentityN|ControlTrigger"
)
"""Operations that compute nothing. Their device does not matter."""

# `model/dense/MatMul:MatMul`: the node and its operation, as TensorFlow's profiler names them.
_EVENT = re.compile(r"(?P<node>[\w./\-]+):(?P<operation>_?[A-Z]\w*)")


@dataclass(frozen=True)
class Node:
    """A node of a graph. types: the node's attributes that are types, by name."""

    device: str
    operation: str
    types: dict[str, str]


@dataclass(frozen=True)
class Kernel:
    """An implementation of an operation for one kind of device.

    types: allowed types by attribute; an attribute that is not listed allows all types. on_host: whether some of the
    kernel's tensors must be in the host's memory.
    """

    device: str
    types: dict[str, frozenset[str]]
    on_host: bool


@dataclass(frozen=True)
class Event:
    """The work of one thread, or of one stream of a GPU, from `begin` to `end`, in any unit."""

    name: str
    begin: float
    end: float


def short(device: str) -> str:
    """Return `/job:localhost/replica:0/task:0/device:GPU:0` as `GPU:0`."""
    return device.rpartition("device:")[2] or "not placed"


def placed(nodes: Iterable[Node]) -> dict[str, dict[str, int]]:
    """Return the number of operations by device and type, the most frequent first.

    Operations that compute nothing are left out.
    """
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for node in nodes:
        if not STRUCTURE.fullmatch(node.operation):
            counts[short(node.device)][node.operation] += 1
    return {device: dict(counts[device].most_common()) for device in sorted(counts)}


def fallen_back(nodes: Iterable[Node], kernels: dict[str, Sequence[Kernel]]) -> list[OnCpu]:
    """Return the operations on a CPU, and why they are not on a GPU, the most frequent first."""
    counts: Counter[tuple[str, str]] = Counter()
    for node in nodes:
        if short(node.device).startswith("CPU") and not STRUCTURE.fullmatch(node.operation):
            counts[node.operation, why_on_cpu(node, kernels.get(node.operation, ()))] += 1
    return [OnCpu(operation=name, count=count, why=why) for (name, why), count in counts.most_common()]


def why_on_cpu(node: Node, kernels: Sequence[Kernel]) -> str:
    """Return why a node may be on the CPU of a process that has a GPU. kernels: the kernels of the node's operation."""
    on_gpu = [kernel for kernel in kernels if kernel.device in ("GPU", "DEFAULT")]
    if not on_gpu:
        return "TensorFlow has no GPU kernel for it"
    fitting = [kernel for kernel in on_gpu if _takes(kernel, node)]
    if not fitting:
        types = sorted({value for name, value in node.types.items() if any(name in kernel.types for kernel in on_gpu)})
        return f"TensorFlow has no GPU kernel for it with {', '.join(types)}"
    if all(kernel.on_host for kernel in fitting):
        return "its GPU kernel works on the host's memory"
    return "TensorFlow placed it there: near its input, because of its size, or as the model asks"


def _takes(kernel: Kernel, node: Node) -> bool:
    return all(node.types.get(name) in allowed for name, allowed in kernel.types.items() if name in node.types)


def self_times(events: Sequence[Event]) -> list[tuple[str, float]]:
    """Return (name, time without nested events) of one thread's events. Two events are nested, or do not overlap."""
    times: list[tuple[str, float]] = []
    above: list[tuple[Event, float]] = []  # open events, with the time of their nested events

    def close() -> None:
        event, inside = above.pop()
        times.append((event.name, max(0.0, event.end - event.begin - inside)))
        if above:
            above[-1] = (above[-1][0], above[-1][1] + event.end - event.begin)

    for event in sorted(events, key=lambda one: (one.begin, -one.end)):
        while above and above[-1][0].end <= event.begin:
            close()
        above.append((event, 0.0))
    while above:
        close()
    return times


def operation_of(name: str) -> str | None:
    """Return the operation in an event's name; None if the event is not one operation of a graph."""
    match = _EVENT.fullmatch(name)
    return match["operation"] if match else None


@dataclass(frozen=True)
class Shares:
    """Shares of the time of an update.

    seconds: time of all operations of an update, in the events' unit. operations: the longest first.
    """

    seconds: float
    matrix_products: float
    convolutions: float
    operations: list[OperationTime]


def shares(timed: Iterable[tuple[str, float]], updates: int, most: int = 12) -> Shares:
    """Return the shares of the time of all operations. timed: (name of the event, its own time), of `updates` updates.

    Each call of a node counts with the median time of the node's calls. A thread that the host stops for a while is
    then not taken for a slow operation.
    """
    by_node: dict[str, list[float]] = defaultdict(list)
    for name, seconds in timed:
        by_node[name].append(seconds)
    times: dict[str, float] = defaultdict(float)
    calls: Counter[str] = Counter()
    for name, each in by_node.items():
        operation = operation_of(name)
        if operation is not None:
            times[operation] += median(each) * len(each)
            calls[operation] += len(each)
    total = sum(times.values())
    if not total:
        return Shares(0.0, 0.0, 0.0, [])
    part = {name: times[name] / total for name in sorted(times, key=lambda name: -times[name])}
    return Shares(
        total / updates,
        round(sum(share for name, share in part.items() if MATRIX_PRODUCTS.fullmatch(name)), 4),
        round(sum(share for name, share in part.items() if CONVOLUTIONS.fullmatch(name)), 4),
        [
            OperationTime(operation=name, calls=round(calls[name] / updates, 2), share=round(share, 4))
            for name, share in list(part.items())[:most]
        ],
    )
