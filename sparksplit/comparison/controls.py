"""Controls: one node that does what a strategy on several does, but for the nodes. What it gains too, takes no second
node.

A strategy has up to two of them: itself on one node, where an outer optimiser makes that something else than `single`;
and `single` with the strategy's own keys, and with the mini-batch that its updates are made of.
"""

from __future__ import annotations

from typing import Any

from sparksplit.strategies import Strategy
from sparksplit.training.config import TrainConfig

TOGETHER = ("strategy", "sync", "local_batch_size", "collective")
"""Keys of a strategy that say how its nodes agree; one node has no use for them."""


def has_outer(values: dict[str, Any], strategy: Strategy) -> bool:
    """Whether a strategy is something else than `single` on one node. values: what is said about it."""
    return strategy.settings and dict(values.get("sync") or {}).get("outer", "none") != "none"


def alone(values: dict[str, Any]) -> dict[str, Any]:
    """What a strategy is on one node: `single`, with all that is said about anything but the nodes' agreement."""
    return {"strategy": "single", **{key: value for key, value in values.items() if key not in TOGETHER}}


def rows_of_update(config: TrainConfig, strategy: Strategy) -> int:
    """Training rows that one change of a node's weights is made of, in a run on `config.node_count` nodes."""
    own = strategy.split.batch_size(config.batch_size, config.node_count)
    if strategy.split.shared:
        return own
    if strategy.split.dealt_apart:
        own = config.local_batch_size or own
    return own * config.node_count if strategy.sync.every_step else own


def controls(values: dict[str, Any], strategy: Strategy, run: TrainConfig) -> list[dict[str, Any]]:
    """What is said about the controls of a strategy on several nodes; the comparison's `single` may be among them.
    values: what is said about the strategy; run: one run of it.

    Where the strategy's learning rate grows with the nodes, so does its control's, but without warming up.
    """
    own = alone(values)
    rows = rows_of_update(run, strategy)
    if rows != run.batch_size:
        own["batch_size"] = rows
        rate = run.optimizer.learning_rate
        if strategy.scaled_rate and isinstance(rate, float):
            own["optimizer"] = {**own.get("optimizer", {}), "learning_rate": rate * run.node_count}
    return [values, own] if has_outer(values, strategy) else [own]
