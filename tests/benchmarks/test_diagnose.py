"""benchmarks/diagnose.py: what it plants, and what it takes for right."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import diagnose_plan as plan
from benchmarks import diagnose_transform
from sparksplit.diagnosis.preprocess.parts import loss, parts_of
from sparksplit.diagnosis.preprocess.verdict import Setup, limit_of, troubles_of
from sparksplit.prepare.config import PreprocessConfig
from tests.diagnosis.preprocess.tables import stage


def test_a_seed_decides_each_trial_whatever_else_is_run() -> None:
    of_seed = [plan.trial(7, name, number) for name in plan.SCENARIOS for number in range(50)]
    assert of_seed == [plan.trial(7, name, number) for name in plan.SCENARIOS for number in range(50)]
    assert plan.trial(8, "link", 0) != plan.trial(7, "link", 0)
    strengths = [each.strength for each in of_seed if each.strength is not None]
    assert min(strengths) >= 1.5 and max(strengths) <= 4 and len(set(strengths)) > 200
    assert min(strengths) < 1.6 and max(strengths) > 3.8
    assert all((each.strength is None) == (each.scenario == "control") for each in of_seed)
    ways = {(each.draws["how"], each.draws["readers"]) for each in of_seed if each.scenario == "transform"}
    assert ways == {("sleep", 0), ("sleep", 1), ("numpy", 0), ("numpy", 1), ("python", 0)}


def test_a_link_is_as_slow_as_its_strength_says() -> None:
    # 1 MB takes 80 ms at 100 Mbit/s: twice a step of 40 ms.
    assert plan.link_mbit(2.0, 0.04, 1_000_000) == 100
    assert plan.link_mbit(4.0, 0.04, 1_000_000) == 50
    assert plan.link_mbit(4.0, 1e9, 1) == 1


def test_a_model_has_the_units_that_take_long_enough() -> None:
    small, large = (128, 7e-6), (1024, 35e-6)
    assert plan.units(1.0, 7e-6, small, large) == 128
    assert plan.units(3.0, 7e-6, small, large) == 576
    assert plan.units(6.0, 7e-6, small, large) == 1248
    with pytest.raises(ValueError, match="took no longer"):
        plan.units(2.0, 7e-6, small, (1024, 6e-6))


def test_one_file_has_more_rows_than_all_others_together() -> None:
    assert plan.skewed(1000, 5, 4.0) == [800, 50, 50, 50, 50]
    for files in range(4, 13):
        rows = plan.skewed(99_991, files, 3)
        assert sum(rows) == 99_991 and len(rows) == files
        assert rows[0] / sum(rows[1:]) == pytest.approx(3, rel=1e-3)
        assert max(rows[1:]) - min(rows[1:]) <= 1


def test_what_a_skewed_input_was_seen_to_lose_says_how_many_rows_lose_as_much() -> None:
    row = plan.row_seconds(1.5, 600_000, 7.0)
    assert plan.rows_for(1.0, 1.5, row, 7.0) == pytest.approx(600_000, abs=1)
    assert plan.rows_for(2.0, 1.5, row, 7.0) == pytest.approx(1_200_000, abs=1)
    assert plan.rows_for(1.0, 1.5, row, 3.0) == pytest.approx(900_000, abs=1)


def test_two_slots_lose_so_many_times_what_the_next_limit_costs() -> None:
    """By the very arithmetic that diagnose does, for what a seed may plant."""
    for number in range(50):
        planted = plan.trial(3, "skew", number)
        assert planted.strength is not None
        times, alone, row = planted.draws["times"], 1.1, 1.1e-5
        rows = plan.rows_for(planted.strength, alone, row, times)
        large, *others = plan.skewed(rows, planted.draws["files"], times)
        # Spark puts the small files together.
        counts = [large, sum(others)]
        parse = stage("parse", [count * row for count in counts], counts, slots=2, begin=0)
        lost = loss(parse, 2, {})
        assert lost.skew == pytest.approx(planted.strength * alone, rel=1e-3)
        assert lost.few + lost.slow == pytest.approx(0)
        # As much again is written, evenly.
        write = stage("write", [rows * row / 4] * 4, slots=2, start=parse.completed, shuffled=True)
        parts = parts_of([parse, write], parse.submitted - alone, write.completed, 2)
        config = PreprocessConfig.model_validate({"input": {"format": "csv", "path": "/raw"}, "output": "set"})
        setup = Setup(slots=2, config=config, prepared_bytes=rows * 240, files=None)
        troubles = troubles_of([parse, write], parts, setup)
        assert limit_of(troubles) == "skew"
        assert all((each.seconds or 0) * 1.49 <= lost.skew for each in troubles[1:])


@pytest.mark.parametrize("how", ("sleep", "numpy", "python"))
def test_the_transform_costs_what_it_says_and_changes_nothing(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.setattr(diagnose_transform, "HOW", how)
    monkeypatch.setattr(diagnose_transform, "MICROSECONDS", 20.0)
    tensors, label, seeds = {"x": np.zeros((500, 2), np.uint8)}, np.zeros(500), np.arange(500, dtype=np.uint64)
    wall, own = time.perf_counter(), time.thread_time()
    given, of_label = diagnose_transform.costly(tensors, label, seeds)
    wall, own = time.perf_counter() - wall, time.thread_time() - own
    assert given is tensors and of_label is label
    assert wall >= 0.01
    assert own < 0.005 if how == "sleep" else 0.01 <= own < 0.02


def _advice(helps: bool, **settings: Any) -> dict[str, Any]:
    gain = {"mean": 2.0, "low": 1.5, "high": 2.5} if helps else {"mean": 1.0, "low": 0.9, "high": 1.1}
    return {"settings": settings, "gain": gain, "helps": helps}


def _found(limit: str | None, recommended: Any = None, proposed: Any = (), sentence: str = "") -> dict[str, Any]:
    verdict = {"limit": limit, "sentence": sentence}
    return {"verdict": verdict, "recommended": recommended, "proposed": list(proposed)}


def _judged(scenario: str, found: dict[str, Any]) -> plan.Outcome:
    return plan.judged(plan.trial(1, scenario, 0), found)


def test_what_is_recommended_counts_before_what_is_proposed_if_it_helps() -> None:
    outcome = _judged("transform", _found("transform", _advice(True, readers=2), [_advice(False, batch_size=256)]))
    assert (outcome.named, outcome.helped, outcome.settings) == (True, True, {"readers": 2})
    assert outcome.gain == (2.0, 1.5, 2.5)
    outcome = _judged("link", _found("synchronise", None, [_advice(True, strategy="local")]))
    assert (outcome.named, outcome.helped) == (True, True)
    found = _found("synchronise", _advice(False, readers=2), [_advice(True, strategy="local")])
    assert _judged("link", found).settings == {"strategy": "local"} and _judged("link", found).helped
    assert not _judged("link", _found("synchronise", _advice(False, readers=2))).helped
    nothing = _judged("reader", _found("compute"))
    assert (nothing.named, nothing.helped, nothing.settings, nothing.gain) == (False, False, None, None)


def test_of_a_heavy_model_only_more_nodes_are_right() -> None:
    sentence = f"compute: 98 % of the step; only {plan.ONLY_MORE} would help"
    assert _judged("model", _found("compute", None, [_advice(True, batch_size=256)], sentence)).helped
    assert not _judged("model", _found("compute", _advice(True, readers=4), [], sentence)).helped
    assert _judged("model", _found("compute", _advice(False, readers=4), [], sentence)).helped
    assert not _judged("model", _found("compute")).helped


def test_with_nothing_planted_no_other_limit_than_computing_is_right() -> None:
    limits = (None, "compute", "reading", "transform", "synchronise")
    assert [_judged("control", _found(limit)).named for limit in limits] == [True, True, False, False, False]


def test_a_line_says_what_was_planted_named_and_brought() -> None:
    planted = plan.Trial("transform", 3, 1.5, {"how": "sleep", "readers": 1})
    told = plan.line(planted, plan.Outcome("transform", True, {"readers": 4}, (1.5, 1.25, 1.75), True))
    assert told == (
        "transform 3, 1.50 times the next limit, how sleep, readers 1: transform; readers: 4 is 1.50 times as fast "
        "(1.25 to 1.75)"
    )
    told = plan.line(plan.Trial("model", 0, 2.0), plan.Outcome(None, False, None, None, False))
    assert told == "model 0, 2.00 times the next limit: no single limit, which is WRONG, which is NO HELP"


def test_all_must_be_named_and_helped() -> None:
    good, bad = plan.Outcome("x", True, None, None, True), plan.Outcome("x", False, None, None, False)
    link, control = plan.trial(1, "link", 0), plan.trial(1, "control", 0)
    nothing = plan.Outcome("compute", True, None, None, None)
    found = plan.summary([(link, good), (control, nothing), (link, good)])
    assert found == {"link": {"times": 2, "named": 2, "helped": 2}, "control": {"times": 1, "named": 1}}
    assert plan.reached(found)
    assert not plan.reached(plan.summary([(link, good), (link, bad)]))
    assert not plan.reached(plan.summary([(link, plan.Outcome("x", True, None, None, False))]))
    assert not plan.reached(plan.summary([(control, bad)]))


def test_the_text_that_is_replaced_in_the_transform_is_there() -> None:
    text = Path(diagnose_transform.__file__).read_text()
    assert text.count('HOW, MICROSECONDS = "sleep", 0.0\n') == 1
