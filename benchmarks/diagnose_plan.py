"""The pure part of benchmarks/diagnose.py: what is planted in which trial, how strong, and what counts as right."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

SCENARIOS = ("transform", "reader", "link", "model", "skew", "control")
WEAKEST, STRONGEST = 1.5, 4.0
"""How many times as slow as the next limit a planted one is."""


@dataclass(frozen=True)
class Trial:
    """One diagnosis. strength: how many times as slow as the next limit what is planted is; None with none. draws:
    what else is up to chance in this scenario."""

    scenario: str
    number: int
    strength: float | None
    draws: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        strength = "" if self.strength is None else f", {self.strength:.2f} times the next limit"
        return f"{self.scenario} {self.number}{strength}" + "".join(f", {key} {it}" for key, it in self.draws.items())


def trial(seed: int, scenario: str, number: int) -> Trial:
    """The trial `number` (from 0) of a scenario: the same for the same seed, whatever else is run."""
    chance = random.Random(f"{seed} {scenario} {number}")
    strength = round(math.exp(chance.uniform(math.log(WEAKEST), math.log(STRONGEST))), 3)
    return Trial(scenario, number, None if scenario == "control" else strength, _draws(scenario, chance))


def _draws(scenario: str, chance: random.Random) -> dict[str, Any]:
    if scenario == "transform":
        how = chance.choice(("sleep", "numpy", "python"))
        # Where only one thread at a time can do it, a reader beside the step is all that helps.
        return {"how": how, "readers": 0 if how == "python" else chance.choice((0, 1))}
    if scenario == "skew":
        return {"files": chance.randint(4, 12), "times": round(chance.uniform(3, 8), 2)}
    if scenario == "control":
        return {"strategy": chance.choice(("single", "local"))}
    return {}


# Strengths to what is planted. Seconds are per row.


def link_mbit(strength: float, step_seconds: float, bytes_per_step: int) -> int:
    """The rate of a link that takes `strength` times as long for a step's bytes, in each direction, as a step does."""
    return max(1, math.floor(bytes_per_step * 8 / (strength * step_seconds) / 1e6))


def rows_for(strength: float, next_limit: float, row_seconds: float, times: float) -> int:
    """How many rows a skewed input needs for two slots to lose `strength` times what the next limit costs.

    next_limit: seconds that a preparation takes whatever its rows are. row_seconds: as `row_seconds` says. times: the
    rows of the large file against all others together: one slot is at them while the other one is at the rest and then
    idle, so that half the difference is lost.
    """
    lost = row_seconds * (times - 1) / (times + 1) / 2
    return math.ceil(strength * next_limit / lost)


def row_seconds(lost: float, rows: int, times: float) -> float:
    """Seconds of a slot that a row is worth, where another slot is idle meanwhile: less than it takes while both are
    busy, if these get into each other's way. lost: seconds that such an input was seen to lose on two slots."""
    return lost * 2 * (times + 1) / (times - 1) / rows


def skewed(rows: int, files: int, times: float) -> list[int]:
    """The rows of so many files, of which the first has `times` as many as all others together."""
    large = round(rows * times / (1 + times))
    left = rows - large
    return [large, *(left * (place + 1) // (files - 1) - left * place // (files - 1) for place in range(files - 1))]


def units(strength: float, next_limit: float, small: tuple[int, float], large: tuple[int, float]) -> int:
    """Hidden units of a model that computes `strength` times as long as `next_limit`.

    small, large: units, and the seconds that they took; between them and beyond, seconds grow with the units.
    """
    slope = (large[1] - small[1]) / (large[0] - small[0])
    if slope <= 0:
        raise ValueError(f"{large[0]} units took no longer than {small[0]}: {large[1]:.3g} and {small[1]:.3g} s a row")
    return max(small[0], math.ceil(small[0] + (strength * next_limit - small[1]) / slope))


# What came of it.

NAMES: dict[str, tuple[str | None, ...]] = {
    "transform": ("transform",),
    "reader": ("reading",),
    "link": ("synchronise",),
    "model": ("compute",),
    "skew": ("skew",),
    "control": (None, "compute"),
}
"""What a scenario's limit may be called in diagnosis.json. With nothing planted, computing is what is left to wait
for, if there is a limit at all."""


@dataclass(frozen=True)
class Outcome:
    """limit: what diagnosis.json names. settings: what it recommends or, where it recommends nothing that helps and
    leaves the weights the same, proposes first; gain: how many times as fast that was, with the interval, or null.
    helped: None where nothing was planted."""

    limit: str | None
    named: bool
    settings: Mapping[str, Any] | None
    gain: tuple[float, float | None, float | None] | None
    helped: bool | None


def judged(planted: Trial, found: Mapping[str, Any]) -> Outcome:
    """What diagnosis.json says of a trial."""
    if planted.scenario == "skew":
        return _preparation(planted, found)
    answer = found["answer"]
    limit, helping = answer["limit"]["name"], [own for own in answer["keeping"] if own["helps"]]
    none = {"settings": None, "gain": None, "helps": False}
    best: Mapping[str, Any] = [*helping, *answer["changing"], *answer["keeping"], none][0]
    gain = best["gain"] and (best["gain"]["mean"], best["gain"]["low"], best["gain"]["high"])
    helped: bool | None = best["helps"]
    if planted.scenario == "model":
        # No setting is the answer; one that was tried, and is said not to help, is none either.
        helped = limit == "compute" and not helping
    elif planted.scenario == "control":
        helped = None
    return Outcome(limit, limit in NAMES[planted.scenario], best["settings"], gain, helped)


def _preparation(planted: Trial, found: Mapping[str, Any]) -> Outcome:
    """Of a preprocess configuration. Other files help against skew: they are the user's, and nothing is tried."""
    limit = found["answer"]["limit"]["name"]
    return Outcome(limit, limit in NAMES[planted.scenario], None, None, None)


def line(planted: Trial, outcome: Outcome) -> str:
    """A trial and its outcome, for people."""
    said = f"{planted}: {outcome.limit or 'no single limit'}{'' if outcome.named else ', which is WRONG'}"
    if outcome.settings:
        said += "; " + ", ".join(f"{key}: {value}" for key, value in outcome.settings.items())
        if outcome.gain:
            mean, low, high = outcome.gain
            said += f" is {mean:.2f} times as fast"
            said += "" if low is None or high is None else f" ({low:.2f} to {high:.2f})"
    return said + (", which is NO HELP" if outcome.helped is False else "")


def summary(done: Sequence[tuple[Trial, Outcome]]) -> dict[str, dict[str, int]]:
    """The JSON line's part by scenario, in their order."""
    found: dict[str, dict[str, int]] = {}
    for scenario in SCENARIOS:
        outcomes = [outcome for planted, outcome in done if planted.scenario == scenario]
        if outcomes:
            found[scenario] = {"times": len(outcomes), "named": sum(outcome.named for outcome in outcomes)}
            if scenario != "control":
                found[scenario]["helped"] = sum(bool(outcome.helped) for outcome in outcomes)
    return found


def reached(found: Mapping[str, Mapping[str, int]]) -> bool:
    """Whether all were named, and all that was recommended helped."""
    return all(own["named"] == own.get("helped", own["times"]) == own["times"] for own in found.values())
