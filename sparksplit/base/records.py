"""Records: dataclasses that cross processes or are stored in files as JSON objects. All share one writer and one
reader.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any, ClassVar, Self, cast

import pydantic

from sparksplit.base.errors import InputError

Json = pydantic.JsonValue
"""Any value of a JSON file."""
JsonObject = dict[str, Json]


class Record:
    """Base class of dataclasses that are written as JSON objects, with one key per field, in order.

    A field whose default is None is left out if its value is None; any other None is written as null. Unknown keys are
    ignored, so that this version can read records of a later version.
    """

    WHAT: ClassVar[str] = "a record of sparksplit"
    """What the file should be, for the error message."""
    REMEDY: ClassVar[str] = ""
    """What the user can do about it, for the error message."""

    def to_json(self) -> JsonObject:
        """Return the JSON object; `from_json` is the inverse."""
        return cast(JsonObject, _plain(self))

    @classmethod
    def from_json(cls, values: object, place: str) -> Self:
        """The inverse of `to_json`. Raise InputError, with `place` and the key, if `values` is not a valid object."""
        return cls.parse(json.dumps(values), place)

    @classmethod
    def parse(cls, content: bytes | str, place: str) -> Self:
        """Return the record in the text of a JSON file. place: the file, for the error. Raise InputError like
        `from_json`.
        """
        try:
            return cast(Self, _reader(cast(type, cls)).validate_json(content, strict=True))
        except pydantic.ValidationError as error:
            remedy = f"; {cls.REMEDY}" if cls.REMEDY else ""
            raise InputError(f"{place}: is not {cls.WHAT}: {_problem(error)}{remedy}") from None


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        items = ((field, getattr(value, field.name)) for field in fields(value))
        return {field.name: _plain(inner) for field, inner in items if inner is not None or not _may_be_absent(field)}
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value


def _may_be_absent(field: Field[Any]) -> bool:
    return field.default is not MISSING and field.default is None


@cache
def _reader(kind: type) -> pydantic.TypeAdapter[object]:
    return pydantic.TypeAdapter(kind)


def _problem(error: pydantic.ValidationError) -> str:
    """Return the first error in words, such as `ledger.exact is missing`."""
    first = error.errors(include_url=False, include_input=False)[0]
    key, message = ".".join(map(str, first["loc"])), first["msg"]
    if first["type"] == "json_invalid":
        return "it is not valid JSON"
    if first["type"] == "missing":
        return f"{key} is missing"
    return f"{key or 'it'}: {message[:1].lower()}{message[1:]}"
