"""What made-up results really say, worked out anew from the runs."""

from __future__ import annotations

from math import exp, log
from statistics import fmean

from sparksplit.comparison.comparison_record import DivergedRun
from sparksplit.comparison.numbers import Quantity


def geometric(seconds):
    first, *more = seconds
    return exp(fmean(map(log, [first, *more]))) if set(more) - {first} else first


def is_enough(pair):
    """Whether a difference is decided well enough for a recommendation."""
    return pair is not None and pair.enough


class Truth:
    """What the runs say, worked out anew."""

    def __init__(self, metric, runs, found):
        self.metric, self.found, self.quantity = metric, found, Quantity(metric.name)
        self.groups = {}
        for one in runs:
            self.groups.setdefault((one.name, one.nodes), []).append(one)
        self.verdict = {(pair.name, pair.nodes, pair.against): pair for pair in found.pairs}
        self.speed = {(pair.name, pair.nodes, pair.what): pair for pair in found.times if pair.against == "single"}
        self.beside = {(pair.name, pair.nodes, pair.what, pair.against): pair for pair in found.times}

    def diverged(self, group):
        return sum(isinstance(one, DivergedRun) for one in self.groups[group])

    def seconds(self, group, goal):
        """None where there is no such time."""
        here = [one for one in self.groups[group] if not isinstance(one, DivergedRun)]
        timed = [one for one in here if one.place == self.found.place]
        if goal == "in all":
            return geometric(one.history[-1].seconds for one in timed) if timed else None
        hits = [self.hit(one) for one in here]
        if None in hits or len(here) < len(self.groups[group]) or not timed:
            return None
        return geometric(self.hit(one) for one in timed)

    def hit(self, one):
        for point in one.history:
            value, wanted = point.validation[self.metric.name], self.found.target.value
            if value >= wanted if self.metric.higher_is_better else value <= wanted:
                return point.seconds
        return None

    def goal(self):
        return "in all" if self.seconds(("single", 1), "to the target") is None else "to the target"

    def is_good(self, group):
        return is_enough(self.verdict.get((*group, "single")))

    def controls(self, group):
        """All others on one node of which no run diverged, for a strategy on several."""
        found = [own for own in self.groups if own[1] == 1 and own != ("single", 1)]
        return [own for own in found if group[1] > 1 and not self.diverged(own)]

    def is_faster(self, group, other):
        both = [self.beside.get((*group, what, other[0])) for what in (self.goal(), "in all")]
        own, alone = self.seconds(group, self.goal()), self.seconds(other, self.goal())
        shown = alone is None or (own is not None and own < alone)
        return is_enough(both[0] or both[1]) and shown

    def is_ahead(self, group, control):
        return self.is_faster(group, control) or is_enough(self.verdict.get((*group, control[0])))

    def is_slower(self, group, other):
        """In the seconds that count. What never reaches the target is slower if it takes longer in all."""
        speed = self.beside.get((*group, self.goal(), other[0]))
        done = [one for one in self.groups[group] if not isinstance(one, DivergedRun)]
        if self.goal() != "in all" and self.seconds(other, self.goal()) is not None and not any(map(self.hit, done)):
            speed = speed or self.beside.get((*group, "in all", other[0]))
        return speed is not None and speed.verdict == "slower"

    def is_beaten(self, group, control):
        pair = self.verdict.get((*group, control[0]))
        is_slower = self.is_slower(group, control)
        return is_slower and pair is not None and pair.verdict in ("worse", "no difference") and not pair.enough

    def is_ruled_out(self, group):
        """Whether it is decided that a strategy is not worth having."""
        pair = self.verdict.get((*group, "single"))
        return (
            (pair is not None and pair.verdict == "worse" and not pair.enough)
            or self.is_slower(group, ("single", 1))
            or any(self.is_beaten(group, own) for own in self.controls(group) if not self.is_ruled_out(own))
        )

    def learns(self, group, other):
        """Whether a strategy learns as well as another, by the means."""
        sign = 1 if self.metric.higher_is_better else -1
        return sign * (self.mean(group) - self.mean(other)) >= -self.found.metric.margin

    def ready(self, several=True):
        """Strategies on several nodes, or on one, that are decided to be faster than `single`, and to learn as well."""
        goal, alone = self.goal(), self.seconds(("single", 1), self.goal())
        return [
            group for group in self.groups
            if (group[1] > 1) == several and not self.diverged(group) and self.is_good(group)
            and is_enough(self.speed.get((*group, goal))) and self.seconds(group, goal) < alone
        ]  # fmt: skip

    def mean(self, group):
        done = [one for one in self.groups[group] if not isinstance(one, DivergedRun)]
        return fmean(one.metrics.test[self.metric.name] for one in done)
