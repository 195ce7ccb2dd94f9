"""Controls: runs on one node with the settings of a strategy on several nodes. A gain that a control has too needs no
second node.

A strategy has up to two controls. The first is the strategy itself on one node, if an outer optimiser makes it differ
from `single`. The second is `single` with the strategy's own keys and the batch size of the strategy's updates.
"""

from __future__ import annotations

from typing import Any

from sparksplit.strategies import Strategy
from sparksplit.training.train_config import TrainConfig

TOGETHER = ("strategy", "sync", "local_batch_size", "collective")
"""Keys of a strategy about the agreement of its nodes. One node does not use them."""


def has_outer(values: dict[str, Any], strategy: Strategy) -> bool:
    """Whether an outer optimiser makes the strategy differ from `single` on one node. values: the strategy's keys."""
    return strategy.settings and dict(values.get("sync") or {}).get("outer", "none") != "none"


def alone(values: dict[str, Any]) -> dict[str, Any]:
    """Return the keys of a strategy on one node: `single`, with the strategy's keys except the keys in TOGETHER."""
    return {"strategy": "single", **{key: value for key, value in values.items() if key not in TOGETHER}}


def rows_of_update(config: TrainConfig, strategy: Strategy) -> int:
    """Return the number of training rows in one change of a node's weights, for a run on `config.node_count` nodes."""
    batch = strategy.split.batch_size(config.batch_size, config.node_count)
    if strategy.split.shared:
        return batch
    if strategy.split.dealt_apart:
        batch = config.local_batch_size or batch
    return batch * config.node_count if strategy.sync.every_step else batch


def controls(values: dict[str, Any], strategy: Strategy, run: TrainConfig) -> list[dict[str, Any]]:
    """Return the keys of each control of a strategy on several nodes. A control may equal the comparison's `single`.

    values: the strategy's keys. run: one run of the strategy. If the strategy's learning rate grows with the nodes, the
    control's learning rate does too, but without warm-up. A mini-batch with fewer rows than `accumulate` has a
    micro-batch for each row.
    """
    control = alone(values)
    rows = rows_of_update(run, strategy)
    if rows != run.batch_size:
        control["batch_size"] = rows
        if run.accumulate > rows:
            control["accumulate"] = rows
        rate = run.optimizer.learning_rate
        if strategy.scaled_rate and isinstance(rate, float):
            control["optimizer"] = {**control.get("optimizer", {}), "learning_rate": rate * run.node_count}
    return [values, control] if has_outer(values, strategy) else [control]
