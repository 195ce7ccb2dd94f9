"""Builders of models: the files in models/ by short name, or the user's own functions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from sparksplit.base.errors import did_you_mean
from sparksplit.base.shipped import shipped_names, shipped_text
from sparksplit.base.user_functions import FunctionError, load, source_of, spec_of, split_name


def models() -> list[str]:
    """Return the short names of the models that come with sparksplit."""
    return [name.removesuffix(".py") for name in shipped_names("models") if name.endswith(".py")]


def builder_source(name: str) -> str | None:
    """Return `source_of` a model's builder; None for a short name. Raise FunctionError if the builder is not found."""
    if ":" in name:
        place, _ = split_name(name)
        if not place.endswith(".py") and spec_of(place) is None:
            hint = did_you_mean(place.removeprefix("models."), models())
            raise FunctionError(f"module {place!r} not found{hint}")
        return source_of(name)
    check_short_name(name)
    return None


def check_short_name(name: str) -> None:
    """Raise FunctionError if `name` is not a model that comes with sparksplit."""
    if name in models():
        return
    known, hint = ", ".join(models()), did_you_mean(name, models())
    raise FunctionError(f"must be {known}, package.module:function or path/to/file.py:function (is {name!r}){hint}")


def builder_text(name: str, source: str | None) -> tuple[str, str]:
    """Return (the text of the builder's file, the function's name in the file). The text is empty if it cannot be read.

    source: the result of `builder_source`.
    """
    if ":" not in name:
        return shipped_text(f"models/{name}.py"), "build"
    place, function = split_name(name)
    if source is not None:
        return source, function
    spec = spec_of(place)
    file = None if spec is None else spec.origin
    readable = file is not None and file.endswith(".py") and Path(file).is_file()
    return Path(str(file)).read_text(encoding="utf-8") if readable else "", function


def load_builder(name: str, source: str | None) -> Callable[..., Any]:
    """Load a model's builder. source: the result of `builder_source`."""
    if ":" in name:
        return load(name, source)
    file = f"models/{name}.py"
    return load(f"{file}:build", shipped_text(file))
