"""What is called the limit: of made-up pipelines it is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.base.config import parse
from sparksplit.diagnosis.advice import notes
from sparksplit.diagnosis.answer import Limit
from sparksplit.diagnosis.measured import VARIANTS, Measured
from sparksplit.diagnosis.verdict import PARTS, Part, verdict
from sparksplit.training.train_config import TrainConfig
from tests.diagnosis.pipelines import PARTS as COSTS
from tests.diagnosis.pipelines import Pipeline, facts

costs = st.one_of(st.just(0.0), st.floats(0.01, 10))
pipelines = st.builds(
    Pipeline,
    reading=costs,
    transform=costs,
    copy=costs,
    synchronise=costs,
    compute=st.floats(0.01, 10),
    optimizer=st.floats(0, 0.9),
    overlap=st.floats(0, 1),
)


def drawn(random: np.random.Generator) -> Pipeline:
    """Some parts cost nothing; rows are read before training, at the same time, or partly so."""
    cost = {name: float(random.uniform(0, 1) * (random.random() < 0.7)) for name in COSTS}
    overlap = float(random.choice([0.0, 1.0, random.uniform(0, 1)]))
    return Pipeline(**{**cost, "compute": max(cost["compute"], 0.2)}, overlap=overlap)


def test_a_part_that_costs_more_than_all_else_is_named() -> None:
    """1.5 to 4 times as much, from rounds that differ by 5 to 15 %, beside which whole rounds do as much."""
    random = np.random.default_rng(1)
    for _ in range(300):
        planted = str(random.choice(COSTS))
        pipeline = replace(drawn(random), **{planted: 0.0})
        rest = pipeline.seconds(planted) or 0.2
        pipeline = replace(pipeline, **{planted: float(rest * random.uniform(1.5, 4))})
        noise = float(random.uniform(0.05, 0.15))
        found = verdict(pipeline.measured(random, rounds=10, noise=noise), epochs=3)
        assert found.limit.name == planted, (pipeline, noise, found.limit)


def test_a_host_that_stops_for_a_moment_hides_no_limit() -> None:
    """One measurement of twenty takes three times as long."""
    random = np.random.default_rng(4)
    named = 0
    for _ in range(100):
        measured = Pipeline(reading=3, synchronise=0.5).measured(random, rounds=5, noise=0.05)
        seconds = {
            name: [each * (3 if random.random() < 0.05 else 1) for each in values]
            for name, values in measured.seconds.items()
        }
        limit = verdict(replace(measured, seconds=seconds), epochs=1).limit.name
        assert limit in ("reading", None)
        named += limit is not None
    assert named >= 97


def test_no_part_is_named_that_others_equal() -> None:
    random = np.random.default_rng(2)
    named, count = 0, 0
    while count < 200:
        cost = dict.fromkeys(random.permutation(COSTS)[: random.integers(2, 6)].tolist(), 1.0)
        pipeline = Pipeline(**{"compute": 1e-6, **cost}, overlap=float(random.choice([0.0, 1.0])))
        gains = sorted(pipeline.gains().values())
        if gains[-1] <= 1.1 or gains[-1] <= 1.001 * gains[-2]:
            count += 1
            noise = float(random.uniform(0.05, 0.15))
            named += verdict(pipeline.measured(random, rounds=10, noise=noise), epochs=3).limit.name is not None
    assert named <= 4


@given(pipelines)
def test_without_noise_gains_and_shares_are_the_true_ones(pipeline: Pipeline) -> None:
    found = verdict(pipeline.measured(np.random.default_rng(0)), epochs=3)
    true, step = pipeline.gains(), pipeline.seconds()
    for part in found.parts:
        if true[part.name] < 50:
            assert part.gain.mean == pytest.approx(true[part.name], rel=1e-3), part.name
    shares = {share.name: share.share for share in found.shares}
    training = pipeline.copy + pipeline.synchronise + pipeline.compute
    assert shares["rows"] == pytest.approx(1 - training / step, abs=1e-3)
    assert shares["synchronise"] == pytest.approx(pipeline.synchronise / step, abs=1e-3)
    assert found.rows_per_second == pytest.approx(1e6 / step)


@given(
    st.integers(1, 8).flatmap(
        lambda rounds: st.fixed_dictionaries(
            {name: st.lists(st.floats(1e-9, 10), min_size=rounds, max_size=rounds) for name in VARIANTS}
        )
    ),
    st.sets(st.sampled_from(["transform", "sync"])),
    st.one_of(st.none(), st.lists(st.floats(1e-9, 10), min_size=1, max_size=5)),
)
def test_whatever_was_measured_shares_add_up_and_gains_lie_in_their_intervals(seconds, lacks, handoff) -> None:
    absent = {"transform": ("no_transform", "reading_only"), "sync": ("no_sync",)}
    for name in lacks:
        for variant in absent[name]:
            del seconds[variant]
    found = verdict(Measured(facts=facts(), seconds=seconds, handoff=handoff), epochs=2)
    assert sum(share.share for share in found.shares) == pytest.approx(1)
    assert all(share.share >= 0 for share in found.shares)
    assert [part.name for part in found.parts] == [
        name for name in PARTS if name in {part.name for part in found.parts}
    ]
    for part in found.parts:
        assert part.gain.mean > 0
        if part.gain.low is not None and part.gain.high is not None:
            assert part.gain.low <= part.gain.mean * 1.000001 and part.gain.mean <= part.gain.high * 1.000001
        assert part.rows_per_second is None or part.rows_per_second > 0
        assert (part.low is None) == (part.high is None)
        if part.name in ("compute", "hand-off") and part.low is not None and part.high is not None:
            assert part.low <= part.rows_per_second * 1.000001 and part.rows_per_second <= part.high * 1.000001
    if found.limit.name is not None:
        limit = part_of(found.parts, found.limit.name)
        assert limit.gain.mean == max(part.gain.mean for part in found.parts)
        assert limit.gain.low is not None and limit.gain.low > 1.1
        follows_from_its_table(found)
    numbers_are_true(found)


def follows_from_its_table(found) -> None:
    """A reader who sees the table, and not how it came about, names the same part."""
    shares = {share.name: share.share for share in found.shares}
    training = {
        "copy": shares["copy"],
        "synchronise": shares["synchronise"],
        "compute": shares["optimizer"] + shares["forward and backward"],
    }
    limit = part_of(found.parts, found.limit.name)
    for part in found.parts:
        if part is not limit:
            assert part.gain.mean * 1.1 < limit.gain.mean
            if {part.name, limit.name} <= set(training) and training[part.name] > training[limit.name]:
                assert part.gain.mean <= 1.1, "hidden: it takes time that something else takes, too"


def table(**shape: float) -> Measured:
    """A table of this shape, from ten rounds that differ by a few percent. The numbers are per mille of the step."""
    random = np.random.default_rng(3)
    seconds = {
        name: [value * 1e-9 * float(np.exp(0.03 * random.standard_normal())) for _ in range(10)]
        for name, value in shape.items()
    }
    return Measured(facts=facts(nodes=2), seconds=seconds)


WAITS = {
    "full": 1000, "repeated": 990, "no_copy": 980, "no_sync": 250, "no_compute": 60, "compute": 300,
    "forward_backward": 280, "reading": 20,
}  # fmt: skip
"""Nodes wait for one another in an exchange that takes next to nothing where nobody computes."""


def test_time_that_nodes_wait_for_one_another_is_synchronising() -> None:
    found = verdict(table(**WAITS), epochs=3)
    assert found.limit.name == "synchronise" and found.limit.costs[0].share == pytest.approx(0.65, abs=0.05)
    gains = {part.name: part.gain.mean for part in found.parts}
    assert gains["synchronise"] == pytest.approx(4, rel=0.1)
    assert gains["compute"] == pytest.approx(1 / 0.7, rel=0.1), "no more than what it takes"


def test_shares_and_gains_that_speak_for_different_parts_name_none() -> None:
    """Without an exchange, computing takes longer, say."""
    found = verdict(table(**{**WAITS, "no_sync": 850}), epochs=3)
    assert (found.limit.name, found.limit.unclear) == (None, "alike")
    assert [cost.name for cost in found.limit.costs] == ["compute", "synchronise"]
    numbers_are_true(found)


@given(
    st.fixed_dictionaries({name: st.floats(0.0, 1) for name in VARIANTS}),
    st.sets(st.sampled_from(["transform", "sync"])),
    st.floats(0, 0.05),
    st.integers(0, 99),
)
def test_the_verdict_follows_from_tables_of_every_shape(shape, lacks, noise, seed) -> None:
    """Of steps whose parts hinder or hide one another in any way: what is left out never makes it slower, and that is
    all."""
    random, order = np.random.default_rng(seed), {"full": 1.0}
    for name, within in WITHIN.items():
        order[name] = order[within] * (0.001 + 0.999 * shape[name])
    absent = {"transform": ("no_transform", "no_reading", "reading_only"), "sync": ("no_sync", "no_compute")}
    for name in lacks:
        for variant in absent[name]:
            del order[variant]
    seconds = {name: (value * np.exp(noise * random.standard_normal(10))).tolist() for name, value in order.items()}
    found = verdict(Measured(facts=facts(), seconds=seconds), epochs=2)
    numbers_are_true(found)
    if found.limit.name is not None:
        follows_from_its_table(found)


WITHIN = {
    "no_transform": "full", "no_reading": "full", "repeated": "no_reading", "no_copy": "repeated", "no_sync": "full",
    "no_compute": "full", "compute": "no_copy", "forward_backward": "compute", "reading": "no_compute",
    "reading_only": "reading",
}  # fmt: skip
"""Of what each variant leaves out more."""


def numbers_are_true(found) -> None:
    """Each cost is a part's: its gain, and its share of the step."""
    shares = {share.name: share.share for share in found.shares}
    known = {"reading": shares["rows"], "transform": shares["rows"], "copy": shares["copy"]}
    known |= {"compute": shares["forward and backward"] + shares["optimizer"], **shares}
    assert found.limit.costs and (found.limit.name is None) == (found.limit.unclear is not None)
    for cost in found.limit.costs:
        assert cost.gain == part_of(found.parts, cost.name).gain
        assert cost.share == pytest.approx(known[cost.name])
    assert found.limit.name in (None, found.limit.costs[0].name)


