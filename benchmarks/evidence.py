"""How often `compare` is wrong, by comparisons of which the truth is known.

    python benchmarks/evidence.py [--comparisons 1000] [--seed 1]

Made-up runs go through the very analysis that compare uses (sparksplit.comparison.analysis). Some comparisons are of
noise alone (no strategy differs from `single`, in quality or in time), the others have real effects; in some of both
kinds strategies spread alike, in others from half to twice as much; some look once, after 5 seeds, and others go on, up
to 20, until all is decided. Each has 150 or 1,000 test rows of its own, drawn anew, on which strategies differ
otherwise than on all rows: the truth is that of all rows. --comparisons: of each of these eight kinds. --seeds-alone:
leave out what runs tell of the rows, as if there were no others.

The last line is one JSON object, with the worst of the eight kinds. false_better: the share of comparisons in which
anything was called better, worse, faster, slower or faster by at least so much that is not; false_same: the same for
no difference and not worse. coverage: of the 95 % intervals, in quality and in time, those that held the truth. power,
power_times: of the effects of about three margins or more (2.7 to 6, between two strategies that both differ from
`single`), and of a tenth of the time, those that were decided, over all kinds. by_kind: each by itself. Meant:
false_better at most 0.05 within what chance allows, coverage at least 0.93.
"""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from dataclasses import dataclass, fields, replace

import numpy as np

from sparksplit.comparison.analysis.analyse import Analysis, analyse
from sparksplit.comparison.analysis.verdicts import level_at, looks
from sparksplit.comparison.comparison_record import ComparedRun
from sparksplit.comparison.content import Deciding
from sparksplit.training.progress_record import CurvePoint
from sparksplit.training.run_record import RunLedger, RunMetrics, RunSeconds

SMALL = "single, batch_size = 32"
STRATEGIES = (
    ("single", 1), ("batch", 2), ("epoch", 2), ("epoch-delayed", 2), ("local", 2), ("batch", 4), ("epoch", 4),
    ("local", 1), (SMALL, 1),
)  # fmt: skip
METRIC = Deciding("loss", False, "test", None)
SHARE, UNTRAINED, TRAINED = 0.01, 2.0, 1.0
MARGIN = SHARE * (UNTRAINED - TRAINED)
SEEDS, MOST = 5, 20
ROWS, LANES = (150, 1000), 96
_SECONDS = RunSeconds(**dict.fromkeys((field.name for field in fields(RunSeconds)), 0.0))


@dataclass(frozen=True)
class Truth:
    """What is so. worse: how much higher a strategy's loss is than `single`'s; slower: the logarithm of how many times
    its seconds are. noise: the standard deviation of each strategy's own part of the loss, time: that of the logarithm.
    rows: of the test set; by_row: the standard deviation over rows of each strategy's own part of the loss, run_by_row:
    of each run's."""

    worse: dict[tuple[str, int], float]
    slower: dict[tuple[str, int], float]
    noise: dict[tuple[str, int], float]
    time: float
    rows: int
    by_row: float
    run_by_row: float


def drawn(generator: np.random.Generator, effects: bool, unequal: bool) -> Truth:
    """A truth: without effects, or with one in each strategy, in quality, in time or both."""
    own = MARGIN * float(generator.choice([0.3, 1.0]))
    sizes = [-3 * MARGIN, -MARGIN / 3, 0.0, MARGIN / 3, 3 * MARGIN] if effects else [0.0]
    speeds = [-math.log(2), -0.1, 0.0, 0.1] if effects else [0.0]
    spread = [0.5, 1.0, 2.0] if unequal else [1.0]
    others = STRATEGIES[1:]
    rows = int(generator.choice(ROWS))
    by_row, run_by_row = (MARGIN * math.sqrt(rows) * float(generator.choice([0.1, 0.5])) for _ in range(2))
    return Truth(
        {STRATEGIES[0]: 0.0, **{strategy: float(generator.choice(sizes)) for strategy in others}},
        {STRATEGIES[0]: 0.0, **{strategy: float(generator.choice(speeds)) for strategy in others}},
        {strategy: own * float(generator.choice(spread)) for strategy in STRATEGIES},
        float(generator.choice([0.02, 0.1])),
        rows,
        by_row,
        run_by_row,
    )


