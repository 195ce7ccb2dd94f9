"""The useful mini-batch, from made-up losses and gradients."""

from __future__ import annotations

import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.planning.measured import Branched, Noise, Repeat
from sparksplit.planning.useful import (
    AS_MUCH,
    FACTORS,
    GRADIENTS,
    LEAST_UPDATES,
    REPEATS,
    noise_of,
    rate_factor,
    useful,
    window,
)

NOISE = 0.02


def branched(*shares: float | None, seed: int = 0, progress: float = 1.0, noise: float = NOISE) -> Branched:
    """Branches that make these shares of the progress of mini-batches of 64 rows. None: a loss is not finite."""
    random = np.random.default_rng(seed)

    def loss(begin: float, share: float | None) -> float | None:
        return None if share is None else begin - progress * share + noise * random.standard_normal()

    repeats = []
    for _ in range(REPEATS):
        begin = 2 + 0.1 * random.standard_normal()
        variance = 6400 * (1 + noise * random.standard_normal())
        square = 16 * (1 + noise * random.standard_normal())
        repeats.append(Repeat(begin, [loss(begin, share) for share in (1.0, *shares)], Noise(variance, square)))
    return made(repeats)


def made(repeats: list[Repeat]) -> Branched:
    return Branched(
        batch_sizes=[64, 128, 256], rate_factors=[1.0, 2.0, 4.0], rows=6400, seconds=9.0, sampled=9600, repeats=repeats
    )


@pytest.mark.parametrize(
    ("shares", "size", "learns"),
    [
        ((1.0, 1.0), 256, ["as much", "as much"]),
        ((1.0, 0.7), 128, ["as much", "less"]),
        ((0.7, 0.4), 64, ["less", "less"]),
        ((AS_MUCH, AS_MUCH), 64, ["undecided", "undecided"]),
        ((AS_MUCH, 1.0), 256, ["undecided", "as much"]),
        ((0.7, 1.0), 64, ["less", "as much"]),
        ((1.0, -3.0), 128, ["as much", "less"]),
        ((1.0, None), 128, ["as much", "less"]),
        ((None, None), 64, ["less", "less"]),
    ],
)
def test_mini_batches_are_useful_until_one_learns_less(shares, size, learns):
    found = useful(branched(*shares))
    assert [branch.learns for branch in found.branches] == learns
    assert found.batch_size == size
    assert [(branch.batch_size, branch.rate_factor) for branch in found.branches] == [(128, 2.0), (256, 4.0)]


def test_the_noise_scale_is_the_variance_over_the_square():
    scale = useful(branched(1.0, 1.0)).noise_scale
    assert scale.low < 400 < scale.high and scale.high - scale.low < 40
    assert useful(branched(1.0, 1.0, noise=3.0)).noise_scale is None


def test_a_model_that_learns_nothing_decides_nothing_but_a_rising_loss():
    still = useful(branched(1.0, -50.0, progress=0.01, noise=0.05, seed=3))
    assert still.branches[0].learns == "undecided" and still.branches[0].share is None
    assert still.branches[1].learns == "less" and still.branches[1].share is None
    assert still.batch_size is None


@pytest.mark.parametrize(("progress", "noise", "learns"), [(-1.0, NOISE, "less"), (0.0, 0.0, "undecided")])
def test_a_loss_that_does_not_fall_with_the_configured_mini_batch_names_none(progress, noise, learns):
    found = useful(branched(1.0, 1.0, progress=progress, noise=noise))
    assert found.batch_size is None
    assert [(branch.learns, branch.share) for branch in found.branches] == [(learns, None)] * 2


def test_one_repeat_has_no_interval_and_decides_nothing():
    one = useful(made(branched(1.0, 0.1).repeats[:1]))
    assert [branch.learns for branch in one.branches] == ["undecided", "undecided"]
    assert one.noise_scale is None and one.batch_size == 64


@pytest.mark.parametrize("share", [0.5, AS_MUCH, 1.0])
def test_intervals_hold_the_share_as_often_as_they_say(share):
    trials = 400
    found = [useful(branched(share, share, seed=seed, noise=0.05)).branches[0] for seed in range(trials)]
    held = sum(branch.share.low <= share <= branch.share.high for branch in found)
    assert 0.92 * trials < held < 0.98 * trials
    wrong = "less" if share >= AS_MUCH else "as much"
    assert sum(branch.learns == wrong for branch in found) < 0.04 * trials


