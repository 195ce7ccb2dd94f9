"""Made-up results of comparisons, in which strategies differ or do not, spread, diverge, miss the target and move."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from hypothesis import strategies as st

from sparksplit.comparison.comparison_record import DivergedRun, Place
from sparksplit.comparison.content import Deciding
from sparksplit.training.progress_record import CurvePoint
from sparksplit.training.run_record import RunMetrics
from tests.comparison.records import compared_run

PLACES = [Place("local-cluster on desk", ("a, 2 cores",), threads) for threads in (1, 2)]
SMALL = "single, batch_size = 32"
STRATEGIES = (
    ("single", 1),
    (SMALL, 1),
    ("local", 1),
    ("batch", 2),
    ("epoch", 2),
    ("local", 2),
    ("batch", 4),
    ("local", 4),
)
PASSES = (2, 4, 6)
LANES = 24
TEST_ROWS = 1000
RECIPES = st.fixed_dictionaries(
    {
        "number": st.integers(0, 2**32 - 1),
        "higher": st.booleans(),
        "resolution": st.sampled_from([None, 1e-3]),
        "seeds": st.sampled_from([1, 2, 3, 5, 8]),
        "spread": st.sampled_from([1e-4, 3e-3, 0.02]),
        "wobble": st.sampled_from([0.001, 0.03, 0.3]),
        "troubled": st.sampled_from([0.0, 0.0, 0.1, 0.5]),
        "moved": st.sampled_from([0.0, 0.0, 0.3, "several"]),
        "by_row": st.sampled_from([None, 0.0, 0.001, 0.02, 0.02]),
        "earlier": st.sampled_from([0.0, 0.0, 0.1]),
    }
)


def made_up(number, higher, resolution, seeds, spread, wobble, troubled, moved, by_row, earlier):
    """(metric, runs, references): strategies that differ or do not, spread much or little, diverge, miss and move.

    by_row: how much of each strategy's value is chance by rows; None: no run can tell. earlier: how many runs cannot.
    """
    generator = np.random.default_rng(number)
    metric = Deciding("accuracy" if higher else "loss", higher, "test", resolution)
    strategies = [strategy for strategy in STRATEGIES if generator.random() < 0.7]
    gains, speeds = [0.0, 0.001, 0.01, -0.01, 0.05], [1, 1, 0.5, 2]
    lanes = {strategy: (by_row or 0.0) * generator.normal(size=LANES) for strategy in strategies}
    effects = {strategy: (generator.choice(gains), generator.choice(speeds)) for strategy in strategies}
    runs = []
    for strategy, nodes in strategies:
        quality, slow = effects[strategy, nodes]
        sent = 0 if nodes == 1 else int(1e8 / (1 if strategy == "batch" else generator.choice([0.8, 1.02, 1.06, 30])))
        for seed in range(1, seeds + 1):
            name = {
                "name": strategy,
                "nodes": nodes,
                "virtual": False,
                "seed": seed,
                "key": f"{strategy}-n{nodes}-s{seed}",
            }
            if generator.random() < troubled:
                runs.append(DivergedRun(**name, config_hash="c", diverged="the loss is nan"))
                continue
            gain = quality + spread * generator.normal()
            runs.append(run(metric, gain, 10 * slow * math.exp(wobble * generator.normal()), sent, **name))
            if generator.random() >= earlier:
                told = lanes[strategy, nodes] + 0.3 * (by_row or 0.0) * generator.normal(size=LANES)
                runs[-1] = replace(runs[-1], jackknife={} if by_row is None else {metric.name: told.tolist()})
            if nodes > 1 if moved == "several" else generator.random() < moved:
                runs[-1] = replace(runs[-1], place=PLACES[1])
    alone = [run(metric, spread * generator.normal(), 10, 0, name="single", nodes=1, seed=9, key="r") for _ in range(2)]
    return metric, runs, [replace(one, untrained={metric.name: worth(metric, -0.8)}) for one in alone]


def worth(metric, gain):
    """The metric's value of a model that is better by `gain` than an ordinary one."""
    return 0.9 + gain if metric.higher_is_better else 0.9 - gain


def run(metric, gain, seconds, sent, **more):
    points = [
        CurvePoint(
            passes=passes, updates=1, steps=1, seconds=seconds * passes / PASSES[-1],
            validation={metric.name: worth(metric, gain - 0.05 * (1 - passes / PASSES[-1]))},
        )
        for passes in PASSES
    ]  # fmt: skip
    metrics = RunMetrics(test={metric.name: worth(metric, gain)})
    return compared_run(
        **more, history=points, metrics=metrics, hosts=["a"], sync_bytes_per_node=sent, place=PLACES[0], passes=6
    )
