"""Who hangs, and who is only slow or waits: by what beats may say, in seconds since some start, without processes."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sparksplit.cluster.deadlines import FINEST, MEASURING, Limits, hanging
from sparksplit.cluster.failures import Failure
from sparksplit.cluster.faults import culprit
from sparksplit.cluster.node_record import NodeRecord

NOW = 100.0
TEN = Limits(stall_timeout=10, start_timeout=20, phase_timeout=30)


def nodes(count: int = 3, **state: Any) -> list[NodeRecord]:
    """Nodes that have been seen to get on at NOW, in this state."""
    records = [NodeRecord(rank, host=f"host{rank}", progressed=NOW - 50) for rank in range(count)]
    for record in records:
        record.observe({"update": 5, **state}, NOW)
    return records


def hangs(records: list[NodeRecord], now: float, limits: Limits = TEN) -> int | None:
    found = hanging(records, now, limits)
    return found and found.node.rank


def test_no_progress_is_a_hang_after_the_limit() -> None:
    records = nodes()
    records[0].observe({"update": 9}, NOW + 5)
    records[2].observe({"update": 9}, NOW + 5)
    assert hangs(records, NOW + 14.9) is None, "it may have waited for them until then"
    assert hangs(records, NOW + 15.1) == 1


def test_the_verdict_names_the_node_and_the_key() -> None:
    fault = culprit(nodes(1), NOW + 12, TEN)
    assert fault is not None and fault.failure is Failure.STALLED
    assert fault.text == "is alive but has made no progress for 12 s, at update 5 (stall_timeout is 10 s)"


def test_the_verdict_on_virtual_nodes_names_the_update_of_one() -> None:
    """Their process reports the sum of their updates."""
    fault = culprit(nodes(1, update=40, reached=5), NOW + 12, TEN)
    assert fault is not None and fault.text.endswith("for 12 s, at update 5 (stall_timeout is 10 s)")


def test_the_one_that_does_not_wait_hangs() -> None:
    records = nodes()
    for record in records:
        record.observe({"update": 6, "waiting": record.rank != 2}, NOW + 0.5 * record.rank)
    # Rank 2 was seen to progress last, since its beat came last.
    assert hangs(records, NOW + 11.2) == 2


def test_the_furthest_behind_hangs_where_none_says_that_it_waits() -> None:
    records = nodes()
    for record in records:
        record.observe({"update": 6 if record.rank == 1 else 7}, NOW)
    assert hangs(records, NOW + 10.2) == 1


def test_who_waits_for_a_straggler_is_left_alone_as_long_as_it_gets_on() -> None:
    """A node 30 s behind makes an update every second; every limit is 5 s."""
    limits = Limits(5, 5, 5)
    records = nodes(2, waiting=True)
    for second in range(1, 31):
        records[1].observe({"update": second % 6}, NOW + second)
        assert hangs(records, NOW + second + 0.9, limits) is None
    assert hangs(records, NOW + 30 + 5.1, limits) == 1


def test_sums_that_cannot_say_that_they_wait_are_excused_by_who_is_behind() -> None:
    records = nodes(2)
    for second in range(30):
        records[1].observe({"update": 4 - second % 2}, NOW + second)
        assert hangs(records, NOW + second) is None
    assert hangs(records, NOW + 40) == 1


def test_who_has_passed_a_hanging_node_does_not_excuse_it() -> None:
    records = nodes(2)
    for second in range(1, 9):
        records[1].observe({"update": 5 + second}, NOW + second)
        assert hangs(records, NOW + second + 0.9) is None
    assert hangs(records, NOW + 11.1) == 0, "and not since it was passed"


def test_whose_straggler_has_come_has_its_own_limit_to_get_on() -> None:
    """A sum of TensorFlow's lasts as long as its slowest node, whose beat may be the first to show that it is over."""
    records = nodes(2, done=0)
    for second in range(2, 100, 2):
        records[1].observe({"update": 5, "done": second}, NOW + second)
        assert hangs(records, NOW + second + 1.9) is None
    records[1].observe({"update": 9, "done": 99}, NOW + 100)
    assert hangs(records, NOW + 100.1) is None
    records[1].observe({"update": 13, "done": 99}, NOW + 102)
    assert hangs(records, NOW + 102.1) is None
    records[1].observe({"update": 17, "done": 99}, NOW + 104)
    assert hangs(records, NOW + 109.9) is None
    assert hangs(records, NOW + 110.1) == 0, "it has not moved since"


