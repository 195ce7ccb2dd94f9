"""Facts about metrics: whether higher or lower is better, how small a difference between two models they show, and
which of them a run measures.

Metrics have Keras's own names. `keras.metrics.get` takes a class name as it is, in snake case, or in one of a few short
forms. The table has each name once, in lower case without underscores, so Keras need not be imported.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sparksplit.model.metric_kinds import plain

if TYPE_CHECKING:
    from sparksplit.dataset.manifest import Manifest

LOSS = "loss"
"""The metric that every run has: the loss of its configuration."""

_LOWER = (
    *("mse", "meansquarederror", "rootmeansquarederror", "rmse", "mae", "meanabsoluteerror", "mape"),
    *("meanabsolutepercentageerror", "msle", "meansquaredlogarithmicerror", "logcosh", "logcosherror", "huber"),
    *("bce", "binarycrossentropy", "categoricalcrossentropy", "sparsecategoricalcrossentropy"),
    *("kld", "kldivergence", "poisson", "hinge", "squaredhinge", "categoricalhinge"),
)
_HIGHER = ("cosinesimilarity", "r2", "r2score", "concordancecorrelation", "pearsoncorrelation")
_SHARES = (
    *("accuracy", "binaryaccuracy", "categoricalaccuracy", "sparsecategoricalaccuracy"),
    *("topkcategoricalaccuracy", "sparsetopkcategoricalaccuracy", "precision", "recall", "auc"),
    *("precisionatrecall", "recallatprecision", "sensitivityatspecificity", "specificityatsensitivity"),
    *("f1", "f1score", "fbetascore", "iou", "binaryiou", "meaniou", "onehotiou", "onehotmeaniou"),
)
_COUNTS = {"truepositives": True, "truenegatives": True, "falsepositives": False, "falsenegatives": False}

_HIGHER_IS_BETTER = {
    LOSS: False,
    **dict.fromkeys(_LOWER, False),
    **dict.fromkeys((*_HIGHER, *_SHARES), True),
    **_COUNTS,
}


def higher_is_better(name: str) -> bool | None:
    """Return whether a higher value of the metric is better; None if its name does not decide this, as with a plain
    `Mean`."""
    return _HIGHER_IS_BETTER.get(plain(name))


@dataclass(frozen=True)
class Labels:
    """The labels of some rows, counted.

    total: the sum of their weights, or their number.
    classes: the sum of the weights, or the number, of each class; None if it is not known.
    least: the smallest weight; 0 if it is not known.
    """

    total: float
    classes: Sequence[float] | None = None
    least: float = 1.0

    @classmethod
    def of(cls, manifest: Manifest, split: str, by_weight: bool = True) -> Labels:
        """Return the labels of a split. by_weight: whether a row counts its weight; otherwise 1."""
        facts, places = manifest.splits[split], 1 if manifest.label is None else math.prod(manifest.label.shape)
        weights = manifest.weights(split) if by_weight else None
        if weights is None:
            return cls(facts.rows * places, facts.label_counts)
        return cls(weights.mean * facts.rows * places, facts.label_weights, weights.min)


def resolution(name: str, labels: Labels) -> float | None:
    """Return the smallest step by which the metric over these labels can change.

    None if the metric does not count labels, or the step is not known. The step is one label: 1 for a number of labels,
    1 / labels for a share. If labels have weights, the step is the smallest weight instead of 1, and the sum of weights
    instead of labels. A share may have larger steps, because recall is a share of only some labels. For an AUC, the
    step is half a pair of labels, one of each class.
    """
    name = plain(name)
    if not labels.least or not labels.total:
        return None
    if name in _COUNTS:
        return labels.least
    if name == "auc":
        pairs = math.prod(labels.classes) if labels.classes is not None and len(labels.classes) == 2 else 0
        return labels.least**2 / (2 * pairs) if pairs else None
    return labels.least / labels.total if name in _SHARES else None


def measured(given: Sequence[str] | None, manifest: Manifest) -> list[str]:
    """Return the metrics that a run measures in addition to the loss. given: the metrics in its configuration."""
    has_classes = manifest.label is not None and manifest.label.classes is not None
    return ["accuracy" if has_classes else "mean_absolute_error"] if given is None else list(given)


def deciding(metric: str | None, names: Sequence[str]) -> str:
    """Return the metric that decides if the runs measure `names` in addition to the loss.

    It is `metric` if given, otherwise the accuracy if measured, otherwise the loss.
    """
    return metric or ("accuracy" if "accuracy" in names else LOSS)
