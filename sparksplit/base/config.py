"""Typed configuration from one YAML file and `--set key=value`. Errors name the file, the line and the key.

PyYAML's node marks give the lines; pydantic checks types and ranges. No single library does both.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import reduce
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

import pydantic
import yaml

from sparksplit.base.complaints import all_required, first_complaint, missing_keys
from sparksplit.base.errors import ConfigError, did_you_mean
from sparksplit.base.passwords import keys_with_passwords

Key = tuple[str, ...]
"""The path of a key. An entry of a list is named by its position."""

_SET = "--set "
"""How the place of a key begins that a --set has set."""


class Origin:
    """Where each key of a configuration, or of its section `prefix`, was set: a line of the file, or a --set."""

    def __init__(self, file: str | None, prefix: Key = ()) -> None:
        self.file, self.prefix = file, prefix
        self.places: dict[Key, str] = {}

    def place(self, key: Key) -> str:
        """Return where `key`, or its nearest ancestor, was set. Otherwise return the file, or '' without a file."""
        for length in range(len(key), -1, -1):
            if key[:length] in self.places:
                return self.places[key[:length]]
        return self.file or ""

    def overridden(self, key: Key) -> bool:
        """Return whether a --set has set `key`, or its nearest ancestor."""
        return self.place(key).startswith(_SET)

    def section(self, prefix: Key) -> Origin:
        """Return the origin of the section `prefix`, with keys relative to the section."""
        part = Origin(self.file, self.prefix + prefix)
        part.places = {key[len(prefix) :]: place for key, place in self.places.items() if key[: len(prefix)] == prefix}
        part.places[()] = self.place(prefix)
        return part

    def error(self, key: Key, message: str) -> ConfigError:
        """Return a ConfigError about `key`."""
        parts = (self.place(key), ".".join(self.prefix + key), message)
        return ConfigError(" ".join(": ".join(part for part in parts if part).split()))

    def to_json(self) -> dict[str, Any]:
        """Return a JSON form, for a process that checks the configuration further."""
        places = [[list(key), place] for key, place in self.places.items()]
        return {"file": self.file, "prefix": list(self.prefix), "places": places}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Origin:
        """The inverse of `to_json`."""
        origin = cls(values["file"], tuple(values["prefix"]))
        origin.places = {tuple(key): place for key, place in values["places"]}
        return origin

    def __eq__(self, other: object) -> bool:
        # Equal values make equal configurations, whatever their origin. But pydantic compares private attributes too.
        return isinstance(other, Origin)

    __hash__ = None  # type: ignore[assignment]


class Config(pydantic.BaseModel):
    """Base of every configuration class. Unknown keys are errors. The docstring of each field documents its key.

    Types are strict: neither `true` nor "2" is a whole number.
    """

    model_config = pydantic.ConfigDict(
        extra="forbid",
        frozen=True,
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
        protected_namespaces=(),
    )

    refused: ClassVar[Mapping[str, str]] = {}
    """Keys of a related configuration that this one does not have, each with the reason."""

    _origin: Origin = pydantic.PrivateAttr(default_factory=lambda: Origin(None))

    @property
    def origin(self) -> Origin:
        """Where the keys were set; another process passes it to `parse`."""
        return self._origin

    @property
    def own_file(self) -> dict[str, str]:
        """The configuration file, by the command-line argument that names it. Empty if there is no file."""
        return {} if self._origin.file is None else {"--config": self._origin.file}

    def error(self, key: str, message: str) -> ConfigError:
        """Return a ConfigError about the dotted `key`, with the file and line where the key was set."""
        return self._origin.error(tuple(key.split(".")), message)


ConfigT = TypeVar("ConfigT", bound=Config)
_PASSWORD = (
    "contains a password or token in an address, and records and logs would show it. Remove it. Give credentials to "
    "Spark (spark-defaults.conf), or read them in your function from a file of its own"
)


def load(model: type[ConfigT], file: str | None, overrides: Sequence[str] = ()) -> ConfigT:
    """Read `file` (YAML), apply the `key.path=value` overrides in order, and check the result against `model`.

    Raise ConfigError for an unreadable file, a syntax error, an unknown key, a wrong type or a value out of range. For
    an unknown key, the message names the nearest known key. Only the first error in the file is reported; missing
    required keys are all listed.
    """
    values, origin = _values(file, overrides)
    return parse(model, values, origin)


def top_keys(file: str | None, overrides: Sequence[str] = ()) -> set[str]:
    """Return the top-level keys that `load` would check. Raise ConfigError for an unreadable file or a syntax error."""
    return {str(key) for key in _values(file, overrides)[0]}


def parse(model: type[ConfigT], values: dict[str, Any], origin: Origin | None = None) -> ConfigT:
    """Check plain `values` against `model`, like `load`, for values that are already in memory.

    Also raise ConfigError for a password in an address, without showing the password.
    """
    origin = origin or Origin(None)
    for key in keys_with_passwords(values):
        place = origin.place(key)
        if origin.overridden(key):
            place = place.partition("=")[0]  # hide the value
        raise ConfigError(": ".join(filter(None, (place, ".".join(origin.prefix + key), _PASSWORD))))
    try:
        config = model.model_validate(values)
    except pydantic.ValidationError as error:
        key, message = first_complaint(model, values, error, list(origin.places))
        missing = missing_keys(model, values)
        if any(name[: len(key)] == key for name in missing):
            raise origin.error((), all_required(missing)) from None
        raise origin.error(key, message) from None
    for section, prefix in _sections(config, ()):
        section._origin = origin.section(prefix) if prefix else origin
    return config


def merged(base: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
    """Return `values` with the keys added that only `base` has, at every depth."""
    both = dict(base)
    for key, value in values.items():
        inner = both.get(key)
        both[key] = merged(inner, value) if isinstance(inner, dict) and isinstance(value, dict) else value
    return both


def nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Turn values with dotted keys into nested mappings, and NumPy's numbers into Python's."""
    whole: dict[str, Any] = {}
    for key, value in values.items():
        whole = merged(whole, reduce(lambda inner, part: {part: inner}, reversed(key.split(".")), _plain(value)))
    return whole


