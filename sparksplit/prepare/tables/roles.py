"""Which column of a table has which role: label, weight, kept, for the cut, or feature."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from sparksplit.base.config import Config
from sparksplit.dataset.description import WEIGHT, Description
from sparksplit.features.feature_config import Features
from sparksplit.features.missing_columns import there_are
from sparksplit.prepare.cut_config import CutConfig
from sparksplit.prepare.preprocess_config import InputConfig
from sparksplit.prepare.source import check_kept


def is_index(name: str) -> bool:
    """Return whether `name` is pandas' name for the index of a DataFrame. An index with its own name is an ordinary
    column."""
    return re.fullmatch(r"__index_level_\d+__", name) is not None


def without_index(features: Sequence[str], asked: set[str]) -> tuple[list[str], list[str]]:
    """Return (the features without index columns that are not `asked` for, messages about these columns)."""
    index = [name for name in features if is_index(name) and name not in asked]
    left = [f"column {name!r} is the index of a pandas DataFrame, so it is not a feature" for name in index]
    return [name for name in features if name not in index], left


def asked_for(config: InputConfig, wanted: Features | None, description: Description | None) -> set[str]:
    """Return the features that a user names, or that a model was trained on."""
    if description is None:
        return {*(wanted or {}), *(name for name in config.features or () if isinstance(name, str))}
    return {*(feature.column for feature in description.features), *(description.tensors[0].columns or [])}


def columns_asked_for(
    config: InputConfig, description: Description | None, cut: CutConfig | None, wanted: Features | None
) -> set[str]:
    """Return the columns that a user names, or that a model was trained on."""
    named = [config.label, config.weight, *config.keep, *(() if cut is None else cut.needed)]
    named += [] if description is None or cut is not None else [description.label_name, *description.keep]
    return {*asked_for(config, wanted, description), *(name for name in named if isinstance(name, str))}


def column_of(config: Config, key: str, column: int | str, columns: Sequence[str], place: str) -> str:
    if isinstance(column, str):
        if column not in columns:
            raise config.error(key, f"{place} has no column {column!r}{there_are(column, columns)}")
        return column
    columns = [name for name in columns if not is_index(name)]
    if not -len(columns) <= column < len(columns):
        raise config.error(key, f"{place} has {len(columns)} columns, 0 to {len(columns) - 1} (is {column})")
    return columns[column]


def chosen_features(
    config: InputConfig, names: Sequence[str], used: Collection[str | None], place: str, description: Description | None
) -> list[str]:
    """Return the columns that may be features. used: the columns with another use"""
    if config.features is None:
        return [name for name in names if name not in used]
    if description is not None:
        raise config.error("features", "must be left out: the features are those of the earlier data")
    chosen = [column_of(config, "features", column, names, place) for column in config.features]
    if len(set(chosen)) < len(chosen):
        raise config.error("features", "lists a column twice")
    if other := next((name for name in chosen if name in used), None):
        raise config.error("features", f"lists {other!r}, which is the label, the weight, kept or used by `cut`")
    return chosen


def kept_columns(config: InputConfig, names: Sequence[str], label: str | None, place: str) -> list[str]:
    """Return the columns to keep."""
    kept = [column_of(config, "keep", column, names, place) for column in config.keep]
    if label in kept or len(set(kept)) < len(kept):
        raise config.error("keep", "names the label column, or lists a column twice")
    check_kept(config, kept)
    return kept


def cut_columns(cut: CutConfig, names: Sequence[str], label: str | None, place: str) -> list[str]:
    """Return the columns that the cut uses."""
    columns = [column_of(cut, cut.key, name, names, place) for name in cut.needed]
    if label in columns or len(set(columns)) < len(columns):
        raise cut.error(cut.key, "names the label column, or lists a column twice")
    return columns


def weight_column(config: InputConfig, names: Sequence[str], others: Sequence[str | None], place: str) -> str | None:
    """Return the column of weights, or None. others: the columns with another use"""
    if config.weight is None:
        return None
    column = column_of(config, "weight", config.weight, names, place)
    if column in others:
        raise config.error("weight", f"names a column that is already the label, kept or used by `cut` ({column!r})")
    if WEIGHT in (str(name).lower() for name in others[1:]):
        raise config.error("keep", f"the column name {WEIGHT!r} is taken by the weights; rename it in the file")
    return column
