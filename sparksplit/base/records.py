"""Records: dataclasses that cross processes or are kept in files as JSON objects; one writer and one reader for all."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from typing import Any, ClassVar, Self, cast

import pydantic

from sparksplit.base.errors import InputError

Json = pydantic.JsonValue
"""What a JSON file can hold."""
JsonObject = dict[str, Json]


class Record:
    """Base class of dataclasses that are written as JSON objects, with a key for each field, in order.

    A field whose default is None is left out when it has no value; any other None is written as null. Keys that no
    field has are ignored, so that what a later version adds can be read.
    """

    WHAT: ClassVar[str] = "a record of sparksplit"
    """What the file should be, for the error message when it is not."""
    REMEDY: ClassVar[str] = ""
    """What to do in that case."""

    def to_json(self) -> JsonObject:
        """The JSON object; `from_json` is the inverse."""
        return cast(JsonObject, _plain(self))

    @classmethod
    def from_json(cls, values: object, place: str) -> Self:
        """The inverse of `to_json`. Raises InputError, with `place` and the key, where `values` is no such object."""
        return cls.parse(json.dumps(values), place)

    @classmethod
    def parse(cls, content: bytes | str, place: str) -> Self:
        """The record in the text of a JSON file. place: the file, for the error. Raises InputError like `from_json`."""
        try:
            return cast(Self, _reader(cast(type, cls)).validate_json(content, strict=True))
        except pydantic.ValidationError as error:
            remedy = f"; {cls.REMEDY}" if cls.REMEDY else ""
            raise InputError(f"{place}: is not {cls.WHAT}: {_problem(error)}{remedy}") from None


def _plain(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        items = ((field, getattr(value, field.name)) for field in fields(value))
        return {field.name: _plain(own) for field, own in items if own is not None or not _may_be_absent(field)}
    if isinstance(value, Mapping):
        return {str(key): _plain(own) for key, own in value.items()}
    return [_plain(own) for own in value] if isinstance(value, list | tuple) else value


def _may_be_absent(field: Field[Any]) -> bool:
    return field.default is not MISSING and field.default is None


@cache
def _reader(kind: type) -> pydantic.TypeAdapter[object]:
    return pydantic.TypeAdapter(kind)


def _problem(error: pydantic.ValidationError) -> str:
    """The first thing that is wrong, such as `ledger.exact is missing`."""
    first = error.errors(include_url=False, include_input=False)[0]
    key, message = ".".join(map(str, first["loc"])), first["msg"]
    if first["type"] == "json_invalid":
        return "it is not valid JSON"
    if first["type"] == "missing":
        return f"{key} is missing"
    return f"{key or 'it'}: {message[:1].lower()}{message[1:]}"