def part_of(parts: list[Part], name: str) -> Part:
    return next(part for part in parts if part.name == name)


def limit(pipeline: Pipeline, **more: object) -> Limit:
    return verdict(pipeline.measured(np.random.default_rng(0), noise=0.02, **more), epochs=4).limit


@pytest.mark.parametrize(
    ("pipeline", "name", "share"),
    [
        (Pipeline(reading=3), "reading", 0.66),
        (Pipeline(transform=3), "transform", 0.66),
        (Pipeline(copy=3), "copy", 0.75),
        (Pipeline(synchronise=3), "synchronise", 0.75),
        (Pipeline(), "compute", 1.0),
        (Pipeline(reading=0.5, overlap=0), "compute", 0.66),
    ],
)
def test_a_limit_has_its_share(pipeline: Pipeline, name: str, share: float) -> None:
    found = limit(pipeline)
    assert found.name == name and found.costs[0].share == pytest.approx(share, abs=0.04)
    assert found.alone == (pipeline == Pipeline())


def test_parts_that_are_alike_have_no_limit_among_them() -> None:
    assert (limit(Pipeline(reading=1, overlap=0)).name, limit(Pipeline(reading=1, overlap=0)).unclear) == (
        None,
        "alike",
    )
    found = limit(Pipeline(reading=1))
    assert (found.name, found.unclear) == (None, "together")
    assert [cost.name for cost in found.costs] == ["reading", "compute"]


