"""What is advised: valid settings, that leave the weights the same or are said to change them."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.base.config import load, parse
from sparksplit.base.errors import ConfigError
from sparksplit.base.keys import unhashed
from sparksplit.comparison.compare_config import CompareConfig
from sparksplit.comparison.plan import plan
from sparksplit.diagnosis import advice, diagnosis_record
from sparksplit.diagnosis.measured import Measured, Readers, Tried
from sparksplit.diagnosis.settings import compare_command, with_settings
from sparksplit.training.train_config import TrainConfig
from tests.diagnosis.pipelines import Pipeline, facts


def config(**keys: object) -> TrainConfig:
    return parse(TrainConfig, {"data": "d", "output": "o", **keys})


@st.composite
def configs(draw: st.DrawFn) -> TrainConfig:
    """Whatever `train` takes."""
    nodes = draw(st.integers(1, 4))
    chosen = st.sampled_from(["batch", "epoch", "epoch-delayed", "local", "mine.py:own"])
    keys = {
        "nodes": nodes,
        "strategy": "single" if nodes == 1 else draw(chosen),
        "batch_size": draw(st.sampled_from([1, 7, 64, 1024, 100_000])),
        "local_batch_size": draw(st.sampled_from([None, 16])),
        "epochs": draw(st.integers(1, 12)),
        "readers": draw(st.integers(0, 4)),
        "transform": draw(st.sampled_from([None, "mine.py:shift"])),
        "window": draw(st.sampled_from([None, 1, 8])),
        "cache_mb": draw(st.sampled_from([0, 512])),
        "optimizer": draw(
            st.sampled_from([{"name": "adam", "beta_1": 0.8}, {"learning_rate": {"name": "CosineDecay"}}])
        ),
        "input_mode": draw(st.sampled_from(["spark", "tensorflow"])),
        "sync": draw(st.sampled_from([{}, {"every": 5, "outer": "nesterov"}])),
        "checkpoint": {
            "seconds": draw(st.sampled_from([None, 0.5, 60])),
            "every": draw(st.sampled_from([None, "epoch", 3])),
        },
        "early_stop": draw(st.sampled_from([None, {"patience": 2}])),
    }
    try:
        return config(**keys)
    except ConfigError:
        return config(nodes=nodes, strategy=keys["strategy"], epochs=keys["epochs"])


@st.composite
def measurements(draw: st.DrawFn, given: TrainConfig) -> Measured:
    """Whatever a diagnosis of such a run may find."""
    cost = st.sampled_from([0.0, 0.1, 1.0, 4.0])
    pipeline = Pipeline(
        reading=draw(cost),
        transform=draw(cost) if given.transform else 0.0,
        copy=draw(cost),
        synchronise=draw(cost) if given.node_count > 1 else 0.0,
        compute=draw(st.sampled_from([0.1, 1.0, 4.0])),
        overlap=draw(st.sampled_from([0.0, 0.7, 1.0])),
    )
    random = np.random.default_rng(draw(st.integers(0, 99)))
    step = pipeline.seconds() * 1e-6

    def rounds(times: float) -> list[float]:
        return (step * times * np.exp(0.03 * random.standard_normal(6))).tolist()

    return pipeline.measured(
        random,
        rounds=6,
        noise=0.03,
        readers=[Readers(number, rounds(draw(st.sampled_from([0.5, 1.0, 2.0])))) for number in (0, 1, 2, 4)],
        handoff=[draw(st.sampled_from([1.0, 50.0])) * step] * 3 if given.input_mode == "spark" else None,
        checkpoint=draw(st.sampled_from([None, 0.01, 3.0])),
        facts=facts(
            nodes=given.node_count,
            kept=draw(st.booleans()),
            free_mb=draw(st.sampled_from([10, 8000])),
            threads=draw(st.integers(1, 2)),
        ),
    )


cases = configs().flatmap(lambda given: st.tuples(st.just(given), measurements(given)))


@pytest.mark.slow
@given(cases)
def test_what_is_advised_is_valid_and_does_to_the_weights_what_is_said(case) -> None:
    given, measured = case
    first = advice.recommended(given, measured)
    others = advice.proposed(given, measured)
    assert len(others) <= 3
    for candidate in [*([first] if first else []), *others]:
        after = with_settings(given, candidate.settings)
        assert after != given and candidate.why
        hashed = [each.model_dump(mode="json", exclude=unhashed(TrainConfig)) for each in (given, after)]
        assert (hashed[0] == hashed[1]) == (candidate is first)
        # The nodes find the same as the driver, to which what was measured crossed as JSON.
        again = Measured.from_json(json.loads(json.dumps(measured.to_json())), "a test")
        assert candidate in [advice.recommended(given, again), *advice.proposed(given, again)]


@given(cases)
def test_the_comparison_that_decides_has_just_these_strategies(case) -> None:
    given, measured = case
    settings = [candidate.settings for candidate in advice.proposed(given, measured)]
    command = compare_command(given, settings)
    if command is None:
        assert all("order" in own for own in settings)
        return
    words = shlex.split(command)
    assert words[:2] == ["sparksplit", "compare"] and set(words[2::2]) == {"--set"}
    compared = load(CompareConfig, None, words[3::2])
    names = [entry["strategy"] for entry in compared.strategies]
    assert names[0] == "single" and names.count("single") == (1 if given.strategy != "single" else len(settings) + 1)
    assert given.strategy in names and compared.input_mode == given.input_mode
    if given.strategy.endswith(":own"):
        return  # its file would be read
    runs = plan(compared.model_copy(update={"seeds": 1}))
    wanted = [given, *(with_settings(given, own) for own in settings if "order" not in own)]
    keys = ("strategy", "batch_size", "local_batch_size", "window", "sync", "optimizer", "transform", "dtype", "seed")
    found = [{key: getattr(run.config, key) for key in keys} for run in runs]
    for each in wanted:
        assert {key: getattr(each, key) for key in keys} in found
    assert {run.config.node_count for run in runs} == {1, given.node_count}
    assert all(run.config.epochs >= given.epochs for run in runs)
    base = next(run.config for run in runs if (run.name, run.config.node_count) == ("single", 1))
    assert (base.batch_size, base.window, base.epochs) == (given.batch_size, given.window, runs[0].config.epochs)


@pytest.mark.parametrize(
    ("keys", "proposal", "rows"),
    [
        (
            {"nodes": 2, "strategy": "batch"},
            {"batch_size": 256},
            {("single", 1), ("single, batch_size = 256", 1), ("batch", 2), ("batch, batch_size = 256", 2)},
        ),
        ({"batch_size": 16}, {"batch_size": 64}, {("single", 1), ("single, batch_size = 64", 1)}),
        (
            {"nodes": 2, "strategy": "auto"},
            {"batch_size": 256},
            {("single", 1), ("single, batch_size = 256", 1), ("batch", 2), ("batch, batch_size = 256", 2)},
        ),
        (
            {"nodes": 3, "strategy": "batch", "input_mode": "spark", "batch_size": 30},
            {"strategy": "local", "sync.every": 8, "checkpoint.every": "epoch"},
            {("single", 1), ("single, batch_size = 10", 1), ("batch", 3), ("local, H = 8", 3)},
        ),
    ],
)
def test_the_comparison_that_decides_has_the_rows_that_an_answer_needs(keys, proposal, rows) -> None:
    """Every row is compared with `single`; a row on several nodes also with `batch` and its control on one node."""
    command = compare_command(config(**keys), [proposal])
    assert command is not None
    compared = load(CompareConfig, None, shlex.split(command)[3::2])
    assert {(run.name, run.config.node_count) for run in plan(compared)} == rows
    assert compared.input_mode == keys.get("input_mode", "tensorflow")


def test_no_comparison_decides_for_a_run_that_begins_with_another_runs_weights() -> None:
    """Its `single` would begin with random weights."""
    assert compare_command(config(nodes=2, strategy="batch", init="/runs/a"), [{"batch_size": 256}]) is None


def measured_of(pipeline: Pipeline, **more: object) -> Measured:
    return pipeline.measured(np.random.default_rng(3), rounds=8, noise=0.02, **more)


def sweep(pipeline: Pipeline, **rows: float) -> list[Readers]:
    """readers=times the step's seconds."""
    random = np.random.default_rng(4)
    step = pipeline.seconds() * 1e-6
    return [
        Readers(int(name[1:]), (step * times * np.exp(0.02 * random.standard_normal(8))).tolist())
        for name, times in rows.items()
    ]


