"""Fits a table's features on the training rows: vocabularies, buckets and medians before rows are stored, scales
after."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sparksplit.dataset.description import TensorSpec
from sparksplit.dataset.feature_scaling import Scaling, scaled
from sparksplit.dataset.feature_spec import Date, Feature, Number
from sparksplit.dataset.statistics import Moments
from sparksplit.features.encoder import Encoder, encoder_of
from sparksplit.features.table import Column, Table
from sparksplit.features.tokens import tokens
from sparksplit.prepare.passes.training_passes import NumberColumn, Want, fitted_quantiles, fitted_texts
from sparksplit.spark.job_names import described

if TYPE_CHECKING:
    from sparksplit.prepare.passes.cut import Cut
    from sparksplit.prepare.passes.identify import Identify
    from sparksplit.prepare.passes.kept import Kept


@dataclass(frozen=True)
class Fitting:
    """The fitted features of a table.

    encoder: makes the stored rows. The scales of its features are not known yet.
    medians: by column, for columns that need them.
    """

    table: Table | None
    encoder: Encoder
    medians: Mapping[str, list[float]]

    def scaled(self, moments: Mapping[str, Moments], scaling: Scaling) -> list[Feature]:
        """Return the features with their scales.

        moments: statistics of the stored training rows, by column.
        scaling: for columns without a scale of their own. For none, these columns use standard.

        Raise InputError if log(1 + x) does not exist for the value that replaces a missing value.
        """
        if self.table is None:
            return []
        features: list[Feature] = []
        for feature, column in zip(self.encoder.features, self.table.columns, strict=True):
            if column.fitted is not None or not isinstance(feature, Number | Date):
                features.append(feature)
                continue
            medians = self.medians.get(column.name, [])
            scale = column.config.scale or (scaling if scaling != "none" else "standard")
            fitted = scaled(feature, moments[column.name], scale, column.config.impute, medians)
            features.append(feature.model_copy(update={"scaled": fitted}))
        return features


@described("fit")
def fitting(
    table: Table | None,
    tensors: Sequence[TensorSpec],
    rows: Kept,
    identify: Identify,
    cut: Cut,
    names: Sequence[Sequence[str]],
) -> Fitting:
    """Fit on the training rows what is needed to store rows.

    tensors: the parsed tensors. names: names of the tensors, and of the text columns, in the kept `rows`
    """
    if table is None:
        return Fitting(None, encoder_of(None, tensors, {}), {})
    of_tensors, of_texts = names
    wants = {column.name: _want(column, name) for column, name in zip(table.texts, of_texts, strict=True)}
    wanted = {name: want for name, want in wants.items() if want is not None}
    vocabularies = fitted_texts(rows, identify, cut, list(wanted.values()))
    encoder = encoder_of(table, tensors, dict(zip(wanted, vocabularies, strict=True)))
    asked = [
        (column, NumberColumn(of_tensors[tensor], tensors[tensor], first + value, column.config.buckets))
        for column in table.columns
        if column.fitted is None and column.kind == "number"
        if column.config.buckets or column.config.impute == "median"
        for tensor, first in [table.places[column.name]]
        for value in range(column.values)
    ]
    medians: dict[str, list[float]] = {}
    buckets: dict[str, list[float]] = {}
    by_column = fitted_quantiles(rows, identify, cut, [number for _, number in asked])
    for (column, _), quantiles in zip(asked, by_column, strict=True):
        if column.config.buckets:
            buckets[column.name] = quantiles
        else:
            medians.setdefault(column.name, []).append(quantiles[0] if quantiles else float("nan"))
    features = tuple(
        feature.model_copy(update={"buckets": buckets[feature.column]}) if feature.column in buckets else feature
        for feature in encoder.features
    )
    return Fitting(table, Encoder(features, encoder.parsed), medians)


def _want(column: Column, name: str) -> Want | None:
    """Return the vocabulary that a text column needs, or None."""
    config = column.config
    if column.fitted is not None or config.hash is not None:
        return None
    tokenize = partial(tokens, unit=config.unit, lowercase=config.lowercase) if column.kind == "text" else None
    return Want(name, config.min_count, config.vocabulary, tokenize)
