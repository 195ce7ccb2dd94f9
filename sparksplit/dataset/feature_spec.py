"""One raw column as a fitted feature: its stored values, and its part of the model's input.

Everything that turns a raw column into the model's input is here, as data. `preprocess` and `predict` use it on
executors (NumPy). Nodes and the exported model use it in their TensorFlow graphs. Both must give the same bits.

raw -> stored: a number unchanged, the index of a category or token, the days of a date, the microseconds of a
timestamp. A missing value (null or empty text) is NaN in a float tensor, and the dtype's minimum in a tensor of whole
numbers.
stored -> model: a part of the float input `numbers`, or an input of indices with the feature's own name.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeGuard

import pydantic

from sparksplit.base.later_keys import LaterKeys

NUMBERS = "numbers"
"""The model's input that holds all number features, side by side in the order of the features."""
MISSING, UNKNOWN, FIRST = 0, 1, 2
"""Indices of a category: a missing value, a value that is not in the vocabulary, and the vocabulary's first entry."""
PADDING = 0
"""The index after a text's last token. Tokens use UNKNOWN and FIRST like categories."""
HASH_KEY = (0x5350414B, 0x53504C54)
"""Key of SipHash-2-4, which distributes a category's values over its `hash` indices."""
Parts = Literal["month", "day", "weekday", "hour"]
Encoding = Literal["embedding", "one-hot"]


class _Feature(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    column: str
    """The raw column."""
    type: str
    """The raw column's Spark type; string for a file of texts."""
    tensor: str
    """The stored tensor that holds the feature's values."""
    place: int
    """Position of the first value in a flattened row of that tensor."""
    values: int = 1
    """Number of values there: more than one for an array, whose numbers follow each other, and for a text."""


class Scaled(pydantic.BaseModel):
    """x_model = (x - offset) * scale, after missing values have become `impute`. Each is one number, or one for each of
    an array's values.
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    impute: float | list[float] = 0.0
    offset: float | list[float] = 0.0
    scale: float | list[float] = 1.0


class Number(_Feature):
    """A number or an array of numbers: clipped, then log1p, then scaled. `scaled` is in the units after clip and log1p.

    Model inputs: its values in `numbers`. With `indicator`, as many more numbers follow, each 1.0 for a missing value.
    With `buckets`, an index instead: MISSING, or 1 + the number of boundaries that are at most the value.
    """

    kind: Literal["number"] = "number"
    clip: tuple[float, float] | None = None
    log1p: bool = False
    scaled: Scaled = Scaled()
    indicator: bool = False
    buckets: list[float] | None = None
    """Ascending boundaries, in raw units."""
    encoding: Encoding = "one-hot"
    """Encoding of the buckets."""

    @property
    def size(self) -> int:
        """Number of indices, with `buckets`."""
        return len(self.buckets or ()) + 2


class Category(_Feature):
    """One of many texts: its index, as an input of its own (embedding) or one-hot in `numbers`."""

    kind: Literal["category"] = "category"
    vocabulary: list[str] = []
    """Texts with an index of their own, from FIRST on, the most frequent first."""
    hash: int | None = None
    """Without a vocabulary: number of indices, from 1 on, over which the texts' hashes are distributed."""
    encoding: Encoding = "embedding"

    @property
    def size(self) -> int:
        """Number of indices."""
        return FIRST + len(self.vocabulary) if self.hash is None else 1 + self.hash


class Date(LaterKeys, _Feature):
    """A day (days since 1970), or a timestamp (microseconds since 1970 by the wall clock).

    Model inputs, in `numbers`: sine and cosine of each of the `parts`; with `since`, the scaled days since that day;
    and 1.0 if the value is missing, with 0 for all the others.
    """

    later = ("format",)

    kind: Literal["date"] = "date"
    moment: bool = False
    """Whether the value has a time of day."""
    format: str | None = None
    """Format of its texts, in Spark's pattern letters; None: ISO 8601."""
    parts: list[Parts] = []
    since: str | None = None
    """A day, as YYYY-MM-DD."""
    scaled: Scaled = Scaled()


class Text(_Feature):
    """A text as the indices of its first `values` tokens, as an input of its own."""

    kind: Literal["text"] = "text"
    unit: Literal["characters", "words"] = "words"
    lowercase: bool = True
    """Whether A to Z are read as a to z. Other letters stay unchanged."""
    vocabulary: list[str] = []
    """Tokens with an index of their own, from FIRST on, the most frequent first."""

    @property
    def size(self) -> int:
        """Number of indices."""
        return FIRST + len(self.vocabulary)


Feature = Annotated[Number | Category | Date | Text, pydantic.Field(discriminator="kind")]
"""Any kind of feature."""


def _is_index(feature: Number | Category | Date | Text) -> TypeGuard[Number | Category | Text]:
    """Whether the feature is an input of indices."""
    if isinstance(feature, Number):
        return feature.buckets is not None and feature.encoding == "embedding"
    return isinstance(feature, Text) or (isinstance(feature, Category) and feature.encoding == "embedding")


def categories(features: list[Number | Category | Date | Text]) -> dict[str, int]:
    """Return the model's inputs of indices: by name, the number of different indices."""
    return {feature.column: feature.size for feature in features if _is_index(feature)}


def inputs(features: list[Number | Category | Date | Text]) -> dict[str, tuple[int, ...]]:
    """Return the shape of one row of each of the model's inputs, by name.

    `numbers` comes first, if it exists. The inputs of indices follow in the order of the features.
    """
    indexed = categories(features)
    width = sum(_width(feature) for feature in features if feature.column not in indexed)
    shapes: dict[str, tuple[int, ...]] = {NUMBERS: (width,)} if width else {}
    for feature in features:
        if feature.column in indexed:
            shapes[feature.column] = (feature.values,) if isinstance(feature, Text) or feature.values > 1 else ()
    return shapes


def _width(feature: Number | Category | Date | Text) -> int:
    """Return how many of the `numbers` belong to a feature."""
    if isinstance(feature, Number):
        return feature.values * (feature.size if feature.buckets is not None else 1 + feature.indicator)
    if isinstance(feature, Date):
        return 2 * len(feature.parts) + (feature.since is not None) + 1
    return feature.size if isinstance(feature, Category) else 0
