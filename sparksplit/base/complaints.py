"""Turn pydantic's errors about a configuration into one message in the user's terms."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, get_args, get_origin

import pydantic

from sparksplit.base.errors import did_you_mean

_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "string": "text",
    "bool": "true or false",
    "list": "a list",
    "dict": "a mapping of keys to values",
    "model": "a mapping of keys to values",
    "none": "null",
}
"""The expected type, by the first word of pydantic's error type: int_type, int_from_float, string_type, ..."""

_MESSAGES = {
    "greater_than": "must be above {gt} (is {value})",
    "greater_than_equal": "must be at least {ge} (is {value})",
    "less_than": "must be below {lt} (is {value})",
    "less_than_equal": "must be at most {le} (is {value})",
    "finite_number": "must be a finite number (is {value})",
    "missing": "is required",
    "invalid_key": "unknown key",
    "string_too_short": "must not be empty",
    "string_too_long": "must have at most {max_length} characters (is {value})",
    "too_short": "must have at least {min_length} entries",
    "value_error": "{error}",
}


def first_complaint(
    model: type[pydantic.BaseModel], values: Any, error: pydantic.ValidationError, order: Sequence[tuple[str, ...]]
) -> tuple[tuple[str, ...], str]:
    """Return (key, message) of the first error by `order`, which holds the keys in the order of the file.

    If a value fits no member of a union, every member reports an error. The error deepest inside the value is about
    what the user meant. If no error is inside the value, the message lists all accepted types.
    """
    by_key: dict[tuple[str, ...], list[Any]] = {}
    for problem in error.errors():
        absent = problem["type"] == "missing"
        by_key.setdefault(_written(problem["loc"], values, absent), []).append(problem)
    deepest = [key for key in by_key if not any(other[: len(key)] == key for other in by_key if len(other) > len(key))]
    position = {key: number for number, key in enumerate(order)}
    key = min(deepest, key=lambda key: position.get(key, len(order)))
    return key, _message(model, key, by_key[key])


def missing_keys(model: type[pydantic.BaseModel], values: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return the required keys of `model` missing in `values`, in declaration order, including keys of sections."""
    missing: list[tuple[str, ...]] = []
    for name, field in model.model_fields.items():
        absent = field.is_required() and name not in values
        given = {} if absent else values.get(name)
        section = next((kind for kind in _section_types(field.annotation) if kind is field.annotation), None)
        inner = missing_keys(section, given) if section and isinstance(given, dict) else []
        missing += [(name, *key) for key in inner] or ([(name,)] if absent else [])
    return missing


def all_required(missing: Sequence[tuple[str, ...]]) -> str:
    """Return the message about missing required keys."""
    names = ", ".join(".".join(key) for key in missing)
    return f"{names}: {'is' if len(missing) == 1 else 'are'} required"


def _message(model: type[pydantic.BaseModel], key: tuple[str, ...], problems: Sequence[Any]) -> str:
    wanted = []
    for problem in problems:
        kind, _, rest = problem["type"].partition("_")
        if problem["type"] == "literal_error":
            expected = problem["ctx"]["expected"]
            wanted.append(f"one of {expected}" if " or " in expected else expected)
            continue
        if kind in _TYPES and rest in ("type", "parsing", "from_float", "attributes_type"):
            wanted.append(_TYPES[kind])
            continue
        if problem["type"] == "extra_forbidden":
            return _unknown(key, _classes(model, key[:-1]), model)
        # The bound of a float field is a float, but people write 0, not 0.0.
        context = {
            name: int(bound) if isinstance(bound, float) and bound.is_integer() else bound
            for name, bound in problem.get("ctx", {}).items()
        }
        context["value"] = _show(problem["input"])
        template = _MESSAGES.get(problem["type"], "{message} (is {value})")
        return template.format(**context, message=problem["msg"])
    value = problems[0]["input"]
    hint = "" if len(problems) > 1 else _key_inside(_classes(model, key), key, value)
    return f"must be {' or '.join(dict.fromkeys(wanted))} (is {_show(value)}){hint}"


def _key_inside(sections: Sequence[type[pydantic.BaseModel]], key: Sequence[str], value: Any) -> str:
    """Return `; did you mean 'optimizer.name'?` if a section got its first key's value, such as sgd. Otherwise ""."""
    for section in sections:
        name = next(iter(section.model_fields))
        with suppress(pydantic.ValidationError):
            section.model_validate({name: value})
            return f"; did you mean {'.'.join((*key, name))!r}?"
    return ""


def _written(location: Sequence[str | int], values: Any, absent: bool) -> tuple[str, ...]:
    """Return `location` without the names that pydantic adds for members of a union.

    absent: the last part names a missing key
    """
    key: list[str] = []
    for position, part in enumerate(location):
        if isinstance(values, dict):
            if part in values:
                values = values[part]
            elif absent and position == len(location) - 1:
                values = None
            else:
                continue
        elif isinstance(values, list):
            if not isinstance(part, int) or part >= len(values):
                continue
            values = values[part]
        else:
            break
        key.append(str(part))
    return tuple(key)


def _unknown(
    key: tuple[str, ...], sections: Sequence[type[pydantic.BaseModel]], model: type[pydantic.BaseModel]
) -> str:
    """Return the message about the unknown `key` of a section. sections: the section's classes. model: the whole."""
    name = key[-1]
    for section in sections:
        if why := getattr(section, "refused", {}).get(name):
            return str(why)
    known = [each for section in sections for each in section.model_fields]
    if near := did_you_mean(name, known, cutoff=0.8):
        return f"unknown key{near}"
    if elsewhere := [repr(".".join(place)) for place in _places(model, name)]:
        return f"unknown key; did you mean {' or '.join(elsewhere)}?"
    return f"unknown key{did_you_mean(name, known)}"


def _places(model: type[pydantic.BaseModel], name: str) -> Iterator[tuple[str, ...]]:
    """Yield every key of `model` and its sections whose last part is `name`, without sections in lists and mappings."""
    for key, field in model.model_fields.items():
        if key == name:
            yield (key,)
        kinds = (field.annotation, *get_args(field.annotation))
        for kind in kinds if get_origin(field.annotation) not in (list, tuple, dict) else ():
            if isinstance(kind, type) and issubclass(kind, pydantic.BaseModel):
                yield from ((key, *inner) for inner in _places(kind, name))


def _classes(model: type[pydantic.BaseModel], key: Sequence[str]) -> list[type[pydantic.BaseModel]]:
    """Return the configuration classes that the section `key` may have."""
    types: list[Any] = [model]
    for part in key:
        types = [inner for annotation in types for inner in _inside(annotation, part)]
    return [kind for annotation in types for kind in _section_types(annotation)]


def _inside(annotation: Any, part: str) -> Iterator[Any]:
    """Yield the types that `part` may have in a value of type `annotation`: a field of a class, an entry of a list or
    mapping.
    """
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        if part in annotation.model_fields:
            yield annotation.model_fields[part].annotation
    elif get_origin(annotation) in (dict, list, tuple):
        yield from get_args(annotation)
    else:
        for member in get_args(annotation):  # the members of a Union, or the arguments of Annotated
            yield from _inside(member, part)


def _section_types(annotation: Any) -> Iterator[type[pydantic.BaseModel]]:
    """Yield the configuration classes in a type, at any depth. For `list[Strategy | str]`: Strategy."""
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _section_types(inner)


def _show(value: Any) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False)
    except TypeError:
        # Such as a date or a pathlib.Path: str() would look like a valid text value.
        text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