class TestRows:
    """Test rows, in lanes by chance, and what each strategy's own part of the loss is on them: skewed, 0 on all
    rows."""

    def __init__(self, generator: np.random.Generator, truth: Truth) -> None:
        self._generator, self._spread = generator, truth.run_by_row
        self._lane = generator.integers(0, LANES, truth.rows)
        self._counts = np.bincount(self._lane, minlength=LANES)
        self._of_strategy = {
            strategy: truth.by_row * (generator.exponential(size=truth.rows) - 1) for strategy in STRATEGIES
        }

    def run(self, strategy: tuple[str, int]) -> tuple[float, list[float]]:
        """(the mean over the rows, its jackknife) of a run of that strategy."""
        values = self._of_strategy[strategy] + self._spread * self._generator.normal(size=len(self._lane))
        return float(values.mean()), jackknife(np.bincount(self._lane, values, LANES), self._counts).tolist()


def jackknife(sums: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """As training.node.jackknife has it of a mean, from each lane's sum and rows; for lanes that have some."""
    sums, counts = sums[counts > 0], counts[counts > 0]
    total, rows = sums.sum(), counts.sum()
    found: np.ndarray = (total / rows - (total - sums) / (rows - counts)) * np.sqrt((rows - counts) / counts)
    return found


def made(
    strategy: tuple[str, int], seed: int, loss: float, seconds: float, by_lane: list[float] | None = None
) -> ComparedRun:
    """The record of such a run. by_lane: the loss's jackknife."""
    point = CurvePoint(passes=1, updates=1, steps=1, seconds=seconds, validation={METRIC.name: TRAINED})
    return replace(
        _RUN,
        name=strategy[0],
        nodes=strategy[1],
        seed=seed,
        history=[point],
        metrics=RunMetrics(test={METRIC.name: loss}),
        jackknife=None if by_lane is None else {METRIC.name: by_lane},
    )


_RUN = ComparedRun.from_json(
    {
        **dict.fromkeys(("run_id", "config_hash", "command", "strategy", "input_mode", "weights"), ""),
        **dict.fromkeys(("rows", "batch_size", "epochs", "passes", "updates", "steps", "syncs", "restarts"), 1),
        **dict.fromkeys(("key", "name", "application_id"), ""),
        "data": {"path": "", "digest": ""},
        "config": {},
        "sync": {"every": "step", "outer": None, "after": 0},
        "nodes": 1,
        "virtual": False,
        "sync_bytes_per_node": 0,
        "ledger": vars(RunLedger(1, "", True)),
        "seconds": vars(_SECONDS),
        "rows_per_second": 1.0,
        "metrics": {"test": {}},
        "resumed": [],
        "hosts": ["a"],
        "versions": {},
        "seed": 1,
        "history": [],
    },
    "a run made up",
)


def runs_of(generator: np.random.Generator, truth: Truth, seeds: range, rows: TestRows) -> list[ComparedRun]:
    """Runs of all strategies with these seeds, on those test rows."""
    found = []
    for seed in seeds:
        shared, pace = 3 * MARGIN * generator.normal(), truth.time * generator.normal()
        for strategy in STRATEGIES:
            there, by_lane = rows.run(strategy)
            loss = TRAINED + truth.worse[strategy] + shared + truth.noise[strategy] * generator.normal() + there
            log = truth.slower[strategy] + pace + truth.time * generator.normal()
            found.append(made(strategy, seed, float(loss), 10 * math.exp(log), by_lane))
    return found


REFERENCE = replace(made(STRATEGIES[0], 0, TRAINED, 10.0), untrained={METRIC.name: UNTRAINED})


def compared(generator: np.random.Generator, truth: Truth, most: int | None, seeds_alone: bool = False) -> Analysis:
    """A comparison that looks after 5 seeds and, with `most`, goes on until all is decided. seeds_alone: whether what
    runs tell of the rows is left out."""
    planned, runs, rows = looks(SEEDS, most), [], TestRows(generator, truth)
    for before, now in zip([0, *planned[:-1]], planned, strict=True):
        some = runs_of(generator, truth, range(before + 1, now + 1), rows)
        runs += [replace(run, jackknife=None) for run in some] if seeds_alone else some
        found = analyse(runs, [REFERENCE], METRIC, SHARE, level=level_at(planned, now))
        if "undecided" not in {pair.verdict for pair in found.pairs} | {pair.verdict for pair in found.times}:
            break
    return found


def count(found: Analysis, truth: Truth, counts: Counter[str]) -> None:
    """Add what was right and wrong. Names: what happened, with the number that it is a share of under `of NAME`."""
    wrong = wrong_same = False
    for pair in found.pairs:
        true = truth.worse[pair.name, pair.nodes] - truth.worse[pair.against, pair.against_nodes]
        assert pair.low is not None and pair.high is not None
        counts["of covered"] += 1
        counts["covered"] += pair.low <= true <= pair.high
        wrong |= (pair.verdict == "better" and true >= 0) or (pair.verdict == "worse" and true <= 0)
        wrong_same |= pair.verdict == "no difference" and abs(true) > MARGIN
        wrong_same |= pair.verdict == "not worse" and true > MARGIN
        if abs(true) > 2.5 * MARGIN:
            counts["of decided quality"] += 1
            counts["decided quality"] += pair.verdict == ("better" if true < 0 else "worse")
    for time in found.times:
        true = truth.slower[time.against, time.against_nodes] - truth.slower[time.name, time.nodes]
        assert time.low is not None and time.high is not None
        counts["of covered times"] += 1
        counts["covered times"] += time.low <= math.exp(true) <= time.high
        wrong |= (time.verdict == "faster" and true <= 0) or (time.verdict == "slower" and true >= 0)
        wrong |= time.at_least is not None and math.exp(true) < time.at_least
        if math.isclose(abs(true), 0.1):
            counts["of decided time"] += 1
            counts["decided time"] += time.verdict == ("faster" if true > 0 else "slower")
    counts["comparisons"] += 1
    counts["wrong"] += wrong
    counts["wrong same"] += wrong_same


def main() -> None:
    """Simulate, and print the line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comparisons", type=int, default=1000, help="of each kind (default: 1000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds-alone", action="store_true", help="leave out what runs tell of the rows")
    given = parser.parse_args()
    kinds: dict[str, Counter[str]] = {}
    for effects in (False, True):
        for unequal in (False, True):
            for most in (None, MOST):
                name = f"{'effects' if effects else 'noise'}{', unequal' if unequal else ''}{', looks' if most else ''}"
                generator = np.random.default_rng([given.seed, len(kinds)])
                counts = kinds[name] = Counter()
                for _ in range(given.comparisons):
                    truth = drawn(generator, effects, unequal)
                    count(compared(generator, truth, most, given.seeds_alone), truth, counts)

    def share(counts: Counter[str], name: str, of: str) -> float | None:
        return round(counts[name] / counts[of], 4) if counts[of] else None

    told = {
        name: {
            "false_better": share(counts, "wrong", "comparisons"),
            "false_same": share(counts, "wrong same", "comparisons"),
            "coverage": share(counts, "covered", "of covered"),
            "coverage_times": share(counts, "covered times", "of covered times"),
            "power": share(counts, "decided quality", "of decided quality"),
            "power_times": share(counts, "decided time", "of decided time"),
        }
        for name, counts in kinds.items()
    }
    total = sum(kinds.values(), Counter())
    line = {
        "benchmark": "evidence",
        "comparisons": total["comparisons"],
        "false_better": max(one["false_better"] or 0.0 for one in told.values()),
        "false_same": max(one["false_same"] or 0.0 for one in told.values()),
        "coverage": min(min(one["coverage"] or 0.0, one["coverage_times"] or 0.0) for one in told.values()),
        "power": share(total, "decided quality", "of decided quality"),
        "power_times": share(total, "decided time", "of decided time"),
        "by_kind": told,
    }
    print(json.dumps(line))


if __name__ == "__main__":
    main()
