"""What benchmarks/overhead.py makes of its measurements: ratios, their spread, and its report."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

SPREAD = 10.0
"""Percent, below which a ratio is taken for measured."""


def ratios(rates: dict[str, dict[str, float]]) -> dict[str, float]:
    """The ratios by their keys in the JSON line, from rows/s by model and contender; those lack whose parts do."""
    found = {}
    for model, own_rates in rates.items():
        one_core = max((own_rates[name] for name in ("loop", "fit1") if name in own_rates), default=None)
        for key, own, other in (
            ("single_ratio", own_rates.get("single"), one_core),
            ("batch2_ratio", own_rates.get("batch2"), own_rates.get("ceiling")),
            ("batch2_to_single", own_rates.get("batch2"), own_rates.get("single")),
            ("local2_ratio", own_rates.get("local2"), own_rates.get("ceiling")),
            ("batch2_to_mwms", own_rates.get("batch2"), own_rates.get("mwms")),
            ("batch2_to_keras2", own_rates.get("batch2"), own_rates.get("fit2")),
        ):
            if own is not None and other is not None:
                found[f"{model}_{key}"] = own / other
    return found


def ratios_of(found: dict[str, dict[str, list[float]]]) -> dict[str, list[float]]:
    """Each round's ratios by key. found: rows/s of each round by model and contender."""
    rounds = max((len(rates) for measured in found.values() for rates in measured.values()), default=0)
    by_key: dict[str, list[float]] = defaultdict(list)
    for number in range(rounds):
        rates = {model: {name: own[number] for name, own in measured.items()} for model, measured in found.items()}
        for key, ratio in ratios(rates).items():
            by_key[key].append(ratio)
    return dict(by_key)


def spread(values: Sequence[float]) -> float | None:
    """How far the middle half of `values` reaches, in percent of their median; None of a single one."""
    if len(values) < 2:
        return None
    low, middle, high = np.percentile(values, [25, 50, 75])
    return float(100 * (high - low) / middle)


def wide(by_key: dict[str, list[float]]) -> list[str]:
    """The ratios whose spread is not known to be under 10 %."""
    spreads = {key: spread(values) for key, values in by_key.items()}
    return [key for key, value in spreads.items() if value is None or value >= SPREAD]


def goes_on(by_key: dict[str, list[float]], repeats: int, taken: Sequence[float], left: float) -> bool:
    """Whether there is another round. by_key: each round's ratios. taken: the rounds' seconds. left: seconds."""
    if not taken:
        return True
    return max(taken) <= left and (len(taken) < repeats or bool(wide(by_key)))


def report(found: dict[str, dict[str, list[float]]], shares: list[float], told: dict[str, str]) -> None:
    """Print the table and the JSON line. found: rows/s of each round by model and contender. shares: of the cores that
    other work used. told: what each contender is."""
    medians = {
        model: {name: round(statistics.median(rates), 1) for name, rates in measured.items()}
        for model, measured in found.items()
    }
    summaries = {name: text.split(";")[0].rstrip(".") for name, text in told.items()}
    print(f"{'':4} {'contender':<9} {'rows/s':>10} {'lowest':>10} {'highest':>10}")
    for model, measured in found.items():
        for name, rates in measured.items():
            low, high = min(rates), max(rates)
            print(f"{model:4} {name:<9} {medians[model][name]:>10,.0f} {low:>10,.0f} {high:>10,.0f}  {summaries[name]}")
    by_key = ratios_of(found)
    too_wide = wide(by_key)
    spreads: dict[str, float | None] = {}
    for key, values in by_key.items():
        reach = spread(values)
        spreads[key] = None if reach is None else round(reach, 1)
        noted = "spread unknown: one round" if reach is None else f"spread {reach:.0f} %"
        print(f"{key:<22} {statistics.median(values):.2f}  {noted}{', not under 10 %' if key in too_wide else ''}")
    all_rates = {
        model: {name: [round(rate, 1) for rate in rates] for name, rates in measured.items()}
        for model, measured in found.items()
    }
    all_ratios = {key: round(statistics.median(values), 3) for key, values in by_key.items()}
    versions = {name: version(name) for name in ("tensorflow", "keras", "pyspark", "tensorflowonspark")}
    more: dict[str, Any] = {"rows_per_second": medians, "measurements": all_rates, "busy": shares, "versions": versions}
    print(json.dumps({**all_ratios, "spread": spreads, "wide": too_wide, **more}))
