"""Controls: one node that does what a way on several does, but for the nodes. What it gains too, takes no second node.

A way has up to two of them: itself on one node, where an outer optimiser makes that something else than `single`; and
`single` with the way's own keys, and with the mini-batch that its updates are made of.
"""

from __future__ import annotations

from typing import Any

from sparksplit.strategies import Strategy
from sparksplit.training.config import TrainConfig

TOGETHER = ("strategy", "sync", "local_batch_size", "collective")
"""Keys of a way that say how its nodes agree; one node has no use for them."""


def has_outer(values: dict[str, Any], way: Strategy) -> bool:
    """Whether a way is something else than `single` on one node. values: what is said about it."""
    return way.settings and dict(values.get("sync") or {}).get("outer", "none") != "none"


def alone(values: dict[str, Any]) -> dict[str, Any]:
    """What a way is on one node: `single`, with all that is said about anything but the nodes' agreement."""
    return {"strategy": "single", **{key: value for key, value in values.items() if key not in TOGETHER}}


def rows_of_update(config: TrainConfig, way: Strategy) -> int:
    """Training rows that one change of a node's weights is made of, in a run on `config.node_count` nodes."""
    own = way.split.batch_size(config.batch_size, config.node_count)
    if way.split.shared:
        return own
    if way.split.dealt_apart:
        own = config.local_batch_size or own
    return own * config.node_count if way.sync.every_step else own


def controls(values: dict[str, Any], way: Strategy, run: TrainConfig) -> list[dict[str, Any]]:
    """What is said about the controls of a way on several nodes; the comparison's `single` may be among them. values:
    what is said about the way; run: one run of it.

    Where the way's learning rate grows with the nodes, so does its control's, but without warming up.
    """
    own = alone(values)
    rows = rows_of_update(run, way)
    if rows != run.batch_size:
        own["batch_size"] = rows
        rate = run.optimizer.learning_rate
        if way.scaled_rate and isinstance(rate, float):
            own["optimizer"] = {**own.get("optimizer", {}), "learning_rate": rate * run.node_count}
    return [values, own] if has_outer(values, way) else [own]