def test_the_knee_is_the_fewest_readers_that_are_about_as_fast() -> None:
    slow = Pipeline(reading=3)
    rows = sweep(slow, _0=1.8, _1=1.0, _2=0.55, _4=0.52, _8=0.6)
    assert advice.knee(rows).readers == 2
    found = advice.recommended(config(), measured_of(slow, readers=rows))
    assert found is not None and found.settings == {"readers": 2}
    assert advice.recommended(config(readers=2), measured_of(slow, readers=rows)) is None
    # Fewer that do as well bring nothing, nor do more that are within the noise.
    assert advice.recommended(config(readers=4), measured_of(slow, readers=rows)) is None
    level = sweep(slow, _0=1.0, _1=1.0, _2=1.0)
    assert advice.recommended(config(), measured_of(slow, readers=level)) is None


def test_rows_are_kept_where_they_fit_with_room_to_spare() -> None:
    slow = measured_of(Pipeline(reading=3), facts=facts(kept=False, held_out_bytes=30 << 20))
    found = advice.recommended(config(cache_mb=0), slow)
    assert found is not None and found.settings == {"cache_mb": 79}  # 60,000 rows of 800 bytes, and 30 MiB
    for other in (replace(slow, facts=replace(slow.facts, free_mb=150)), measured_of(Pipeline(reading=3))):
        assert advice.recommended(config(cache_mb=0), other) is None
    assert advice.recommended(config(cache_mb=0, epochs=1), slow) is None
    idle = measured_of(Pipeline(reading=0.1), facts=slow.facts)
    assert advice.recommended(config(cache_mb=0), idle) is None
    assert any(
        "too much to keep" in note
        for note in advice.notes(config(), replace(slow, facts=facts(kept=False, free_mb=90)))
    )
    # With readers that bring as much, what is read once needs no more of them; in two epochs they bring more.
    rows = sweep(Pipeline(reading=3), _1=1.0, _4=0.4)
    assert set(advice.recommended(config(cache_mb=0, epochs=50), replace(slow, readers=rows)).settings) == {"cache_mb"}
    assert set(advice.recommended(config(cache_mb=0, epochs=2), replace(slow, readers=rows)).settings) == {"readers"}
    shifts = measured_of(Pipeline(reading=3, transform=1), facts=slow.facts, readers=rows)
    assert set(advice.recommended(config(cache_mb=0), shifts).settings) == {"readers", "cache_mb"}


