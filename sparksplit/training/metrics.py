"""What a metric is: whether higher or lower is better, and how finely it can tell two models apart on so many rows;
and which of them a run measures.

Metrics go by Keras's own names. `keras.metrics.get` takes a class's name as it is, in snake case, or one of a few short
forms; the table has each once, in lower case without underscores, so that it answers without importing Keras.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hdfs_io.manifest import Manifest

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


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def higher_is_better(name: str) -> bool | None:
    """Whether a higher value of the metric is better; None if its name does not tell, as with a plain `Mean`."""
    return _HIGHER_IS_BETTER.get(_plain(name))


def resolution(name: str, labels: int) -> float | None:
    """The smallest step by which the metric over `labels` labels can change; None for one that does not count labels.

    That is one label: 1 for a number of them, 1 / labels for a share (at least; recall is a share of only some labels).
    """
    plain = _plain(name)
    if plain in _COUNTS:
        return 1.0
    return 1 / labels if plain in _SHARES and labels else None


def measured(given: Sequence[str] | None, manifest: Manifest) -> list[str]:
    """The metrics that a run measures besides the loss. given: those in its configuration."""
    has_classes = manifest.label is not None and manifest.label.classes is not None
    return ["accuracy" if has_classes else "mean_absolute_error"] if given is None else list(given)


def deciding(metric: str | None, names: Sequence[str]) -> str:
    """The metric that decides, if the runs measure `names` beside the loss: the one asked for, or the accuracy."""
    return metric or ("accuracy" if "accuracy" in names else LOSS)
