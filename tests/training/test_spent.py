"""Where the seconds of a run go: that they add up over rounds, nodes and attempts, and when there is advice."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.training import run as run_module
from sparksplit.training.recovery import attempts
from sparksplit.training.run import Run
from sparksplit.training.spent import PARTS, ROUNDS, advice, gone_on, of_round, of_run, total
from tests.training.records import RUN_JSON, TOP, run_record

seconds = st.floats(0, 1e4)
spent = st.dictionaries(st.sampled_from([*PARTS, "waiting"]), seconds)


@given(st.dictionaries(st.sampled_from([*ROUNDS, "waiting"]), seconds))
def test_the_parts_of_a_round_add_up_to_its_total(found):
    record = of_round(found)
    assert sum(getattr(record, name) for name in ROUNDS) == pytest.approx(record.total, abs=1e-6)
    assert record.train == pytest.approx(record.feed + record.copy + record.compute + record.sync, abs=1e-6)
    assert record.total == pytest.approx(total(found), abs=1e-3)


@given(st.lists(spent, min_size=1, max_size=4), seconds, seconds)
def test_the_parts_of_a_run_add_up_to_its_wall_time(nodes, launched, beside):
    """None is negative, whatever the nodes' clocks and the driver's say."""
    longest = max(map(total, nodes))
    found = of_run(nodes, launched, longest + beside)
    assert sum(getattr(found, name) for name in TOP) == pytest.approx(found.total, abs=1e-6)
    assert found.train == pytest.approx(found.copy + found.compute + found.sync, abs=1e-6)
    assert min(getattr(found, name) for name in TOP) >= 0
    if not any(node.get("export") for node in nodes):
        assert found.total == pytest.approx(longest + beside, abs=0.02)


def test_the_driver_adds_how_long_nodes_took_to_begin_and_to_end():
    nodes = [{"start": 2.0, "compute": 10.0, "export": 3.0}, {"start": 4.0, "compute": 8.0}]
    found = of_run(nodes, 5.0, 21.5)
    assert (found.start, found.train, found.export, found.end, found.total) == (8.0, 9.0, 3.0, 1.5, 21.5)
    # A node that began before the last one was there has counted some of that itself.
    found = of_run(nodes, 9.0, 21.5)
    assert (found.start, found.end, found.total) == (9.5, 0.0, 21.5)


def test_what_an_attempt_has_lost_is_what_its_checkpoint_does_not_know(tmp_path, monkeypatch):
    """The run's seconds add up over two commands and their attempts."""
    clock = SimpleNamespace(monotonic=lambda: now[0], time=lambda: now[0], sleep=lambda _: None)
    monkeypatch.setattr(run_module, "time", clock)
    now = [0.0]

    def path(number):
        return f"checkpoints/update-{number:09d}"

    first = Run(None, None, None, None, 0.0)
    first.from_number, first.prepared = -1, 4.0
    now[0] = 4.0
    assert gone_on({}, first._before(first.so_far().seconds, None)) == {"start": 4.0, "lost": 0.0}
    kept = {"start": 6.0, "compute": 20.0}  # 4 of these 6 seconds are the command's, 2 the node's
    now[0] = 50.0
    again = gone_on(kept, first._before(first.so_far().seconds, path(7)))
    assert again == {"start": 6.0, "compute": 20.0, "lost": 24.0}
    # No checkpoint: all has been lost, except what will be of use.
    assert gone_on({}, first._before(first.so_far().seconds, None)) == {"start": 4.0, "lost": 46.0}
    # Another command goes on from the same one, 3 seconds after it began.
    second = Run(None, None, None, None, 50.0, attempts.Attempts(seconds=50.0))
    second.from_number, second.prepared = 7, 3.0
    now[0] = 53.0
    resumed = gone_on(kept, second._before(second.so_far().seconds, path(7)))
    assert resumed == {"start": 9.0, "compute": 20.0, "lost": 24.0} and total(resumed) == 53.0


def taken(**values):
    """The seconds of a run; `values` in place of its own, which are 1 s of computing, and no others."""
    none = dict.fromkeys(RUN_JSON["seconds"], 0.0)
    found = {**none, "compute": 1.0, "total": 100.0, **values}
    return run_record(seconds=found | {"train": found["copy"] + found["compute"] + found["sync"]}).seconds


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (
            {"feed": 3.0},
            "nodes waited 75% of the time for rows: `sparksplit diagnose --config a.yaml` finds what would",
        ),
        ({"copy": 3.0}, "copying rows to the devices took 75% of the time: `sparksplit diagnose"),
        ({"sync": 3.0, "waiting": 1.5}, "nodes synchronised for 75% of the time, 50% of that for slower ones: `spark"),
        ({"checkpoint": 3.0}, "checkpoints took 75% of the time: a larger `checkpoint.seconds`"),
        ({"validation": 3.0}, "validation took 75% of the time: fewer"),
        ({"feed": 3.0, "validation": 4.0}, "validation took 50%"),
        ({"handoff": 40.0}, "nodes waited 40% of the time for Spark"),
        ({"lost": 40.0}, "40% of the time was lost in failed attempts"),
        ({"start": 160.0, "total": 400.0}, "starting took 40%"),
        ({"start": 120.0, "total": 400.0}, None),
        ({"start": 60.0, "total": 80.0}, None),
        ({"feed": 0.5}, None),
        ({"feed": 0.9, "compute": 0.1}, None),
        ({"compute": 90.0}, None),
    ],
)
def test_there_is_advice_on_what_takes_most_of_the_time_and_need_not(values, says):
    line = advice(taken(**values), True, "a.yaml")
    assert (line is None) == (says is None) and (line is None or line.startswith(says))


def test_a_run_without_a_configuration_file_has_advice_without_a_file():
    line = advice(taken(feed=90.0), True)
    assert line is not None and "--config" not in line
    assert "--config a.yaml" in (advice(taken(feed=90.0), True, "a.yaml") or "")


def test_what_started_on_this_machine_waited_for_no_cluster():
    assert advice(taken(start=160.0, total=400.0), False) is None
