"""Proposals are a function of the record, so that a resumed search makes those that it would have made."""

from __future__ import annotations

import json
import sys

import pytest

from sparksplit.base.errors import UsageError
from sparksplit.searching import proposals
from sparksplit.searching.proposals import proposal
from sparksplit.searching.search_config import Range
from sparksplit.searching.search_record import SearchRecord, State, Trial
from sparksplit.searching.space import Space

SPACE: Space = {
    "optimizer.learning_rate": Range(low=0.0001, high=1.0, log=True),
    "model.params.hidden": [[8], [16, 8]],
    "batch_size": Range(low=8, high=64),
}
STATES: list[State] = ["complete", "pruned", "failed", "complete", "running"]


def searched(space: Space, trials: int, seed: int = 1, resume: int = 0) -> list[Trial]:
    """The trials of a search whose loss is the distance of the learning rate from 0.01. resume: after which trial the
    record is written and read."""
    record = SearchRecord(metric="loss", higher=False, wanted=trials)
    for number in range(1, trials + 1):
        keys = proposal(space, record, number, seed)
        state = STATES[number % len(STATES)]
        rate = keys.get("optimizer.learning_rate", 1.0)
        assert isinstance(rate, float)
        value = abs(rate - 0.01) if state in ("complete", "pruned") else None
        epochs = {} if value is None else {"1": value}
        record = record.having(Trial(number=number, keys=keys, state=state, value=value, epochs=epochs))
        if number == resume:
            record = SearchRecord.parse(json.dumps(record.to_json()), "a test")
    return list(record.trials)


def test_a_resumed_search_makes_the_same_proposals() -> None:
    whole = searched(SPACE, 16)
    assert searched(SPACE, 16, resume=13) == whole
    assert [one.keys for one in searched(SPACE, 3, seed=2)] != [one.keys for one in whole[:3]]


def test_values_are_within_their_ranges_and_differ() -> None:
    keys = [trial.keys for trial in searched(SPACE, 16)]
    for one in keys:
        rate, size = one["optimizer.learning_rate"], one["batch_size"]
        assert isinstance(rate, float) and 0.0001 <= rate <= 1
        assert isinstance(size, int) and 8 <= size <= 64 and one["model.params.hidden"] in ([8], [16, 8])
    assert len(set(map(str, keys))) == 16


def test_a_small_space_is_tried_as_a_whole() -> None:
    trials = searched({"batch_size": [32, 64, 128], "epochs": Range(low=1, high=3)}, 9)
    assert len({str(trial.keys) for trial in trials}) == 9


def test_the_best_trial_has_run_to_its_end() -> None:
    values: list[tuple[State, float | None]] = [
        ("complete", None),
        ("pruned", 0.9),
        ("complete", 0.7),
        ("failed", None),
    ]
    trials = [
        Trial(number=number, keys={"epochs": number}, state=state, value=value)
        for number, (state, value) in enumerate([*values, ("complete", 0.7)], start=1)
    ]
    record = SearchRecord(metric="accuracy", higher=True, wanted=5, trials=trials)
    assert [trial.number for trial in record.ranked] == [3, 5, 1, 2, 4]
    assert record.best == trials[2] and record.to_json()["best"] == 3
    assert SearchRecord(metric="accuracy", higher=True, wanted=5, trials=trials[:2]).best is None


def test_without_optuna_one_line_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    monkeypatch.setattr(proposals, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"^search: Optuna is not installed; run pip install 'sparksplit\[search\]'$"):
        proposals.check_installed()
