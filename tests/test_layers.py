"""Who may import whom: an allow-list of rooms, and of the libraries that only some may use."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("sparksplit", "hdfs_io")

MAY_IMPORT = {
    "hdfs_io": set(),
    "base": {"hdfs_io"},
    "pages": set(),
    "spark": {"base", "hdfs_io"},
    "network": {"base"},
    "dataset": {"base", "hdfs_io"},
    "features": {"base", "dataset"},
    "prepare": {"base", "hdfs_io", "spark", "dataset", "features"},
    "rows": {"base", "hdfs_io", "dataset"},
    "model": {"base", "hdfs_io", "dataset", "features"},
    "cluster": {"base", "hdfs_io", "network", "spark"},
    "collectives": {"base", "hdfs_io", "network", "cluster"},
    "strategies": {"base", "rows", "collectives"},
    "handoff": {"base", "hdfs_io", "network", "spark", "dataset", "prepare", "rows", "cluster"},
    "training": {
        "base",
        "hdfs_io",
        "network",
        "spark",
        "dataset",
        "features",
        "prepare",
        "rows",
        "cluster",
        "collectives",
        "model",
        "strategies",
        "handoff",
    },
    "comparison": {
        "base",
        "pages",
        "hdfs_io",
        "spark",
        "dataset",
        "rows",
        "cluster",
        "collectives",
        "strategies",
        "handoff",
        "training",
    },
    "searching": {"base", "hdfs_io", "spark", "model", "training"},
    "diagnosis": {
        "base",
        "pages",
        "hdfs_io",
        "spark",
        "dataset",
        "prepare",
        "rows",
        "cluster",
        "collectives",
        "strategies",
        "handoff",
        "training",
        "comparison",
    },
    "planning": {
        "base",
        "hdfs_io",
        "spark",
        "dataset",
        "rows",
        "cluster",
        "collectives",
        "strategies",
        "training",
        "comparison",
        "diagnosis",
    },
    "inference": {"base", "hdfs_io", "spark", "dataset", "features", "prepare", "model", "training"},
    "operations": {
        "base",
        "hdfs_io",
        "network",
        "spark",
        "dataset",
        "rows",
        "model",
        "cluster",
        "collectives",
        "strategies",
        "training",
    },
    "api": {
        "base",
        "hdfs_io",
        "spark",
        "dataset",
        "prepare",
        "model",
        "training",
        "comparison",
        "searching",
        "planning",
        "inference",
    },
    "ml": {"base", "hdfs_io", "spark", "prepare", "model", "training", "inference", "api"},
    "commands": {
        "base",
        "hdfs_io",
        "spark",
        "dataset",
        "prepare",
        "training",
        "comparison",
        "searching",
        "diagnosis",
        "planning",
        "inference",
        "operations",
    },
}
"""A room (a folder of sparksplit, or hdfs_io) to the rooms that its modules import, also inside functions and for the
type checker alone."""

WITHOUT = {
    "base": {"tensorflow", "keras", "tensorflowonspark"},
    "pages": {"tensorflow", "keras", "pyspark", "tensorflowonspark"},
    "hdfs_io": {"sparksplit", "tensorflow", "keras", "pyspark", "tensorflowonspark"},
    "spark": {"tensorflow", "keras", "tensorflowonspark"},
    "network": {"tensorflow", "keras", "pyspark", "tensorflowonspark"},
    "dataset": {"tensorflow", "keras", "pyspark", "tensorflowonspark"},
    "features": {"tensorflow", "keras", "pyspark", "tensorflowonspark"},
    "prepare": {"tensorflow", "keras", "tensorflowonspark"},
    "rows": {"tensorflow", "keras", "pyspark", "tensorflowonspark"},
    "collectives": {"pyspark", "tensorflowonspark"},
    "model": {"pyspark", "tensorflowonspark"},
    "strategies": {"pyspark", "tensorflowonspark"},
    "operations": {"tensorflow", "keras", "tensorflowonspark"},
}
"""A room to the libraries that none of its modules imports, save those of OWN_PROCESS."""

OWN_PROCESS = "sparksplit.operations.devices.node"
"""What runs in an interpreter of its own, which Spark's process starts and does not import."""


def modules() -> dict[str, Path]:
    """Every module of ours by its name."""
    found = {}
    for package in PACKAGES:
        for file in (ROOT / package).rglob("*.py"):
            name = ".".join(file.relative_to(ROOT).with_suffix("").parts)
            found[name.removesuffix(".__init__")] = file
    return found


def room(module: str) -> str:
    """The room of one of our modules; "" for the package sparksplit itself."""
    parts = module.split(".")
    return parts[0] if parts[0] == "hdfs_io" else ".".join(parts[1:2])


