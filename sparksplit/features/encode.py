"""Categories and texts as stored indices, by NumPy and Arrow; `sparksplit.model.graphs.raw_inputs` does so in a graph.

Also how a category's texts are spelled, and what stands for a missing number.
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
"""How Spark spells booleans."""
_BOOLEAN = [(rf"(?i)\A\s*{text}\s*\z", text) for text in BOOLEANS]
_WHOLE = [(r"\A\s*(?:\+|(-))?0*([0-9]+)(?:\.0*)?\s*\z", r"\1\2")]


def spellings(kind: str) -> Sequence[tuple[str, str]]:
    """(pattern, replacement), both RE2: what gives the texts of a category of Spark's type `kind` one spelling. pandas
    writes a boolean as `True`, and a whole number of a column with gaps as `1.0`."""
    return _BOOLEAN if kind == "boolean" else _WHOLE if kind in ("tinyint", "smallint", "int", "bigint") else []


def spelled(kind: str, texts: pa.Array) -> pa.Array:
    """The texts of a category of Spark's type `kind` in one spelling."""
    for pattern, replacement in spellings(kind):
        texts = pc.replace_substring_regex(texts, pattern, replacement)
    return texts


def index_dtype(size: int) -> str:
    """The smallest dtype that holds `size` different indices, 0 among them."""
    return "uint8" if size <= 2**8 else "uint16" if size <= 2**16 else "int32"


def index_array(feature: Category | Text, texts: pa.Array) -> Array:
    """The indices of a category or a text, [texts, values], of the smallest dtype that holds them all.

    texts: of strings; null and the empty text are missing.
    """
    texts = texts.cast(pa.string())
    if isinstance(feature, Text):
        indices = token_indices(feature, texts)
    else:
        # There are few different ones, mostly, and each is looked up once.
        found = pc.fill_null(texts, "").dictionary_encode()
        entries = found.dictionary
        if feature.hash is None:
            known = vocabulary_indices(entries, feature.vocabulary)
        else:
            known = (1 + siphash(entries, HASH_KEY) % np.uint64(feature.hash)).astype(np.int32)
        known = np.where(pc.equal(entries, "").to_numpy(zero_copy_only=False), MISSING, known)
        indices = known[found.indices.to_numpy()][:, None]
    return indices.astype(index_dtype(feature.size))


def missing_value(dtype: Any) -> Any:
    """What stands for a missing number: NaN, or the least whole number of a signed dtype. Unsigned ones have none."""
    kind = np.dtype(dtype)
    return kind.type(np.nan) if kind.kind == "f" else np.iinfo(kind).min if kind.kind == "i" else None