def test_another_run_of_a_comparison_is_not_measured_by_the_last_one() -> None:
    records = nodes(1, update=0)
    records[0].observe({"update": 1000}, NOW + 2)
    records[0].observe({"update": 0}, NOW + 4)
    assert hangs(records, NOW + 4 + 600, Limits()) is None


def test_who_waited_for_one_that_has_ended_has_its_own_limit_to_get_on() -> None:
    records = nodes(2, waiting=True, done=0)
    for second in range(2, 50, 2):
        records[1].observe({"update": 5, "done": second}, NOW + second)
        assert hangs(records, NOW + second + 1.9) is None
    records[1].result, records[1].progressed = {}, NOW + 57
    assert hangs(records, NOW + 66.9) is None
    assert hangs(records, NOW + 67.1) == 0


def test_who_no_longer_waits_has_its_whole_limit() -> None:
    """Its wait may have been longer than that, and its update may end with a part that takes a while."""
    records = nodes(2, waiting=True, done=0)
    for second in range(2, 50, 2):
        records[1].observe({"update": 5, "done": second}, NOW + second)
        assert hangs(records, NOW + second + 1) is None
    records[0].observe({"update": 5, "done": 0, "waiting": False}, NOW + 49)
    records[1].observe({"update": 9, "done": 49}, NOW + 50)
    assert hangs(records, NOW + 59.9) is None
    assert hangs(records, NOW + 60.1) == 0


def test_no_end_of_a_wait_excuses_who_is_not_fed() -> None:
    """Nodes whose rows have not arrived tell one another so, again and again, and may wait a moment each time."""
    records = nodes(2, phase="feeding", phases=1)
    for second in range(31):
        for record in records:
            record.observe({"update": 5, "phase": "feeding", "phases": 1, "waiting": bool(second % 2)}, NOW + second)
    assert hangs(records, NOW + 31) is not None


def test_rows_that_are_read_and_tries_to_reach_hdfs_are_progress() -> None:
    """What a node counts beside its updates: hdfs_io.activity."""
    records = nodes(1, done=0)
    for second in range(0, 60, 6):
        records[0].observe({"update": 5, "done": second}, NOW + second)
        assert hangs(records, NOW + second) is None
    assert hangs(records, NOW + 54 + 11) == 0
    assert not records[0].steps


def test_a_phase_has_its_own_limit() -> None:
    for phase, limit, key in (("start", 20, "start_timeout"), ("compiling", 30, "phase_timeout")):
        records = nodes(2, phase=phase, phases=1)
        records[1].observe({"update": 5, "waiting": True}, NOW)
        assert hangs(records, NOW + limit - 1) is None
        found = hanging(records, NOW + limit + 1, TEN)
        assert found is not None and found.node.rank == 0
        assert found.text.endswith(f"in {phase} ({key} is {limit} s)")


def test_nodes_that_measure_for_auto_have_a_shorter_limit() -> None:
    """All nodes train then. Other commands measure too, and end with it."""
    for state, limits, limit in (
        ({"measures": True}, Limits(), MEASURING),
        ({"measures": True}, TEN, 30),
        ({}, Limits(), 1800),
        ({"measures": True, "phase": "compiling"}, Limits(), 1800),
    ):
        records = nodes(2, **{"phase": "measuring", "phases": 1, **state})
        records[1].observe({"update": 5, "waiting": True}, NOW)
        assert hangs(records, NOW + limit - 1, limits) is None and hangs(records, NOW + limit + 1, limits) == 0
    fault = culprit(nodes(1, phase="measuring", phases=1, measures=True), NOW + 201, Limits())
    assert fault is not None and fault.text.endswith("in measuring (the limit of measuring is 200 s)")
    assert fault.error().hangs


def test_a_phase_that_reports_progress_may_last() -> None:
    records = nodes(1, phase="validation", phases=1)
    for second in range(0, 300, 25):
        records[0].observe({"update": 5, "phase": "validation", "phases": 1, "done": second}, NOW + second)
        assert hangs(records, NOW + second) is None