def imports(file: Path) -> Iterator[str]:
    """What `file` imports anywhere, also inside functions: modules, and names within them as MODULE.NAME."""
    tree = ast.parse(file.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def graph() -> dict[str, set[str]]:
    """Each of our modules to those of ours that it imports."""
    known = modules()

    def own(name: str) -> str | None:
        return name if name in known else name.rpartition(".")[0] if name.rpartition(".")[0] in known else None

    return {module: {found for name in imports(file) if (found := own(name))} for module, file in known.items()}


def test_rooms_import_what_the_list_allows_and_nothing_else() -> None:
    found: dict[str, set[str]] = {name: set() for name in MAY_IMPORT}
    for module, others in graph().items():
        if room(module):
            found[room(module)] |= {room(other) for other in others} - {room(module), ""}
    assert found == MAY_IMPORT


def test_there_are_no_circles() -> None:
    TopologicalSorter(MAY_IMPORT).prepare()
    # A package and the modules within it are one here: importing a module imports its package first.
    TopologicalSorter({module: others - {module} for module, others in graph().items()}).prepare()


def test_one_file_imports_tensorflowonspark() -> None:
    users = {str(file.relative_to(ROOT)) for file in modules().values() if "tensorflowonspark" in libraries(file)}
    assert users == {"sparksplit/cluster/tensorflowonspark.py"}


@pytest.mark.parametrize("name", WITHOUT)
def test_libraries_that_a_room_does_without(name: str) -> None:
    users = {module for module, file in modules().items() if room(module) == name and libraries(file) & WITHOUT[name]}
    assert {module for module in users if not module.startswith(OWN_PROCESS)} == set()


def test_nothing_imports_what_has_a_process_of_its_own() -> None:
    users = {module for module, others in graph().items() if any(other.startswith(OWN_PROCESS) for other in others)}
    assert {module for module in users if not module.startswith(OWN_PROCESS)} == set()


def libraries(file: Path) -> set[str]:
    return {name.partition(".")[0] for name in imports(file)}


def test_models_know_keras_and_the_data_alone() -> None:
    for file in (ROOT / "models").glob("*.py"):
        assert libraries(file) <= {"__future__", "collections", "typing", "keras", "sparksplit"}, file
        ours = {name for name in imports(file) if name.startswith("sparksplit")}
        assert ours <= {"sparksplit.DataDescription"}, file


def test_jobs_are_their_command_and_nothing_else() -> None:
    for file in (ROOT / "jobs").glob("*.py"):
        assert set(imports(file)) == {"sparksplit.commands.ending.end", f"sparksplit.commands.{file.stem}.main"}


PURE = {
    "rows/order.py": {"numpy", "numpy.typing", "sparksplit.dataset.row_ids"},
    "training/node/schedule.py": {"sparksplit.rows", "sparksplit.strategies.splits"},
}
"""Neither Spark nor TensorFlow nor a file: integers in, integers out. To what each imports beside Python's own."""


@pytest.mark.parametrize("file", PURE)
def test_the_order_of_rows_and_of_epochs_is_pure(file: str) -> None:
    found = {name.rpartition(".")[0] if name.count(".") else name for name in imports(ROOT / "sparksplit" / file)}
    assert found <= {"__future__", "dataclasses", "collections.abc"} | PURE[file]


WRITES = {"write_bytes", "write_json", "writing", "create_bytes", "make_folder", "rename", "remove"}
PAST_THE_FENCE = {"sparksplit.training.checkpoints"}
"""What writes files itself, into a folder of the fence's own, which the fence then publishes."""


def test_what_fills_an_output_in_place_writes_through_its_fence() -> None:
    """Anything else would go on writing after another run has taken the output over."""
    found = set()
    for module, file in modules().items():
        if room(module) in ("training", "comparison", "model"):
            calls = [node.func for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Call)]
            functions = [call for call in calls if isinstance(call, ast.Attribute) and call.attr in WRITES]
            if any(isinstance(one.value, ast.Name) and one.value.id == "filesystem" for one in functions):
                found.add(module)
    assert found == PAST_THE_FENCE


_IMPORT_EACH = """
import importlib, sys
for name in sys.argv[1:]:
    for known in [each for each in sys.modules if each.partition(".")[0] in ("hdfs_io", "sparksplit")]:
        del sys.modules[known]
    importlib.import_module(name)
"""


_ALONE = """
import importlib, sys
for name in ("sparksplit", "pyspark", "tensorflow", "keras"):
    sys.modules[name] = None  # its import fails, as where it is not installed
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


def test_storage_can_be_imported_by_itself(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "hdfs_io", tmp_path / "hdfs_io")
    names = [name for name in modules() if room(name) == "hdfs_io"]
    command = [sys.executable, "-c", _ALONE, *names]
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr[-2000:]


@pytest.mark.slow
def test_any_module_may_be_the_first_that_a_task_imports() -> None:
    """A task of Spark's begins with the module of whatever it unpickles first: a circle would only show there."""
    names = sorted(name for name in modules() if room(name) in ("hdfs_io", "dataset", "features", "prepare"))
    found = subprocess.run([sys.executable, "-c", _IMPORT_EACH, *names], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr[-2000:]
