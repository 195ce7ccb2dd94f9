"""What benchmarks/auto.py says of the choices of `strategy: auto`."""

from __future__ import annotations

import pytest

from benchmarks.auto import CASES, EPOCHS, GOALS, LINKS, MODELS, Case, figures, row, table


def run(train: float, start: float = 5.0, nodes: int | None = None) -> dict[str, object]:
    seconds = {"train": train - 0.5, "feed": 0.5, "start": start}
    return {"seconds": seconds, "choice": nodes and {"nodes": nodes, "seconds": {"1": 0.01, "2": 0.02}}}


def test_there_are_16_cases_on_two_hosts_and_on_one():
    assert len(CASES) == len({case.name for case in CASES}) == 16
    assert {case.nodes for case in CASES if case.mbit} == {2} and {case.nodes for case in CASES if not case.mbit} == {3}
    assert EPOCHS.keys() == MODELS.keys() and all(set(epochs) == {0, *LINKS} for epochs in EPOCHS.values())
    assert all(epochs > 1 for of_model in EPOCHS.values() for epochs in of_model.values())
    assert max(GOALS.values()) <= len(CASES)


def test_a_choice_costs_what_the_fixed_run_took():
    found = row(Case("cnn", 100, 2), {"1": run(10.0), "2": run(8.0, start=6.0), "auto": run(9.0, 9.0, nodes=1)})
    assert found["seconds"] == {"1": 10.0, "2": 8.0} and found["auto"] == 9.0
    assert (found["case"], found["chosen"], found["best"], found["before"]) == ("cnn-100", 1, 2, 4.0)
    assert found["loss"] == pytest.approx(0.25)


@pytest.mark.parametrize(("times", "chosen", "counted"), [((10, 9.1), 1, 1), ((10, 9), 1, 0), ((5, 9), 1, 1)])
def test_a_choice_may_lose_a_tenth(times, chosen, counted):
    runs = {str(nodes): run(seconds) for nodes, seconds in enumerate(times, 1)}
    found = figures([row(Case("mlp", 0, 3), {**runs, "auto": run(9.0, nodes=chosen)})])
    assert found["within_10_percent"] == counted and found["not_best_on_one"] == int(times[1] < times[0])


def test_the_table_has_a_line_for_each_case():
    runs = {"1": run(10.0), "2": run(8.0), "auto": run(9.0, nodes=2)}
    lines = table([row(Case("mlp", 10, 2), runs), row(Case("lstm", 0, 3), {**runs, "3": run(7.0)})])
    assert len(lines) == 3 and len({len(line) for line in lines}) == 1 and "lstm-host" in lines[2]
