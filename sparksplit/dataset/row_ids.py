"""Row ids, lanes, the validation cut and the ledger's checksum: pure functions of 64-bit integers.

A row's identity is a hash of its content, so it does not depend on files, tasks or executors. All arithmetic is on
uint64, modulo 2^64. Parquet and Spark know no unsigned integers, so ids are stored as int64 with the same bits.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

U64 = npt.NDArray[np.uint64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_CUT = np.uint64(0xD1B54A32D192ED03)
"""Separates the cut into splits from every other use of the content's hash."""

_GROUPS = np.uint64(0x8CB92BA72F3D8DD7)
"""Separates the cut of groups from every other use of a group's hash."""


def mix64(x: npt.ArrayLike) -> U64:
    """The finaliser of splitmix64, elementwise: a bijection of uint64; every input bit reaches every output bit.

    Source: Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators (OOPSLA 2014); Vigna's splitmix64.c.
    """
    z = np.atleast_1d(np.asarray(x, dtype=np.uint64))
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return z.reshape(np.shape(x))


def mix64_int(x: int) -> int:
    """`mix64` of one Python integer in 0..2^64-1, twenty times faster than NumPy would be."""
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
    return x ^ x >> 31


def content_hash(fixed: npt.NDArray[np.uint8], text: Sequence[bytes] | None = None) -> U64:
    """The content hash of each row: uint64 [rows, 2], BLAKE2b with a digest of 16 bytes, little-endian.

    fixed: uint8 [rows, width], each row's values as little-endian bytes of their declared dtypes, the label included
    text: where the label is text, its UTF-8 bytes, one entry for each row

    Both words together tell whether two rows are the same; the first alone makes the row_id.
    """
    rows = np.ascontiguousarray(fixed)
    out = bytearray()
    blake2b = hashlib.blake2b
    if text is None:
        for row in rows:
            out += blake2b(row, digest_size=16).digest()
    else:
        for row, tail in zip(rows, text, strict=True):
            out += blake2b(row.tobytes() + tail, digest_size=16).digest()
    return np.frombuffer(out, dtype="<u8").reshape(len(rows), 2).astype(np.uint64, copy=False)


def row_id(content_hash64: npt.ArrayLike, duplicate_number: npt.ArrayLike) -> U64:
    """The row_id of the rows with this content hash (first word) and number among equal rows of the whole source.

    Number 0 keeps the hash itself; number d is the d-th output of splitmix64 seeded with it.
    """
    content = np.asarray(content_hash64, dtype=np.uint64)
    number = np.asarray(duplicate_number, dtype=np.uint64)
    content, number = np.broadcast_arrays(content, number)
    with np.errstate(over="ignore"):
        return np.where(number == 0, content, mix64(content + number * _GOLDEN))


def another_id(content: tuple[int, int], number: int, attempt: int) -> int:
    """The id of a row whose `row_id` a different row has: the `attempt`-th, from 1.

    content: both words of its hash. number: its number among equal rows.
    """
    mixed = mix64_int(mix64_int(content[0]) ^ content[1])
    return mix64_int((mixed + number * int(_GOLDEN) + attempt * int(_CUT)) % 2**64)


def duplicate_numbers(content: U64, *keys: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The number (0, 1, ...) of each row among the rows with the same content hash, in the order of `keys` (the first
    one first), and then in the order given.

    content: uint64 [rows, 2]. keys: [rows] each
    """
    order = np.lexsort((*reversed(keys), content[:, 1], content[:, 0]))
    ordered = content[order]
    first = np.ones(len(content), dtype=bool)
    first[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    position = np.arange(len(content))
    start = np.maximum.accumulate(np.where(first, position, 0))
    numbers = np.empty(len(content), dtype=np.int64)
    numbers[order] = position - start
    return numbers


def lane_of(row_ids: npt.ArrayLike, lanes: int) -> npt.NDArray[np.int32]:
    """The lane of each row: row_id mod `lanes`, unsigned."""
    return (np.asarray(row_ids, dtype=np.uint64) % np.uint64(lanes)).astype(np.int32)


def row_checksum(row_ids: npt.ArrayLike) -> int:
    """The ledger's checksum: the sum modulo 2^64 of mix64(row_id). It does not depend on the rows' order."""
    with np.errstate(over="ignore"):
        return int(mix64(row_ids).sum(dtype=np.uint64))


def split_fraction(content: U64, duplicate_number: npt.ArrayLike, seed: int) -> npt.NDArray[np.float64]:
    """A uniform number in [0, 1) for each row, by which validation and test are cut.

    Every row has its own, equal rows because of their numbers: if equal rows were kept together, rows that differ only
    in the label would be dealt apart, and data with few distinct rows would miss the share by far. It is made from both
    words of the hash, mixed differently from the row_id, so that lanes stay even.

    content: uint64 [rows, 2]. duplicate_number: each row's number among equal rows of the whole source [rows]
    """
    number = np.asarray(duplicate_number, dtype=np.uint64)
    with np.errstate(over="ignore"):
        keyed = mix64(np.uint64(seed % 2**64) + _CUT)
        mixed = mix64(mix64(content[:, 0] ^ keyed) + content[:, 1])
        mixed = mix64(mixed + number * _GOLDEN)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def group_fraction(groups: npt.ArrayLike, seed: int) -> npt.NDArray[np.float64]:
    """A uniform number in [0, 1) for each row, the same for rows of one group: validation and test are cut by it where
    groups stay together.

    groups: a 64-bit hash of the group that each row belongs to, as int64 or uint64 [rows]
    """
    hashes = np.ascontiguousarray(groups).view(np.uint64)
    with np.errstate(over="ignore"):
        keyed = mix64(np.uint64(seed % 2**64) + _GROUPS)
        mixed = mix64(mix64(hashes ^ keyed) + _GOLDEN)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def signed(ids: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """uint64 as the int64 of the same bits: how Parquet and Spark hold it."""
    return np.ascontiguousarray(ids, dtype=np.uint64).view(np.int64)


def unsigned(ids: npt.ArrayLike) -> U64:
    """The reverse of `signed`."""
    return np.ascontiguousarray(ids, dtype=np.int64).view(np.uint64)
