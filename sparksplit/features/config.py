"""The configuration of features: how `preprocess` uses each raw column."""

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
    """How one raw column becomes a feature. The kind alone may stand in place of the keys."""

    kind: Kind | None = None
    """Kind of the feature: number, category, date (a date or a timestamp), text (a sequence of tokens), or ignore (no
    feature). null: by the column type (numbers: number; texts and booleans: category; dates and timestamps: date). csv
    and hive-text decide by the first rows."""
    impute: Literal["mean", "median"] | Annotated[float, Field()] = "mean"
    """Replacement for a missing value: the mean or the median of the training split, or a number. Kinds: number."""
    indicator: bool = False
    """Whether the model gets an additional input: 1 if the value is missing, otherwise 0. Kinds: number."""
    scale: Literal["standard", "unit", "none"] | None = None
    """Scaling of the feature, fitted on the training split. standard: the mean becomes 0 and the standard deviation 1.
    unit: the minimum becomes 0 and the maximum 1. none: no scaling. null: the value of `scaling`, or standard if
    `scaling` is none. Kinds: number, and date with `since`."""
    log1p: bool = False
    """Replace the number x by log(1 + x). A training row with x of -1 or less is an error. Use `clip` to avoid this
    error. Kinds: number."""
    clip: Annotated[list[float], AfterValidator(_range)] | None = None
    """Limits [low, high]. Numbers below low become low, and numbers above high become high. Kinds: number."""
    buckets: Annotated[int, Field(ge=2, le=1000)] | None = None
    """Replace the number by its bucket. There are this many buckets, with about the same number of training rows each.
    Missing values have a bucket of their own. Not together with `impute`, `indicator`, `scale`, `log1p` or `clip`.
    Kinds: number."""
    encoding: Encoding | None = None
    """How the model gets an index. embedding: as a separate input of indices. one-hot: among the numbers. null:
    embedding for a category, one-hot for buckets. Kinds: category, and number with `buckets`."""
    min_count: Annotated[int, Field(ge=1)] = 2
    """A value enters the vocabulary if at least this many training rows contain the value. A token must occur at least
    this often in the training rows. All rarer values or tokens become one unknown value. Kinds: category, text."""
    vocabulary: Annotated[int, Field(ge=1, le=1_000_000)] = 20_000
    """Largest number of values or tokens in the vocabulary. The vocabulary holds the most frequent values or tokens of
    the training split. Kinds: category, text."""
    hash: Annotated[int, Field(ge=2, le=2**31 - 2)] | None = None
    """Use a hash with this many indices in place of a vocabulary. Different values may get the same index. Kinds:
    category."""
    format: Annotated[str, AfterValidator(times.check_format)] | None = None
    """Format of the dates, in Spark's pattern letters, such as MM/dd/yyyy or d.M.yyyy HH:mm. null: ISO 8601, such as
    2024-05-01 or 2024-05-01 12:30:00. For columns of texts or whole numbers. Kinds: date."""
    parts: list[Parts] | None = None
    """Parts of the date that the model gets, each as sine and cosine: month, day (of the month), weekday, hour. null:
    month and weekday, and hour if there is a time of day. Kinds: date."""
    since: Annotated[str, AfterValidator(_day)] | None = None
    """A day, such as 2020-01-01. The model also gets the number of days since this day. Kinds: date."""
    unit: Literal["words", "characters"] = "words"
    """What a token is: a word or a character. Kinds: text."""
    lowercase: bool = True
    """Whether to convert A to Z to lower case. Kinds: text."""
    length: Annotated[int, Field(ge=1, le=100_000)] = 64
    """Number of tokens that the model gets. Longer texts are cut, and shorter texts are padded. Kinds: text."""

    @model_serializer(mode="wrap")
    def _without_format(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out `format` if it is null, so that hashes of older configurations, without this key, stay equal."""
        values: dict[str, Any] = dump(self)
        return {key: value for key, value in values.items() if key != "format" or value is not None}

    @property
    def asked(self) -> Kind | None:
        """The kind that the configuration asks for. A `format` alone means a date."""
        return self.kind or ("date" if self.format is not None else None)

    def misplaced(self) -> str | None:
        """Return a key that was set but does not apply to the kind; None if there is no such key."""
        return next(
            (key for key in sorted(self.model_fields_set) if self.kind not in _USED.get(key, (self.kind,))), None
        )

    def idle(self) -> tuple[str, str] | None:
        """Return (a key that was set but has no effect because of other keys, the reason); None if there is no such
        key.
        """
        bucketed, hashed = self.buckets is not None, self.hash is not None
        for without, keys, why in (
            (
                bucketed,
                _NOT_WITH_BUCKETS,
                "together with buckets, which are made from the unchanged numbers, missing values included",
            ),
            (hashed, {"min_count", "vocabulary"}, "together with hash, which needs no vocabulary"),
            (self.kind == "number" and not bucketed, {"encoding"}, "without buckets, because only buckets are encoded"),
            (
                self.kind == "date" and self.since is None,
                {"scale"},
                "without since, because the other values are sines and cosines",
            ),
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
"""Configurations of features, by column."""
