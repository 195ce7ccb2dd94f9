"""The configuration of `compare`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from operator import le
from typing import Annotated, Any, Literal

import pydantic

from sparksplit.base.config import Config
from sparksplit.base.errors import did_you_mean
from sparksplit.base.keys import Mark, keys_of, mark_of, unhashed
from sparksplit.comparison.analysis.verdicts import looks
from sparksplit.strategies import COMPARED
from sparksplit.strategies.sync_config import SyncConfig
from sparksplit.training.train_config import EQUAL_PASSES, TrainConfig, Training

_LOCAL = {"strategy": "local", "sync": {"every": 32, "outer": "nesterov"}}
_OF_A_STRATEGY = "belongs to one strategy: give it within `strategies`, beside the name in `strategy`"
REFUSED = {key: mark_of(TrainConfig, key).refused for key in keys_of(TrainConfig, lambda mark: mark.refused)}
"""Keys of `train` that no run of a comparison has, each with the reason."""
DEFAULT_STRATEGIES: tuple[str | dict[str, Any], ...] = ("single", "batch", "epoch", "epoch-delayed", _LOCAL)


def _can_be_tuned(key: str) -> str:
    from sparksplit.training.inputs import is_flag  # late, because it imports the code that reads data sets

    section, *names = key.split(".")
    numbers = [f"sync.{name}" for name in SyncConfig.model_fields if name != "outer"]
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


_SEEDS = ("seeds", "max_seeds")
_TIMED = {key: Training.model_fields[key].default for key in keys_of(Training, lambda mark: mark.timed)}
"""The defaults of the keys that change only times. A comparison that was made before these keys were kept counts as if
it had these values."""


def adds_seeds(then: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Return whether `now` differs from `then` only in `seeds` and `max_seeds`, and asks for more seeds.

    A comparison with the keys `now` can then use all runs of a comparison with the keys `then`.
    """
    whole = {**_TIMED, **then}
    before, after = ({key: value for key, value in keys.items() if key not in _SEEDS} for keys in (whole, now))
    first, most = ([keys.get("seeds") or 0, max(keys.get(key) or 0 for key in _SEEDS)] for keys in (then, now))
    known = bool(then.get("seeds")) and before == json.loads(json.dumps(after))
    return known and first != most and all(map(le, first, most))


class TuneConfig(Config):
    """The hyperparameter search before the strategies are compared."""

    tries: Annotated[int, pydantic.Field(ge=2)]
    """Hyperparameter search: number of values to try for each strategy and number of nodes. Controls are searched too
    (`nodes` explains them)."""
    seeds: pydantic.PositiveInt = 1
    """Runs of each value that the search tries. The mean of the runs decides. The search uses other seeds than the
    comparison."""
    keys: dict[Annotated[str, pydantic.AfterValidator(_can_be_tuned)], _Ends] = pydantic.Field(default_factory=dict)
    """Ranges for the hyperparameter search, on a log scale, such as {sync.every: [4, 128]}. Possible keys are the
    numbers of `optimizer` and `sync`. The search includes the learning rate, from 1/10 to 10 times its value. Another
    range can be given: {optimizer.learning_rate: [0.001, 1]}. A schedule needs a range for one of its arguments, such
    as optimizer.learning_rate.initial_learning_rate."""


