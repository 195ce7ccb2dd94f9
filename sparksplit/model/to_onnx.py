"""Converts a SavedModel to an ONNX file, as a process of its own: `python -m sparksplit.model.to_onnx FOLDER FILE
PARENT`. The process ends with its parent, whose id is PARENT."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from sparksplit.base.orphans import die_with_parent

if TYPE_CHECKING:
    import onnx

OPSET = 18
"""Version of ONNX's operations. onnxruntime has it since 1.14."""


def convert(saved_model: str, target: str) -> None:
    """Write the default endpoint of a SavedModel as ONNX. Raise ValueError if an operation does not exist in ONNX."""
    import onnx
    from tf2onnx import convert as converter

    _add_operations()
    endpoint = ["--signature_def", "serving_default", "--tag", "serve"]
    sys.argv = ["tf2onnx", "--saved-model", saved_model, *endpoint, "--opset", str(OPSET), "--output", target]
    converter.main()
    model = onnx.load(target)
    # tf2onnx only logs such operations, and writes a file that nothing can load.
    if unknown := unknown_operations(model):
        raise ValueError(f"ONNX has no {', '.join(unknown)}, which the model uses")
    onnx.checker.check_model(model)


def _add_operations() -> None:
    """Teach tf2onnx the operation that puts numbers into buckets, which it lacks."""
    import numpy as np
    from onnx import TensorProto
    from tf2onnx import utils
    from tf2onnx.handler import tf_op

    @tf_op("UpperBound")
    class UpperBound:
        @classmethod
        def version_13(cls, ctx: Any, node: Any, **_: Any) -> None:
            """How many of the boundaries [1, n] are at most x [1, rows]."""
            shapes, dtypes = node.output_shapes, node.output_dtypes
            boundaries, x = node.input
            middle = ctx.make_const(utils.make_name(node.name), np.array([1], np.int64)).output[0]
            last = ctx.make_const(utils.make_name(node.name), np.array([-1], np.int64)).output[0]
            each = ctx.make_node("Unsqueeze", [x, last]).output[0]
            steps = ctx.make_node("Unsqueeze", [boundaries, middle]).output[0]
            below = ctx.make_node("LessOrEqual", [steps, each]).output[0]
            counted = ctx.make_node("Cast", [below], attr={"to": TensorProto.INT64}).output[0]
            total = ctx.make_node("ReduceSum", [counted, last], attr={"keepdims": 0}).output[0]
            ctx.remove_node(node.name)
            ctx.make_node(
                "Cast",
                [total],
                attr={"to": dtypes[0]},
                name=node.name,
                outputs=node.output,
                shapes=shapes,
                dtypes=dtypes,
            )


def unknown_operations(model: onnx.ModelProto) -> list[str]:
    """Return the names of a model's operations that ONNX does not define, sorted."""
    from onnx import defs

    used = {(node.op_type, node.domain) for node in model.graph.node}
    return sorted(name for name, domain in used if not defs.has(name, domain))


def main() -> None:
    """Convert as the command line says. The last line of stderr says what went wrong."""
    die_with_parent()
    if os.getppid() != int(sys.argv[3]):
        sys.exit("the parent has ended")
    try:
        convert(sys.argv[1], sys.argv[2])
    except Exception as error:  # tf2onnx raises errors of many kinds
        reason = " ".join(str(error).split())[:300]
        sys.exit(f"{type(error).__name__}: {reason}")


if __name__ == "__main__":
    main()
