"""The notebook of the docs runs from its first cell to its last, in a kernel of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parent.parent.parent / "docs" / "notebook.ipynb"


def _result(cell: Any) -> str:
    """The text that the cell shows as its value."""
    return "".join(output.data.get("text/plain", "") for output in cell.outputs if "data" in output)


@pytest.mark.slow
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Whoever runs a notebook has one Python on the path, and this one is the kernel's.
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    by_text = {mark: next(cell for cell in cells if mark in cell.source) for mark in ("train(", "plot", "compare(")}
    assert "accuracy" in _result(by_text["train("])
    assert any("image/png" in output.get("data", {}) for output in by_text["plot"].outputs)
    assert "Report: " in _result(by_text["compare("])
    assert float(_result(cells[-2])) > 0.8
    assert all(not cell.outputs for cell in nbformat.read(NOTEBOOK, as_version=4).cells if cell.cell_type == "code")
