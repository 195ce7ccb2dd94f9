"""One raw column as a feature, fitted: which stored values it has, and what the model gets of them.

Everything that turns a raw column into the model's input is here, as data: `preprocess` and `predict` read it in
executors (NumPy), nodes and the exported model in their TensorFlow graphs, and both must give the same bits.

raw -> stored: a number as it is, a category's or a token's index, a date's days, a timestamp's microseconds. What is
missing (null, or an empty text) is NaN in a float tensor, and the dtype's minimum in a tensor of whole numbers.
stored -> model: a part of the float input `numbers`, or an input of indices with the feature's own name.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeGuard

import pydantic

NUMBERS = "numbers"
"""The model's input that holds all features that are numbers, side by side in the order of the features."""
MISSING, UNKNOWN, FIRST = 0, 1, 2
"""Indices of a category: of a missing value, of one that the vocabulary has not, and of its first entry."""
PADDING = 0
"""The index behind a text's last token; UNKNOWN and FIRST are a token's as they are a category's."""
HASH_KEY = (0x5350414B, 0x53504C54)
"""Of SipHash-2-4, which deals a category's values to its `hash` indices."""
Parts = Literal["month", "day", "weekday", "hour"]
Encoding = Literal["embedding", "one-hot"]


class _Feature(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    column: str
    """The raw column."""
    type: str
    """Its type, as Spark calls it; string where a file of texts has it."""
    tensor: str
    """The stored tensor that holds its values."""
    place: int
    """Where its first value is in a row of that tensor, flattened."""
    values: int = 1
    """How many it has there; more than one for an array, whose numbers follow each other, and for a text."""


class Scaled(pydantic.BaseModel):
    """x_model = (x - offset) * scale, where missing values have become `impute` first; each is one number, or one for
    each of an array's values."""

    model_config = pydantic.ConfigDict(frozen=True, extra="forbid")

    impute: float | list[float] = 0.0
    offset: float | list[float] = 0.0
    scale: float | list[float] = 1.0


class Number(_Feature):
    """A number or an array of numbers: clipped, then log1p, then scaled; `scaled` is in the units that come of that.

    Its inputs: its values in `numbers`, and with `indicator`, behind them, as many that are 1.0 where one is missing.
    With `buckets`, an index instead: MISSING, or 1 + how many of the boundaries are at most the value.
    """

    kind: Literal["number"] = "number"
    clip: tuple[float, float] | None = None
    log1p: bool = False
    scaled: Scaled = Scaled()
    indicator: bool = False
    buckets: list[float] | None = None
    """Ascending boundaries, in raw units."""
    encoding: Encoding = "one-hot"
    """Of buckets."""

    @property
    def size(self) -> int:
        """How many indices there are, with `buckets`."""
        return len(self.buckets or ()) + 2


class Category(_Feature):
    """One of many texts: its index, as an input of its own (embedding) or one-hot in `numbers`."""

    kind: Literal["category"] = "category"
    vocabulary: list[str] = []
    """The texts that have an index of their own, from FIRST on: the most frequent first."""
    hash: int | None = None
    """Instead of a vocabulary: how many indices the texts are dealt to by their hash, from 1 on."""
    encoding: Encoding = "embedding"

    @property
    def size(self) -> int:
        """How many indices there are."""
        return FIRST + len(self.vocabulary) if self.hash is None else 1 + self.hash


class Date(_Feature):
    """A day (days since 1970), or a moment (microseconds since 1970 by the wall clock).

    Its inputs, in `numbers`: sine and cosine of each of the `parts`, with `since` the days from there on, scaled, and
    1.0 where it is missing, in which case all the others are 0.
    """

    kind: Literal["date"] = "date"
    moment: bool = False
    """Whether it has a time of day."""
    format: str | None = None
    """Of its texts, by Spark's pattern letters; None: ISO 8601."""
    parts: list[Parts] = []
    since: str | None = None
    """A day, as YYYY-MM-DD."""
    scaled: Scaled = Scaled()

    @pydantic.model_serializer(mode="wrap")
    def _without_format(self, dump: pydantic.SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without `format` where there is none: files, and digests, say what they said before there were any."""
        values: dict[str, Any] = dump(self)
        return {key: value for key, value in values.items() if key != "format" or value is not None}


class Text(_Feature):
    """A text as the indices of its first `values` tokens: an input of its own."""

    kind: Literal["text"] = "text"
    unit: Literal["words", "characters"] = "words"
    lowercase: bool = True
    """Whether A to Z are read as a to z; other letters stay as they are."""
    vocabulary: list[str] = []
    """The tokens that have an index of their own, from FIRST on: the most frequent first."""

    @property
    def size(self) -> int:
        """How many indices there are."""
        return FIRST + len(self.vocabulary)


Feature = Annotated[Number | Category | Date | Text, pydantic.Field(discriminator="kind")]
"""Any of them."""


def _is_index(feature: Number | Category | Date | Text) -> TypeGuard[Number | Category | Text]:
    """Whether it is an input of indices."""
    if isinstance(feature, Number):
        return feature.buckets is not None and feature.encoding == "embedding"
    return isinstance(feature, Text) or (isinstance(feature, Category) and feature.encoding == "embedding")


def categories(features: list[Number | Category | Date | Text]) -> dict[str, int]:
    """The model's inputs of indices: how many different indices each has, by its name."""
    return {feature.column: feature.size for feature in features if _is_index(feature)}


def inputs(features: list[Number | Category | Date | Text]) -> dict[str, tuple[int, ...]]:
    """The shape of one row of each of the model's inputs, by name: `numbers` first, if there are any, then those of
    indices in the order of the features."""
    own = categories(features)
    width = sum(_width(feature) for feature in features if feature.column not in own)
    found: dict[str, tuple[int, ...]] = {NUMBERS: (width,)} if width else {}
    for feature in features:
        if feature.column in own:
            found[feature.column] = (feature.values,) if isinstance(feature, Text) or feature.values > 1 else ()
    return found


def _width(feature: Number | Category | Date | Text) -> int:
    """How many of the `numbers` a feature has."""
    if isinstance(feature, Number):
        return feature.values * (feature.size if feature.buckets is not None else 1 + feature.indicator)
    if isinstance(feature, Date):
        return 2 * len(feature.parts) + (feature.since is not None) + 1
    return feature.size if isinstance(feature, Category) else 0
