"""What benchmarks/auto.py says of the choices of `strategy: auto`."""

from __future__ import annotations

import json
from contextlib import contextmanager, nullcontext

import pytest

from benchmarks import auto, sealed, slow_link_hosts
from benchmarks.auto import CASES, EPOCHS, GOALS, LINKS, MODELS, MOST, Case, figures, is_missed, row, table
from sparksplit.spark import session


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
    assert found["loss"] == pytest.approx(0.25) and found["auto_loss"] == pytest.approx(0.125)


@pytest.mark.parametrize(("times", "chosen", "counted"), [((10, 9.1), 1, 1), ((10, 9), 1, 0), ((5, 9), 1, 1)])
def test_a_choice_may_lose_a_tenth(times, chosen, counted):
    """Where one node may be chosen, it counts as best."""
    runs = {str(nodes): run(seconds) for nodes, seconds in enumerate(times, 1)}
    found = figures([row(Case("mlp", 0, 3), {**runs, "auto": run(9.0, nodes=chosen)})])
    assert (found["within_10_percent"], found["not_best_on_one"]) == (counted, 1 - counted)


def test_the_run_itself_counts_too():
    """Its choice is the best one, but it took longer than a fixed run of this choice."""
    found = figures([row(Case("mlp", 10, 2), {"1": run(10), "2": run(8), "auto": run(9, nodes=2)})])
    assert (found["within_10_percent"], found["auto_within_10_percent"]) == (1, 0)
    assert (found["largest_loss"], found["largest_auto_loss"]) == (0, 0.125)


def test_what_would_be_right_without_choosing_is_counted():
    times = ((10, 9.5, 9.5), (10, 8, 7), (5, 6, 7), (10, 7, 8), (7, 8, 7))
    runs = [{str(nodes): run(seconds) for nodes, seconds in enumerate(each, 1)} for each in times]
    found = figures([row(Case("mlp", 0, 3), {**each, "auto": run(9.0, nodes=1)}) for each in runs])
    assert (found["always_one"], found["always_all"], found["decisive"]) == (3, 3, 4)


def test_a_goal_is_missed_below_the_least_or_where_no_choice_is_needed():
    right = {**GOALS, **MOST}
    assert not is_missed(right)
    assert all(is_missed({**right, name: least - 1}) for name, least in GOALS.items())
    assert all(is_missed({**right, name: most + 1}) for name, most in MOST.items())


@pytest.mark.parametrize(("before", "train", "counted"), [(20, 10, 1), (21, 10, 0), (21, 210, 1), (22, 210, 0)])
def test_choosing_may_take_20_seconds_or_a_tenth(before, train, counted):
    runs = {"1": run(train), "2": run(train), "auto": run(train, start=5.0 + before, nodes=1)}
    assert figures([row(Case("mlp", 0, 3), runs)])["soon"] == counted


RUNS = {"1": run(10.0), "2": run(8.0), "auto": run(9.0, nodes=2)}


@pytest.fixture
def ran(tmp_path, monkeypatch):
    """Measures cases with nothing real. Returns the exit status, and what each case was asked to do. runs, spark,
    prepared: what takes the place of these."""

    class Hosts:
        def __init__(self, mbit, saved=5.0):
            assert saved == sealed.SAVED, "a link that saves more lets small exchanges pass at once"
            self.limit = lambda mbit: None

    def measured(cases, runs=lambda case: RUNS, spark=lambda places: None, prepared=lambda name: None):
        done, warm = [], []

        @contextmanager
        def cluster(hosts, places, folder, pinned):
            spark(places)
            yield

        def all_of(case, data, work):
            done.append(case.name)
            return runs(case).items()

        monkeypatch.setattr(auto, "_runs", all_of)
        monkeypatch.setattr(auto, "_warm_up", lambda case, data, work: warm.append(case.name))
        monkeypatch.setattr(sealed, "_prepared", lambda name, work: prepared(name))
        monkeypatch.setattr(sealed, "commit", lambda: "c0ffee")
        monkeypatch.setattr(slow_link_hosts, "Hosts", Hosts)
        monkeypatch.setattr(slow_link_hosts, "spark", cluster)
        monkeypatch.setattr(session, "spark_session", lambda *_: nullcontext())
        return auto._measure(cases, tmp_path / "rows", tmp_path), done, warm

    return measured


