"""Trains one Keras model on the nodes of a Spark cluster, and finds out how the nodes should share the work.

    import sparksplit

    data = sparksplit.preprocess(frame, "prepared/irises", input={"label": "species"}, test=0.2)
    run = sparksplit.train(data, "runs/irises", nodes=2, strategy="batch", epochs=20)

Exceptions:

    SparksplitError
     |- UsageError      wrong arguments, configuration or input; nothing was done
     |   |- ConfigError     a key, or its value
     |   |- InputError      a file, a folder or a DataFrame that is read or written
     |- RunError        the run failed; it may succeed the next time
     |   |- NodeFailed      a node, or the executor of the node, ended or hung
     |- OutputInUse     another running call or command writes to the output

Names are imported when they are first used, so `import sparksplit` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sparksplit.base.version import __version__ as __version__

if TYPE_CHECKING:
    from sparksplit.api.fit import fit
    from sparksplit.api.functions import compare, plan, predict, preprocess, search, train
    from sparksplit.api.results import Comparison, Plan, Predictions, Search, TrainedRun
    from sparksplit.base.errors import (
        ConfigError,
        InputError,
        NodeFailed,
        OutputInUse,
        RunError,
        SparksplitError,
        UsageError,
    )
    from sparksplit.dataset.prepared import PreparedDataSet
    from sparksplit.model.description import DataDescription
    from sparksplit.strategies import Strategy
    from sparksplit.strategies.splits import BatchSplit, EpochSplit, LaneSplit, Split
    from sparksplit.strategies.syncs import LocalSync, RoundSync, StepSync, Sync

__all__ = [
    "BatchSplit",
    "Comparison",
    "ConfigError",
    "DataDescription",
    "EpochSplit",
    "InputError",
    "LaneSplit",
    "LocalSync",
    "NodeFailed",
    "OutputInUse",
    "Plan",
    "Predictions",
    "PreparedDataSet",
    "RoundSync",
    "RunError",
    "Search",
    "SparksplitError",
    "Split",
    "StepSync",
    "Strategy",
    "Sync",
    "TrainedRun",
    "UsageError",
    "compare",
    "fit",
    "plan",
    "predict",
    "preprocess",
    "search",
    "train",
]

_PLACES = {
    "sparksplit.dataset.prepared": ("PreparedDataSet",),
    "sparksplit.api.fit": ("fit",),
    "sparksplit.api.functions": ("compare", "plan", "predict", "preprocess", "search", "train"),
    "sparksplit.api.results": ("Comparison", "Plan", "Predictions", "Search", "TrainedRun"),
    "sparksplit.base.errors": (
        "ConfigError",
        "InputError",
        "NodeFailed",
        "OutputInUse",
        "RunError",
        "SparksplitError",
        "UsageError",
    ),
    "sparksplit.model.description": ("DataDescription",),
    "sparksplit.strategies": ("Strategy",),
    "sparksplit.strategies.splits": ("BatchSplit", "EpochSplit", "LaneSplit", "Split"),
    "sparksplit.strategies.syncs": ("LocalSync", "RoundSync", "StepSync", "Sync"),
}
_PLACE = {name: place for place, names in _PLACES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _PLACE:
        raise AttributeError(f"module 'sparksplit' has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(_PLACE[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
