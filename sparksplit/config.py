"""Typed configuration from one YAML file and `--set key=value`, with errors that name file, line and key.

PyYAML's node marks give the lines, pydantic the types and ranges; no single library gives both.
"""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

import pydantic
import yaml

from sparksplit.errors import ConfigError

Key = tuple[str | int, ...]


class Source:
    """Where each key of a configuration came from: a line of the file, or a --set argument."""

    def __init__(self, file: str | None) -> None:
        self.file = file
        self.places: dict[Key, str] = {}

    def place(self, key: Key) -> str:
        """The place of `key`, or of its nearest ancestor that was written down; '' for pure defaults."""
        for length in range(len(key), 0, -1):
            if key[:length] in self.places:
                return self.places[key[:length]]
        return self.file or ""

    def to_json(self) -> dict[str, Any]:
        """A JSON-able form, for a process that checks the configuration further."""
        return {"file": self.file, "places": [[list(key), place] for key, place in self.places.items()]}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Source:
        """The inverse of `to_json`."""
        source = cls(values["file"])
        source.places = {tuple(key): place for key, place in values["places"]}
        return source


class Config(pydantic.BaseModel):
    """Base of every configuration class: unknown keys are errors, each field is documented by its docstring."""

    model_config = pydantic.ConfigDict(
        extra="forbid", frozen=True, use_attribute_docstrings=True, protected_namespaces=()
    )

    _source: Source = pydantic.PrivateAttr(default_factory=lambda: Source(None))

    @property
    def source(self) -> Source:
        """Where the keys came from; `parse` takes it again in another process."""
        return self._source

    def error(self, key: str, message: str) -> ConfigError:
        """A ConfigError about the dotted `key`, with the file and the line where it was set."""
        parts: Key = tuple(int(part) if part.isdigit() else part for part in key.split("."))
        return _error(self._source, parts, message)


ConfigT = TypeVar("ConfigT", bound=Config)


def load(model: type[ConfigT], file: str | None, overrides: Sequence[str] = ()) -> ConfigT:
    """Read `file` (YAML), apply the `key.path=value` overrides in order, and check the result against `model`.

    Raises ConfigError for an unreadable file, a syntax error, an unknown key (naming the nearest known one), a
    wrong type or a value out of range: the first in the file's order.
    """
    source = Source(file)
    values: dict[str, Any] = {}
    if file is not None:
        values = _read(file, source)
    for override in overrides:
        _override(values, override, source)
    return parse(model, values, source)


def parse(model: type[ConfigT], values: dict[str, Any], source: Source | None = None) -> ConfigT:
    """Check plain `values` against `model`; as `load`, for values that are already in memory."""
    source = source or Source(None)
    try:
        config = model.model_validate(values)
    except pydantic.ValidationError as error:
        problems = [_explain(model, values, problem) for problem in error.errors()]
        # Of a union, each member complains: the one that came furthest is what the user meant.
        keys = [key for key, _ in problems]
        problems = [
            (key, text)
            for key, text in problems
            if not any(len(other) > len(key) and other[: len(key)] == key for other in keys)
        ]
        order = list(source.places)
        problems.sort(key=lambda problem: order.index(problem[0]) if problem[0] in source.places else len(order))
        raise _error(source, *problems[0]) from None
    for section, prefix in _sections(config, ()):
        section._source = _Prefixed(source, prefix) if prefix else source
    return config


class _Prefixed(Source):
    """The source of a section: keys are relative to the section, places are the whole file's."""

    def __init__(self, whole: Source, prefix: Key) -> None:
        super().__init__(whole.file)
        self.whole, self.prefix = whole, prefix

    def place(self, key: Key) -> str:
        return self.whole.place(self.prefix + key)


def shipped(name: str) -> str:
    """The path of the file `name` of the folder conf/, in a checkout or in an installed package."""
    package = Path(__file__).resolve().parent
    checkout = package.parent / "conf" / name
    return str(checkout if checkout.is_file() else package / "conf" / name)


