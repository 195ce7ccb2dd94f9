"""Functions of a library, replaced for one module alone: other threads, such as those of py4j, go on calling the real
ones."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


def replaced(patch: pytest.MonkeyPatch, module: ModuleType, library: str, **functions: Callable[..., Any]) -> None:
    """Give `module` these functions where it calls those of `library`, a module that it imports by this name."""
    patch.setattr(module, library, SimpleNamespace(**{**vars(getattr(module, library)), **functions}))