@given(st.integers(0, 99), st.floats(0.5, 1.2))
def test_the_verdict_is_what_the_interval_shows(seed, share):
    branch = useful(branched(share, 1.0, seed=seed)).branches[0]
    low, high = branch.share.low, branch.share.high
    assert low < branch.share.mean < high
    assert branch.learns == ("as much" if low >= AS_MUCH else "less" if high < AS_MUCH else "undecided")


@given(
    st.floats(0.1, 600),
    st.floats(1e-5, 10),
    st.integers(1, 10**6),
    st.integers(1, 100),
    st.floats(0, 100),
)
def test_branches_take_no_longer_than_asked_and_are_no_longer_than_the_run(seconds, pace, epoch, epochs, held_out):
    found = window(seconds, pace, epoch, epochs, held_out)
    passes = 1 + len(FACTORS)
    if found.updates:
        assert found.updates >= LEAST_UPDATES and found.updates % FACTORS[-1] == 0
        assert REPEATS * pace * (passes * found.updates + GRADIENTS) <= seconds * (1 + 1e-9)
        assert 2 * found.updates <= epoch * epochs and epoch >= GRADIENTS
        assert found.needed <= seconds * (1 + 1e-9)
    elif math.isfinite(found.needed):
        assert found.needed > seconds
        assert window(found.needed * 1.01 + 1e-6, pace, epoch, epochs, held_out).updates >= LEAST_UPDATES
    else:
        assert epoch < GRADIENTS or epoch * epochs < 2 * LEAST_UPDATES


@pytest.mark.parametrize(
    ("name", "factor"), [("sgd", 4.0), ("SGD", 4.0), ("adam", 2.0), ("RMSprop", 2.0), ("adamw", 2.0)]
)
def test_the_learning_rate_is_linear_for_sgd_and_a_root_for_others(name, factor):
    assert rate_factor(name, 4) == factor and rate_factor(name, 1) == 1.0


@given(st.integers(2, 20), st.integers(1, 30), st.integers(0, 10**6))
def test_gradients_give_numpys_variance_and_a_square_without_its_part(count, rows, seed):
    gradients = np.random.default_rng(seed).normal(1.0, 2.0, size=(count, 6))
    noise = noise_of(([each[:4].reshape(2, 2), each[4:]] for each in gradients), rows)
    of_mini_batch = gradients.var(axis=0, ddof=1).sum()
    assert noise.variance == pytest.approx(rows * of_mini_batch, rel=1e-6)
    assert noise.square == pytest.approx(
        (gradients.mean(axis=0) ** 2).sum() - of_mini_batch / count, rel=1e-6, abs=1e-6
    )


def test_noise_needs_no_copy_of_a_gradient():
    rows, gradients = 8, [[np.full(1 << 18, 1.0 + place, np.float32)] for place in range(3)]
    tracemalloc.start()
    noise = noise_of(gradients, rows)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2 * gradients[0][0].nbytes + 300_000  # the sum of all, in float64
    assert noise.variance == pytest.approx(rows * (1 << 18))
    assert noise.square == pytest.approx((4 - 1 / 3) * (1 << 18))


def test_a_gradient_that_is_not_finite_leaves_no_noise():
    assert noise_of([[np.array([1.0])], [np.array([np.inf])]], 8) is None
    some = branched(1.0, 1.0)
    fewer = [replace(repeat, noise=None) for repeat in some.repeats[:-1]]
    assert useful(made([*fewer, some.repeats[-1]])).noise_scale is None


def test_both_parts_of_the_noise_scale_are_right_on_average():
    random, mean, rows = np.random.default_rng(5), np.array([0.3, -0.1, 0.2]), 8
    found = [
        noise_of(([mean + random.normal(0, 2, (rows, 3)).mean(axis=0)] for _ in range(GRADIENTS)), rows)
        for _ in range(500)
    ]
    variance, square = np.mean([(noise.variance, noise.square) for noise in found], axis=0)
    assert variance == pytest.approx(3 * 2.0**2, rel=0.03)
    assert square == pytest.approx(float(mean @ mean), rel=0.15)
