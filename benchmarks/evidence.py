"""How often `compare` is wrong, by comparisons of which the truth is known.

    python benchmarks/evidence.py [--comparisons 1000] [--seed 1] [--seeds 5] [--most 20] [--rows 1] [--unpaired]

Made-up runs go through the very analysis and the very answer of compare (sparksplit.comparison). There are four kinds
of comparisons:

- noise: no strategy differs from `single`, in quality or in time.
- effects: each strategy differs, or not, by chance.
- one node best: a row on one node (a larger mini-batch, an outer optimizer, another learning rate) is the best. Rows on
  several nodes are faster than `single`, but none is faster than this row, or learns better by more than the margin. To
  recommend one of them is wrong.
- nodes best: a row on several nodes is the best, and faster than each row on one node.

In half of the comparisons strategies spread alike, in the others from half to twice as much. Half of them look once,
after 5 seeds, and the others go on, up to 20, until the answer is decided. So there are 16 kinds. Each comparison has
150 or 1,000 test rows of its own, drawn anew, on which strategies differ otherwise than on all rows: the truth is that
of all rows. Except in noise, half of the strategies reach the target a tenth before the end. The time to the target is
the one that counts.

--comparisons: of each of these kinds. --seeds, --most: the seeds of the first look, and of the last. --rows: how many
times the test rows. --unpaired: each strategy has seeds of its own, so that runs of a seed have nothing in common.
--seeds-alone: leave out what runs tell of the rows, as if there were no others.

The last line is one JSON object, with the worst of the kinds. false_better: the share of comparisons in which anything
was called better, worse, faster or slower that is not; false_same: the same for no difference and not worse;
false_least: for faster by at least so much. false_use: the share in which a row was recommended, on one node or
several, that is not faster than `single`, learns worse by more than the margin, or (on several nodes) is neither faster
than each row on one node nor better by more than the margin. false_stay: the share in which `single` was recommended,
although a row on several nodes may be recommended that learns no worse at all. coverage: of the 95 % intervals, in
quality and in time, those that held the truth. power, power_times: of the effects of about three margins or more (2.7
to 6, between two strategies that both differ from `single`), and of a tenth of the time, those that were decided, over
all kinds. power_use: of the comparisons with rows on several nodes that may be recommended, those that recommended one.
runs: the mean number of compared runs. by_kind: each by itself. Meant: each of the false shares at most 0.05 within
what chance allows, coverage at least 0.93.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.evidence_truths import (
    KINDS,
    MARGIN,
    METRIC,
    REFERENCE,
    SHARE,
    SINGLE,
    STRATEGIES,
    TestRows,
    Truth,
    drawn,
    runs_of,
)
from sparksplit.comparison.analysis.analyse import Analysis, analyse
from sparksplit.comparison.analysis.needed import undecided
from sparksplit.comparison.analysis.verdicts import level_at, looks
from sparksplit.comparison.answer.content import NO_ANSWER
from sparksplit.comparison.answer.decide import answer
from sparksplit.comparison.content import FORMAT_VERSION, DataFacts, Epochs, Machine, Results

SEEDS, MOST = 5, 20


@dataclass(frozen=True)
class Effort:
    """What a comparison pays for. seeds: of the first look, most: of the last; None: one look. times_rows: how many
    times the test rows. paired: whether all strategies have the same seeds. seeds_alone: whether what runs tell of the
    rows is left out."""

    seeds: int = SEEDS
    most: int | None = None
    times_rows: int = 1
    paired: bool = True
    seeds_alone: bool = False


def compared(generator: np.random.Generator, truth: Truth, effort: Effort) -> Results:
    """A comparison that looks after its first seeds and, with `most`, goes on until its answer is decided."""
    planned, runs, rows = looks(effort.seeds, effort.most), [], TestRows(generator, truth)
    for before, now in zip([0, *planned[:-1]], planned, strict=True):
        some = runs_of(generator, truth, range(before + 1, now + 1), rows, effort.paired)
        runs += [replace(run, jackknife=None) for run in some] if effort.seeds_alone else some
        found = analyse(runs, [REFERENCE], METRIC, SHARE, level=level_at(planned, now))
        results = _results(found, now, planned, truth.rows)
        if not undecided(results):
            break
    return results


def _results(found: Analysis, seeds: int, planned: list[int], rows: int) -> Results:
    """The results of an analysis, with their answer."""
    made = Results(
        format_version=FORMAT_VERSION,
        command="compare",
        sparksplit="",
        created="",
        config_hash="",
        config={"strategies": []},
        data=DataFacts("", "", {"test": rows}),
        model="",
        metric=found.metric,
        epochs=Epochs(1, 1, None),
        seeds=list(range(1, seeds + 1)),
        looks=planned,
        nodes=sorted({nodes for _, nodes in STRATEGIES}),
        target=found.target,
        grid=found.grid,
        place=found.place,
        machine=Machine(None, 0, "", "", "", []),
        versions={},
        runs=[],
        virtual=[],
        diverged=[],
        references=[],
        table=found.table,
        pairs=found.pairs,
        times=found.times,
        cost_model=None,
        scale=[],
        answer=NO_ANSWER,
    )
    return replace(made, answer=answer(made))


def count(found: Results, truth: Truth, counts: Counter[str]) -> None:
    """Add what was right and wrong. Names: what happened, with the number that it is a share of under `of NAME`."""
    wrong = wrong_same = wrong_least = False
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
        true = truth.log_of((time.against, time.against_nodes), time.what)
        true -= truth.log_of((time.name, time.nodes), time.what)
        assert time.low is not None and time.high is not None
        counts["of covered times"] += 1
        counts["covered times"] += time.low <= math.exp(true) <= time.high
        wrong |= (time.verdict == "faster" and true <= 0) or (time.verdict == "slower" and true >= 0)
        wrong_least |= time.at_least is not None and math.exp(true) < time.at_least
        if math.isclose(abs(true), 0.1):
            counts["of decided time"] += 1
            counts["decided time"] += time.verdict == ("faster" if true > 0 else "slower")
    several = {row for row in truth.worse if row[1] > 1 and truth.may_be_used(row)}
    choice, decision = found.answer.choice, found.answer.decision
    used = (choice.name, choice.nodes) if choice is not None and decision in ("use", "stay") else None
    counts["of used"] += bool(several)
    counts["used"] += used in several
    counts["wrong use"] += used not in (None, SINGLE) and not truth.may_be_used(used)
    counts["wrong stay"] += used == SINGLE and any(truth.worse[row] <= 0 for row in several)
    counts["wrong least"] += wrong_least
    counts["comparisons"] += 1
    counts["runs"] += len(found.seeds) * len(truth.worse)
    counts["wrong"] += wrong
    counts["wrong same"] += wrong_same


def main() -> None:
    """Simulate, and print the line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comparisons", type=int, default=1000, help="of each kind (default: 1000)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"of the first look (default: {SEEDS})")
    parser.add_argument("--most", type=int, default=MOST, help=f"seeds of the last look (default: {MOST})")
    parser.add_argument("--rows", type=int, default=1, help="how many times the test rows (default: 1)")
    parser.add_argument("--unpaired", action="store_true", help="each strategy has seeds of its own")
    parser.add_argument("--seeds-alone", action="store_true", help="leave out what runs tell of the rows")
    given = parser.parse_args()
    kinds: dict[str, Counter[str]] = {}
    for kind in KINDS:
        for unequal in (False, True):
            for most in (None, given.most):
                name = f"{kind}{', unequal' if unequal else ''}{', looks' if most else ''}"
                generator = np.random.default_rng([given.seed, len(kinds)])
                effort = Effort(given.seeds, most, given.rows, not given.unpaired, given.seeds_alone)
                counts = kinds[name] = Counter()
                for _ in range(given.comparisons):
                    truth = drawn(generator, kind, unequal, effort.times_rows)
                    count(compared(generator, truth, effort), truth, counts)
    print(json.dumps(summary(kinds)))


