"""Encodes categories and texts as stored indices with NumPy and Arrow. `sparksplit.model.graphs.raw_inputs` does it in
a graph.

Also defines the spelling of a category's texts, and the value for a missing number.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparksplit.dataset.feature_spec import HASH_KEY, MISSING, Category, Text
from sparksplit.features.siphash import siphash
from sparksplit.features.tokens import token_indices, vocabulary_indices

Array = npt.NDArray[Any]
BOOLEANS = ("true", "false")
"""Spark's spelling of booleans."""
_BOOLEAN = [(rf"(?i)\A\s*{text}\s*\z", text) for text in BOOLEANS]
_WHOLE = [(r"\A\s*(?:\+|(-))?0*([0-9]+)(?:\.0*)?\s*\z", r"\1\2")]


def spellings(kind: str) -> Sequence[tuple[str, str]]:
    """Return RE2 pairs (pattern, replacement) that give the texts of a category one spelling. kind: Spark's type.

    pandas writes a boolean as `True`. In a column with missing values, pandas writes a whole number as `1.0`.
    """
    return _BOOLEAN if kind == "boolean" else _WHOLE if kind in ("tinyint", "smallint", "int", "bigint") else []


def spelled(kind: str, texts: pa.Array) -> pa.Array:
    """Return the texts of a category of Spark's type `kind` in one spelling."""
    for pattern, replacement in spellings(kind):
        texts = pc.replace_substring_regex(texts, pattern, replacement)
    return texts


def index_dtype(size: int) -> str:
    """Return the smallest dtype that holds the indices 0 to `size` - 1."""
    return "uint8" if size <= 2**8 else "uint16" if size <= 2**16 else "int32"


def index_array(feature: Category | Text, texts: pa.Array) -> Array:
    """Return the indices of a category or a text, [texts, values], in the smallest dtype that holds all its indices.

    texts: strings; null and the empty text are missing values.
    """
    texts = texts.cast(pa.string())
    if isinstance(feature, Text):
        indices = token_indices(feature, texts)
    else:
        # Look up each different text once, because there are usually few.
        encoded = pc.fill_null(texts, "").dictionary_encode()
        entries = encoded.dictionary
        if feature.hash is None:
            known = vocabulary_indices(entries, feature.vocabulary)
        else:
            known = (1 + siphash(entries, HASH_KEY) % np.uint64(feature.hash)).astype(np.int32)
        known = np.where(pc.equal(entries, "").to_numpy(zero_copy_only=False), MISSING, known)
        indices = known[encoded.indices.to_numpy()][:, None]
    return indices.astype(index_dtype(feature.size))


def missing_value(dtype: Any) -> Any:
    """Return the value for a missing number: NaN, or the smallest number of a signed dtype. None: an unsigned dtype."""
    kind = np.dtype(dtype)
    return kind.type(np.nan) if kind.kind == "f" else np.iinfo(kind).min if kind.kind == "i" else None