def _plain(value: Any) -> Any:
    """Return `value` with Python's own numbers instead of NumPy's, at every depth."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value.item() if type(value).__module__ == "numpy" and getattr(value, "shape", None) == () else value


def digest(values: Any) -> str:
    """Return a hash of JSON-able `values`: 16 hexadecimal digits of SHA-256. Key order does not matter."""
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def documented_keys(model: type[Config], prefix: str = "") -> Iterator[tuple[str, str, str, str]]:
    """Yield (dotted key, type, default, explanation) of every key of `model`, in the order of declaration."""
    for name, field in model.model_fields.items():
        key = prefix + name
        candidates = (field.annotation, *get_args(field.annotation))
        inner = [item for item in candidates if isinstance(item, type) and issubclass(item, Config)]
        entries = [item for item in candidates if get_origin(item) is dict]
        text = " ".join((field.description or "").split())
        value = field.get_default(call_default_factory=True)
        if inner and (field.is_required() or value is None or isinstance(value, Config)):
            if text:
                yield key, _type_name(field.annotation), "", text
            yield from documented_keys(inner[0], key + ".")
            continue
        yield key, _type_name(field.annotation), "required" if field.is_required() else json.dumps(value), text
        for part, kind, default, explanation in documented_keys(inner[0], key + ".") if inner else ():
            # An alternative form of the key: a user of the other form need not set these parts.
            yield part, kind, default.replace("required", ""), explanation
        for entry in entries:
            value_type = get_args(entry)[1]
            each = get_args(value_type)[0] if get_origin(value_type) is Annotated else value_type
            if isinstance(each, type) and issubclass(each, Config):
                yield from documented_keys(each, f"{key}.NAME.")


class _Loader(yaml.SafeLoader):
    """PyYAML's YAML 1.1 without two surprises: here 1e-3 is a number, and a date is text."""

    yaml_implicit_resolvers = {  # noqa: RUF012  # a copy of the parent's, as PyYAML itself does
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$"),
    list("-+.0123456789"),
)


def _values(file: str | None, overrides: Sequence[str]) -> tuple[dict[str, Any], Origin]:
    """Return the values of `file` with the overrides applied, and where each value was set."""
    origin = Origin(file)
    values = {} if file is None else _read(file, origin)
    for override in overrides:
        _override(values, override, origin)
    return values, origin


def _read(file: str, origin: Origin) -> dict[str, Any]:
    try:
        text = Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}{_near(Path(file))}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{file}: is not UTF-8 text (byte {error.start})") from None
    try:
        root, values = parse_yaml(text)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"{file}{line}: not valid YAML: {error.problem}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise ConfigError(f"{file}: not valid YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise ConfigError(f"{file}: not valid YAML: nested too deeply") from None
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise ConfigError(f"{file}:1: must be a mapping of keys to values")
    _places(root, (), lambda node: f"{file}:{node.start_mark.line + 1}", origin)
    return values


