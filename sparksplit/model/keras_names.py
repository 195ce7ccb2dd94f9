"""Reads Keras's names from its source without importing Keras, so that a misspelt name is reported before Spark starts.

Importing Keras also imports TensorFlow, and takes three seconds. Reading the few files takes some tenths of a second.

An argument is true or false if its default is. A table holds the limits of optimizers' numbers. All other values are
checked by Keras on the nodes (`model.build`). Nothing is refused here if the driver has no Keras, or if another version
of Keras is written differently.
"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sparksplit.base.errors import did_you_mean
from sparksplit.model.metric_kinds import snake

if TYPE_CHECKING:
    from sparksplit.model.model_config import ModelKeys

_ABSTRACT = ("Optimizer", "LearningRateSchedule", "Loss")
REFUSED = {
    "LossScaleOptimizer": "dtype: mixed_float16 scales the loss itself; loss_scale_factor scales it by a fixed number",
    "MultiOptimizer": "it contains several optimizers, and `optimizer` describes one",
    "OptimizerMap": "it contains several optimizers, and `optimizer` describes one",
}
"""Optimizers of Keras that a configuration cannot describe, with the reasons."""
REFUSED_ARGUMENTS = {
    "gradient_accumulation_steps": "the last mini-batches of a run could change no weight. Multiply the size of a "
    "mini-batch by it instead, and give the number as `accumulate`",
}
"""Arguments of Keras's optimizers that a configuration cannot give, with the reasons."""
OWN = frozenset(("auc", "precision", "recall", "f1", "rmse", "r2"))
"""Our own metrics (model.metrics)."""
_BASE = "keras.src.optimizers.base_optimizer", "BaseOptimizer"


@dataclass(frozen=True)
class Signature:
    """The arguments of a Keras class. needed: arguments without a default. flags: arguments that are true or false."""

    name: str
    known: frozenset[str]
    needed: frozenset[str]
    flags: frozenset[str]


@dataclass(frozen=True)
class _Limits:
    """The limits of a number; None where there is no limit."""

    least: float | None = None
    most: float | None = None
    above: float | None = None

    def problem(self, value: float) -> str | None:
        """Return the message for a value outside the limits; None for a value inside."""
        if self.above is not None and value <= self.above:
            return f"must be above {self.above:g} (is {value:g})"
        if self.least is not None and value < self.least:
            return f"must be at least {self.least:g} (is {value:g})"
        if self.most is not None and value > self.most:
            return f"must be at most {self.most:g} (is {value:g})"
        return None


_NOT_NEGATIVE = _Limits(least=0)
_NUMBERS = {
    ("SGD", "momentum"): _Limits(least=0, most=1),
    ("Lion", "beta_1"): _Limits(above=0, most=1),
    ("Ftrl", "initial_accumulator_value"): _NOT_NEGATIVE,
    ("Ftrl", "l1_regularization_strength"): _NOT_NEGATIVE,
    ("Ftrl", "l2_regularization_strength"): _NOT_NEGATIVE,
    ("Ftrl", "l2_shrinkage_regularization_strength"): _NOT_NEGATIVE,
    ("Ftrl", "learning_rate_power"): _Limits(most=0),
    ("", "ema_momentum"): _Limits(least=0, most=1),
}
"""Limits by class ('' for any optimizer) and argument.

For values within them, the constructors in keras/src/optimizers of Keras 3.15 do not raise ValueError.
"""
_FLOATS = {("SGD", "momentum")}
"""The constructor refuses whole numbers for these arguments."""


