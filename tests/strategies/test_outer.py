"""Outer optimisers by their papers' formulas, on numbers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.strategies.outer import DEFAULTS, Outer

NUMBERS = st.floats(-100, 100, width=32)


def applied(outer, averages):
    """The changes that `outer` makes of one number's averages, one after the other."""
    velocities, found = [np.float32(0)] if outer.remembers else [], []
    for average in averages:
        (change,), velocities = outer.changes([np.float32(average)], velocities)
        found.append(float(change))
    return found


@given(st.lists(NUMBERS, max_size=5))
def test_without_one_the_averages_are_applied_as_they_are(averages):
    assert applied(Outer("none"), averages) == averages


@given(st.lists(NUMBERS, min_size=1, max_size=5), st.floats(0.1, 2), st.floats(0, 0.99))
def test_momentum_adds_up_what_came_before(averages, rate, momentum):
    """The n-th change is r (d_n + m d_(n-1) + m^2 d_(n-2) + ...)."""
    for number, change in enumerate(applied(Outer("momentum", rate, momentum), averages)):
        terms = [momentum ** (number - place) * averages[place] for place in range(number + 1)]
        assert change == pytest.approx(rate * sum(terms), rel=1e-4, abs=1e-3)


@given(st.lists(NUMBERS, min_size=1, max_size=5), st.floats(0.1, 2), st.floats(0, 0.99))
def test_nesterov_looks_ahead_by_one_step_of_momentum(averages, rate, momentum):
    plain = applied(Outer("momentum", 1.0, momentum), averages)
    for average, velocity, change in zip(
        averages, plain, applied(Outer("nesterov", rate, momentum), averages), strict=True
    ):
        assert change == pytest.approx(rate * (average + momentum * velocity), rel=1e-4, abs=1e-3)


def test_rate_and_momentum_are_its_own_where_none_are_given():
    for name, (rate, momentum) in DEFAULTS.items():
        assert applied(Outer(name), [1.0, 2.0]) == applied(Outer(name, rate, momentum), [1.0, 2.0])
    assert not Outer("none").remembers and Outer("momentum").remembers
