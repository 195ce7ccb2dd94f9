"""Reads the arguments and needs of a model's builder from its source, so that a misfit is known before Spark starts.

The builder does not run. A builder's file may name the data that it needs, such as `NEEDS = "image"`; the names are in
NEEDS below. If the source is not plain enough, the nodes find the misfit when the builder runs.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparksplit.base.errors import did_you_mean
from sparksplit.model.builders import builder_text, models

if TYPE_CHECKING:
    from sparksplit.model.description import DataDescription
    from sparksplit.model.model_config import ModelKeys
    from sparksplit.model.own_model import OwnModel


def _shape(data: DataDescription) -> tuple[int, ...] | None:
    """Return the shape of one row of the only tensor, if it holds numbers; otherwise None."""
    return next(iter(data.inputs.values())) if len(data.inputs) == 1 and not data.categories else None


@dataclass(frozen=True)
class _Need:
    """A need of a builder. said: the need, for people. met: returns whether the data meet the need."""

    said: str
    met: Callable[[DataDescription], bool]


NEEDS = {
    "tensor": _Need("one tensor of numbers", lambda data: _shape(data) is not None),
    "image": _Need("images [height, width(, channels)]", lambda data: len(_shape(data) or ()) in (2, 3)),
    "sequence": _Need(
        "one tensor of sequences [length(, features)]", lambda data: [*map(len, data.inputs.values())] in ([1], [2])
    ),
    "text": _Need(
        "a text among its inputs (features: COLUMN: text)",
        lambda data: any(data.inputs[name] for name in data.categories),
    ),
}
"""Possible needs of a builder, by the name in the builder's file."""


@dataclass(frozen=True)
class _Builder:
    """A builder's signature and need.

    arguments: names besides the data; None if any name is allowed. required: arguments without a default. need: None if
    the builder takes any data. takes_data: whether there is an argument for the data.
    """

    arguments: tuple[str, ...] | None
    required: tuple[str, ...]
    need: _Need | None
    takes_data: bool = True

    @classmethod
    def read(cls, name: str, source: str | None) -> _Builder:
        """Read the builder `name`. source: the result of `builder_source`."""
        text, function = builder_text(name, source)
        return cls._read(ast.parse(text).body, function)

    @classmethod
    def read_function(cls, source: str) -> _Builder:
        """Read a function from its own source."""
        try:
            body = ast.parse(source).body
        except SyntaxError:  # a lambda's source is a part of a statement
            body = []
        return cls._read(body, body[0].name if body and isinstance(body[0], ast.FunctionDef) else "")

    @classmethod
    def _read(cls, body: Sequence[ast.stmt], function: str) -> _Builder:
        need = next((NEEDS[value] for node in body if (value := _declared(node)) in NEEDS), None)
        definitions = [node for node in body if isinstance(node, ast.FunctionDef) and node.name == function]
        if (
            not definitions
            or definitions[-1].decorator_list
            or definitions[-1].args.kwarg is not None
            or _assigned(function, body)
        ):
            return cls(None, (), need)
        given = definitions[-1].args
        # The first argument is the data. Arguments before a / cannot be given by name.
        arguments = given.args if given.posonlyargs else given.args[1:]
        plain = len(arguments) - min(len(arguments), len(given.defaults))
        required = [argument.arg for argument in arguments[:plain]]
        for argument, default in zip(given.kwonlyargs, given.kw_defaults, strict=True):
            if default is None:
                required.append(argument.arg)
        names = (argument.arg for argument in (*arguments, *given.kwonlyargs))
        takes_data = bool(given.posonlyargs or given.args or given.vararg)
        return cls(tuple(names), tuple(required), need, takes_data)


def _assigned(name: str, body: Sequence[ast.stmt]) -> bool:
    """Return whether a statement of a module assigns a value to `name`, such as a `functools.partial`."""
    stored = (each for node in body for each in ast.walk(node) if isinstance(each, ast.Name))
    return any(each.id == name and isinstance(each.ctx, ast.Store) for each in stored)


def _declared(node: ast.stmt) -> str | None:
    """Return the value of `NEEDS = "..."`; None for any other statement."""
    if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Constant):
        return None
    named = any(isinstance(target, ast.Name) and target.id == "NEEDS" for target in node.targets)
    return str(node.value.value) if named else None


def check(config: ModelKeys, source: str | None, data: DataDescription, own: OwnModel | None = None) -> None:
    """Raise ConfigError if the builder does not take the configuration's `model.params`, or does not take `data`.

    source: text of the builder, if it is a file of the user. own: the user's own model, if it is no builder's file.
    """
    name = config.model.build
    if own is not None and own.model:
        if config.model.params:
            what_to_do = _left_over(config, next(iter(config.model.params))) or "; remove the key"
            raise config.error("model.params", f"{name} is a model, which takes no arguments{what_to_do}")
        return
    builder = _Builder.read(name, source) if own is None else _Builder.read_function(own.source)
    if not builder.takes_data:
        function = name.rpartition(":")[2].partition("@")[0]
        raise config.error(
            "model.build", f"{name} must take the description of the data as its argument: def {function}(data)"
        )
    if builder.arguments is not None:
        known = ", ".join(builder.arguments) or "none"
        for given in config.model.params:
            if given not in builder.arguments:
                hint = did_you_mean(given, builder.arguments)
                raise config.error(
                    f"model.params.{given}",
                    f"{name} has no such argument{hint}; it has {known}{_left_over(config, given)}",
                )
        for needed in builder.required:
            if needed not in config.model.params:
                raise config.error("model.params", f"{name} needs {needed}")
    if builder.need is None or builder.need.met(data):
        return
    inputs = ", ".join(f"{key} {list(shape)}" for key, shape in list(data.inputs.items())[:5])
    more = f" and {len(data.inputs) - 5} more" if len(data.inputs) > 5 else ""
    others = [one for one in models() if (need := _Builder.read(one, None).need) is None or need.met(data)]
    raise config.error(
        "model.build",
        f"{name} needs {builder.need.said}, but the data set has {inputs}{more}; use model.build: "
        + " or ".join(others),
    )


def _left_over(config: ModelKeys, given: str) -> str:
    """Return what to do if the command line changed the builder, but the argument `given` comes from the file."""
    origin = config.origin
    if not origin.overridden(("model", "build")) or origin.overridden(("model", "params", given)):
        return ""
    section = ".".join((*origin.prefix, "model"))
    return (
        f"; the file's params are for its own model: --set '{section}={{build: {config.model.build}}}' replaces the "
        "whole section"
    )
