"""diagnosis.json: the answer as data, and what it rests on."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from sparksplit.base.config import load, parse
from sparksplit.diagnosis import advice, diagnosis_record
from sparksplit.diagnosis.diagnosis_record import Diagnosis
from sparksplit.diagnosis.measured import Failed, Measured, Readers, Tried
from sparksplit.diagnosis.settings import written
from sparksplit.training.train_config import TrainConfig
from tests.diagnosis.pipelines import Pipeline

SLOW = Pipeline(reading=3, transform=0.5)
CONFIG = parse(TrainConfig, {"data": "d", "output": "o", "transform": "a.py:b"})


def made(pipeline: Pipeline, config: TrainConfig, tried: dict[str, float], **more: object) -> Diagnosis:
    """tried: how many times the step's seconds the candidate with that key takes."""
    random = np.random.default_rng(5)
    measured = pipeline.measured(random, rounds=10, noise=0.03, **more)
    candidates = [*advice.proposed(config, measured), advice.recommended(config, measured)]
    chosen = {next(iter(own.settings)): own.settings for own in candidates if own is not None}
    full = np.array(measured.seconds["full"])
    pairs = [
        Tried(chosen[key], full.tolist(), (full * times * np.exp(0.03 * random.standard_normal(10))).tolist())
        for key, times in tried.items()
    ]
    given = {"made": "2026-01-01T00:00:00Z", "seconds": 83.21, "hosts": ["a"], "versions": {"keras": "3"}}
    return diagnosis_record.of(config, replace(measured, tried=pairs), **given)


def readers(pipeline: Pipeline) -> list[Readers]:
    """Two are about twice as fast as one."""
    step = pipeline.seconds() * 1e-6
    noise = np.exp(0.02 * np.random.default_rng(6).standard_normal((4, 10)))
    rows = zip((0, 1, 2, 4), (1.3, 1, 0.5, 0.48), noise, strict=True)
    return [Readers(number, (step * times * own).tolist()) for number, times, own in rows]


def test_it_is_read_as_it_was_written() -> None:
    diagnosis = made(SLOW, CONFIG, {"readers": 0.5}, readers=readers(SLOW), checkpoint=0.2, handoff=[1e-6, 2e-6])
    kept = json.loads(json.dumps(diagnosis.to_json()))
    assert Diagnosis.from_json(kept, "a test") == diagnosis
    assert (kept["format"], kept["command"], kept["seconds"]) == (2, "diagnose", 83.2)
    assert kept["answer"]["limit"]["name"] == "reading"
    assert list(kept["measured"]["seconds"]) == list(diagnosis.measured.seconds)
    assert Measured.from_json(kept["measured"], "a test") == diagnosis.measured


def test_what_helps_is_to_be_set() -> None:
    answer = made(SLOW, CONFIG, {"readers": 0.5}, readers=readers(SLOW)).answer
    assert (answer.decision, answer.limit.name, answer.rounds) == ("set", "reading", 10)
    (advised,) = answer.keeping
    assert advised.settings == {"readers": 2} and advised.helps
    assert advised.gain is not None and advised.gain.mean == pytest.approx(2, rel=0.1)
    assert advised.why == "2 readers per node, the fewest that are about as fast as any number"


@pytest.mark.parametrize(("times", "is_loss"), [(1.0, False), (1.2, True)])
def test_what_does_not_help_is_not_to_be_set(times, is_loss) -> None:
    answer = made(SLOW, CONFIG, {"readers": times}, readers=readers(SLOW)).answer
    assert answer.decision == "nothing"
    (advised,) = answer.keeping
    assert not advised.helps and advised.gain is not None and advised.gain.is_loss == is_loss