def _near(file: Path) -> str:
    """Return `; did you mean 'NAME'?` if the folder of the missing `file` has a file of nearly the same name."""
    with suppress(OSError):
        if not file.exists():
            return did_you_mean(file.name, sorted(each.name for each in file.parent.iterdir()), cutoff=0.8)
    return ""


def parse_yaml(text: str) -> tuple[yaml.Node | None, Any]:
    """Parse `text` as `load` does. Return the YAML nodes, which know their places in `text`, and the values."""
    loader = _Loader(text)
    try:
        root = loader.get_single_node()
        _refuse_cycles(root, ())
        # Load from `text`, not from these nodes: loading merges `<<` into its nodes, and the line numbers need `root`.
        return root, yaml.load(text, Loader=_Loader)  # a SafeLoader
    finally:
        loader.dispose()


def _refuse_cycles(node: yaml.Node | None, above: tuple[yaml.Node, ...]) -> None:
    if not isinstance(node, yaml.CollectionNode):
        return
    if any(node is other for other in above):
        raise yaml.MarkedYAMLError(problem="an alias inside its own anchor", problem_mark=node.start_mark)
    for child in node.value:
        for part in child if isinstance(child, tuple) else (child,):
            _refuse_cycles(part, (*above, node))


def _places(node: yaml.Node | None, key: Key, place_of: Callable[[yaml.Node], str], origin: Origin) -> None:
    children: Iterable[tuple[str, yaml.Node, yaml.Node]] = ()
    if isinstance(node, yaml.MappingNode):
        children = ((str(name.value), name, value) for name, value in node.value)
    elif isinstance(node, yaml.SequenceNode):
        children = ((str(index), value, value) for index, value in enumerate(node.value))
    seen: set[str] = set()
    for name, mark, value in children:
        place = place_of(mark)
        if name in seen:
            raise ConfigError(f"{place}: {'.'.join((*key, name))}: is given twice")
        seen.add(name)
        origin.places[(*key, name)] = place
        _places(value, (*key, name), place_of, origin)


def _override(values: dict[str, Any], override: str, origin: Origin) -> None:
    dotted, equals, text = override.partition("=")
    place = f"{_SET}{override}"
    key = tuple(dotted.split("."))
    if not equals or not all(key):
        raise ConfigError(f"{place}: must have the form key.path=value")
    try:
        # Take a single punctuation mark, such as a delimiter, as text: YAML would take it for syntax.
        is_mark = len(text) == 1 and not text.isalnum() and text != "~"
        root, value = (None, text) if is_mark else parse_yaml(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise ConfigError(f"{place}: the value is not valid YAML") from None
    _places(root, key, lambda node: place, Origin(None))  # refuse duplicate keys
    target: Any = values
    for depth, part in enumerate(key):
        position: Any = part
        if isinstance(target, list):
            if not part.isdecimal() or int(part) >= len(target):
                raise ConfigError(f"{place}: {'.'.join(key[:depth])}: has no entry {part}")
            position = int(part)
        if depth == len(key) - 1:
            target[position] = value
            break
        inner = target[position] if isinstance(target, list) else target.get(part)
        # Replace a scalar by a mapping: `--set nodes.virtual=8` over `nodes: 2`.
        if not isinstance(inner, dict | list):
            inner = target[position] = {}
            origin.places[key[: depth + 1]] = place
        target = inner
    for known in [known for known in origin.places if known[: len(key)] == key]:
        del origin.places[known]
    origin.places[key] = place


def _sections(value: Any, prefix: Key) -> Iterator[tuple[Config, Key]]:
    """Yield every Config inside `value`, with its path."""
    if isinstance(value, Config):
        yield value, prefix
        children: Iterable[tuple[Any, Any]] = ((name, getattr(value, name)) for name in type(value).model_fields)
    elif isinstance(value, dict):
        children = value.items()
    elif isinstance(value, list | tuple):
        children = enumerate(value)
    else:
        return
    for name, child in children:
        yield from _sections(child, (*prefix, str(name)))


def _type_name(annotation: Any) -> str:
    origin, args = get_origin(annotation), get_args(annotation)
    if isinstance(annotation, type) and issubclass(annotation, Config):
        return "mapping"
    if origin is Annotated:
        return _type_name(args[0])
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
