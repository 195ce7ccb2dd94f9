"""The configuration of the cut into train, validation and test."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from sparksplit.base.config import Config
from sparksplit.base.keys import used_by
from sparksplit.dataset.manifest import Dependent

By = Literal["row", "features", "key", "time", "column"]


def _boundary(value: int | str) -> int | str:
    moment(value)
    return value


def moment(value: int | str) -> int:
    """Return a boundary as int64: microseconds since 1970 of a date or a timestamp, or the whole number itself.

    A timestamp without a zone is in UTC. Raise ValueError if `value` is no boundary.
    """
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise ValueError(f"must fit in 64 bits (is {value})")
        return value
    try:
        parsed = datetime.fromisoformat(value.strip())
    except ValueError:
        raise ValueError(
            f"must be a date or a time like 2024-05-01 or 2024-05-01T12:30:00+02:00, or a whole number (is {value!r})"
        ) from None
    since = (parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


class CutConfig(Config):
    """How training rows are cut into train, validation and test. A text is cut into three consecutive parts instead."""

    by: By = "row"
    """Rule for the cut. row: each row is assigned by itself, at random. features: rows with equal features stay in one
    split, whatever their labels are. key: rows with equal values in `cut.columns` stay in one split. time: the latest
    rows by `cut.column` are test, and the rows before them are validation. column: `cut.column` names the split of each
    row: train, validation (also valid, val, dev) or test. It may also hold booleans: true is validation, false is
    train. Windows are cut by time, without this key."""
    columns: Annotated[list[int | str], used_by("key")] = Field(default_factory=list)
    """Key columns, by name or position, for `cut.by: key`. The model does not see these columns. The output has these
    columns only if `input.keep` names them."""
    column: Annotated[int | str | None, used_by("time", "column")] = None
    """Column for the cut, by name or position. For `cut.by: time`, the column holds timestamps, dates or whole numbers.
    For `cut.by: column`, the column holds the names of the splits, or booleans. The model does not see this column."""
    validation_from: Annotated[Annotated[int | str, AfterValidator(_boundary)] | None, used_by("time")] = None
    """Start of the validation split, for `cut.by: time`: a date, a timestamp or a whole number. A timestamp without a
    zone is in UTC. The fractions `validation` and `test` are then not used."""
    test_from: Annotated[Annotated[int | str, AfterValidator(_boundary)] | None, used_by("time")] = None
    """Start of the test split, for `cut.by: time`: a date, a timestamp or a whole number. A timestamp without a zone is
    in UTC. The fractions `validation` and `test` are then not used."""
    stratify: Annotated[bool, used_by("row")] = False
    """Cut each class by itself, so that every split has the wanted fraction of every class. Each class keeps at least
    one training row. Only for `cut.by: row` and labels that are classes."""

    @property
    def needed(self) -> list[int | str]:
        """The columns that the cut uses, as the user names them."""
        return list(self.columns) if self.by == "key" else [] if self.column is None else [self.column]

    @property
    def key(self) -> str:
        """The configuration key that names these columns."""
        return "columns" if self.by == "key" else "column"

    @property
    def boundaries(self) -> bool:
        """Whether boundaries in time are given, so that the fractions are not used."""
        return self.validation_from is not None or self.test_from is not None


def dependent(cut: CutConfig, *, windows: bool, text: bool) -> Dependent | None:
    """Return why the rows of a split are no independent sample, or None if they count as independent.

    windows: whether rows are windows over time. text: whether rows are sequences of a text. Such rows follow each
        other. Neighbours are likely to be alike, whether or not they overlap.
    """
    if windows or text:
        return "windows" if windows else "text"
    return cut.by if cut.by in ("features", "key", "time") else None
