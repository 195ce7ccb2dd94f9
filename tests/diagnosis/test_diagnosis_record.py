"""diagnosis.json, and what the terminal says of it."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from rich.console import Console

from sparksplit.base.config import load, parse
from sparksplit.diagnosis import advice, diagnosis_record, text
from sparksplit.diagnosis.diagnosis_record import Diagnosis
from sparksplit.diagnosis.measured import Failed, Measured, Readers, Tried
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


def shown(diagnosis: Diagnosis) -> list[str]:
    console = Console(width=120)
    with console.capture() as capture:
        text.show(diagnosis, console, ["out/diagnosis.html", "out/diagnosis.json"])
    return [" ".join(line.split()) for line in capture.get().splitlines()]


def test_it_is_read_as_it_was_written() -> None:
    diagnosis = made(SLOW, CONFIG, {"readers": 0.5}, readers=readers(SLOW), checkpoint=0.2, handoff=[1e-6, 2e-6])
    kept = json.loads(json.dumps(diagnosis.to_json()))
    assert Diagnosis.from_json(kept, "a test") == diagnosis
    assert (kept["format"], kept["command"], kept["seconds"]) == (1, "diagnose", 83.2)
    assert kept["verdict"]["limit"] == "reading"
    assert list(kept["measured"]["seconds"]) == list(diagnosis.measured.seconds)
    assert Measured.from_json(kept["measured"], "a test") == diagnosis.measured


def test_the_terminal_says_what_limits_the_run_and_what_would_help() -> None:
    lines = shown(made(SLOW, CONFIG, {"readers": 0.5}, readers=readers(SLOW)))
    assert lines[0].startswith("reading: nodes wait 7") and lines[0].endswith(" % of the step for rows")
    assert lines[3] == "part without it 95 % interval alone, rows/s the step reaches"
    assert [line.split()[0] for line in lines[4:8]] == ["reading", "transform", "copy", "compute"]
    assert "2 " in lines[12] and lines[11].endswith("– – now") and lines[12].endswith(" knee")
    (advised,) = (line for line in lines if line.startswith("recommended"))
    assert "readers=2 (2 readers per node, the fewest that are about as fast as any number): 2.0" in advised
    assert "does not help" not in advised
    assert lines[-1] == "out/diagnosis.html, out/diagnosis.json"


@pytest.mark.parametrize(
    ("times", "said"), [(1.0, "it is not certain that it helps at all"), (1.2, "it is slower with it")]
)
def test_what_does_not_help_is_said_not_to(times, said) -> None:
    diagnosis = made(SLOW, CONFIG, {"readers": times}, readers=readers(SLOW))
    assert diagnosis.recommended is not None and not diagnosis.recommended.helps
    (advised,) = (line for line in shown(diagnosis) if line.startswith("recommended"))
    assert advised.endswith(f"; {said}")


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
    assert diagnosis.recommended is not None and diagnosis.recommended.failed == "node 0: out of memory"
    assert not diagnosis.recommended.helps and diagnosis.recommended.gain is None
    assert diagnosis.notes[-2:] == [
        "readers=8 could not be tried: no threads",
        "what else there was to try could not be tried: x",
    ]
    (advised,) = (line for line in shown(diagnosis) if line.startswith("recommended"))
    assert advised.endswith("): could not be tried: node 0: out of memory")
    assert Diagnosis.from_json(json.loads(json.dumps(diagnosis.to_json())), "a test") == diagnosis


def test_a_gain_that_no_run_has_shown_is_said_to_be_computed() -> None:
    """A run of 600 s stops 120 times for 0.5 s. A checkpoint each minute stops it ten times."""
    config = parse(TrainConfig, {"data": "d", "output": "o", "checkpoint": {"seconds": 5}})
    measured = Pipeline(compute=1000).measured(np.random.default_rng(5), noise=0.01, checkpoint=0.5)
    diagnosis = diagnosis_record.of(config, measured, made="", seconds=1.0, hosts=[], versions={})
    (advised,) = (line for line in shown(diagnosis) if line.startswith("recommended"))
    assert "checkpoint.seconds=60" in advised
    assert advised.endswith(": 1.09 times as fast, computed from the time of one checkpoint")
    assert Diagnosis.from_json(json.loads(json.dumps(diagnosis.to_json())), "a test") == diagnosis


def test_a_gain_that_is_not_certain_is_neither_shown_nor_named() -> None:
    quiet = Pipeline(reading=1, compute=1, copy=0.02)
    random = np.random.default_rng(3)
    measured = quiet.measured(random, rounds=4, noise=0.2)
    # What is left out costs nothing, and the other measurement costs more.
    seconds = {**measured.seconds, "no_copy": [each * 1.5 for each in measured.seconds["no_copy"]]}
    given = {"made": "", "seconds": 1.0, "hosts": [], "versions": {}}
    diagnosis = diagnosis_record.of(CONFIG, replace(measured, seconds=seconds), **given)
    lines = [line for line in shown(diagnosis) if line.startswith(("reading ", "copy ", "compute "))]
    gains = {part.name: part.gain for part in diagnosis.verdict.parts}
    assert gains["copy"].mean < 1
    for line in lines:
        name, *rest = line.split()
        assert (rest[0] == "x") == (gains[name].low > 1), line
    assert diagnosis.verdict.limit is None and "0." not in diagnosis.verdict.sentence.split(":")[1]


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
    assert [own.settings.get("batch_size") for own in diagnosis.proposed] == [256, None, 128]
    assert [own.helps for own in diagnosis.proposed] == [True, True, False]
    # What did not help needs no comparison.
    assert diagnosis.compare is not None and "batch_size: 256" in diagnosis.compare
    assert "every: " in diagnosis.compare and "batch_size: 128" not in diagnosis.compare
    lines = shown(diagnosis)
    assert any(line == diagnosis.compare for line in lines)  # in one line, to be copied
    assert any("strategy=local, sync.every=128" in line for line in lines)
    assert not any("None" in line for line in lines)


def test_settings_are_written_as_they_are_given(tmp_path) -> None:
    settings = {"readers": 2, "checkpoint.every": None, "input_mode": "tensorflow", "tls": True}
    words = text.written(settings).split(", ")
    assert words == ["readers=2", "checkpoint.every=null", "input_mode=tensorflow", "tls=true"]
    config = load(TrainConfig, None, ["data=d", "output=o", *words])
    assert config.readers == 2 and config.checkpoint.every is None and config.tls


def test_a_damaged_file_is_named(tmp_path) -> None:
    from sparksplit.base.errors import InputError

    (tmp_path / diagnosis_record.DIAGNOSIS).write_text('{"format": 1}')
    with pytest.raises(InputError, match=r"diagnosis\.json: is not what diagnose writes: version is missing; diagnose"):
        Diagnosis.read(str(tmp_path))


def test_one_that_found_nothing_to_do_says_so() -> None:
    lines = shown(made(Pipeline(compute=10), parse(TrainConfig, {"data": "d", "output": "o", "batch_size": 4096}), {}))
    assert "only more nodes or a faster device would help" in lines[0]
    assert "recommended, and the trained weights stay the same: nothing" in lines
    assert not any(line.startswith(("proposed", "which")) for line in lines)