def summary(kinds: dict[str, Counter[str]]) -> dict[str, object]:
    """The line: the worst of the kinds, the power over all of them, and each by itself."""

    def share(counts: Counter[str], name: str, of: str) -> float | None:
        return round(counts[name] / counts[of], 4) if counts[of] else None

    told = {
        name: {
            "false_better": share(counts, "wrong", "comparisons"),
            "false_same": share(counts, "wrong same", "comparisons"),
            "false_least": share(counts, "wrong least", "comparisons"),
            "false_use": share(counts, "wrong use", "comparisons"),
            "false_stay": share(counts, "wrong stay", "comparisons"),
            "coverage": share(counts, "covered", "of covered"),
            "coverage_times": share(counts, "covered times", "of covered times"),
            "power": share(counts, "decided quality", "of decided quality"),
            "power_times": share(counts, "decided time", "of decided time"),
            "power_use": share(counts, "used", "of used"),
            "runs": share(counts, "runs", "comparisons"),
        }
        for name, counts in kinds.items()
    }
    total = sum(kinds.values(), Counter())
    return {
        "benchmark": "evidence",
        "comparisons": total["comparisons"],
        **{
            name: max(one[name] or 0.0 for one in told.values())
            for name in ("false_better", "false_same", "false_least", "false_use", "false_stay")
        },
        "coverage": min(min(one["coverage"] or 0.0, one["coverage_times"] or 0.0) for one in told.values()),
        "power": share(total, "decided quality", "of decided quality"),
        "power_times": share(total, "decided time", "of decided time"),
        "power_use": share(total, "used", "of used"),
        "by_kind": told,
    }


if __name__ == "__main__":
    main()
