"""Row ids, lanes, the cut into splits, and the ledger's checksum: pure functions of 64-bit integers.

A row is identified by a hash of its content, so its id does not depend on files, tasks or executors. All arithmetic is
on uint64, modulo 2^64. Parquet and Spark have no unsigned integers, so ids are stored as int64 with the same bits.
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

_WEIGHTS = np.uint64(0xA0761D6478BD642F)
"""Separates the hash of a row's weight from the hash of its row_id."""


def mix64(x: npt.ArrayLike) -> U64:
    """Return splitmix64's finaliser, elementwise: a bijection of uint64. Every input bit affects every output bit.

    Source: Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators (OOPSLA 2014); Vigna's splitmix64.c.
    """
    z = np.atleast_1d(np.asarray(x, dtype=np.uint64))
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return z.reshape(np.shape(x))


def mix64_int(x: int) -> int:
    """`mix64` of one Python integer in 0..2^64-1. Twenty times faster than NumPy for one number."""
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ x >> 27) * 0x94D049BB133111EB % 2**64
    return x ^ x >> 31


def content_hash(fixed: npt.NDArray[np.uint8], text: Sequence[bytes] | None = None) -> U64:
    """Return the content hash of each row: uint64 [rows, 2], BLAKE2b with a digest of 16 bytes, little-endian.

    fixed: uint8 [rows, width]: each row's values, including the label, as little-endian bytes of their declared dtypes
    text: UTF-8 bytes of each row's label, if the label is text

    Two rows are equal if both words are equal. The row_id is made from the first word alone.
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
    """Return the row_id of rows with this content hash (first word) and this number among equal rows of the whole
    source.

    Number 0 keeps the hash itself. Number d gives the d-th output of splitmix64 seeded with the hash.
    """
    content = np.asarray(content_hash64, dtype=np.uint64)
    number = np.asarray(duplicate_number, dtype=np.uint64)
    content, number = np.broadcast_arrays(content, number)
    with np.errstate(over="ignore"):
        return np.where(number == 0, content, mix64(content + number * _GOLDEN))


def another_id(content: tuple[int, int], number: int, attempt: int) -> int:
    """Return the `attempt`-th (from 1) other id for a row whose `row_id` is taken by a different row.

    content: both words of its hash. number: its number among equal rows.
    """
    mixed = mix64_int(mix64_int(content[0]) ^ content[1])
    return mix64_int((mixed + number * int(_GOLDEN) + attempt * int(_CUT)) % 2**64)


def duplicate_numbers(content: U64, *keys: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return each row's number (0, 1, ...) among the rows with the same content hash, sorted by `keys`.

    The first key counts most; ties keep the given order. content: uint64 [rows, 2]. keys: [rows] each
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
    """Return the lane of each row: row_id mod `lanes`, unsigned."""
    return (np.asarray(row_ids, dtype=np.uint64) % np.uint64(lanes)).astype(np.int32)


def spread(rows: int) -> U64:
    """Return `rows` numbers at equal distances over all of uint64, ascending: [rows]."""
    return np.arange(rows, dtype=np.uint64) * np.uint64((2**64 - 1) // max(1, rows))


def row_checksum(row_ids: npt.ArrayLike) -> int:
    """Return the ledger's checksum: the sum modulo 2^64 of mix64(row_id). The order of the rows does not matter."""
    with np.errstate(over="ignore"):
        return int(mix64(row_ids).sum(dtype=np.uint64))


def weight_hashes(row_ids: npt.ArrayLike, weights: npt.ArrayLike) -> U64:
    """Return a hash of each row's row_id and weight [rows].

    weights: any type of number that float64 holds [rows]
    """
    bits = np.asarray(weights, dtype=np.float64).view(np.uint64)
    with np.errstate(over="ignore"):
        return mix64(mix64(row_ids) + mix64(bits ^ _WEIGHTS))


def weights_checksum(row_ids: npt.ArrayLike, weights: npt.ArrayLike) -> int:
    """Return a checksum of the rows' weights: the sum modulo 2^64 of `weight_hashes`. The order of the rows does not
    matter."""
    with np.errstate(over="ignore"):
        return int(weight_hashes(row_ids, weights).sum(dtype=np.uint64))


def content_checksum(row_ids: npt.ArrayLike, content: U64) -> int:
    """Return a checksum of what rows hold, if their row_ids are numbers: the sum modulo 2^64 of a hash of each row's
    row_id and content. content: uint64 [rows, 2]
    """
    with np.errstate(over="ignore"):
        return int(mix64(mix64(mix64(row_ids) + content[:, 0]) + content[:, 1]).sum(dtype=np.uint64))


def split_fraction(content: U64, duplicate_number: npt.ArrayLike, seed: int) -> npt.NDArray[np.float64]:
    """Return a uniform number in [0, 1) for each row. Validation and test are cut by it.

    Equal rows get different numbers through their duplicate numbers. Keeping equal rows together would separate rows
    that differ only in the label. Data with few distinct rows would then miss the requested fraction by far. The number
    uses both words of the hash, mixed differently from the row_id, so that lanes stay even.

    content: uint64 [rows, 2]. duplicate_number: each row's number among equal rows of the whole source [rows]
    """
    number = np.asarray(duplicate_number, dtype=np.uint64)
    with np.errstate(over="ignore"):
        keyed = mix64(np.uint64(seed % 2**64) + _CUT)
        mixed = mix64(mix64(content[:, 0] ^ keyed) + content[:, 1])
        mixed = mix64(mixed + number * _GOLDEN)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def group_fraction(groups: npt.ArrayLike, seed: int) -> npt.NDArray[np.float64]:
    """Return a uniform number in [0, 1) for each row, equal for rows of one group. Validation and test are cut by it if
    groups stay together.

    groups: a 64-bit hash of each row's group, as int64 or uint64 [rows]
    """
    hashes = np.ascontiguousarray(groups).view(np.uint64)
    with np.errstate(over="ignore"):
        keyed = mix64(np.uint64(seed % 2**64) + _GROUPS)
        mixed = mix64(mix64(hashes ^ keyed) + _GOLDEN)
    return (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53


def signed(ids: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return uint64 as int64 with the same bits, for Parquet and Spark."""
    return np.ascontiguousarray(ids, dtype=np.uint64).view(np.int64)


def unsigned(ids: npt.ArrayLike) -> U64:
    """The inverse of `signed`."""
    return np.ascontiguousarray(ids, dtype=np.int64).view(np.uint64)