def test_rows_are_read_in_each_pass_where_training_hides_that() -> None:
    """60,000 rows of 1 us: the first reading takes nine tenths of a pass."""
    kept = measured_of(Pipeline(), facts=facts(first_reading=0.054))
    assert advice.recommended(config(epochs=20), kept) is None
    found = advice.recommended(config(epochs=2), kept)
    assert found is not None and found.settings == {"cache_mb": 0}
    tried = Tried(found.settings, kept.seconds["full"], kept.seconds["full"])
    whole = diagnosis_record.of(config(epochs=2), replace(kept, tried=[tried]), **MADE)
    assert whole.answer.keeping[0].gain.mean == pytest.approx(1.45, rel=0.02)
    # Slower than training: it pays in a single pass alone.
    slow = measured_of(Pipeline(), facts=facts(first_reading=0.12))
    assert advice.recommended(config(epochs=2), slow) is None
    assert advice.recommended(config(epochs=1), slow).settings == {"cache_mb": 0}


def test_the_hand_off_is_left_out_where_rows_are_prepared() -> None:
    fed = measured_of(Pipeline(), handoff=[19e-6, 20e-6, 21e-6])
    found = advice.recommended(config(input_mode="spark", epochs=2), fed)
    assert found is not None and found.settings == {"input_mode": "tensorflow"}
    assert advice.recommended(config(input_mode="spark", epochs=1000), fed) is None
    # 1 us a row, and half the hand-off of 20.
    tried = Tried({"input_mode": "tensorflow"}, fed.seconds["full"], fed.seconds["full"])
    whole = diagnosis_record.of(config(input_mode="spark", epochs=2), replace(fed, tried=[tried]), **MADE)
    assert whole.answer.decision == "set" and whole.answer.keeping[0].helps
    assert whole.answer.keeping[0].gain.mean == pytest.approx(11, rel=0.02)