def told(capsys):
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def fails(error, *names):
    """Raises `error` for these names, and returns RUNS for all others."""

    def act(given):
        if getattr(given, "model", given) in names:
            raise error
        return RUNS

    return act


@pytest.mark.parametrize("error", [RuntimeError("ended with 1"), KeyError("choice"), OSError("no space")])
def test_the_other_cases_go_on_where_a_run_fails(ran, capsys, error):
    status, done, warm = ran(CASES[:6], fails(error, "cnn"))
    found = told(capsys)
    assert (status, found["cases"], found["failed"]) == (1, 3, ["cnn-10", "cnn-100", "cnn-1000"]) and len(done) == 6
    assert warm == ["mlp-10", "cnn-10"], "once for each model in a place"


def test_the_other_cases_go_on_where_a_place_or_data_fail(ran, capsys):
    """The second command goes on where the first one left cases out."""
    status, *_ = ran(CASES, spark=fails(RuntimeError("no master"), (slow_link_hosts.NEAR, slow_link_hosts.FAR)))
    found = told(capsys)
    assert (status, [row["case"] for row in found["rows"]]) == (1, [case.name for case in CASES if not case.mbit])
    status, done, _ = ran(CASES, prepared=fails(RuntimeError("no rows"), "table"))
    assert (status, told(capsys)["failed"]) == (1, [case.name for case in CASES if case.mbit and case.model == "table"])
    assert done == [case.name for case in CASES if case.mbit and case.model != "table"]


def test_an_interruption_loses_no_row(ran, capsys, tmp_path):
    """Rows stay as they were, in the order of the cases. Nothing is asked of the cases that are there."""
    with pytest.raises(KeyboardInterrupt):
        ran(CASES[1:4], fails(KeyboardInterrupt(), "cnn"))
    assert auto.refused(tmp_path / "rows") is None
    other = {**RUNS, "1": run(5.0)}
    status, done, _ = ran(CASES[:4], lambda case: other)
    found = told(capsys)
    assert (status, done, found["commit"]) == (0, ["mlp-10", "cnn-10"], "c0ffee")
    rows = [(row["case"], row["seconds"]["1"]) for row in found["rows"]]
    assert rows == [("mlp-10", 5.0), ("mlp-100", 10.0), ("mlp-1000", 10.0), ("cnn-10", 5.0)]


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"commit": "decaf"}, "of the commit c0ffee"),
        ({"epochs": {}}, "of other cases"),
        ({"further": 1}, "no file of this program"),
    ],
)
def test_rows_of_another_commit_or_of_other_cases_are_refused(ran, monkeypatch, tmp_path, changed, why):
    ran(CASES[:1])
    now = auto.settings()
    monkeypatch.setattr(auto, "settings", lambda: now | changed)
    assert why in auto.refused(tmp_path / "rows")


@pytest.mark.parametrize("text", ["", "mine\n", "[]\n", "1\n", "{}\n"])
def test_no_other_file_is_written_to(tmp_path, text):
    (tmp_path / "rows").write_text(text)
    assert "no file of this program" in auto.refused(tmp_path / "rows")
    assert auto.refused(tmp_path / "new") is None and "no such folder" in auto.refused(tmp_path / "none" / "new")


def test_the_table_has_a_line_for_each_case():
    runs = {"1": run(10.0), "2": run(8.0), "auto": run(9.0, nodes=2)}
    lines = table([row(Case("mlp", 10, 2), runs), row(Case("lstm", 0, 3), {**runs, "3": run(7.0)})])
    assert len(lines) == 3 and len({len(line) for line in lines}) == 1 and "lstm-host" in lines[2]
