"""Which columns of a DataFrame a fit uses, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sparksplit.base.errors import ConfigError, did_you_mean
from sparksplit.prepare.tables.label_kinds import is_number


@dataclass(frozen=True)
class Selection:
    """The names of the columns. weight, validation: None if there is no such column."""

    features: Sequence[str]
    label: str
    weight: str | None = None
    validation: str | None = None

    @property
    def names(self) -> list[str]:
        """All columns, the features first."""
        return [*self.features, *(name for name in (self.label, self.weight, self.validation) if name is not None)]

    def check(self, types: Mapping[str, str]) -> None:
        """Raise ConfigError if a column is missing, has two roles, or has a type that does not fit its role.

        types: Spark's type of each column of the DataFrame
        """
        roles: list[tuple[str, str | None]] = [("featuresCol", name) for name in self.features]
        roles += [("labelCol", self.label), ("weightCol", self.weight), ("validationIndicatorCol", self.validation)]
        seen: dict[str, str] = {}
        for role, name in roles:
            if name is None:
                continue
            if name not in types:
                there = f"the DataFrame has {', '.join(types)}{did_you_mean(name, types)}"
                raise ConfigError(f"{role}: no column {name!r}; {there}")
            if name in seen:
                also = " twice" if seen[name] == role else f", which is also in {seen[name]}"
                raise ConfigError(f"{role}: names the column {name!r}{also}")
            seen[name] = role
        if not is_number(types[self.label]):
            hint = "; a StringIndexer makes numbers of texts" if types[self.label] == "string" else ""
            raise ConfigError(f"labelCol: column {self.label!r} is {types[self.label]}, but must be numbers{hint}")
        if self.validation is not None and types[self.validation] != "boolean":
            raise ConfigError(
                f"validationIndicatorCol: column {self.validation!r} is {types[self.validation]}, but must be boolean"
            )
