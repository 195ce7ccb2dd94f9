"""The files that come with sparksplit beside its packages: conf/, jobs/ and models/.

In a checkout they are where a reader looks for them; in an installed package and in sparksplit.zip they are inside the
package, so that nothing of ours has a name that a user's own folder may have.
"""

from __future__ import annotations

import importlib.resources
from importlib.resources.abc import Traversable
from pathlib import Path

FOLDER = "sparksplit/shipped"
"""Where they are in an installed package and in the zip."""


def shipped(name: str) -> str:
    """The path of a file such as conf/train-mlp.yaml; it can be opened, except from within a zip."""
    return str(_root().joinpath(name))


def shipped_text(name: str) -> str:
    """The content of a file such as models/mlp.py, from wherever sparksplit was imported."""
    return _root().joinpath(name).read_text(encoding="utf-8")


def shipped_names(folder: str) -> list[str]:
    """The names of the files in conf, jobs or models, sorted."""
    return sorted(entry.name for entry in _root().joinpath(folder).iterdir() if entry.is_file())


def _root() -> Traversable:
    package = importlib.resources.files("sparksplit")
    inside = package.joinpath("shipped")
    return inside if inside.is_dir() else Path(str(package)).parent
