"""tf.train.Example without TensorFlow: serialised Examples become Arrow columns.

This module describes the messages, and protobuf reads them. A packed list of floats is read as its raw bytes, which is
twice as fast as a list of Python floats.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import DecodeError

_LISTS = {"float": "float_list", "int64": "int64_list", "text": "bytes_list", "binary": "bytes_list"}
_TYPES = {"float": pa.float32(), "int64": pa.int64(), "text": pa.string(), "binary": pa.binary()}
_MISSING = {"float": b"\0" * 4, "int64": (0,), "text": (b"",), "binary": (b"",)}


@dataclass(frozen=True)
class Feature:
    """A feature of all Examples.

    kind: float, int64, text (bytes in UTF-8) or binary.
    several: whether it may have more than one value.
    """

    name: str
    kind: str
    several: bool

    @property
    def type(self) -> pa.DataType:
        """The type of the feature's column. With several values, a list."""
        return pa.list_(_TYPES[self.kind]) if self.several else _TYPES[self.kind]


def _messages(floats_as_bytes: bool) -> Any:
    """Return the class of tf.train.Example, as tensorflow/core/example/example.proto describes it."""
    kinds = descriptor_pb2.FieldDescriptorProto
    package = "sparksplit.packed" if floats_as_bytes else "sparksplit.plain"
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")

    def add(message: Any, name: str, number: int, kind: Any, repeated: bool = False, of: str = "") -> Any:
        label = kinds.LABEL_REPEATED if repeated else kinds.LABEL_OPTIONAL
        field = message.field.add(name=name, number=number, type=kind, label=label)
        if of:
            field.type_name = f".{package}.{of}"
        return field

    add(file.message_type.add(name="BytesList"), "value", 1, kinds.TYPE_BYTES, repeated=True)
    floats = file.message_type.add(name="FloatList")
    add(floats, "value", 1, kinds.TYPE_BYTES if floats_as_bytes else kinds.TYPE_FLOAT, repeated=not floats_as_bytes)
    add(file.message_type.add(name="Int64List"), "value", 1, kinds.TYPE_INT64, repeated=True)
    feature = file.message_type.add(name="Feature")
    feature.oneof_decl.add(name="kind")
    for number, name in enumerate(("bytes_list", "float_list", "int64_list"), 1):
        of = "".join(word.capitalize() for word in name.split("_"))
        add(feature, name, number, kinds.TYPE_MESSAGE, of=of).oneof_index = 0
    features = file.message_type.add(name="Features")
    entry = features.nested_type.add(name="FeatureEntry", options={"map_entry": True})
    add(entry, "key", 1, kinds.TYPE_STRING)
    add(entry, "value", 2, kinds.TYPE_MESSAGE, of="Feature")
    add(features, "feature", 1, kinds.TYPE_MESSAGE, repeated=True, of="Features.FeatureEntry")
    add(file.message_type.add(name="Example"), "features", 1, kinds.TYPE_MESSAGE, of="Features")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.Example"))


_Plain, _Packed = _messages(floats_as_bytes=False), _messages(floats_as_bytes=True)


def features_of(records: Iterable[bytes]) -> list[Feature]:
    """Return the features of the serialised Examples, by name (f2 before f10). Records that are no Examples are
    skipped.

    A feature has the kind of its first values. A text becomes binary if later bytes are not UTF-8. A feature has
    several values if any record has more than one.
    """
    kinds: dict[str, str] = {}
    several: set[str] = set()
    for record in records:
        for name, kind, values in _read(record):
            known = kinds.setdefault(name, kind)
            if known == "text" and kind == "binary":
                kinds[name] = kind
            if len(values) > 1:
                several.add(name)
    return [Feature(name, kinds[name], name in several) for name in sorted(kinds, key=_natural)]


