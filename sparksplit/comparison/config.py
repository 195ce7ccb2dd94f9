"""The configuration of `compare`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pydantic

from sparksplit.comparison.analysis.verdicts import looks
from sparksplit.training.config import Training

_LOCAL = {"strategy": "local", "sync": {"every": 32, "outer": "nesterov"}}
_EQUAL_PASSES = "is for train: runs are compared at equal passes, by their last weights"
_OF_A_WAY = "belongs to a way: give it within `strategies`, beside that way's `strategy`"
NO_WAY_HAS = {"early_stop": _EQUAL_PASSES, "keep_best": _EQUAL_PASSES}
"""Keys of `train` that no way of a comparison has, each with why."""
_STRATEGIES: tuple[str | dict[str, Any], ...] = ("single", "batch", "epoch", "epoch-delayed", _LOCAL)


class CompareConfig(Training):
    """Everything that `compare` needs to know: what to compare, and the training keys that all runs share."""

    renamed = {"ways": "strategies"}  # noqa: RUF012 (pydantic knows its type from Config)
    refused = {**NO_WAY_HAS, **dict.fromkeys(("collective", "init", "local_batch_size", "sync"), _OF_A_WAY)}  # noqa: RUF012

    output: str
    """The comparison's folder: results.json, report.html, and runs/ with a record of each run."""
    strategies: Annotated[
        list[str | dict[str, Any]], pydantic.Field(min_length=1, default_factory=lambda: list(_STRATEGIES))
    ]
    """Names of ways, or mappings of training keys, such as {strategy: local, sync: {every: 32}}."""
    nodes: Annotated[list[pydantic.PositiveInt], pydantic.Field(min_length=1, default_factory=lambda: [1, 2])]
    """Numbers of nodes; each way runs on each of them. On 1 node all ways are one run of `single`, those with an
    outer optimiser run by themselves, too, and so do the controls of ways on several nodes."""
    virtual: list[pydantic.PositiveInt] = pydantic.Field(default_factory=list)
    """Numbers of virtual nodes, beyond the nodes at hand: what the strategies would learn there, without a time."""
    virtual_seeds: pydantic.PositiveInt = 1
    """Seeds of the virtual runs."""
    seeds: pydantic.PositiveInt = 5
    """Runs of each way and number of nodes, with the seeds `seed`, `seed` + 1, ...: the same for all ways."""
    max_seeds: pydantic.PositiveInt | None = None
    """While not all differences are decided, twice as many seeds are run, up to this many; each look is paid for with a
    part of the chance of being wrong. null: only `seeds`."""
    metric: str | None = None
    """The metric that decides: one of the metrics, or loss; null: accuracy for classes, otherwise the loss."""
    metric_better: Literal["lower", "higher"] | None = None
    """Which values of the metric are better; null: known from what the metric is. Needed if that does not tell."""
    margin: Annotated[float, pydantic.Field(gt=0, lt=1)] = 0.003
    """Differences of the metric that lie within it count as none: a share of the way from an untrained model's value to
    that of a trained `single`."""
    target: float | None = None
    """A value of the metric on the validation rows: the time to reach it is reported; null: what `single`, on seeds of
    its own, reaches 95 % of the way from its first value to its best."""
    input_mode: Literal["tensorflow"] = "tensorflow"
    """Every node reads its lanes of the prepared data set itself."""

    @property
    def looks(self) -> list[int]:
        """The numbers of seeds after which it is seen whether all is decided."""
        return looks(self.seeds, self.max_seeds)

    @pydantic.field_validator("max_seeds")
    @classmethod
    def _more_seeds(cls, most: int | None, info: pydantic.ValidationInfo) -> int | None:
        if most is not None and most < info.data.get("seeds", most):
            raise ValueError(f"must be at least seeds, {info.data['seeds']} (is {most})")
        return most

    @pydantic.field_validator("nodes", "virtual")
    @classmethod
    def _numbers_differ(cls, numbers: list[int]) -> list[int]:
        if len(set(numbers)) < len(numbers):
            raise ValueError(f"has a number twice (is {numbers})")
        return numbers
