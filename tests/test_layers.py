"""Who may import whom: the design's rules, checked on the source."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FOLDERS = ("sparksplit", "models", "hdfs_io", "training", "inference", "operations", "comparison", "jobs")


def imports(file: Path) -> set[str]:
    """The modules that `file` imports anywhere, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def importers(folder: str, *packages: str) -> list[str]:
    files = (ROOT / folder).rglob("*.py")
    return sorted(
        str(file.relative_to(ROOT)) for file in files if {name.split(".")[0] for name in imports(file)} & set(packages)
    )


def test_one_file_imports_tensorflowonspark():
    found = [file for folder in FOLDERS for file in importers(folder, "tensorflowonspark")]
    assert found == ["training/cluster/tensorflowonspark.py"]


@pytest.mark.parametrize(
    ("folder", "forbidden"),
    [
        ("hdfs_io", ("tensorflow", "keras", "training", "jobs", "models")),
        ("models", ("pyspark", "tensorflowonspark", "hdfs_io", "training", "jobs", "sparksplit")),
        ("sparksplit", ("tensorflow", "keras", "training", "hdfs_io", "models")),
        ("training", ("jobs", "inference")),
        ("inference", ("jobs", "tensorflowonspark")),
        ("operations", ("jobs", "tensorflow", "keras", "tensorflowonspark")),
    ],
)
def test_folders_import_downwards_only(folder, forbidden):
    assert importers(folder, *forbidden) == []


def test_the_order_of_rows_is_pure():
    """Neither Spark nor TensorFlow nor a file: integers in, integers out."""
    assert imports(ROOT / "training" / "order.py") <= {
        "__future__",
        "dataclasses",
        "numpy",
        "numpy.typing",
        "hdfs_io.row_ids",
    }