def test_the_hand_off_is_dealt_to_the_epochs() -> None:
    """Four epochs of 1 us a row, and a hand-off of 12: three quarters of the run; one of 0.1 is next to nothing."""
    random = np.random.default_rng(0)
    feed = [11.9e-6, 12e-6, 12.1e-6, 12e-6]
    found = verdict(Pipeline().measured(random, handoff=feed), epochs=4)
    assert found.limit.name == "hand-off" and found.limit.costs[0].share == pytest.approx(0.75)
    part = part_of(found.parts, "hand-off")
    assert part.gain.mean == pytest.approx(4) and part.reached == pytest.approx(0.75)
    assert part.rows_per_second == pytest.approx(1e6 / 3)
    assert part_of(found.parts, "compute").gain.mean == pytest.approx(4 / 3, rel=1e-3)
    short = verdict(Pipeline().measured(random, handoff=[0.1e-6, 0.1e-6]), epochs=4)
    assert short.limit.name == "compute" and short.limit.alone


def test_a_part_too_cheap_to_be_seen_has_no_rate() -> None:
    found = verdict(Pipeline(copy=0.001).measured(np.random.default_rng(0), noise=0.05), epochs=1)
    copy = part_of(found.parts, "copy")
    assert copy.rows_per_second is None and copy.reached is None and copy.low is None
    assert [part.name for part in found.parts] == ["reading", "copy", "compute"]


