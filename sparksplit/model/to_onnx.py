"""Converts a SavedModel to an ONNX file, as a process of its own: `python -m sparksplit.model.to_onnx FOLDER FILE`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx

OPSET = 18
"""Version of ONNX's operations. onnxruntime has it since 1.14."""


def convert(saved_model: str, target: str) -> None:
    """Write the default endpoint of a SavedModel as ONNX. Raise ValueError if an operation does not exist in ONNX."""
    import onnx
    from tf2onnx import convert as converter

    endpoint = ["--signature_def", "serving_default", "--tag", "serve"]
    sys.argv = ["tf2onnx", "--saved-model", saved_model, *endpoint, "--opset", str(OPSET), "--output", target]
    converter.main()
    model = onnx.load(target)
    # tf2onnx only logs such operations, and writes a file that nothing can load.
    if unknown := unknown_operations(model):
        raise ValueError(f"ONNX has no {', '.join(unknown)}, which the model uses")
    onnx.checker.check_model(model)


def unknown_operations(model: onnx.ModelProto) -> list[str]:
    """Return the names of a model's operations that ONNX does not define, sorted."""
    from onnx import defs

    used = {(node.op_type, node.domain) for node in model.graph.node}
    return sorted(name for name, domain in used if not defs.has(name, domain))


def main() -> int:
    """Convert as the command line says. Return the exit status. The last line of stderr says what went wrong."""
    try:
        convert(sys.argv[1], sys.argv[2])
    except Exception as error:  # tf2onnx raises errors of many kinds
        reason = " ".join(str(error).split())[:300]
        print(f"{type(error).__name__}: {reason}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