def check(config: ModelKeys, sources: Mapping[str, str], own: Collection[str] = ()) -> None:
    """Raise ConfigError for the first optimizer, schedule, loss, metric or argument that Keras does not know.

    sources: the texts of the user's files. Names that these files may register with Keras are left to the nodes.
    own: names of the classes and functions that the user's own model brings along.
    """
    optimizer, rate, loss = config.optimizer, config.optimizer.learning_rate, config.loss
    registers = _registers(config.model.build, sources.get("model.build"))
    given = {**(optimizer.model_extra or {}), "learning_rate": rate}
    _check_effects(config, given)
    _check_class(config, "optimizer", "keras.optimizers", optimizer.name, given, registers, name_key="optimizer.name")
    if isinstance(rate, dict):
        _check_mapping(config, "optimizer.learning_rate", "keras.optimizers.schedules", rate, registers)
    if isinstance(loss, dict):
        _check_mapping(config, "loss", "keras.losses", loss, registers)
    elif loss is not None and loss not in own:
        _check_name(config, "loss", loss, strings("losses"))
    for place, metric in enumerate(config.metrics or []):
        if metric != "accuracy" and metric not in OWN and metric not in own:
            _check_name(config, f"metrics.{place}", metric, strings("metrics"))


def _check_effects(config: ModelKeys, given: Mapping[str, Any]) -> None:
    """Raise ConfigError for an optimizer in REFUSED and an argument in REFUSED_ARGUMENTS, and for an argument that
    Keras would accept and ignore."""
    for name, why in REFUSED.items():
        if config.optimizer.name.lower().replace("_", "") == name.lower():
            raise config.error("optimizer.name", f"cannot be {name}: {why}")
    for argument, why in REFUSED_ARGUMENTS.items():
        if (value := given.get(argument)) is not None:
            raise config.error(f"optimizer.{argument}", f"is not supported (is {value}): {why}")
    for argument in ("ema_momentum", "ema_overwrite_frequency"):
        if given.get(argument) is not None and not given.get("use_ema"):
            raise config.error(f"optimizer.{argument}", "needs use_ema: true")


def unknown(name: str, known: Iterable[str]) -> str:
    """Return the message for an unknown name. known: the known names, in a fixed order."""
    return f"Keras has no {name!r}{did_you_mean(name, known, cutoff=0.5)}"


def _registers(build: str, text: str | None) -> bool:
    """Return whether the model's own code may register classes under names that are not Keras's."""
    return ":" in build if text is None else "custom_objects" in text


def _check_mapping(config: ModelKeys, key: str, module: str, values: Mapping[str, Any], registers: bool) -> None:
    name = values.get("name")
    if isinstance(name, str):  # without a name, another check raises the error
        _check_class(config, key, module, name, _without_name(values), registers, name_key=f"{key}.name")


def _without_name(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != "name"}


def _check_class(
    config: ModelKeys, key: str, module: str, name: str, given: Mapping[str, Any], registers: bool, name_key: str
) -> None:
    module_of = classes(module)
    known = {name.lower(): name for name in module_of}
    wanted = known.get(name.lower().replace("_", ""))
    if not known or ">" in name:  # a name with > is registered with Keras, in a package
        return
    if wanted is None:
        if not registers:
            if name in strings(module.rpartition(".")[2]):
                raise config.error(
                    name_key, f"{name!r} is a short name, which takes no arguments; give the name of Keras's class"
                )
            raise config.error(name_key, unknown(name, module_of))
        return
    signature = signature_of(module_of[wanted], wanted)
    if signature is None:
        return
    for argument in given:
        if argument not in signature.known:
            has = ", ".join(sorted(signature.known))
            hint = did_you_mean(argument, signature.known, cutoff=0.5) or f"; it has {has}"
            raise config.error(f"{key}.{argument}", f"{wanted} has no such argument{hint}")
        if problem := _misfit(signature, argument, given[argument], is_optimizer=module == "keras.optimizers"):
            raise config.error(f"{key}.{argument}", problem)
    if missing := sorted(signature.needed - set(given)):
        raise config.error(key, f"{wanted} needs {', '.join(missing)}")