def test_who_is_not_fed_waits_and_nobody_is_excused_by_nobody() -> None:
    records = nodes(2, phase="feeding", phases=1)
    records[0].observe({"update": 5, "phase": "feeding", "phases": 1, "done": 7}, NOW + 20)
    assert hangs(records, NOW + 45) is None
    found = hanging(records, NOW + 51, TEN)
    assert found is not None
    assert "in feeding, where it waits for others (phase_timeout is 30 s)" in found.text


def test_where_all_wait_for_one_another_the_furthest_behind_is_named() -> None:
    records = nodes(3, waiting=True)
    records[1].observe({"update": 4, "waiting": True}, NOW + 3)
    assert hangs(records, NOW + 12) is None
    assert hangs(records, NOW + 14) == 1


def test_the_automatic_limit_is_sixty_seconds_or_twenty_steps() -> None:
    records = nodes(1, update=0)
    records[0].observe({"update": 1000}, NOW + 2)
    assert hangs(records, NOW + 61, Limits()) is None
    assert hangs(records, NOW + 63, Limits()) == 0
    slow = nodes(1, update=0)
    for update in range(5):
        slow[0].observe({"update": update}, NOW + 10 * update)
    assert hangs(slow, NOW + 40 + 199, Limits()) is None
    assert hangs(slow, NOW + 40 + 201, Limits()) == 0


def test_the_automatic_limit_is_that_of_a_phase_while_no_update_has_been_measured() -> None:
    """The first one is part of making its graph; the second may take longer than a minute, and so does each."""
    records = nodes(1, update=0, phase="compiling", phases=1)
    records[0].observe({"update": 1, "phase": None, "phases": 2}, NOW)
    assert hangs(records, NOW + 1799, Limits()) is None
    found = hanging(records, NOW + 1801, Limits())
    assert found is not None and found.text.endswith("at update 1 (phase_timeout is 1800 s)")


def test_who_reports_neither_update_nor_phase_is_not_waited_for_for_ever() -> None:
    silent = [NodeRecord(0, progressed=NOW), NodeRecord(1, progressed=NOW)]
    silent[1].state = {"update": 0, "waiting": True}
    assert hangs(silent, NOW + 1799, Limits()) is None
    found = hanging(silent, NOW + 1801, Limits())
    assert found is not None and found.node.rank == 0
    assert "before its first update (phase_timeout is 1800 s)" in found.text


def test_phases_are_no_part_of_a_step() -> None:
    records = nodes(1, update=1, phases=0)
    records[0].observe({"update": 2, "phases": 0}, NOW + 1)
    records[0].observe({"update": 2, "phases": 1, "phase": "validation"}, NOW + 2)
    records[0].observe({"update": 2, "phases": 2, "phase": None}, NOW + 500)
    records[0].observe({"update": 3, "phases": 2, "phase": None}, NOW + 501)
    assert list(records[0].steps) == [1, 1]


def test_a_limit_shorter_than_beats_can_show_is_taken_for_the_shortest() -> None:
    records = nodes(1)
    assert hangs(records, NOW + FINEST - 0.1, Limits(stall_timeout=0.1)) is None
    assert hangs(records, NOW + FINEST + 0.1, Limits(stall_timeout=0.1)) == 0


def test_nodes_with_a_result_are_asked_no_more() -> None:
    records = nodes(2)
    records[0].result = {}
    assert hangs(records, NOW + 11) == 1
    records[1].result = {}
    assert hangs(records, NOW + 11) is None


states = st.fixed_dictionaries(
    {
        "update": st.integers(0, 9),
        "waiting": st.booleans(),
        "phase": st.sampled_from([None, "start", "feeding", "export"]),
    }
)


@given(st.lists(st.tuples(states, st.floats(0, 100)), min_size=1, max_size=5))
def test_someone_is_named_once_nobody_gets_on_and_nobody_before_a_limit(
    found: list[tuple[dict[str, Any], float]],
) -> None:
    records = nodes(len(found))
    for record, (state, seconds) in zip(records, found, strict=True):
        record.observe({**state, "phases": record.rank}, NOW)
        record.progressed = NOW + seconds
    latest = max(seconds for _, seconds in found)
    earliest = min(seconds for _, seconds in found)
    assert hangs(records, NOW + earliest + 9.9) is None
    assert hangs(records, NOW + latest + 30.1) is not None
