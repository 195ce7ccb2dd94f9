"""Optuna's proposals for the next trial. The only module that imports Optuna."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from sparksplit.base.errors import UsageError
from sparksplit.base.records import Json, JsonObject
from sparksplit.searching.search_config import Range
from sparksplit.searching.search_record import SearchRecord, Trial
from sparksplit.searching.space import Space, combinations, is_whole, rounded, size

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

_ASKED = 50
"""Proposals that may repeat earlier trials before the first untried combination is taken."""
_SEEDS = 1_000_003
"""A prime number, so that two searches with nearby seeds have no seed of a trial in common."""


def check_installed() -> None:
    """Raise UsageError if Optuna is not installed."""
    if find_spec("optuna") is None:
        raise UsageError("search: Optuna is not installed; run pip install 'sparksplit[search]'")


def proposal(space: Space, record: SearchRecord, number: int, seed: int) -> JsonObject:
    """Return the values of the keys for trial `number`. They differ from all trials in `record`.

    The proposal depends only on the arguments, so that a resumed search makes the same proposals. Optuna's sampler
    (TPE) gets a seed of its own for each trial. The space must have more combinations than `record` has trials.
    """
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    by_key = {key: _distribution(values) for key, values in space.items()}
    with warnings.catch_warnings():
        # The option that spreads trials side by side is experimental.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(seed=(seed * _SEEDS + number) % 2**32, constant_liar=True)
    study = optuna.create_study(direction="maximize" if record.higher else "minimize", sampler=sampler)
    for trial in record.trials:
        study.add_trial(_frozen(trial, space, by_key))
    tried = [trial.keys for trial in record.trials]
    for _ in range(_ASKED):
        asked = study.ask(by_key)
        keys = {key: _value(values, asked.params[key]) for key, values in space.items()}
        if keys not in tried:
            return keys
    if size(space) is None:  # a range so narrow that its rounded values are few
        return {key: _value(values, asked.params[key], exact=True) for key, values in space.items()}
    return next(one for one in combinations(space) if one not in tried)


def _distribution(values: Range | Sequence[Json]) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if not isinstance(values, Range):
        return CategoricalDistribution(range(len(values)))  # of places, because Optuna takes no lists and mappings
    if is_whole(values):
        return IntDistribution(int(values.low), int(values.high), log=values.log)
    return FloatDistribution(float(values.low), float(values.high), log=values.log)


def _value(values: Range | Sequence[Json], asked: Any, exact: bool = False) -> Json:
    """Return a key's value for a value of Optuna. exact: do not round it."""
    if not isinstance(values, Range):
        return values[int(asked)]
    if is_whole(values):
        return int(asked)
    return float(asked) if exact else rounded(values, asked)


def _frozen(trial: Trial, space: Space, by_key: dict[str, BaseDistribution]) -> FrozenTrial:
    """Return a trial as Optuna has it. A failed trial counts as the worst of the pruned trials."""
    import optuna
    from optuna.trial import TrialState

    has_value = trial.state == "complete" and trial.value is not None
    state = TrialState.COMPLETE if has_value else TrialState.PRUNED
    values = {epoch: value for epoch, value in trial.by_epoch.items() if value is not None}
    return optuna.trial.create_trial(
        state=TrialState.RUNNING if trial.state == "running" else state,
        value=trial.value if has_value else None,
        params={
            key: trial.keys[key] if isinstance(values_of, Range) else list(values_of).index(trial.keys[key])
            for key, values_of in space.items()
        },
        distributions=by_key,
        intermediate_values={} if trial.state == "failed" else values,
    )