def _misfit(signature: Signature, argument: str, value: Any, is_optimizer: bool) -> str | None:
    """Return the problem with a value. None: there is no problem, or only Keras can find it."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if argument in signature.flags:
        return f"must be true or false (is {value:g})" if is_number else None
    if not is_number or not is_optimizer:
        return None
    limits = _NUMBERS.get((signature.name, argument)) or _NUMBERS.get(("", argument))
    if limits is not None and (problem := limits.problem(value)):
        return problem
    if (signature.name, argument) in _FLOATS and isinstance(value, int):
        return f"must be written with a decimal point, as {value}.0 (is {value})"
    return None


def _check_name(config: ModelKeys, key: str, name: str, known: Collection[str]) -> None:
    if known and name not in known:
        raise config.error(key, unknown(name, sorted(known)))


@cache
def classes(module: str) -> dict[str, str]:
    """Return the classes of a public module of Keras, each with its defining module; {} if it cannot be read."""
    return {
        alias.asname or alias.name: node.module
        for node in _statements(module)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("keras.src.")
        for alias in node.names
        if alias.name[0].isupper() and alias.name not in _ABSTRACT
    }


@cache
def flags() -> frozenset[str]:
    """Return the arguments that are true or false in any optimizer or schedule; empty if they cannot be read."""
    modules = ("keras.optimizers", "keras.optimizers.schedules")
    signatures = (signature_of(module, name) for public in modules for name, module in classes(public).items())
    return frozenset(flag for signature in signatures if signature is not None for flag in signature.flags)


@cache
def strings(kind: str) -> frozenset[str]:
    """Return the names that keras.losses.get or keras.metrics.get (`kind`) takes; empty if they cannot be read."""
    objects: set[str] = set()
    aliases: set[str] = set()
    for node in _statements(f"keras.src.{kind}"):
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Set) and _named(node.targets[0], "ALL_OBJECTS"):
            objects.update(item.id for item in node.value.elts if isinstance(item, ast.Name))
        for part in ast.walk(node):
            if isinstance(part, ast.Dict):
                aliases.update(str(item.value) for item in part.keys if isinstance(item, ast.Constant))
    if not objects:
        return frozenset()
    return frozenset(objects | aliases | ({snake(name) for name in objects} if kind == "metrics" else set()))


@cache
def signature_of(module: str, name: str) -> Signature | None:
    """Return the arguments that a configuration can give class `name` of `module`; None if the source is not plain
    enough.
    """
    for node in _statements(module):
        if isinstance(node, ast.ClassDef) and node.name == name:
            methods = {part.name: part for part in node.body if isinstance(part, ast.FunctionDef)}
            made = methods.get("__init__")
            is_base = (module, name) == _BASE
            if made is None or made.args.vararg or ("from_config" in methods and not is_base):
                return None
            names = [argument.arg for argument in made.args.args[1:]]
            needed = frozenset(names[: len(names) - len(made.args.defaults)])
            defaults = dict(zip(names[len(needed) :], made.args.defaults, strict=True))
            flags = frozenset(flag for flag, default in defaults.items() if _is_flag(default))
            names += [argument.arg for argument in made.args.kwonlyargs]
            if made.args.kwarg is None:
                return Signature(name, frozenset(names), needed, flags)
            if is_base:
                return Signature(name, frozenset(names), needed, flags)
            base = signature_of(*_BASE) if module.startswith("keras.src.optimizers.") else None
            if base is None:
                return None
            return Signature(name, base.known | frozenset(names), needed, base.flags | flags)
    return None


def _is_flag(default: ast.expr) -> bool:
    return isinstance(default, ast.Constant) and isinstance(default.value, bool)


def _named(target: ast.expr, name: str) -> bool:
    return isinstance(target, ast.Name) and target.id == name


@cache
def _parsed(file: Path) -> tuple[ast.stmt, ...]:
    try:
        return tuple(ast.parse(file.read_text(encoding="utf-8")).body)
    except (OSError, SyntaxError, ValueError):
        return ()


def _statements(module: str) -> Iterator[ast.stmt]:
    spec = importlib.util.find_spec("keras")  # for a top-level package, find_spec runs no code of the package
    if spec is None or not spec.submodule_search_locations:
        return
    path = Path(spec.submodule_search_locations[0], *module.split(".")[1:])
    yield from _parsed(path / "__init__.py" if path.is_dir() else path.with_suffix(".py"))
