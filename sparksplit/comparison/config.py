"""The configuration of `compare`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pydantic

from sparksplit.base.config import Config
from sparksplit.base.errors import did_you_mean
from sparksplit.comparison.analysis.verdicts import looks
from sparksplit.strategies import STRATEGIES
from sparksplit.strategies.config import SyncConfig
from sparksplit.training.config import NOT_IN_HASH, Training

_LOCAL = {"strategy": "local", "sync": {"every": 32, "outer": "nesterov"}}
_EQUAL_PASSES = "is for train: runs are compared at equal passes, by their last weights"
_OF_A_WAY = "belongs to a way: give it within `strategies`, beside that way's `strategy`"
_ALL_ARE_THERE = "is for train: a run of a comparison begins when all rows are there"
NO_WAY_HAS = {"early_stop": _EQUAL_PASSES, "keep_best": _EQUAL_PASSES, "order": _ALL_ARE_THERE}
"""Keys of `train` that no way of a comparison has, each with why."""
_STRATEGIES: tuple[str | dict[str, Any], ...] = ("single", "batch", "epoch", "epoch-delayed", _LOCAL)


def _can_be_tuned(key: str) -> str:
    from sparksplit.training.inputs import is_flag  # with what reads data sets: when it is needed

    section, *names = key.split(".")
    numbers = [f"sync.{own}" for own in SyncConfig.model_fields if own != "outer"]
    of_optimizer = names[:-1] in ([], ["learning_rate"]) and names[-1:] not in ([], [""], ["name"])
    if key not in numbers and not (section == "optimizer" and of_optimizer):
        known = f"only {', '.join(numbers)} and the numbers of `optimizer` can"
        raise ValueError(f"cannot be tuned: {known}{did_you_mean(key, [*numbers, 'optimizer.learning_rate'])}")
    if section == "optimizer" and is_flag(names[-1]):
        raise ValueError("cannot be tuned: it is true or false")
    return key


def _rises_above_0(ends: list[float]) -> list[float]:
    low, high = ends
    if min(ends) <= 0:
        raise ValueError(f"must be above 0 (is {min(ends):g})")
    if low >= high:
        raise ValueError(f"must go from a lower number to a higher one (is {low:g} to {high:g})")
    return ends


_Ends = Annotated[list[float], pydantic.Field(min_length=2, max_length=2), pydantic.AfterValidator(_rises_above_0)]


class TuneConfig(Config):
    """What is tried for each way before ways are compared."""

    tries: Annotated[int, pydantic.Field(ge=2)]
    """How many values."""
    seeds: pydantic.PositiveInt = 1
    """Runs of each try, on seeds that nothing is compared on; their mean decides."""
    keys: dict[Annotated[str, pydantic.AfterValidator(_can_be_tuned)], _Ends] = pydantic.Field(default_factory=dict)
    """Ranges, on a log scale, by dotted keys of `optimizer` and `sync`, such as {sync.every: [4, 128]}; together with
    the learning rate, whose range can be given here, too: optimizer.learning_rate: [0.001, 1]."""


class CompareConfig(Training):
    """Everything that `compare` needs to know: what to compare, and the training keys that all runs share."""

    renamed = {"ways": "strategies"}  # noqa: RUF012 (pydantic knows its type from Config)
    refused = {**NO_WAY_HAS, **dict.fromkeys(("collective", "init", "local_batch_size", "sync"), _OF_A_WAY)}  # noqa: RUF012

    output: str
    """The comparison's folder: results.json, report.html, and runs/ with a record of each run."""
    strategies: Annotated[
        list[str | dict[str, Any]],
        pydantic.Field(
            min_length=1,
            default_factory=lambda: list(_STRATEGIES),
            description="Names of ways, or mappings of training keys, such as {strategy: local, sync: {every: 32}}. "
            + " ".join(f"{name}: {way.told}." for name, way in STRATEGIES.items()),
        ),
    ]
    nodes: Annotated[list[pydantic.PositiveInt], pydantic.Field(min_length=1, default_factory=lambda: [1, 2])]
    """Numbers of nodes; each way runs on each of them. On 1 node all ways are one run of `single`, those with an
    outer optimiser run by themselves, too, and so do the controls of ways on several nodes."""
    virtual: list[pydantic.PositiveInt] = pydantic.Field(default_factory=list)
    """Numbers of virtual nodes, beyond the nodes at hand: what the strategies would learn there, without a time."""
    virtual_seeds: pydantic.PositiveInt = 1
    """Seeds of the virtual runs."""
    tune: Annotated[int, pydantic.Field(ge=0)] | TuneConfig = 0
    """How many learning rates, from 1/10 to 10 times its own, are tried for each way and number of nodes, and for each
    control, before they are compared with the one that is best on the validation rows; 0: untuned."""
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
    input_mode: Literal["spark", "tensorflow"] = "tensorflow"
    """tensorflow: each node reads its lanes of the prepared data set itself; spark: Spark reads the training split and
    hands it over to the nodes' local disks, once for all runs of a cluster. That takes one executor beyond the nodes',
    or more to be faster."""

    @property
    def tuning(self) -> TuneConfig | None:
        """What is tried; None if nothing is."""
        if isinstance(self.tune, TuneConfig):
            return self.tune
        return TuneConfig(tries=self.tune) if self.tune else None

    @property
    def keys(self) -> dict[str, Any]:
        """The values that can change what a comparison says; its times depend on input_mode."""
        values = self.model_dump(mode="json")
        return {key: value for key, value in values.items() if key == "input_mode" or key not in NOT_IN_HASH}

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

    @pydantic.field_validator("tune")
    @classmethod
    def _one_is_no_choice(cls, tries: int | TuneConfig) -> int | TuneConfig:
        if tries == 1:
            raise ValueError("must be 0 or at least 2 (is 1): with one there is nothing to choose from")
        return tries

    @pydantic.field_validator("nodes", "virtual")
    @classmethod
    def _numbers_differ(cls, numbers: list[int]) -> list[int]:
        if len(set(numbers)) < len(numbers):
            raise ValueError(f"has a number twice (is {numbers})")
        return numbers