def digest(values: Any) -> str:
    """A hash of JSON-able `values` that does not depend on key order: 16 hexadecimal digits of SHA-256."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def describe(model: type[Config], prefix: str = "") -> Iterator[tuple[str, str, str, str]]:
    """(dotted key, type, default, explanation) of every key of `model`, in the order of declaration."""
    for name, field in model.model_fields.items():
        key = prefix + name
        inner = _section_type(field.annotation)
        text = " ".join((field.description or "").split())
        if inner is not None:
            if text:
                yield key, _type_name(field.annotation), "", text
            yield from describe(inner, key + ".")
            continue
        default = "required" if field.is_required() else json.dumps(field.get_default(call_default_factory=True))
        yield key, _type_name(field.annotation), default, text


def _error(source: Source, key: Key, message: str) -> ConfigError:
    place, dotted = source.place(key), ".".join(str(part) for part in getattr(source, "prefix", ()) + key)
    return ConfigError(": ".join(part for part in (place, dotted, message) if part))


def _read(file: str, source: Source) -> dict[str, Any]:
    try:
        text = Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: is not UTF-8 text (byte {error.start})") from None
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"{file}{line}: not valid YAML: {error.problem}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{file}: not valid YAML: {' '.join(str(error).split())}") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"{file}:1: must be a mapping of keys to values")
    _places(root, (), file, source)
    return values


def _places(node: yaml.Node | None, key: Key, file: str, source: Source) -> None:
    children: Iterable[tuple[str | int, yaml.Node, yaml.Node]] = ()
    if isinstance(node, yaml.MappingNode):
        children = ((name.value, name, value) for name, value in node.value)
    elif isinstance(node, yaml.SequenceNode):
        children = ((index, value, value) for index, value in enumerate(node.value))
    seen: set[str | int] = set()
    for name, mark, value in children:
        place = f"{file}:{mark.start_mark.line + 1}"
        if name in seen:
            raise ConfigError(f"{place}: {'.'.join(str(part) for part in (*key, name))}: is given twice")
        seen.add(name)
        source.places[(*key, name)] = place
        _places(value, (*key, name), file, source)


def _override(values: dict[str, Any], override: str, source: Source) -> None:
    dotted, equals, text = override.partition("=")
    place = f"--set {override}"
    if not equals or not all(dotted.split(".")):
        raise ConfigError(f"{place}: must have the form key.path=value")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        raise ConfigError(f"{place}: the value is not valid YAML") from None
    key = tuple(dotted.split("."))
    target: Any = values
    for part in key[:-1]:
        inner = target.get(part)
        # A scalar gives way to a mapping: `--set nodes.virtual=8` over `nodes: 2`.
        if not isinstance(inner, dict):
            inner = target[part] = {}
        target = inner
    target[key[-1]] = value
    for known in [known for known in source.places if known[: len(key)] == key]:
        del source.places[known]
    source.places[key] = place


_MESSAGES = {
    "greater_than": "must be above {gt} (is {value})",
    "greater_than_equal": "must be at least {ge} (is {value})",
    "less_than": "must be below {lt} (is {value})",
    "less_than_equal": "must be at most {le} (is {value})",
    "literal_error": "must be one of {expected} (is {value})",
    "missing": "is required",
    "int_type": "must be a whole number (is {value})",
    "int_parsing": "must be a whole number (is {value})",
    "int_from_float": "must be a whole number (is {value})",
    "float_type": "must be a number (is {value})",
    "float_parsing": "must be a number (is {value})",
    "string_type": "must be text (is {value})",
    "bool_type": "must be true or false (is {value})",
    "bool_parsing": "must be true or false (is {value})",
    "list_type": "must be a list (is {value})",
    "dict_type": "must be a mapping of keys to values (is {value})",
    "model_type": "must be a mapping of keys to values (is {value})",
    "model_attributes_type": "must be a mapping of keys to values (is {value})",
    "string_too_short": "must not be empty",
    "too_short": "must have at least {min_length} entries",
    "value_error": "{error}",
}


def _explain(model: type[Config], values: dict[str, Any], problem: Any) -> tuple[Key, str]:
    key = _written(problem["loc"], values, absent=problem["type"] == "missing")
    if problem["type"] == "extra_forbidden":
        near = difflib.get_close_matches(str(key[-1]), _known(model, key[:-1]), n=1)
        return key, "unknown key" + (f"; did you mean {near[0]!r}?" if near else "")
    context = dict(problem.get("ctx", {}), value=_show(problem["input"]))
    message = _MESSAGES.get(problem["type"])
    if message is None:
        return key, f"{problem['msg']} (is {context['value']})"
    return key, message.format(**context)


def _written(location: Sequence[str | int], values: Any, absent: bool) -> Key:
    """`location` without the names that pydantic adds for members of a union.

    absent: whether the last part names a key that is not there
    """
    key: list[str | int] = []
    for position, part in enumerate(location):
        if isinstance(values, dict) and part not in values and not (absent and position == len(location) - 1):
            continue
        if key and not isinstance(values, dict) and not (isinstance(values, list) and isinstance(part, int)):
            break
        key.append(part)
        if isinstance(values, dict):
            values = values.get(part)
        elif isinstance(values, list) and isinstance(part, int) and part < len(values):
            values = values[part]
    return tuple(key)


def _known(model: type[Config], key: Key) -> list[str]:
    for part in key:
        field = model.model_fields.get(str(part))
        inner = _section_type(field.annotation) if field else None
        if inner is None:
            return []
        model = inner
    return list(model.model_fields)


def _section_type(annotation: Any) -> type[Config] | None:
    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, Config):
            return candidate
    return None


def _sections(config: Config, prefix: Key) -> Iterator[tuple[Config, Key]]:
    yield config, prefix
    for name in type(config).model_fields:
        value = getattr(config, name)
        if isinstance(value, Config):
            yield from _sections(value, (*prefix, name))


def _type_name(annotation: Any) -> str:
    origin, args = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Config):
        return "mapping"
    if origin is Literal:
        return " | ".join(str(arg) for arg in args)
    if origin in (Union, UnionType):
        return " | ".join(_type_name(arg) for arg in args)
    if origin in (list, tuple):
        return f"list of {_type_name(args[0])}"
    names = {
        type(None): "null",
        str: "text",
        int: "whole number",
        float: "number",
        bool: "true | false",
        list: "list",
        dict: "mapping",
        Any: "any",
    }
    return names.get(origin or annotation, getattr(annotation, "__name__", str(annotation)))


def _show(value: Any) -> str:
    text = json.dumps(value, default=str)
    return text if len(text) <= 60 else text[:57] + "..."
