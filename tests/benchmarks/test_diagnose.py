"""benchmarks/diagnose.py: what it plants, and what it takes for right."""

from __future__ import annotations

from typing import Any

import pytest

from benchmarks import diagnose_plan as plan
from sparksplit.diagnosis.preprocess.parts import loss, parts_of
from sparksplit.diagnosis.preprocess.verdict import Setup, limit_of, troubles_of
from sparksplit.prepare.preprocess_config import PreprocessConfig
from tests.diagnosis.preprocess.tables import stage


def test_a_link_is_as_slow_as_its_strength_says() -> None:
    # 1 MB takes 80 ms at 100 Mbit/s: twice a step of 40 ms.
    assert plan.link_mbit(2.0, 0.04, 1_000_000) == 100
    assert plan.link_mbit(4.0, 0.04, 1_000_000) == 50
    assert plan.link_mbit(4.0, 1e9, 1) == 1


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
        assert limit_of(troubles, parts).name == "skew"
        assert all((each.seconds or 0) * 1.49 <= lost.skew for each in troubles[1:])


def _advice(helps: bool, **settings: Any) -> dict[str, Any]:
    gain = {"mean": 2.0, "low": 1.5, "high": 2.5} if helps else {"mean": 1.0, "low": 0.9, "high": 1.1}
    return {"settings": settings, "gain": gain, "helps": helps}


def _found(limit: str | None, keeping: Any = None, changing: Any = ()) -> dict[str, Any]:
    kept = [] if keeping is None else [keeping]
    return {"answer": {"limit": {"name": limit}, "keeping": kept, "changing": list(changing)}}


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
    assert _judged("model", _found("compute", None, [_advice(True, batch_size=256)])).helped
    assert not _judged("model", _found("compute", _advice(True, readers=4))).helped
    assert _judged("model", _found("compute", _advice(False, readers=4))).helped
    assert not _judged("model", _found(None)).helped


def test_with_nothing_planted_no_other_limit_than_computing_is_right() -> None:
    limits = (None, "compute", "reading", "transform", "synchronise")
    assert [_judged("control", _found(limit)).named for limit in limits] == [True, True, False, False, False]


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
