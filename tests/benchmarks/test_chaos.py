"""benchmarks/chaos.py: what befalls which run, what it has cost, and the summary; nothing is run."""

from __future__ import annotations

import pytest

from benchmarks.chaos_plan import DRIVERS, SHARES, Fault, Outcome, Plan, Timeline, event, plan, summary

KILL = Fault("node", "kill", 0, "update", 0.5)
STOP = Fault("node", "stop", 1, "update", 0.7)


def test_a_seed_decides_every_run() -> None:
    assert plan(1, 7) == plan(1, 7)
    assert [plan(1, number) for number in range(20)] != [plan(2, number) for number in range(20)]


def test_faults_hit_what_is_there_at_moments_that_come() -> None:
    plans = [plan(seed, number) for seed in range(20) for number in range(20)]
    faults = [(each, fault) for each in plans for fault in each.faults]
    assert {fault.target for _, fault in faults} == {"node", "worker", "executor", "feeder", "driver", "jvm"}
    assert {fault.at for _, fault in faults} == {"start", "feeding", *SHARES, "export", "end", "restart"}
    assert all(fault.rank < each.nodes for each, fault in faults)
    assert all(each.mode == "spark" for each, fault in faults if fault.target == "feeder" or fault.at == "feeding")
    assert all(fault.action == "kill" for _, fault in faults if fault.target in DRIVERS)
    assert any(len(each.faults) == 2 for each in plans)
    assert all(each.faults[0].at != "restart" for each in plans)


def test_datanodes_are_hit_where_there_are_some() -> None:
    faults = [fault for number in range(40) for fault in plan(1, number, datanodes=3).faults]
    assert {fault.rank for fault in faults if fault.target == "datanode"} == {0, 1, 2}
    targets = [[fault.target for fault in plan(seed, number, 3).faults] for seed in range(20) for number in range(20)]
    assert ["datanode", "datanode"] not in targets


def timeline(*lines: str, ended: float = 100.0, faults: tuple[tuple[float, Fault], ...] = ()) -> Timeline:
    """Two nodes; a line is a process and what it has noted."""
    events = [event(line.partition(" ")[2], int(line.partition(" ")[0])) for line in lines]
    return Timeline(0.0, ended, events, 2, faults)


QUIET = timeline("1 5 0 phase build", "2 6 1 phase build", "1 90 0 phase export", "1 92 0 phase -", ended=95.0)


def test_lost_until_every_node_is_as_far_as_before() -> None:
    found = timeline(
        *("1 5 0 phase build", "2 6 1 phase build", "1 20 0 update 40", "2 20 1 update 38"),
        "2 20.3 1 update 40",  # a moment longer than the one that was killed at 20.2
        *("3 24 0 phase build", "4 24 1 phase build", "3 25 0 update 20", "4 25 1 update 20"),
        *("3 27 0 update 40", "4 27.2 1 update 42"),
        faults=((20.2, KILL),),
    )
    assert found.costs(QUIET) == [("kill", pytest.approx(7.0))]


def test_lost_before_the_beginning_is_what_the_beginning_was_late() -> None:
    found = timeline("3 14 0 phase build", "4 15 1 phase build", faults=((2.0, KILL),))
    assert found.costs(QUIET) == [("kill", pytest.approx(9.0))]


def test_a_fault_that_nobody_minds_costs_nothing() -> None:
    found = timeline(
        "1 5 0 phase build", "2 6 1 phase build", "1 20 0 phase export", ended=22.0, faults=((20.5, KILL),)
    )
    assert found.costs(QUIET) == [("kill", 0.0)]


def test_nodes_that_go_on_while_the_run_has_to_wait_at_its_end() -> None:
    quiet = timeline("1 5 0 update 0", "2 5 1 update 0", "1 20 0 update 40", "2 21 1 update 40", ended=30.0)
    found = timeline(
        *("1 5 0 update 0", "2 5 1 update 0", "1 25 0 update 40", "2 25 1 update 40", "1 25.1 0 update 41"),
        *("2 25.1 1 update 41", "1 27 0 phase export"),
        ended=49.0,
        faults=((25.05, STOP),),
    )
    assert found.costs(quiet) == [("stop", pytest.approx(49.0 - 25.05 - (30.0 - 21.0)))]


def test_two_faults_are_one_until_the_run_is_back() -> None:
    lines = ("1 5 0 update 0", "2 5 1 update 0", "1 10 0 update 9", "2 10 1 update 9")
    back = ("3 20 0 update 9", "4 21 1 update 9", "3 30 0 update 20", "4 30 1 update 20")
    again = ("5 45 0 update 20", "6 45 1 update 20")
    early = timeline(*lines, *back, faults=((10.0, KILL), (15.0, STOP)))
    assert early.costs(QUIET) == [("together", pytest.approx(11.0))]
    late = timeline(*lines, *back, *again, faults=((10.0, KILL), (31.0, STOP)))
    assert late.costs(QUIET) == [("kill", pytest.approx(11.0)), ("stop", pytest.approx(14.0))]


def test_the_summary() -> None:
    fine = Outcome(Plan(0, "batch", "spark", (KILL,)), None, True, 0.0, [("kill", 5.0), ("stop", 12.0)])
    other = Outcome(Plan(1, "epoch", "spark", (KILL,)), None, True, 1e-7, [("kill", 7.0)], ["port of java"])
    lost = Outcome(Plan(2, "local", "spark", (KILL,)), "exit status 1", costs=[("driver", 20.04)])
    assert summary([fine, other, lost]) == {
        "runs": 3,
        "finished": 2,
        "exact_ledgers": 2,
        "largest_weight_difference": 1e-7,
        "faults": {"driver": 1, "kill": 2, "stop": 1},
        "median_seconds_lost": {"driver": 20.0, "kill": 6.0, "stop": 12.0},
        "largest_seconds_lost": {"driver": 20.0, "kill": 7.0, "stop": 12.0},
        "left_behind": ["port of java"],
    }
