"""Comparisons of which the truth is known, and runs that are made up from it: for benchmarks/evidence.py."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields, replace

import numpy as np

from sparksplit.comparison.comparison_record import ComparedRun
from sparksplit.comparison.content import Deciding
from sparksplit.comparison.content_table import IN_ALL
from sparksplit.training.progress_record import CurvePoint
from sparksplit.training.run_record import RunLedger, RunMetrics, RunSeconds

Strategy = tuple[str, int]
"""(name, nodes)"""
SINGLE: Strategy = ("single", 1)
SMALL, LARGE = "single, batch_size = 32", "single, batch_size = 128"
RATE = "single, learning_rate = 0.2"
STRATEGIES: tuple[Strategy, ...] = (
    SINGLE, ("batch", 2), ("epoch", 2), ("epoch-delayed", 2), ("local", 2), ("batch", 4), ("epoch", 4),
    ("local", 1), (SMALL, 1),
)  # fmt: skip
MORE_ON_ONE: tuple[Strategy, ...] = ((LARGE, 1), (RATE, 1))
KINDS = ("noise", "effects", "one node best", "nodes best")
METRIC = Deciding("loss", False, "test", None)
SHARE, UNTRAINED, TRAINED = 0.01, 2.0, 1.0
MARGIN = SHARE * (UNTRAINED - TRAINED)
ROWS, LANES = (150, 1000), 96
_EARLY = 0.9
"""The share of the passes after which all runs are looked at, besides the end."""
_AHEAD, _STEP = 0.4, 0.1
"""The logarithm of how many times as fast as `single` the best row is, and how far others are behind it."""
_SECONDS = RunSeconds(**dict.fromkeys((field.name for field in fields(RunSeconds)), 0.0))


@dataclass(frozen=True)
class Truth:
    """What is so. worse: how much higher a strategy's loss is than `single`'s; slower: the logarithm of how many times
    its seconds to the target are. noise: the standard deviation of each strategy's own part of the loss, time: that of
    the logarithm. rows: of the test set; by_row: the standard deviation over rows of each strategy's own part of the
    loss, run_by_row: of each run's. early: the strategies that reach the target before the end."""

    worse: dict[Strategy, float]
    slower: dict[Strategy, float]
    noise: dict[Strategy, float]
    time: float
    rows: int
    by_row: float
    run_by_row: float
    early: frozenset[Strategy] = frozenset()

    def log_of(self, row: Strategy, what: str) -> float:
        """The logarithm of a row's seconds, to the target or in all; up to a number that all rows share."""
        return self.slower[row] - (math.log(_EARLY) if what == IN_ALL and row in self.early else 0.0)

    def may_be_used(self, row: Strategy) -> bool:
        """Whether a row may be recommended: it is faster than `single`, and does not learn worse by more than the
        margin. On several nodes, it is also faster than each other row on one node, or better by more than the margin.
        """
        alone = [other for other in self.worse if row[1] > 1 and other[1] == 1 and other != SINGLE]
        ahead = (self.slower[row] < self.slower[own] or self.worse[row] < self.worse[own] - MARGIN for own in alone)
        return self.slower[row] < self.slower[SINGLE] and self.worse[row] <= MARGIN and all(ahead)


def drawn(generator: np.random.Generator, kind: str, unequal: bool, times_rows: int = 1) -> Truth:
    """A truth of one of KINDS. times_rows: how many times the rows."""
    own = MARGIN * float(generator.choice([0.3, 1.0]))
    spread = [0.5, 1.0, 2.0] if unequal else [1.0]
    rows = int(generator.choice(ROWS))
    by_row, run_by_row = (MARGIN * math.sqrt(rows) * float(generator.choice([0.1, 0.5])) for _ in range(2))
    worse, slower = _effects(generator, kind)
    return Truth(
        worse,
        slower,
        {strategy: own * float(generator.choice(spread)) for strategy in worse},
        float(generator.choice([0.02, 0.1])),
        rows * times_rows,
        by_row,
        run_by_row,
        frozenset(strategy for strategy in worse if kind != "noise" and generator.random() < 0.5),
    )


