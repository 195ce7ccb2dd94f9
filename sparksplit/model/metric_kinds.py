"""The labels and outputs that each metric is meant for.

Keras computes most metrics from any two tensors whose shapes can be broadcast. For the wrong tensors, the result is
meaningless, or changes with the number of rows per update.
"""

from __future__ import annotations

import re

ONE = "one output for two classes"
EACH = "an output for each class"
NUMBER = "one number a row"
NUMBERS = "several numbers a row"

_CLASSES, _ANY_NUMBERS = (ONE, EACH), (NUMBER, NUMBERS)
_TAKES: dict[str, tuple[str, ...]] = {
    # For `accuracy` and f1, we choose the metric that fits the outputs. auc, precision and recall of classes are our
    # own.
    "accuracy": (*_CLASSES, NUMBERS),
    "f1": _CLASSES,
    **dict.fromkeys(("auc", "precision", "recall"), (*_CLASSES, *_ANY_NUMBERS)),
    # The following metrics are Keras's. Numbers may be 0 and 1, for several classes at once, or one-hot.
    **dict.fromkeys(("sparsecategoricalaccuracy", "sparsetopkcategoricalaccuracy"), (EACH,)),
    "sparsecategoricalcrossentropy": (EACH,),
    **dict.fromkeys(("binaryaccuracy", "binarycrossentropy", "bce", "hinge", "squaredhinge"), (ONE, *_ANY_NUMBERS)),
    **dict.fromkeys(("truepositives", "truenegatives", "falsepositives", "falsenegatives"), (ONE, *_ANY_NUMBERS)),
    "binaryiou": (ONE, *_ANY_NUMBERS),
    **dict.fromkeys(("categoricalaccuracy", "categoricalcrossentropy", "topkcategoricalaccuracy"), (NUMBERS,)),
    **dict.fromkeys(("categoricalhinge", "f1score", "fbetascore"), (NUMBERS,)),
    # Errors of probabilities are useful too: their mean squared error is the Brier score.
    **dict.fromkeys(("meansquarederror", "mse", "meanabsoluteerror", "mae"), (ONE, *_ANY_NUMBERS)),
    **dict.fromkeys(("rootmeansquarederror", "logcosherror"), (ONE, *_ANY_NUMBERS)),
    **dict.fromkeys(("rmse", "r2", "r2score"), _ANY_NUMBERS),
    **dict.fromkeys(("meanabsolutepercentageerror", "mape", "meansquaredlogarithmicerror", "msle"), _ANY_NUMBERS),
    "poisson": _ANY_NUMBERS,
    # These metrics compare the numbers of one row with each other.
    **dict.fromkeys(("cosinesimilarity", "kldivergence"), (NUMBERS,)),
    **dict.fromkeys(("pearsoncorrelation", "concordancecorrelation"), (NUMBERS,)),
}
REPLACED = ("accuracy", "auc", "f1", "precision", "r2", "r2score", "recall", "rmse")
"""Names under which sparksplit makes its own metric, or chooses one of Keras's."""
_GENERAL = ("mean", "sum", "metric", "meanmetricwrapper")
_WITH_ARGUMENTS = (
    *("iou", "meaniou", "onehotiou", "onehotmeaniou"),
    *("precisionatrecall", "recallatprecision", "sensitivityatspecificity", "specificityatsensitivity"),
)
_INSTEAD = {
    **dict.fromkeys(("categoricalaccuracy", "sparsecategoricalaccuracy", "binaryaccuracy"), ("accuracy", "accuracy")),
    **dict.fromkeys(
        ("categoricalcrossentropy", "sparsecategoricalcrossentropy", "binarycrossentropy", "bce", "kldivergence"),
        ("binary_crossentropy", "sparse_categorical_crossentropy"),
    ),
    **dict.fromkeys(
        ("topkcategoricalaccuracy", "sparsetopkcategoricalaccuracy"), ("accuracy", "sparse_top_k_categorical_accuracy")
    ),
    "categoricalhinge": ("hinge", "sparse_categorical_crossentropy"),
    **dict.fromkeys(("f1score", "fbetascore"), ("f1", "f1")),
    **dict.fromkeys(("truepositives", "falsenegatives"), ("recall", "recall")),
    **dict.fromkeys(("truenegatives", "falsepositives"), ("precision", "precision")),
}
"""Metrics to use instead: with one output, and with several outputs."""


def plain(name: str) -> str:
    """Return a metric's name in lower case without underscores, equal for all spellings that Keras takes."""
    return name.replace("_", "").lower()


def snake(name: str) -> str:
    """Return the name of a metric or a loss, derived from its class as in Keras."""
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()


def place_of(classes: int | None, units: int, values: int) -> str:
    """Return the kind of labels and outputs: ONE, EACH, NUMBER or NUMBERS.

    classes: number of classes; None for numbers. units: outputs on the last axis. values: numbers in one row's label.
    """
    if classes is not None:
        return ONE if units == 1 else EACH
    return NUMBER if values == 1 else NUMBERS


def misfit(name: str, place: str) -> str | None:
    """Return why a metric does not fit these labels and outputs, and a metric that fits. None: no problem is known."""
    known = plain(name)
    if known in _WITH_ARGUMENTS:
        return f"{name} needs arguments, which `metrics` cannot give: use {_fitting(known, place)}"
    takes = () if known in _GENERAL else _TAKES.get(known)
    if takes is None or place in takes:
        return None
    wanted = f"is for {_said(takes)}" if takes else "does not compare outputs with labels"
    return f"{name} {wanted}; the model and the data set have {place}: use {_fitting(known, place)}"


def _said(takes: tuple[str, ...]) -> str:
    if takes == _ANY_NUMBERS:
        return "labels that are numbers"
    return " or ".join(takes)


def _fitting(known: str, place: str) -> str:
    if place in _ANY_NUMBERS:
        return "mean_absolute_error"
    return _INSTEAD.get(known, ("accuracy", "accuracy"))[_CLASSES.index(place)]
