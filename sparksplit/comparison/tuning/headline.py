"""The headline of an answer: whether each strategy was tuned, since an answer about untuned strategies may be about the
rate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparksplit.comparison.numbers import compact
from sparksplit.comparison.plan import SINGLE
from sparksplit.comparison.tuning.record import TunedStrategy, Tuning
from sparksplit.comparison.tuning.said import where
from sparksplit.comparison.tuning.space import RATE, value_at
from sparksplit.comparison.tuning.tries import name_of
from sparksplit.strategies import STRATEGIES


def headline(tuning: Tuning | None, config: Mapping[str, Any]) -> str:
    """One or two sentences. config: the comparison's."""
    return _untuned(config) if tuning is None else _tuned(tuning)


def _tuned(tuning: Tuning) -> str:
    done, lost = ([one for one in tuning.strategies if (one.chosen is None) == gone] for gone in (False, True))
    if not done:
        return "Untuned: all tries diverged, so that every strategy has the values that were given."
    what = f"the best of {tuning.tries} {_what(done)}, by the validation rows"
    if len(tuning.strategies) == 1:
        (tuned,) = done
        who = [where(tuned), *tuned.also]
        if len(who) == 1:
            return f"Tuned: {who[0]} has {what}."
        same = "make their updates of the same mini-batches"
        return f"Tuned: {' and '.join(who)} {same}, and have {what}: tuned once for all."
    shared = [f"{', '.join(one.also)} has that of {where(one)}" for one in done if one.also]
    same = f"; what learns the same on any number of nodes is tuned once ({'; '.join(shared)})" if shared else ""
    but = f"; of {', '.join(map(where, lost))} all tries diverged, so that the values that were given are kept"
    each = "each strategy" if not lost else "each other strategy"
    return f"Tuned: {each} has {what}, on its number of nodes{same}{but if lost else ''}."


def _what(strategies: Sequence[TunedStrategy]) -> str:
    """What the tries were of: of a key that not all have, it is said."""
    keys = dict.fromkeys(key for tuned in strategies for key in tuned.ranges)
    if list(keys) == [RATE]:
        return "learning rates"
    some = {key for key in keys if any(key not in tuned.ranges for tuned in strategies)}
    names = [f"{name_of(key)}{' where a strategy has it' if key in some else ''}" for key in keys]
    return f"tries ({', '.join(names)})"


def _untuned(config: Mapping[str, Any]) -> str:
    entries = config.get("strategies") or []
    names = [entry.get("strategy") if isinstance(entry, Mapping) else entry for entry in entries]
    own = any(isinstance(entry, Mapping) and value_at(entry, RATE) is not None for entry in entries)
    rates = "the rates as they were given" if own else _one_rate(value_at(config, RATE), names)
    if entries and all(map(_learns_as_single, entries)):
        compared = [f"`{name}`" for name in dict.fromkeys((SINGLE, *names))]
        why = f"{compared[0]} is the only strategy here, so that the rate favours none"
        if len(compared) > 1:
            why = f"{' and '.join(compared)} make their updates of the same mini-batches, so that the rate favours none"
        return f"Untuned: {rates}. {why}; `tune: 8` tries eight."
    return (
        f"Untuned: {rates}. Strategies want different rates, so that this answer may be about the rate and not about "
        "the strategies; `tune: 8` tries eight for each."
    )


def _one_rate(rate: object, names: Sequence[object]) -> str:
    """Of strategies that are given the same."""
    known = [str(name) for name in names if name in STRATEGIES and STRATEGIES[str(name)].scaled_rate]
    times = f"`{known[0]}` multiplies it by the nodes" if known else ""
    number = compact(rate) if isinstance(rate, float) else ""
    more = ", ".join(part for part in (number, times) if part)
    return f"one {'schedule of the ' if isinstance(rate, Mapping) else ''}rate for all" + (f" ({more})" if more else "")


def _learns_as_single(entry: Any) -> bool:
    """Whether it makes the same updates as `single`, whatever the rate."""
    values = entry if isinstance(entry, Mapping) else {"strategy": entry}
    known = STRATEGIES.get(str(values.get("strategy")))
    return known is not None and known.any_nodes and set(values) <= {"strategy", "collective"}