class CompareConfig(Training):
    """All keys of `compare`: what to compare, and the training keys that all runs share."""

    refused = {  # noqa: RUF012
        **REFUSED,
        "callbacks": EQUAL_PASSES,
        **dict.fromkeys(keys_of(TrainConfig, lambda mark: mark.within), _OF_A_STRATEGY),
    }

    output: Annotated[str, Mark(hashed=False)]
    """Output folder of the comparison: results.json, report.html, and runs/ with a record of each run."""
    strategies: Annotated[
        list[str | dict[str, Any]],
        pydantic.Field(
            min_length=1,
            default_factory=lambda: list(DEFAULT_STRATEGIES),
            description="Strategies to compare: names, or mappings of training keys such as {strategy: local, "
            "sync: {every: 32}}. " + " ".join(f"{name}: {strategy.told}." for name, strategy in COMPARED.items()),
        ),
    ]
    nodes: Annotated[list[pydantic.PositiveInt], pydantic.Field(min_length=1, default_factory=lambda: [1, 2])]
    """Numbers of nodes to compare. Each strategy runs on each number of nodes. On 1 node, all strategies are one run of
    `single`. Strategies with an outer optimiser, and controls, also run on 1 node. A control gives 1 node the keys and
    the batch size of a strategy on several nodes."""
    virtual: list[pydantic.PositiveInt] = pydantic.Field(default_factory=list)
    """Numbers of virtual nodes, each at least 2, to show what the strategies would learn on more nodes than you have.
    The time on virtual nodes is not measured. Strategies with the same result on any number of nodes, such as batch, do
    not run on virtual nodes."""
    virtual_seeds: pydantic.PositiveInt = 1
    """Runs of each strategy and number of virtual nodes, each with its own seed."""
    tune: Annotated[int, pydantic.Field(ge=0)] | TuneConfig = 0
    """Hyperparameter search: number of learning rates to try for each strategy and number of nodes. Controls are
    searched too (`nodes` explains them). The learning rates are between 1/10 and 10 times the strategy's own. The
    comparison then uses the learning rate that is best on the validation rows. 0: no search."""
    seeds: pydantic.PositiveInt = 5
    """Runs of each strategy and number of nodes, with the seeds `seed`, `seed` + 1, ... All strategies use the same
    seeds."""
    max_seeds: pydantic.PositiveInt | None = None
    """Largest number of seeds. While more seeds could change the answer, the comparison doubles the number of seeds, up
    to this number. Every extra look is tested more strictly, so the overall error rate stays at 5 %. null: only
    `seeds`."""
    metric: str | None = None
    """Metric that decides which strategy learns better: one of `metrics`, or loss. null: accuracy for classes,
    otherwise the loss."""
    metric_better: Literal["lower", "higher"] | None = None
    """Whether lower or higher values of `metric` are better. null: derived from the metric. Required if the metric does
    not define a direction."""
    margin: Annotated[float, pydantic.Field(gt=0, lt=1)] = 0.003
    """Largest difference of the metric that counts as no difference. The unit is the distance between the metric of an
    untrained model and of a trained `single`. 0.003 means 0.3 % of this distance."""
    target: float | None = None
    """Target value of the metric on the validation rows. The report shows the time to reach the target. null: 95 % of
    the way from the first to the best value of `single`, measured with separate seeds."""
    input_mode: Literal["spark", "tensorflow"] = "tensorflow"
    """How training rows reach the nodes. tensorflow: each node reads its own part (lanes) of the prepared data set.
    spark: Spark reads the training split and sends the rows to the nodes' local disks, once for all runs of a cluster.
    spark needs at least one executor more than the largest number of nodes. Further executors make sending faster."""

    @property
    def tuning(self) -> TuneConfig | None:
        """The hyperparameter search; None without one."""
        if isinstance(self.tune, TuneConfig):
            return self.tune
        return TuneConfig(tries=self.tune) if self.tune else None

    @property
    def keys(self) -> dict[str, Any]:
        """The keys that can change the results of a comparison, with their values. Times are results, too."""
        return self.model_dump(mode="json", exclude=unhashed(CompareConfig) - _TIMED.keys())

    @property
    def within(self) -> str:
        """The prefix of these keys in `--set`: the section of the file, as in quickstart's file."""
        return "".join(f"{key}." for key in self.origin.prefix)

    @property
    def looks(self) -> list[int]:
        """The numbers of seeds after which the comparison checks whether the answer is decided."""
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

    @pydantic.field_validator("virtual")
    @classmethod
    def _one_is_real(cls, numbers: list[int]) -> list[int]:
        if 1 in numbers:
            raise ValueError(f"must be numbers from 2 on (is {numbers}): give 1 in `nodes`")
        return numbers

    @pydantic.field_validator("nodes", "virtual")
    @classmethod
    def _numbers_differ(cls, numbers: list[int]) -> list[int]:
        if len(set(numbers)) < len(numbers):
            raise ValueError(f"has a number twice (is {numbers})")
        return numbers
