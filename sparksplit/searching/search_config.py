"""The configuration of `search`."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

import pydantic

from sparksplit.base.config import Config
from sparksplit.base.keys import Mark
from sparksplit.training.train_config import TrainConfig


def _plain(value: Any) -> Any:
    """Return a value as JSON gives it back: lists for tuples, Python's numbers for NumPy's."""
    try:
        return json.loads(json.dumps(value, default=lambda other: other.tolist(), allow_nan=False))
    except (AttributeError, TypeError, ValueError):
        raise ValueError(
            f"must have only texts, numbers, true, false, null, lists and mappings (is {value!r})"
        ) from None


class Range(Config):
    """Numbers between two ends. Both ends belong to the range."""

    low: int | float
    """The lowest value."""
    high: int | float
    """The highest value."""
    log: bool = False
    """Whether all orders of magnitude are tried equally often."""

    @pydantic.model_validator(mode="after")
    def _rises(self) -> Range:
        if self.low >= self.high:
            raise ValueError(f"must go from a lower number to a higher one (is {self.low:g} to {self.high:g})")
        if self.log and self.low <= 0:
            raise ValueError(f"low must be above 0 with log: true (is {self.low:g})")
        return self


def _differ(values: list[Any]) -> list[Any]:
    for place, value in enumerate(values):
        if value in values[:place]:
            raise ValueError(f"has a value twice ({value})")
    return values


Choices = Annotated[list[Any], pydantic.Field(min_length=2), pydantic.AfterValidator(_differ)]


class SearchSection(Config):
    """What is searched, and how long."""

    keys: dict[str, Annotated[Range | Choices, pydantic.BeforeValidator(_plain)]] = pydantic.Field(min_length=1)
    """Keys to search, each with its values: a list such as {batch_size: [64, 128, 256]}, or a range such as
    {optimizer.learning_rate: {low: 0.001, high: 1, log: true}}. A range between two whole numbers has only whole
    numbers. With `log: true`, all orders of magnitude are tried equally often. All keys of `train` that change the
    model or its training can be searched."""
    trials: pydantic.PositiveInt = 20
    """Number of trials. Each trial trains the model with other values of the keys."""
    metric: str | None = None
    """Metric of the validation rows that decides which trial is best: one of `metrics`, or loss. null: accuracy for
    classes, otherwise the loss."""
    metric_better: Literal["lower", "higher"] | None = None
    """Whether lower or higher values of `search.metric` are better. null: derived from the metric. Required if the
    metric does not define a direction."""
    prune: bool = True
    """End a trial at the end of an epoch, if its best validation so far is worse than the median of the finished trials
    at this epoch. The first five finished trials are never ended early."""
    side_by_side: Annotated[pydantic.PositiveInt | None, Mark(hashed=False)] = None
    """Largest number of trials that train at the same time. Each trial needs executors for its own nodes. null: as many
    as the executors of the Spark application allow. With `min_nodes`, and on a cluster that `search` starts on this
    machine, null means 1."""


class SearchConfig(TrainConfig):
    """All keys of `search`: the keys of `train`, and what to search."""

    refused = {  # noqa: RUF012
        **{key: why for key, why in TrainConfig.refused.items() if key != "search"},
        "callbacks": "is for train: the trials of a search have no callbacks of yours",
    }

    output: Annotated[str, Mark(hashed=False, shared=True)]
    """Output folder of the search: search.json, best.yaml, and trials/ with the run of the best trial."""
    mlflow: Annotated[bool | None, Mark(hashed=False, shared=True)] = None
    """Send each trial to MLflow as a run of its own. The run's name is the search's folder and the trial's number.
    MLFLOW_TRACKING_URI and MLflow's other environment variables apply. null: no. The search goes on if the server is
    away. Needs the extra `mlflow`."""
    search: SearchSection
