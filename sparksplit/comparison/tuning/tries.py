"""The runs that try values for each strategy, and the comparison's runs with the best values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sparksplit.base.config import Origin, merged, nested, parse
from sparksplit.base.errors import ConfigError
from sparksplit.comparison.compare_config import CompareConfig, TuneConfig
from sparksplit.comparison.numbers import compact
from sparksplit.comparison.plan import Run
from sparksplit.comparison.tuning.space import Values, tried
from sparksplit.training.inputs import check_names
from sparksplit.training.train_config import TrainConfig

_TRY_SEED = 2_000_000
"""Distance of the tries' seeds from the compared seeds. The references' seeds lie between them."""

Group = tuple[str, int, bool]
"""(name, nodes, virtual)"""


@dataclass(frozen=True)
class Try:
    """Values to try for a strategy. runs: a run for each seed. The runs differ only in the seed."""

    group: Group
    values: Values
    runs: Sequence[Run]


def tries(config: CompareConfig, runs: Sequence[Run]) -> list[Try]:
    """Return the tries for the strategies of `runs`, strategy by strategy; none without a hyperparameter search.

    Raise ConfigError if no strategy has a key, if an end of a range is invalid, or if a range has too few values.
    """
    tuning = config.tuning
    if tuning is None:
        return []
    firsts: dict[Group, Run] = {}
    for run in runs:
        if run.group == run.tuned_as and not run.reference:
            firsts.setdefault(run.group, run)
    unused = [key for key in tuning.keys if not any(key in run.ranges for run in firsts.values())]
    if unused:
        known = ", ".join(dict.fromkeys(run.config.strategy for run in firsts.values()))
        raise _error(config, unused[0], f"no strategy of {known} has it")
    for run in firsts.values():
        _check_ends(config, tuning, run)
        if (number := len(tried(run.ranges, tuning.tries))) < tuning.tries:
            some = " and ".join(f"{key}: {span}" for key, span in run.ranges.items())
            raise config.error("tune.tries", f"must be at most {number} (is {tuning.tries}): {some} has no more values")
    seeds = [config.seed + _TRY_SEED + place for place in range(tuning.seeds)]
    return [
        Try(group, values, [_run(config, run, values, number, seed) for seed in seeds])
        for group, run in firsts.items()
        for number, values in enumerate(tried(run.ranges, tuning.tries), start=1)
    ]


def _check_ends(config: CompareConfig, tuning: TuneConfig, run: Run) -> None:
    """Raise ConfigError for the first key that does not take both ends of its range. A key that takes both takes all
    values between them."""
    check_names(run.config)  # an error without any range is no error of a range
    for key in (key for key in tuning.keys if key in run.ranges):
        place = config.origin.place(("tune", "keys", key))
        for end in (run.ranges[key].low, run.ranges[key].high):
            is_whole = float(end).is_integer()
            if run.ranges[key].whole and not is_whole:
                raise _error(config, key, f"must be a whole number (is {end:g})")
            as_int = is_whole and (run.ranges[key].whole or key.startswith("sync."))  # a list of floats holds 2 as 2.0
            try:
                check_names(with_values(run.config, {key: int(end) if as_int else end}, place))
            except ConfigError as error:
                said = str(error).removeprefix(f"{place}: ").removeprefix(f"{key}: ")
                raise _error(config, key, said) from error


def _error(config: CompareConfig, key: str, message: str) -> ConfigError:
    """Return a ConfigError about a range of `tune.keys`."""
    return config.origin.error(("tune", "keys", key), message)


def _run(config: CompareConfig, run: Run, values: Values, number: int, seed: int) -> Run:
    changed = with_values(run.config, values, config.origin.place(("tune", "keys")))
    stem = run.key.removesuffix(f"-s{run.config.seed}")
    return replace(
        run,
        key=f"tune-{stem}-t{number}-s{seed}",
        name=", ".join([run.name, *(f"{name_of(key)} = {compact(value)}" for key, value in values.items())]),
        config=changed.model_copy(update={"seed": seed}),
        tried=True,
    )


def tuned(runs: Sequence[Run], best: Mapping[Group, Values]) -> list[Run]:
    """Return `runs` with the best values of their strategies. Runs of a strategy without best values stay unchanged."""
    return [
        replace(run, config=with_values(run.config, best[run.tuned_as]))
        if run.tuned_as is not None and run.tuned_as in best
        else run
        for run in runs
    ]


def with_values(config: TrainConfig, values: Values, place: str = "") -> TrainConfig:
    """Return the configuration with these values. place: where the values come from, for errors. Raise ConfigError if a
    value is out of range."""
    both = merged(config.model_dump(mode="json"), nested(values))
    origin = Origin(config.origin.file)
    if place:
        origin.places = {tuple(key.split(".")): place for key in values}
    return parse(TrainConfig, both, origin)


def name_of(key: str) -> str:
    """Return a tuned key's name in reports: its last part, or H."""
    return "H" if key == "sync.every" else key.rpartition(".")[2].replace("_", " ")
