"""A text's tokens (words or characters) and their indices, as the exported model's graph makes them.

Both sides use RE2, which pyarrow and TensorFlow contain, and ASCII white space. So there is one definition.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparksplit.dataset.feature_spec import FIRST, PADDING, UNKNOWN, Text
from sparksplit.features.siphash import text_bytes

ALONE = r"([^\pL\pN_\s])"
"""A character that is always a word of its own: neither letter, digit, underscore nor ASCII white space."""
APART = r" \1 "


def tokens(texts: pa.Array, unit: str, lowercase: bool) -> pa.Array:
    """Return the tokens of each text as a list array [texts]. A null has no tokens.

    texts: pa.string(). unit: `words`, or `characters` (code points). lowercase: whether A to Z become a to z.
    """
    texts = pc.fill_null(texts.cast(pa.string()), "")
    if lowercase:
        texts = pc.ascii_lower(texts)
    if unit == "characters":
        return _characters(texts)
    words = pc.ascii_split_whitespace(pc.replace_substring_regex(texts, ALONE, APART))
    # White space at either end of a text leaves an empty word.
    offsets, values = words.offsets.to_numpy().astype(np.int64), words.flatten()
    kept = pc.not_equal(values, "").to_numpy(zero_copy_only=False)
    before = np.concatenate([[0], np.cumsum(kept)])
    ends = before[offsets - offsets[0]]
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), values.filter(pa.array(kept)))


def token_indices(feature: Text, texts: pa.Array) -> npt.NDArray[np.int32]:
    """Return the indices of each text's first `feature.values` tokens, [texts, values], with PADDING after the last
    token.

    texts: pa.string(); a null has no tokens.
    """
    lists = tokens(texts, feature.unit, feature.lowercase)
    offsets = lists.offsets.to_numpy().astype(np.int64)
    offsets, values = offsets - offsets[0], lists.flatten()
    counts = np.diff(offsets)
    place = np.arange(len(values)) - np.repeat(offsets[:-1], counts)
    row = np.repeat(np.arange(len(texts)), counts)
    kept = place < feature.values
    indices = vocabulary_indices(values.filter(pa.array(kept)), feature.vocabulary)
    result = np.full((len(texts), feature.values), PADDING, np.int32)
    result[row[kept], place[kept]] = indices
    return result


def vocabulary_indices(texts: pa.Array, vocabulary: list[str]) -> npt.NDArray[np.int32]:
    """Return FIRST + each text's place in the vocabulary, or UNKNOWN for any other text, [texts].

    texts: without nulls.
    """
    places = pc.index_in(texts, value_set=pa.array(vocabulary, pa.string()))
    indices: npt.NDArray[np.int32] = pc.fill_null(places, UNKNOWN - FIRST).to_numpy().astype(np.int32) + FIRST
    return indices


def _characters(texts: pa.Array) -> pa.Array:
    data, starts, lengths = text_bytes(texts)
    if not len(texts):
        return pa.ListArray.from_arrays(pa.array([0], pa.int32()), pa.array([], pa.string()))
    first, end = int(starts[0]), int(starts[-1] + lengths[-1])
    data = np.ascontiguousarray(data[first:end])
    # In UTF-8, all bytes of a code point except the first byte are 10xxxxxx.
    begins = np.flatnonzero((data & 0xC0) != 0x80)
    offsets = np.append(begins, len(data)).astype(np.int32)
    characters = pa.StringArray.from_buffers(len(begins), pa.py_buffer(offsets), pa.py_buffer(data))
    bounds = np.searchsorted(begins, np.append(starts, end) - first).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(bounds), characters)
