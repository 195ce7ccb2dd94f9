"""The configuration of features: how `preprocess` uses each raw column."""

from __future__ import annotations

from datetime import date
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field

from sparksplit.base.config import Config
from sparksplit.base.keys import listed, mark_of, used_by
from sparksplit.base.later_keys import LaterKeys
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


_Keys = TypeVar("_Keys", bound=BaseModel)


def _tells_kinds(model: type[_Keys]) -> type[_Keys]:
    """Add to the text of each key which kinds of features use it. A class decorator."""
    for key, field in model.model_fields.items():
        if kinds := mark_of(model, key).users:
            field.description = f"{field.description} Only for the {listed('kind', kinds)}."
    return model


@_tells_kinds
class FeatureConfig(LaterKeys, Config):
    """How one raw column becomes a feature. The kind alone may stand in place of the keys."""

    later = ("format",)

    kind: Kind | None = None
    """Kind of the feature: number, category, date (a date or a timestamp), text (a sequence of tokens), or ignore (no
    feature). null: by the column type (numbers: number; texts and booleans: category; dates and timestamps: date). csv
    and hive-text decide by the first rows."""
    impute: Annotated[Literal["mean", "median"] | Annotated[float, Field()], used_by("number")] = "mean"
    """Replacement for a missing value: the mean or the median of the training split, or a number."""
    indicator: Annotated[bool, used_by("number")] = False
    """Whether the model gets an additional input: 1 if the value is missing, otherwise 0."""
    scale: Annotated[Literal["standard", "unit", "none"] | None, used_by("number", "date")] = None
    """Scaling of the feature, fitted on the training split. standard: the mean becomes 0 and the standard deviation 1.
    unit: the minimum becomes 0 and the maximum 1. none: no scaling. null: the value of `scaling`, or standard if
    `scaling` is none. For dates only with `since`."""
    log1p: Annotated[bool, used_by("number")] = False
    """Replace the number x by log(1 + x). A training row with x of -1 or less is an error. Use `clip` to avoid this
    error."""
    clip: Annotated[Annotated[list[float], AfterValidator(_range)] | None, used_by("number")] = None
    """Limits [low, high]. Numbers below low become low, and numbers above high become high."""
    buckets: Annotated[Annotated[int, Field(ge=2, le=1000)] | None, used_by("number")] = None
    """Replace the number by its bucket. There are this many buckets, with about the same number of training rows each.
    Missing values have a bucket of their own. Not together with `impute`, `indicator`, `scale`, `log1p` or `clip`."""
    encoding: Annotated[Encoding | None, used_by("number", "category")] = None
    """How the model gets an index. embedding: as a separate input of indices. one-hot: among the numbers. null:
    embedding for a category, one-hot for buckets. For numbers only with `buckets`."""
    min_count: Annotated[int, Field(ge=1), used_by("category", "text")] = 2
    """A value enters the vocabulary if at least this many training rows contain the value. A token must occur at least
    this often in the training rows. All rarer values or tokens become one unknown value."""
    vocabulary: Annotated[int, Field(ge=1, le=1_000_000), used_by("category", "text")] = 20_000
    """Largest number of values or tokens in the vocabulary. The vocabulary holds the most frequent values or tokens of
    the training split."""
    hash: Annotated[Annotated[int, Field(ge=2, le=2**31 - 2)] | None, used_by("category")] = None
    """Use a hash with this many indices in place of a vocabulary. Different values may get the same index."""
    format: Annotated[Annotated[str, AfterValidator(times.check_format)] | None, used_by("date")] = None
    """Format of the dates, in Spark's pattern letters, such as MM/dd/yyyy or d.M.yyyy HH:mm. null: ISO 8601, such as
    2024-05-01 or 2024-05-01 12:30:00. For columns of texts or whole numbers."""
    parts: Annotated[list[Parts] | None, used_by("date")] = None
    """Parts of the date that the model gets, each as sine and cosine: month, day (of the month), weekday, hour. null:
    month and weekday, and hour if there is a time of day."""
    since: Annotated[Annotated[str, AfterValidator(_day)] | None, used_by("date")] = None
    """A day, such as 2020-01-01. The number of days since this day becomes one more input of the model."""
    unit: Annotated[Literal["characters", "words"], used_by("text")] = "words"
    """What a token is: a word or a character."""
    lowercase: Annotated[bool, used_by("text")] = True
    """Whether to convert A to Z to lower case."""
    length: Annotated[int, Field(ge=1, le=100_000), used_by("text")] = 64
    """Number of tokens that the model gets. Longer texts are cut, and shorter texts are padded."""

    @property
    def asked(self) -> Kind | None:
        """The kind that the configuration asks for. A `format` alone means a date."""
        return self.kind or ("date" if self.format is not None else None)

    def misplaced(self) -> str | None:
        """Return a key that was set but does not apply to the kind; None if there is no such key."""
        users = {key: mark_of(FeatureConfig, key).users for key in sorted(self.model_fields_set)}
        return next((key for key, kinds in users.items() if kinds and self.kind not in kinds), None)

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
            if without and (unused := sorted(self.model_fields_set & keys)):
                return unused[0], why
        return None


_NOT_WITH_BUCKETS = {"impute", "indicator", "scale", "log1p", "clip"}


def _by_kind(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


Features = dict[str, Annotated[FeatureConfig, BeforeValidator(_by_kind)]]
"""Configurations of features, by column."""
