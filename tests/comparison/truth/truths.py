"""What made-up results really say, worked out anew from the runs."""

from __future__ import annotations

import math
from statistics import median

import numpy as np

from sparksplit.comparison.numbers import Quantity
from sparksplit.comparison.record import DivergedRun
from tests.comparison.truth.made_up import CONTROLS


class Truth:
    """What the runs say, worked out anew."""

    def __init__(self, metric, runs, found):
        self.metric, self.found, self.quantity = metric, found, Quantity(metric.name)
        self.ways = {}
        for one in runs:
            self.ways.setdefault((one.way, one.nodes), []).append(one)
        self.verdict = {(pair.way, pair.nodes, pair.against): pair for pair in found.pairs}
        self.speed = {(pair.way, pair.nodes, pair.what): pair for pair in found.times if pair.against == "single"}
        self.beside = {(pair.way, pair.nodes, pair.what, pair.against): pair for pair in found.times}

    def diverged(self, way):
        return sum(isinstance(one, DivergedRun) for one in self.ways[way])

    def seconds(self, way, goal):
        """None where there is no such time."""
        here = [one for one in self.ways[way] if not isinstance(one, DivergedRun)]
        timed = [one for one in here if one.place == self.found.place]
        if goal == "in all":
            return sum(one.history[-1].seconds for one in timed) / len(timed) if timed else None
        hits = [self.hit(one) for one in here]
        if None in hits or len(here) < len(self.ways[way]) or not timed:
            return None
        return median(self.hit(one) for one in timed)

    def hit(self, one):
        for point in one.history:
            value, wanted = point.validation[self.metric.name], self.found.target.value
            if value >= wanted if self.metric.higher_is_better else value <= wanted:
                return point.seconds
        return None

    def goal(self):
        return "in all" if self.seconds(("single", 1), "to the target") is None else "to the target"

    def is_good(self, way, against="single"):
        pair = self.verdict.get((*way, against))
        return pair is not None and pair.verdict in ("better", "no difference", "not worse")

    def controls(self, way):
        """Those that ran, and of which no run diverged."""
        found = [(name, 1) for name in CONTROLS.get((*way, False), ())]
        return [own for own in found if own in self.ways and not self.diverged(own)]

    def is_ahead(self, way, control):
        pair = self.verdict.get((*way, control[0]))
        both = [self.beside.get((*way, what, control[0])) for what in (self.goal(), "in all")]
        speed = both[0] or both[1]
        is_faster = speed is not None and speed.verdict == "faster" and self.is_good(way, control[0])
        return is_faster or (pair is not None and pair.verdict == "better")

    def is_beaten(self, way, control):
        pair, speed = self.verdict.get((*way, control[0])), self.beside.get((*way, self.goal(), control[0]))
        is_slower = speed is not None and speed.verdict == "slower"
        return pair is not None and (pair.verdict == "worse" or (is_slower and pair.verdict == "no difference"))

    def is_ruled_out(self, way):
        """Whether it is decided that a way is not worth having."""
        pair, speed = self.verdict.get((*way, "single")), self.speed.get((*way, self.goal()))
        return (
            (pair is not None and pair.verdict == "worse")
            or (speed is not None and speed.verdict == "slower")
            or any(self.is_beaten(way, control) for control in self.controls(way))
        )

    def looks_best(self):
        """The fastest of the ways that are not ruled out and, by the means, faster than one node by itself, without
        learning worse by more than the margin; None if there is none."""
        goal, sign = self.goal(), 1 if self.metric.higher_is_better else -1

        def is_ahead(way, other):
            own, others = self.seconds(way, goal), self.seconds(other, goal)
            gain = sign * (self.mean(way) - self.mean(other))
            return gain >= -self.found.metric.margin and (others is None or own < others)

        found = [
            way for way in self.ways
            if way[1] > 1 and not self.diverged(way) and self.seconds(way, goal) is not None
            and not self.is_ruled_out(way)
            and all(is_ahead(way, other) for other in (("single", 1), *self.controls(way)))
        ]  # fmt: skip
        return min(found, key=lambda way: self.seconds(way, goal), default=None)

    def is_same(self, pair):
        """Whether its difference in the metric is the same with every seed, but for rounding; never where the metric's
        own steps are known, which may hide what differs."""
        both = [
            {one.seed: one.metrics.test[self.metric.name] for one in self.ways[way] if not isinstance(one, DivergedRun)}
            for way in ((pair.way, pair.nodes), (pair.against, pair.against_nodes))
        ]
        found = [both[0][seed] - both[1][seed] for seed in both[0].keys() & both[1].keys()]
        return self.metric.resolution is None and max(found) - min(found) <= 1e-5 * max(map(abs, found))

    def by_rows(self, pair):
        """The standard error of a mean difference by rows, by analysis of variance; None where a run cannot tell."""
        ways = (pair.way, pair.nodes), (pair.against, pair.against_nodes)
        runs = [{one.seed: one for one in self.ways[way] if not isinstance(one, DivergedRun)} for way in ways]
        seeds = sorted(runs[0].keys() & runs[1].keys())
        told = [[(one[seed].jackknife or {}).get(self.metric.name) for seed in seeds] for one in runs]
        if len(seeds) < 2 or None in told[0] or None in told[1]:
            return None
        table = np.array(told[0]) - np.array(told[1])
        both = table.var(axis=0, ddof=1).mean()
        return math.sqrt(max(0.0, (table.mean(axis=0) ** 2).mean() - both / len(seeds)))

    def ready(self):
        """Ways on several nodes that are decided to be faster than `single`, and to learn as well."""
        goal, alone = self.goal(), self.seconds(("single", 1), self.goal())
        return [
            way for way in self.ways
            if way[1] > 1 and not self.diverged(way) and self.is_good(way)
            and (speed := self.speed.get((*way, goal))) is not None and speed.verdict == "faster"
            and self.seconds(way, goal) < alone
        ]  # fmt: skip

    def mean(self, way):
        done = [one for one in self.ways[way] if not isinstance(one, DivergedRun)]
        return sum(one.metrics.test[self.metric.name] for one in done) / len(done)