def test_what_could_not_be_tried_is_said_with_the_first_cause() -> None:
    measured = SLOW.measured(np.random.default_rng(5), noise=0.03, readers=readers(SLOW))
    candidate = advice.recommended(CONFIG, measured)
    assert candidate is not None
    failed = [
        Failed({"readers": 8}, "no threads"),
        Failed(candidate.settings, "node 0: out of memory"),
        Failed({}, "x"),
    ]
    given = {"made": "", "seconds": 1.0, "hosts": [], "versions": {}}
    diagnosis = diagnosis_record.of(CONFIG, replace(measured, failed=failed), **given)
    (advised,) = diagnosis.answer.keeping
    assert (advised.failed, advised.helps, advised.gain) == ("node 0: out of memory", False, None)
    assert diagnosis.answer.notes[-2:] == [
        "readers=8 could not be tried: no threads",
        "what else there was to try could not be tried: x",
    ]
    assert Diagnosis.from_json(json.loads(json.dumps(diagnosis.to_json())), "a test") == diagnosis


def test_a_gain_that_no_run_has_shown_is_said_to_be_computed() -> None:
    """A run of 600 s stops 120 times for 0.5 s. A checkpoint each minute stops it ten times."""
    config = parse(TrainConfig, {"data": "d", "output": "o", "checkpoint": {"seconds": 5}})
    measured = Pipeline(compute=1000).measured(np.random.default_rng(5), noise=0.01, checkpoint=0.5)
    diagnosis = diagnosis_record.of(config, measured, made="", seconds=1.0, hosts=[], versions={})
    (advised,) = diagnosis.answer.keeping
    assert (advised.settings["checkpoint.seconds"], advised.computed, advised.helps) == (60, True, True)
    assert advised.gain is not None and advised.gain.mean == pytest.approx(1.09, abs=0.005)
    assert Diagnosis.from_json(json.loads(json.dumps(diagnosis.to_json())), "a test") == diagnosis


def test_proposals_come_by_what_they_bring_and_with_the_comparison_that_decides() -> None:
    config = parse(TrainConfig, {"data": "d", "output": "o", "nodes": 2, "strategy": "batch"})
    slow = Pipeline(synchronise=4)
    candidates = advice.proposed(config, slow.measured(np.random.default_rng(5), noise=0.03))
    assert [next(iter(own.settings)) for own in candidates] == ["strategy", "batch_size", "batch_size"]
    random, measured = np.random.default_rng(5), slow.measured(np.random.default_rng(5), noise=0.03)
    full = np.array(measured.seconds["full"])
    tried = [
        Tried(own.settings, full.tolist(), (full * times * np.exp(0.03 * random.standard_normal(10))).tolist())
        for own, times in zip(candidates, (0.5, 0.3, 1.0), strict=True)
    ]
    given = {"made": "", "seconds": 1.0, "hosts": [], "versions": {}}
    diagnosis = diagnosis_record.of(config, replace(measured, tried=tried), **given)
    found = diagnosis.answer
    assert found.decision == "compare" and found.keeping == []
    assert [own.settings.get("batch_size") for own in found.changing] == [256, None, 128]
    assert [own.helps for own in found.changing] == [True, True, False]
    # What did not help needs no comparison.
    assert found.next is not None and "batch_size: 256" in found.next and "\n" not in found.next
    assert "every: " in found.next and "batch_size: 128" not in found.next


def test_settings_are_written_as_they_are_given(tmp_path) -> None:
    settings = {"readers": 2, "checkpoint.every": None, "input_mode": "tensorflow", "tls": True}
    words = written(settings).split(", ")
    assert words == ["readers=2", "checkpoint.every=null", "input_mode=tensorflow", "tls=true"]
    config = load(TrainConfig, None, ["data=d", "output=o", *words])
    assert config.readers == 2 and config.checkpoint.every is None and config.tls


def test_a_damaged_file_is_named(tmp_path) -> None:
    from sparksplit.base.errors import InputError

    (tmp_path / diagnosis_record.DIAGNOSIS).write_text('{"format": 1}')
    with pytest.raises(InputError, match=r"diagnosis\.json: is not what diagnose writes: version is missing; diagnose"):
        Diagnosis.read(str(tmp_path))


def test_one_that_found_nothing_to_do_says_so() -> None:
    config = parse(TrainConfig, {"data": "d", "output": "o", "batch_size": 4096})
    answer = made(Pipeline(compute=10), config, {}).answer
    assert (answer.decision, answer.limit.name, answer.limit.alone) == ("nothing", "compute", True)
    assert (answer.keeping, answer.changing, answer.next) == ([], [], None)
