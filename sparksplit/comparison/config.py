"""The configuration of `compare`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pydantic

from sparksplit.training.config import Training

_LOCAL = {"strategy": "local", "sync": {"every": 32, "outer": "nesterov"}}
_EQUAL_PASSES = "is for train: runs are compared at equal passes, by their last weights"
_STRATEGIES: tuple[str | dict[str, Any], ...] = ("single", "batch", "epoch", "epoch-delayed", _LOCAL)


class CompareConfig(Training):
    """Everything that `compare` needs to know: what to compare, and the training keys that all runs share."""

    renamed = {"ways": "strategies"}  # noqa: RUF012 (pydantic knows its type from Config)
    refused = {"early_stop": _EQUAL_PASSES, "keep_best": _EQUAL_PASSES}  # noqa: RUF012

    output: str
    """The comparison's folder: results.json, report.html, and runs/ with a record of each run."""
    strategies: Annotated[
        list[str | dict[str, Any]], pydantic.Field(min_length=1, default_factory=lambda: list(_STRATEGIES))
    ]
    """Names of ways, or mappings of training keys, such as {strategy: local, sync: {every: 32}}."""
    nodes: Annotated[list[pydantic.PositiveInt], pydantic.Field(min_length=1, default_factory=lambda: [1, 2])]
    """Numbers of nodes; each way runs on each of them. On 1 node all ways are one run of `single`."""
    virtual: list[pydantic.PositiveInt] = pydantic.Field(default_factory=list)
    """Numbers of virtual nodes, beyond the nodes at hand: what the strategies would learn there, without a time."""
    virtual_seeds: pydantic.PositiveInt = 1
    """Seeds of the virtual runs."""
    seeds: pydantic.PositiveInt = 5
    """Runs of each way and number of nodes, with the seeds `seed`, `seed` + 1, ...: the same for all ways."""
    metric: str | None = None
    """The metric that decides: one of the metrics, or loss; null: accuracy for classes, otherwise the loss."""
    metric_better: Literal["lower", "higher"] | None = None
    """Which values of the metric are better; null: known from what the metric is. Needed if that does not tell."""
    margin: pydantic.PositiveFloat = 0.003
    """Differences of the metric that lie within it count as none."""
    target: float | None = None
    """A value of the metric on the validation rows: the time to reach it is reported; null: what is reached 95 % of the
    way from `single`'s first value to its best."""
    input_mode: Literal["tensorflow"] = "tensorflow"
    """Every node reads its lanes of the prepared data set itself."""

    @pydantic.model_validator(mode="after")
    def _numbers_differ(self) -> CompareConfig:
        for name in ("nodes", "virtual"):
            numbers = getattr(self, name)
            if len(set(numbers)) < len(numbers):
                raise ValueError(f"{name} has a number twice: {numbers}")
        return self