def test_a_rate_alone_has_an_interval_that_narrows_with_the_noise() -> None:
    for noise in (0.02, 0.1):
        found = verdict(Pipeline(copy=1, reading=0.5).measured(np.random.default_rng(0), noise=noise), epochs=1)
        for name, rate in (("copy", 1e6), ("compute", 1e6), ("reading", 2e6)):
            part = part_of(found.parts, name)
            assert part.low is not None and part.high is not None
            assert part.low * (1 - 2 * noise) < rate < part.high * (1 + 2 * noise)
            assert 1 < part.high / part.low < 1 + 6 * noise


def test_one_round_names_nothing() -> None:
    found = verdict(Pipeline(reading=9).measured(np.random.default_rng(0), rounds=1), epochs=1)
    assert {part.low for part in found.parts} == {None}
    assert (found.limit.name, found.limit.unclear) == (None, "one round")


def test_the_first_reading_of_rows_that_are_kept_is_dealt_to_the_epochs() -> None:
    """60,000 rows of 1 us; 0.6 s until they were there are ten passes' worth."""
    pipeline, random = Pipeline(), np.random.default_rng(0)
    measured = pipeline.measured(random, noise=0.01, facts=facts(first_reading=0.6))
    few, many = verdict(measured, epochs=5), verdict(measured, epochs=1000)
    assert few.limit.name == "reading" and part_of(few.parts, "reading").gain.mean == pytest.approx(3, rel=0.02)
    assert many.limit.name == "compute"
    config = parse(TrainConfig, {"data": "d", "output": "o", "epochs": 5})
    assert "more than half of the wait for rows is in the first pass, after which rows are kept" in notes(
        config, measured
    )
    assert notes(config.model_copy(update={"epochs": 1000}), measured) == []


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("synchronise", [0.0, 0.5])
@pytest.mark.parametrize("overlap", [0.0, 0.6, 1.0])
def test_what_is_not_measured_follows_from_what_is(kept, synchronise, overlap) -> None:
    """A run of one node has no variant without compute, and one that keeps its rows none without reading."""
    pipeline = Pipeline(reading=1.2, transform=0.7, copy=0.4, synchronise=synchronise, compute=1.1, overlap=overlap)
    nodes = 2 if synchronise else 1
    measured = pipeline.measured(np.random.default_rng(0), facts=facts(kept=kept, nodes=nodes))
    assert ("no_reading" in measured.seconds, "no_compute" in measured.seconds) == (not kept, bool(synchronise))
    true = pipeline.gains()
    for part in verdict(measured, epochs=1).parts:
        assert part.gain.mean == pytest.approx(true[part.name], rel=1e-6), part.name
