"""SipHash-2-4 of many texts at once, equal to TensorFlow's `tf.strings.to_hash_bucket_strong`.

Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF" (2012): 2 rounds for each 8 bytes, 4 at the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

U64 = npt.NDArray[np.uint64]


def siphash(texts: pa.Array, key: tuple[int, int]) -> U64:
    """Return the hash of each text's UTF-8 bytes, [texts]. A null has the hash of the empty text.

    texts: strings or bytes, with offsets of 32 or 64 bits. key: two words of 64 bits.
    """
    data, starts, lengths = text_bytes(texts)
    # With this padding, each word of a text can be read whole. The rest of the last word is masked.
    data = np.concatenate([data, np.zeros(8, np.uint8)])
    low, high = (np.uint64(word) for word in key)
    state = [
        np.full(len(starts), word ^ magic, np.uint64)
        for word, magic in (
            (low, np.uint64(0x736F6D6570736575)),
            (high, np.uint64(0x646F72616E646F6D)),
            (low, np.uint64(0x6C7967656E657261)),
            (high, np.uint64(0x7465646279746573)),
        )
    ]
    blocks = lengths >> 3
    # Sort the longest texts first. Texts that still have a word are then a slice.
    order = np.argsort(-blocks, kind="stable")
    starts, lengths, blocks = starts[order], lengths[order], blocks[order]
    for block in range(int(blocks[0]) if len(blocks) else 0):
        longer = int(np.searchsorted(-blocks, -block))
        part = [word[:longer] for word in state]
        _absorb(part, _words(data, starts[:longer] + 8 * block))
    rest = _words(data, starts + 8 * blocks)
    kept = (lengths & 7).astype(np.uint64) << np.uint64(3)
    rest &= (np.uint64(1) << kept) - np.uint64(1)
    rest |= lengths.astype(np.uint64) << np.uint64(56)
    _absorb(state, rest)
    state[2] ^= np.uint64(0xFF)
    for _ in range(4):
        _round(state)
    hashes = np.empty(len(starts), np.uint64)
    hashes[order] = state[0] ^ state[1] ^ state[2] ^ state[3]
    return hashes


def text_bytes(texts: pa.Array) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return (all bytes, the start of each text in them, the length of each text) of strings or bytes.

    A null has length 0.
    """
    wide = pa.types.is_large_string(texts.type) or pa.types.is_large_binary(texts.type)
    _, offsets, data = texts.buffers()
    if offsets is None or not len(texts):
        return np.empty(0, np.uint8), np.zeros(len(texts), np.int64), np.zeros(len(texts), np.int64)
    places: npt.NDArray[Any] = np.frombuffer(offsets, np.int64 if wide else np.int32)
    places = places[texts.offset : texts.offset + len(texts) + 1].astype(np.int64)
    lengths = np.diff(places)
    if texts.null_count:
        lengths = np.where(texts.is_null().to_numpy(zero_copy_only=False), 0, lengths)
    return np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8), places[:-1], lengths


def _words(data: npt.NDArray[np.uint8], places: npt.NDArray[np.int64]) -> U64:
    octets = data[places[:, None] + np.arange(8)]
    return np.ascontiguousarray(octets).view("<u8")[:, 0].astype(np.uint64)


def _absorb(state: list[U64], words: U64) -> None:
    state[3] ^= words
    _round(state)
    _round(state)
    state[0] ^= words


def _round(state: list[U64]) -> None:
    first, second, third, fourth = state
    first += second
    _rotate(second, 13)
    second ^= first
    _rotate(first, 32)
    third += fourth
    _rotate(fourth, 16)
    fourth ^= third
    first += fourth
    _rotate(fourth, 21)
    fourth ^= first
    third += second
    _rotate(second, 17)
    second ^= third
    _rotate(third, 32)


def _rotate(words: U64, bits: int) -> None:
    """Rotate words to the left, in place."""
    words[...] = (words << np.uint64(bits)) | (words >> np.uint64(64 - bits))
