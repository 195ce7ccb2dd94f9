"""The files that sparksplit ships beside its packages: conf/, jobs/ and models/.

In a checkout they are at the top level, where a reader looks for them. In an installed package and in sparksplit.zip
they are inside the package, so that their names cannot clash with a user's folder.
"""

from __future__ import annotations

import importlib.resources
from importlib.resources.abc import Traversable
from pathlib import Path

FOLDER = "sparksplit/shipped"
"""Their folder in an installed package and in the zip."""


def shipped(name: str) -> str:
    """Return the path of a file such as conf/train-mlp.yaml. The file can be opened, except inside a zip."""
    return str(_root().joinpath(name))


def shipped_text(name: str) -> str:
    """Return the content of a file such as models/mlp.py, also if sparksplit was imported from a zip."""
    return _root().joinpath(name).read_text(encoding="utf-8")


def shipped_names(folder: str) -> list[str]:
    """Return the sorted names of the files in conf, jobs or models."""
    return sorted(entry.name for entry in _root().joinpath(folder).iterdir() if entry.is_file())


def _root() -> Traversable:
    package = importlib.resources.files("sparksplit")
    inside = package.joinpath("shipped")
    return inside if inside.is_dir() else Path(str(package)).parent
