"""Placement and profile: counts, reasons and shares."""

from __future__ import annotations

import pytest

from sparksplit.operations.devices import summary
from sparksplit.operations.devices.summary import Event, Kernel, Node

CPU, GPU = (f"/job:localhost/replica:0/task:0/device:{name}:0" for name in ("CPU", "GPU"))
FLOAT = {"T": frozenset({"float32", "bfloat16"})}


def test_operations_are_counted_by_device():
    nodes = [Node(GPU, name, {}) for name in ("MatMul", "MatMul", "Relu", "_Arg", "Const")]
    nodes += [Node(CPU, "Less", {}), Node("", "PyFunc", {})]
    assert summary.placed(nodes) == {
        "CPU:0": {"Less": 1},
        "GPU:0": {"MatMul": 2, "Relu": 1},
        "not placed": {"PyFunc": 1},
    }


@pytest.mark.parametrize(
    ("kernels", "why"),
    [
        ([], "TensorFlow has no GPU kernel for it"),
        ([Kernel("CPU", FLOAT, False), Kernel("XLA_CPU_JIT", {}, False)], "TensorFlow has no GPU kernel for it"),
        ([Kernel("GPU", FLOAT, False)], "TensorFlow has no GPU kernel for it with int64"),
        ([Kernel("GPU", {"T": frozenset({"int64"})}, True)], "its GPU kernel works on the host's memory"),
        ([Kernel("DEFAULT", {}, True)], "its GPU kernel works on the host's memory"),
        (
            [Kernel("GPU", {}, False)],
            "TensorFlow placed it there: near its input, because of its size, or as the model asks",
        ),
    ],
)
def test_why_an_operation_is_on_the_cpu(kernels, why):
    nodes = [Node(CPU, "Odd", {"T": "int64"})] * 2 + [Node(GPU, "Odd", {"T": "int64"}), Node(CPU, "_Send", {})]
    (found,) = summary.fallen_back(nodes, {"Odd": kernels})
    assert (found.operation, found.count, found.why) == ("Odd", 2, why)


def test_time_without_what_is_inside():
    events = [
        Event("step", 0, 100),
        Event("a", 10, 40),
        Event("inner", 20, 30),
        Event("b", 40, 90),
        Event("c", 120, 125),
    ]
    assert dict(summary.self_times(events[::-1])) == {"step": 20, "a": 20, "inner": 10, "b": 50, "c": 5}
    assert summary.self_times([]) == []


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("while/body/_1/while/dense_1/Relu:_MklNativeFusedMatMul", "_MklNativeFusedMatMul"),
        ("gradient_tape/model/conv2d/Conv2D/Conv2DBackpropFilter:Conv2DBackpropFilter", "Conv2DBackpropFilter"),
        ("ExecutorState::Process", None),
        ("EagerLocalExecute: __inference_f_217", None),
        ("KernelAndDeviceFunc::Run", None),
        ("ampere_sgemm_64x64_nn", None),
    ],
)
def test_an_events_operation(name, operation):
    assert summary.operation_of(name) == operation


def test_shares_of_an_update():
    # Two updates: of a product's calls one was held up by the host, and counts as the other.
    timed = [("x/MatMul:_FusedMatMul", 30.0), ("x/MatMul:_FusedMatMul", 30.0), ("y:BatchMatMulV2", 20.0)]
    timed += [("y:BatchMatMulV2", 20.0), ("y:BatchMatMulV2", 9999.0), ("z/Conv2D:Conv2D", 40.0), ("what::Ever", 500.0)]
    timed += [("r:Relu", 0.0)]
    found = summary.shares(timed[:4] + timed[5:], updates=2)
    assert (found.seconds, found.matrix_products, found.convolutions) == (70.0, 0.7143, 0.2857)
    assert [(each.operation, each.calls) for each in found.operations] == [
        ("_FusedMatMul", 1.0),
        ("BatchMatMulV2", 1.0),
        ("Conv2D", 0.5),
        ("Relu", 0.5),
    ]
    held = summary.shares(timed, updates=1)
    assert held.seconds == 160.0


def test_nothing_was_profiled():
    assert summary.shares([("what::Ever", 1.0)], 1) == summary.Shares(0.0, 0.0, 0.0, [])


@pytest.mark.parametrize("name", ["MatMul", "_MklMatMul", "_FusedMatMul", "BatchMatMulV3", "Einsum"])
def test_matrix_products(name):
    assert summary.MATRIX_PRODUCTS.fullmatch(name) and not summary.CONVOLUTIONS.fullmatch(name)


@pytest.mark.parametrize("name", ["Conv2D", "_MklNativeFusedConv2D", "Conv2DBackpropInput", "DepthwiseConv2dNative"])
def test_convolutions(name):
    assert summary.CONVOLUTIONS.fullmatch(name) and not summary.MATRIX_PRODUCTS.fullmatch(name)