MADE = {"made": "2026-01-01T00:00:00Z", "seconds": 60.0, "hosts": ["a"], "versions": {}}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"seconds": 5}, {"checkpoint.seconds": 60}),
        ({"seconds": None, "every": "epoch"}, None),
        ({"seconds": None, "every": 200}, {"checkpoint.every": None, "checkpoint.seconds": 60}),
        ({"seconds": 60, "every": 50}, {"checkpoint.every": None}),
        ({"seconds": 60}, None),
        ({"seconds": None}, None),
    ],
)
def test_checkpoints_that_cost_much_are_written_less_often(given, wanted) -> None:
    """A run of 600 s, 10 epochs: a checkpoint stops it for 0.5 s, and for 1 % where there is one a minute."""
    measured = measured_of(Pipeline(compute=1000), checkpoint=0.5)
    own = config(checkpoint=given)
    found = advice.recommended(own, measured)
    assert (found and found.settings) == wanted
    if found:
        assert not found.in_steps
        (advised,) = diagnosis_record.of(own, measured, **MADE).answer.keeping
        # By arithmetic: what it costs is known without steps, and no interval was measured.
        assert advised.computed and advised.helps and advised.gain.mean > 1.02
        assert (advised.gain.low, advised.gain.high) == (None, None)


@pytest.mark.parametrize(
    ("keys", "own_rows", "passes", "checkpoints"),
    [
        ({"strategy": "batch", "epochs": 8}, 15_000, 8, 7),
        ({"strategy": "epoch", "epochs": 8}, 60_000, 8, 1),
        ({"strategy": "epoch-delayed", "epochs": 8}, 60_000, 8, 1),
        ({"strategy": "epoch", "epochs": 10}, 60_000, 12, 2),
        ({"strategy": "mine.py:own", "epochs": 8}, 60_000, 8, 1),
        ({"strategy": "mine.py:own", "epochs": 8}, 15_000, 8, 7),
        # 938 steps in each of 8 or 2 rounds; the last one ends with the checkpoint of every run.
        ({"strategy": "batch", "epochs": 8, "every": 938}, 15_000, 8, 7),
        ({"strategy": "batch", "epochs": 8, "every": 100}, 15_000, 8, 75),
        ({"strategy": "epoch", "epochs": 8, "every": 100}, 60_000, 8, 18),
        ({"strategy": "epoch", "epochs": 10, "every": 938}, 60_000, 12, 2),
    ],
)
def test_checkpoints_are_counted_as_the_training_loop_writes_them(keys, own_rows, passes, checkpoints) -> None:
    """Four nodes that split the epochs end a round after four epochs."""
    given = dict(keys)
    own = config(nodes=4, checkpoint={"seconds": None, "every": given.pop("every", "epoch")}, **given)
    measured = measured_of(Pipeline(compute=100), checkpoint=0.5, facts=facts(nodes=4, own_rows=own_rows))
    assert advice.besides(own, measured) == pytest.approx(0.5 * checkpoints / (60_000 * passes))
    # A pass takes 6 s. Checkpoints that take at most 3 % of the run are left as they are.
    is_dear = 0.5 * checkpoints > 0.03 * 6 * passes
    found = advice.recommended(own, measured)
    assert (found and found.settings) == ({"checkpoint.every": None, "checkpoint.seconds": 60} if is_dear else None)


def test_slow_synchronising_is_done_less_often() -> None:
    slow = measured_of(Pipeline(synchronise=4))
    found = advice.proposed(config(nodes=2, strategy="batch", checkpoint={"every": 10}), slow)
    assert found[0].settings == {"strategy": "local", "sync.every": 128, "checkpoint.every": "epoch"}
    assert [each.settings for each in found[1:]] == [{"batch_size": 256}, {"batch_size": 128}]
    found = advice.proposed(config(nodes=2, strategy="local", local_batch_size=32, sync={"every": 8}), slow)
    assert found[0].settings == {"local_batch_size": 128} or found[0].settings["sync.every"] > 8
    assert {"sync.every"} in [set(each.settings) for each in found]
    found = advice.proposed(config(nodes=2, strategy="epoch"), slow)
    assert found[0].settings["local_batch_size"] == 64
    # Synchronising that costs nothing is left alone, and no mini-batch grows to a large part of the rows.
    assert all(
        "sync.every" not in each.settings
        for each in advice.proposed(config(nodes=2, strategy="batch"), measured_of(Pipeline(synchronise=0.001)))
    )
    assert advice.proposed(config(batch_size=2048), measured_of(Pipeline())) == []


def test_what_cannot_be_tried_is_noted() -> None:
    busy = replace(measured_of(Pipeline()), facts=facts(threads=1))
    assert advice.notes(config(threads=1), busy)[0].startswith("threads: 1 is less than the 2 cores that a node may")
    assert advice.notes(config(), busy) == []  # the executor's cores, and others' nodes may have the rest
    assert "preprocess" in advice.notes(config(transform="a.py:b"), measured_of(Pipeline(transform=5)))[0]
