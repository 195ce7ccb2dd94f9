"""The class weights that a configuration asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sparksplit.base.errors import did_you_mean
from sparksplit.dataset.manifest import Manifest

if TYPE_CHECKING:
    from sparksplit.model.model_config import ModelKeys

_KEY = "class_weights"


def of(config: ModelKeys, manifest: Manifest) -> list[float] | None:
    """Return the weight of each class of the data set, by index. None: the configuration asks for no class weights.

    Raise ConfigError if a row's label is not one class, or if `class_weights` names an unknown class. Raise ConfigError
    if all classes of the training rows have weight 0.
    """
    wanted = config.class_weights
    if wanted is None:
        return None
    label = manifest.label
    if label is None or label.classes is None:
        raise config.error(_KEY, "needs labels that are classes; the data set's are numbers")
    if label.shape:
        raise config.error(_KEY, "needs one class per row; the data set has several classes per row")
    train = manifest.splits["train"]
    counts = train.label_weights or train.label_counts or []
    if isinstance(wanted, str):  # balanced
        return balanced(counts)
    for name in wanted:
        if name not in label.classes:
            shown = ", ".join(label.classes[:10]) + (", ..." if len(label.classes) > 10 else "")
            hint = did_you_mean(name, label.classes)
            if name in ("true", "false"):
                hint = "; put it in quotes, because YAML reads yes as true and no as false"
            raise config.error(f"{_KEY}.{name}", f"is not one of the data set's classes ({shown}){hint}")
    weights = [float(wanted.get(name, 1.0)) for name in label.classes]
    if not any(weight for weight, count in zip(weights, counts, strict=True) if count):
        raise config.error(_KEY, "must be above 0 for at least one class of the training rows")
    return weights


def balanced(counts: Sequence[float]) -> list[float]:
    """Return weights that balance the classes: rows / (classes x rows of the class), as scikit-learn's
    compute_class_weight.

    A class without rows gets the weight 1, and does not count as a class. counts: rows of each class, or the sum of
    their row weights.
    """
    rows, classes = sum(counts), sum(count > 0 for count in counts)
    return [rows / (classes * count) if count else 1.0 for count in counts]
