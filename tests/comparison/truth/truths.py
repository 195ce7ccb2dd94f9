"""What made-up results really say, worked out anew from the runs."""

from __future__ import annotations

import math
from statistics import median

import numpy as np

from sparksplit.comparison.numbers import Quantity
from sparksplit.comparison.record import DivergedRun


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
        """All others on one node of which no run diverged, for a way on several."""
        found = [own for own in self.ways if own[1] == 1 and own != ("single", 1)]
        return [own for own in found if way[1] > 1 and not self.diverged(own)]

    def is_ahead(self, way, control):
        pair = self.verdict.get((*way, control[0]))
        both = [self.beside.get((*way, what, control[0])) for what in (self.goal(), "in all")]
        speed = both[0] or both[1]
        own, alone = self.seconds(way, self.goal()), self.seconds(control, self.goal())
        shown = alone is None or (own is not None and own < alone)
        is_faster = speed is not None and speed.verdict == "faster" and shown
        return is_faster or (pair is not None and pair.verdict == "better")

    def is_beaten(self, way, control):
        pair, speed = self.verdict.get((*way, control[0])), self.beside.get((*way, self.goal(), control[0]))
        is_slower = speed is not None and speed.verdict == "slower"
        return is_slower and pair is not None and pair.verdict in ("worse", "no difference")

    def is_ruled_out(self, way):
        """Whether it is decided that a way is not worth having."""
        pair, speed = self.verdict.get((*way, "single")), self.speed.get((*way, self.goal()))
        return (
            (pair is not None and pair.verdict == "worse")
            or (speed is not None and speed.verdict == "slower")
            or any(self.is_beaten(way, control) for control in self.controls(way))
        )

    def looks_best(self):
        """The fastest of the ways that are not ruled out and, by the means, faster than `single`, without learning
        worse by more than the margin; on several nodes none that another on one beats. None if there is none."""
        goal, single = self.goal(), ("single", 1)
        times = {way: self.seconds(way, goal) for way in self.ways if not self.diverged(way) or way == single}
        times = {way: seconds for way, seconds in times.items() if seconds is not None}

        def is_beaten(way, other):
            return times[other] <= times[way] and self.learns(other, way)

        found = [
            way for way, seconds in times.items()
            if way != single and seconds < times[single] and self.learns(way, single) and not self.is_ruled_out(way)
            and not (way[1] > 1 and any(is_beaten(way, own) for own in self.controls(way) if own in times))
        ]  # fmt: skip
        return min(found, key=lambda way: self.seconds(way, goal), default=None)

    def learns(self, way, other):
        """Whether a way learns as well as another, by the means."""
        sign = 1 if self.metric.higher_is_better else -1
        return sign * (self.mean(way) - self.mean(other)) >= -self.found.metric.margin

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
