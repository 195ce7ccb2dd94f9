"""The configuration of features: what `preprocess` is to make of each raw column."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SerializerFunctionWrapHandler, model_serializer

from sparksplit.base.config import Config
from sparksplit.dataset.feature_spec import Encoding, Parts
from sparksplit.features import times

Kind = Literal["number", "category", "date", "text", "ignore"]


def _day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise ValueError(f"must be a day like 2024-05-01 (is {text!r})") from None


def _range(pair: list[float]) -> list[float]:
    if len(pair) != 2 or not pair[0] < pair[1]:
        raise ValueError(f"must be two numbers, the lower one first (is {pair})")
    return pair


class FeatureConfig(Config):
    """What becomes of one raw column. Its kind alone may be given in place of the keys."""

    kind: Kind | None = None
    """number, category, date (a day or a time), text (its tokens), or ignore: no feature. null: by the column's type:
    numbers are numbers, text and booleans categories; in a file of text, by its first rows."""
    impute: Literal["mean", "median"] | Annotated[float, Field()] = "mean"
    """number: what a missing value becomes: the training split's mean or median, or a number."""
    indicator: bool = False
    """number: whether the model is also told, as 1 or 0, that the value is missing."""
    scale: Literal["standard", "unit", "none"] | None = None
    """number, date's `since`: standard: the training split's mean becomes 0, its standard deviation 1; unit: its
    minimum 0, its maximum 1. null: as `scaling` says, and standard where that is none."""
    log1p: bool = False
    """number: the logarithm of 1 + x in place of x, which must not be below 0 (clip sees to it)."""
    clip: Annotated[list[float], AfterValidator(_range)] | None = None
    """number: [low, high]: what is beyond becomes that."""
    buckets: Annotated[int, Field(ge=2, le=1000)] | None = None
    """number: which of so many buckets, of about as many training rows each, in place of the number; what is
    missing has one of its own. They are of the numbers as they are: the keys above, from impute on, are refused."""
    encoding: Encoding | None = None
    """category, number's buckets: embedding: an input of its own, of indices; one-hot: among the numbers. null:
    embedding for a category, one-hot for buckets."""
    min_count: Annotated[int, Field(ge=1)] = 2
    """category, text: how many training rows must have a value (or how often a token must occur) to be in the
    vocabulary; all others are one unknown value."""
    vocabulary: Annotated[int, Field(ge=1, le=1_000_000)] = 20_000
    """category, text: how many values or tokens, the most frequent ones, are in the vocabulary at most."""
    hash: Annotated[int, Field(ge=2, le=2**31 - 2)] | None = None
    """category: in place of a vocabulary, the number of indices that all values are dealt to by a hash."""
    format: Annotated[str, AfterValidator(times.check_format)] | None = None
    """date: how its texts are written, by Spark's pattern letters, such as MM/dd/yyyy or d.M.yyyy HH:mm. null: as in
    2024-05-01 or 2024-05-01 12:30:00."""
    parts: list[Parts] | None = None
    """date: the parts that the model gets, each as sine and cosine: month, day (of the month), weekday, hour. null:
    month and weekday, and hour where there is a time of day."""
    since: Annotated[str, AfterValidator(_day)] | None = None
    """date: a day; the model also gets the days since then."""
    unit: Literal["words", "characters"] = "words"
    """text: what a token is."""
    lowercase: bool = True
    """text: whether A to Z are read as a to z."""
    length: Annotated[int, Field(ge=1, le=100_000)] = 64
    """text: how many tokens the model gets; longer texts are cut, shorter ones padded."""

    @model_serializer(mode="wrap")
    def _without_format(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without `format` where there is none: hashes of configurations stay what they were before there were any."""
        values: dict[str, Any] = dump(self)
        return {key: value for key, value in values.items() if key != "format" or value is not None}

    @property
    def asked(self) -> Kind | None:
        """The kind that is asked for: only a date has a format."""
        return self.kind or ("date" if self.format is not None else None)

    def misplaced(self) -> str | None:
        """A key that was set and means nothing for the kind; None where there is none."""
        return next(
            (key for key in sorted(self.model_fields_set) if self.kind not in _USED.get(key, (self.kind,))), None
        )

    def idle(self) -> tuple[str, str] | None:
        """(a key of the kind that was set and has no effect because of other keys, why that is); None where there is
        none."""
        bucketed, hashed = self.buckets is not None, self.hash is not None
        for without, keys, why in (
            (bucketed, _NOT_WITH_BUCKETS, "beside buckets, which are of the numbers as they are, gaps included"),
            (hashed, {"min_count", "vocabulary"}, "beside hash, which needs no vocabulary"),
            (self.kind == "number" and not bucketed, {"encoding"}, "without buckets: a number is no index"),
            (self.kind == "date" and self.since is None, {"scale"}, "without since: all else is sines and cosines"),
        ):
            if without and (found := sorted(self.model_fields_set & keys)):
                return found[0], why
        return None


_NOT_WITH_BUCKETS = {"impute", "indicator", "scale", "log1p", "clip"}
_USED: Mapping[str, tuple[Kind, ...]] = {
    **dict.fromkeys(("impute", "indicator", "log1p", "clip", "buckets"), ("number",)),
    "scale": ("number", "date"),
    "encoding": ("number", "category"),
    **dict.fromkeys(("min_count", "vocabulary"), ("category", "text")),
    "hash": ("category",),
    **dict.fromkeys(("format", "parts", "since"), ("date",)),
    **dict.fromkeys(("unit", "lowercase", "length"), ("text",)),
}


def _by_kind(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


Features = dict[str, Annotated[FeatureConfig, BeforeValidator(_by_kind)]]
"""By column."""
