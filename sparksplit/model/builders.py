"""The builders of models: those of models/ by the short names of their files, or a user's own."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from hdfs_io.functions import FunctionError, load, source_of, spec_of, split_name
from sparksplit.base.errors import did_you_mean
from sparksplit.base.shipped import shipped, shipped_names, shipped_text


def models() -> list[str]:
    """The short names of the models that come with sparksplit."""
    return [name.removesuffix(".py") for name in shipped_names("models") if name.endswith(".py")]


def builder_source(name: str) -> str | None:
    """As `source_of`, for a model's builder, which may be a short name. Raises FunctionError."""
    if ":" in name:
        if (match := re.fullmatch(r"models\.(\w+):build", name)) and match[1] in models():
            own = spec_of(f"models.{match[1]}")
            if own is None or own.origin == shipped(f"models/{match[1]}.py"):
                raise FunctionError(f"{name} is called {match[1]} now")
        place, _ = split_name(name)
        if not place.endswith(".py") and spec_of(place) is None:
            hint = did_you_mean(place.removeprefix("models."), models())
            raise FunctionError(f"there is no module {place!r}{hint}")
        return source_of(name)
    check_short_name(name)
    return None


def check_short_name(name: str) -> None:
    """Raise FunctionError where `name` is none of the models that come with sparksplit."""
    if name in models():
        return
    known, hint = ", ".join(models()), did_you_mean(name, models())
    raise FunctionError(f"must be {known}, package.module:function or path/to/file.py:function (is {name!r}){hint}")


def load_builder(name: str, source: str | None) -> Callable[..., Any]:
    """As `load`, for a model's builder; `source` is what `builder_source` gave."""
    if ":" in name:
        return load(name, source)
    file = f"models/{name}.py"
    return load(f"{file}:build", shipped_text(file))