def _effects(generator: np.random.Generator, kind: str) -> tuple[dict[Strategy, float], dict[Strategy, float]]:
    """Return how much worse each strategy is, and how much slower."""

    def one_of(*values: float) -> float:
        return float(generator.choice(values))

    first, *others = STRATEGIES if kind in ("noise", "effects") else (*STRATEGIES, *MORE_ON_ONE)
    worse, slower = {first: 0.0}, {first: 0.0}
    if kind in ("noise", "effects"):
        is_real = float(kind == "effects")
        # Just worse than the margin is the hardest to tell.
        sizes = [size * is_real * MARGIN for size in (-3, -1 / 3, 0, 1 / 3, 1.01, 3)]
        speeds = [speed * is_real for speed in (-math.log(2), -0.1, 0, 0.1)]
        worse |= {strategy: one_of(*sizes) for strategy in others}
        slower |= {strategy: one_of(*speeds) for strategy in others}
        return worse, slower
    several = kind == "nodes best"
    candidates = [strategy for strategy in others if (strategy[1] > 1) == several]
    best = candidates[generator.integers(len(candidates))]
    # The best is sometimes better, too, so that its rivals lose in both.
    worse[best], slower[best] = one_of(-3 * MARGIN, 0, 0), -_AHEAD
    for strategy in others:
        if strategy == best:
            continue
        if strategy[1] > 1 and not several:
            # The hardest to tell: as good as the best row on one node, or nearly better by the margin, and as fast.
            worse[strategy] = worse[best] + one_of(-0.99 * MARGIN, 0, MARGIN / 3)
            slower[strategy] = slower[best] + one_of(0, 0, _STEP)
        else:
            worse[strategy] = one_of(0, MARGIN / 3, 1.01 * MARGIN, 3 * MARGIN)
            slower[strategy] = slower[best] + one_of(_STEP, 2 * _STEP, _AHEAD)
    return worse, slower


class TestRows:
    """Test rows, in lanes by chance, and what each strategy's own part of the loss is on them: skewed, 0 on all
    rows."""

    def __init__(self, generator: np.random.Generator, truth: Truth) -> None:
        self._generator, self._spread = generator, truth.run_by_row
        self._lane = generator.integers(0, LANES, truth.rows)
        self._counts = np.bincount(self._lane, minlength=LANES)
        self._of_strategy = {
            strategy: truth.by_row * (generator.exponential(size=truth.rows) - 1) for strategy in truth.worse
        }

    def run(self, strategy: Strategy) -> tuple[float, list[float]]:
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
    strategy: Strategy,
    seed: int,
    loss: float,
    seconds: float,
    by_lane: list[float] | None = None,
    is_early: bool = False,
) -> ComparedRun:
    """The record of such a run. seconds: to the target. by_lane: the loss's jackknife. is_early: whether it goes on
    after the target."""
    first = seconds if is_early else _EARLY * seconds
    points = [(9, first, TRAINED if is_early else UNTRAINED), (10, first / _EARLY, TRAINED)]
    return replace(
        _RUN,
        name=strategy[0],
        nodes=strategy[1],
        seed=seed,
        history=[
            CurvePoint(passes=passes, updates=passes, steps=passes, seconds=after, validation={METRIC.name: value})
            for passes, after, value in points
        ],
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
REFERENCE = replace(made(STRATEGIES[0], 0, TRAINED, 10.0), untrained={METRIC.name: UNTRAINED})


def runs_of(
    generator: np.random.Generator, truth: Truth, seeds: range, rows: TestRows, paired: bool = True
) -> list[ComparedRun]:
    """Runs of all strategies with these seeds, on those test rows. paired: whether the runs of a seed share what the
    seed does to the loss and to the time."""
    found = []
    for seed in seeds:
        shared, pace = _of_seed(generator, truth)
        for strategy in truth.worse:
            there, by_lane = rows.run(strategy)
            loss = TRAINED + truth.worse[strategy] + shared + truth.noise[strategy] * generator.normal() + there
            log = truth.slower[strategy] + pace + truth.time * generator.normal()
            found.append(made(strategy, seed, float(loss), 10 * math.exp(log), by_lane, strategy in truth.early))
            if not paired:
                shared, pace = _of_seed(generator, truth)
    return found


def _of_seed(generator: np.random.Generator, truth: Truth) -> tuple[float, float]:
    """Return what a seed adds to the loss and to the logarithm of the time of its runs."""
    return 3 * MARGIN * generator.normal(), truth.time * generator.normal()