def _natural(name: str) -> list[Any]:
    """Return the sorting key of a name, in which digits count as numbers."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"(\d+)", name)] + [(-1, name)]


def _read(record: bytes) -> list[tuple[str, str, Sequence[Any]]]:
    """Return (name, kind, values) of each feature that has values. Return an empty list for a record that is no
    Example."""
    try:
        features = _Plain.FromString(record).features.feature
    except DecodeError:
        return []
    filled = []
    for name, feature in features.items():
        field = feature.WhichOneof("kind")
        values = getattr(feature, field).value if field else ()
        if field == "bytes_list":
            kind = "text" if all(map(_is_text, values)) else "binary"
        else:
            kind = "float" if field == "float_list" else "int64"
        if len(values):
            filled.append((name, kind, values))
    return filled


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True


def columns(records: Sequence[bytes], features: Sequence[Feature]) -> tuple[list[pa.Array], dict[int, str]]:
    """Return (a column for each feature, what is wrong with a record by its place in `records`).

    A feature that a record lacks, or has without values, is null. The rows of wrong records hold arbitrary values.
    """
    wrong: dict[int, str] = {}
    values: dict[str, list[Any]] = {field: [] for field in _LISTS.values()}
    by_list = {field: [each for each in features if _LISTS[each.kind] == field] for field in values}
    floats, ints, texts = (
        [each.name for each in by_list[field]] for field in ("float_list", "int64_list", "bytes_list")
    )
    for place, record in enumerate(records):
        try:
            given = _Packed.FromString(record).features.feature
        except DecodeError:
            wrong[place] = "is not a tf.train.Example"
            given = _Packed().features.feature
        # Reading a missing feature adds an empty one.
        values["float_list"].extend([given[name].float_list.value for name in floats])
        values["int64_list"].extend([given[name].int64_list.value for name in ints])
        values["bytes_list"].extend([given[name].bytes_list.value for name in texts])
        if len(given) > len(features):
            known = {each.name for each in features}
            more = next((name for name, _, _ in _read(record) if name not in known), None)
            if more is not None:
                wrong[place] = f"has a feature {more!r}, which the first records of the input do not have"
    made = {
        feature.name: _column(feature, values[field][number :: len(group)], records, wrong)
        for field, group in by_list.items()
        for number, feature in enumerate(group)
    }
    return [made[feature.name] for feature in features], wrong


def _column(feature: Feature, values: list[Any], records: Sequence[bytes], wrong: dict[int, str]) -> pa.Array:
    """Return the column of `values`: for each record, packed floats or a list. Add problems to `wrong`."""
    lengths = np.fromiter(map(len, values), np.int64, len(values))
    null = lengths == 0
    for place in np.flatnonzero(null).tolist():
        values[place], problem = _second_look(feature, records[place])
        lengths[place], null[place] = len(values[place]), not len(values[place])
        if problem:
            wrong.setdefault(place, problem)
    if feature.kind == "float":
        lengths //= 4
    if not feature.several:
        for place in np.flatnonzero(lengths > 1).tolist():
            wrong.setdefault(place, f"feature {feature.name!r} has {lengths[place]} values, 1 is needed")
        for place in np.flatnonzero(lengths != 1).tolist():
            values[place] = _MISSING[feature.kind]
    flat = _flat(feature, values, wrong)
    if not feature.several:
        return pa.array(flat, _TYPES[feature.kind], mask=null)
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    return pa.ListArray.from_arrays(offsets, pa.array(flat, _TYPES[feature.kind]), mask=pa.array(null))


def _flat(feature: Feature, values: list[Any], wrong: dict[int, str]) -> npt.NDArray[Any]:
    """Return all values in one array."""
    if feature.kind == "float":
        return np.frombuffer(b"".join(values), "<f4")
    flat = list(chain.from_iterable(values))
    if feature.kind == "text":
        flat = _texts(feature, flat, values, wrong)
    return np.array(flat, np.int64 if feature.kind == "int64" else object)


def _second_look(feature: Feature, record: bytes) -> tuple[Any, str]:
    """Return (the values of a feature that seems to have none, what is wrong with it).

    Floats that are written one by one, not packed, seem to be missing at first.
    """
    empty: Any = b"" if feature.kind == "float" else ()
    for name, kind, values in _read(record):
        if name == feature.name and _LISTS[kind] != _LISTS[feature.kind]:
            return empty, f"feature {name!r} is {kind} here and {feature.kind} in the first records of the input"
        if name == feature.name:
            return np.array(values, "<f4").tobytes(), ""
    return empty, ""


def _texts(feature: Feature, flat: list[bytes], values: list[Any], wrong: dict[int, str]) -> list[str]:
    try:
        return [value.decode() for value in flat]
    except UnicodeDecodeError:
        for place, several in enumerate(values):
            if not all(map(_is_text, several)):
                wrong.setdefault(place, f"feature {feature.name!r} is not UTF-8 text")
        return [value.decode(errors="replace") for value in flat]
