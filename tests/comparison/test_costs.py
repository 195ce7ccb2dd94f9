"""The cost model: on made-up clusters, of which the truth is known, its terms are found again."""

from __future__ import annotations

import heapq
import random
from collections import deque
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparksplit.comparison.calibration import (
    checks,
    computing,
    cost_model,
    fit_handoff,
    fit_network,
    fitted,
    handoff_checks,
    total,
)
from sparksplit.comparison.comparison_record import HandOff, Place, SweepPoint
from sparksplit.comparison.content_table import ToTarget
from sparksplit.comparison.costs import (
    ALONE,
    TIME_SLICE,
    Compute,
    Costs,
    Crowd,
    HandingOver,
    Meeting,
    Network,
    Reading,
    ethernet,
    work_of,
)
from sparksplit.comparison.machine import cores_of, kind_of_host
from sparksplit.training.run_record import RunSync
from tests.comparison.records import compared_run, run_seconds, table_row

ROWS, PASSES, BYTES = 6_400, 12, 400_000
SIZES = tuple(1 << power for power in range(10, 27))
EVERY_STEP, ROUNDS = RunSync("step", None, 0), RunSync(32, "nesterov", 0)


def run(strategy, nodes=1, batch_size=64, hosts=None, cores=None, **more):
    """A run on `hosts` hosts of so many cores, one for each node if not said, with one thread a node."""
    epochs = PASSES // nodes if strategy == "epoch" else PASSES
    steps = epochs * (ROWS // batch_size)
    syncs = 0 if nodes == 1 else steps if strategy != "local" else -(-steps // 32)
    place = None if cores is None else Place("yarn", (f"a processor, {cores} cores",), 1)
    return compared_run(**{
        "name": f"{strategy} {batch_size}", "strategy": strategy, "nodes": nodes, "rows": ROWS, "passes": PASSES,
        "batch_size": batch_size, "steps": steps, "syncs": syncs, "place": place,
        "sync": ROUNDS if strategy == "local" else EVERY_STEP,
        "sync_bytes_per_node": round(syncs * 2 * (nodes - 1) / nodes * BYTES),
        "hosts": [f"host{rank % (hosts or nodes)}" for rank in range(nodes)], **more,
    })  # fmt: skip


def runs(numbers, hosts=None, cores=None):
    """What a comparison on these numbers of nodes has run."""
    found = [run("single", batch_size=size, hosts=hosts, cores=cores) for size in (16, 64, 256) if 1 in numbers]
    found += [
        run(strategy, nodes, hosts=None if hosts is None else min(hosts, nodes), cores=cores)
        for nodes in numbers
        for strategy in ("batch", "epoch", "local")
        if nodes > 1 or strategy == "local"
    ]
    return found


def timed(record, truth):
    """The record of a run that took what `truth` says."""
    work = work_of(record)
    compute, feed = truth.compute.seconds(work), truth.reading.seconds(work)
    sync = truth.network.seconds(work.nodes, work.syncs, work.sent, work.crowd) + truth.meeting.seconds(work, compute)
    return replace(record, seconds=replace(run_seconds(compute + sync, sync), feed=feed))


def sums(truth, numbers, crowds=None):
    """The sweep of sums on these numbers of nodes."""
    return [
        SweepPoint(
            nodes, size, truth.seconds(nodes, 1, 2 * (nodes - 1) / nodes * size, (crowds or {}).get(nodes, ALONE))
        )
        for nodes in numbers
        if nodes > 1
        for size in SIZES
    ]


between = st.floats


@st.composite
def truths(draw):
    """What a cluster and a model may cost: rows of a microsecond to a tenth of a millisecond, and so on."""
    return Costs(
        Reading(draw(between(0, 0.1)), draw(between(0, 1e-6))),
        Compute(
            draw(between(1e-6, 1e-4)),
            draw(between(1e-5, 5e-3)),
            draw(between(0, 1e-3)),
            draw(between(0, 1e-2)),
        ),
        Network(draw(between(1e-5, 2e-4)), draw(between(1e-10, 1e-8))),
        Meeting(draw(between(0, 1e-3)), draw(between(0, 0.2))),
    )


@settings(max_examples=50)
@given(truths())
def test_times_on_more_nodes_are_foretold_from_fewer(truth):
    """Each node has a host of its own."""
    known = [timed(record, truth) for record in runs((1, 2, 4))]
    costs = fitted(known, sums(truth.network, (2, 4)))
    for record in runs((8,)):
        work = work_of(record)
        assert costs.seconds(work) == pytest.approx(truth.seconds(work), rel=0.02)
        assert costs.seconds(work, ethernet(1)) == pytest.approx(truth.seconds(work, ethernet(1)), rel=0.02)


@settings(max_examples=25)
@given(truths(), st.floats(0, 1))
def test_contention_for_a_hosts_cores_is_no_cost_of_an_exchange(truth, contention):
    """All nodes are on one host of many cores; elsewhere each has its own."""
    truth = replace(truth, compute=replace(truth.compute, contention=contention))
    known = [timed(record, truth) for record in runs((1, 2, 4), hosts=1, cores=64)]
    crowds = {nodes: Crowd(nodes, nodes) for nodes in (2, 4)}
    costs = fitted(known, sums(truth.network, (2, 4), crowds))
    assert costs.compute.contention == pytest.approx(contention, abs=0.02)
    for record in known:
        work = work_of(record, apart=True)
        assert work.crowd == ALONE
        assert costs.compute.seconds(work) == pytest.approx(truth.compute.seconds(work), rel=0.03)
        assert costs.seconds(work) == pytest.approx(truth.seconds(work), rel=0.03)


def test_nodes_that_have_more_threads_than_there_are_cores_take_turns():
    compute = Compute(1e-6, 1e-4, contention=0.5)
    crowds = [work_of(run("epoch", nodes, hosts=1, cores=2)).crowd for nodes in (1, 2, 3, 4)]
    assert crowds == [Crowd(1, 1), Crowd(2, 2), Crowd(3, 2), Crowd(4, 2)]
    assert [(crowd.rounds, compute.slower(crowd)) for crowd in crowds] == [(1, 1), (1, 1.5), (2, 1.5), (2, 1.5)]
    assert [crowd.turns(1e-3) for crowd in crowds] == [1, 1, 2, 2]
    assert [crowd.turns(1.0) for crowd in crowds] == pytest.approx([1, 1, 1.5, 2], abs=0.01)
    odd = work_of(run("epoch", 2, hosts=1, place=Place("yarn", ("a processor, 3 cores",), 2))).crowd
    assert (odd, odd.rounds, odd.turns(0.0)) == (Crowd(2, 1.5), 2, 2)
    # More threads than the host has cores keep no more of them busy, with one node either.
    many = Place("yarn", ("a processor, 2 cores",), 8)
    assert [work_of(run("epoch", nodes, hosts=1, place=many)).crowd for nodes in (1, 2, 4)] == [
        Crowd(1, 1), Crowd(2, 1), Crowd(4, 1)
    ]  # fmt: skip
    # Of a host whose cores nobody has told, and of GPUs, it is not known.
    assert work_of(run("epoch", 4, hosts=1)).crowd == Crowd(4, 4)
    gpus = Place("yarn", ("a processor, 2 cores, 1 x NVIDIA L4",), 1)
    assert work_of(run("epoch", 4, hosts=1, place=gpus)).crowd == Crowd(4, 4)


def played(nodes, cores, meetings, seconds, jitter):
    """(seconds of computing, seconds of waiting) of a node in the mean, where `nodes` nodes of one thread compute for
    so many seconds before each meeting. A core takes whoever has waited longest, for a time slice at most."""
    draw, waiting, computing = random.Random(nodes), 0.0, 0.0
    for _ in range(meetings):
        own = [seconds * draw.uniform(1 - jitter, 1 + jitter) for _ in range(nodes)]
        queue, free, last = deque((0.0, each) for each in own), [0.0] * cores, 0.0
        while queue:
            since, left = queue.popleft()
            part = min(left, TIME_SLICE)
            last = max(since, heapq.heappop(free)) + part
            heapq.heappush(free, last)
            if left > part:
                queue.append((last, left - part))
        computing += sum(own) / nodes
        waiting += max(free) - sum(own) / nodes
    return computing, waiting


@pytest.mark.parametrize("left_out", [2, 3, 4])
@pytest.mark.parametrize("jitter", [0.0, 0.1])
def test_taking_turns_is_foretold_by_numbers_of_nodes_that_do_not(left_out, jitter):
    """What a scheduler makes of it is played: nothing of the model is in these seconds."""
    known = []
    for record in runs((1, 2, 3, 4), hosts=1, cores=2):
        work = work_of(record)
        alone, meetings = work.steps * 1e-4 + work.rows * 5e-6, max(1, work.syncs)
        computed, waited = played(record.nodes, 2, meetings, alone / meetings, jitter if record.nodes > 1 else 0.0)
        known.append(replace(record, seconds=run_seconds(computed + waited, waited)))
    found = [check for check in checks(lines(known), known, []) if check.nodes == left_out]
    assert len(found) == 3 and all(check.left_out for check in found)
    for check in found:
        assert check.error == pytest.approx(0, abs=0.15)


def test_the_cores_of_a_host_are_read_from_what_it_is_called():
    assert cores_of("AMD EPYC, 2 cores") == 2 and cores_of(kind_of_host([])) > 0
    assert cores_of(kind_of_host(["NVIDIA L4"])) is None and cores_of("a machine") is None


positive = st.floats(1e-9, 1e-3)


@given(positive, positive)
def test_the_network_is_found_again_from_its_sums(latency, per_byte):
    truth = Network(latency, per_byte)
    found = fit_network(sums(truth, (2, 4)))
    for nodes, size in ((2, 1 << 20), (8, 1 << 26)):
        sent = 2 * (nodes - 1) / nodes * size
        assert found.seconds(nodes, 3, sent) == pytest.approx(truth.seconds(nodes, 3, sent), rel=1e-3)


def test_the_work_of_a_node():
    def counted(*args, **more):
        work = work_of(run(*args, **more))
        return work.rows, work.steps, work.inside, work.between

    assert counted("single") == (76_800, 1_200, 0, 0)
    assert counted("batch", 2) == (38_400, 1_200, 1_200, 0)  # a part of every mini-batch
    assert counted("epoch", 2) == (38_400, 600, 600, 0)
    assert counted("local", 2) == (38_400, 1_200, 0, 38)
    # One node with an outer optimiser leaves its graph as often: 4 times in each pass of 100 steps.
    assert counted("local") == (76_800, 1_200, 0, 48) and work_of(run("local")).syncs == 0
    # Steps are the nodes' own count: what a strategy is called, and how often it agrees, says nothing.
    assert counted("vote.py:vote", 4, steps=48, updates=9)[:2] == (19_200, 48)


def test_a_slower_network_costs_what_sends_more():
    costs = Costs(Reading(), Compute(1e-6, 1e-4), Network(0.0, 0.0), Meeting())
    batch, local = work_of(run("batch", 2)), work_of(run("local", 2))
    assert costs.seconds(batch, ethernet(0.1)) - costs.seconds(batch, ethernet(100)) > 30
    assert costs.seconds(local, ethernet(0.1)) - costs.seconds(local, ethernet(100)) < 2


TRUTH = Costs(
    Reading(0.02, 3e-7),
    Compute(5e-6, 1e-4, 2e-4, 4e-3),
    Network(2e-5, 1e-9),
    Meeting(1e-4, 0.05),
)


def lines(records, **more):
    return [table_row(name=record.name, nodes=record.nodes, **more) for record in records]


def test_errors_are_those_of_a_model_that_has_not_seen_so_many_nodes():
    """On 4 nodes all computing took twice what the others foretell."""
    known = [timed(record, TRUTH) for record in runs((1, 2, 4))]
    known = [
        replace(one, seconds=replace(one.seconds, train=2 * computing(one) + one.seconds.sync)) if one.nodes == 4
        else one
        for one in known
    ]  # fmt: skip
    sweep = sums(TRUTH.network, (2, 4))
    found = checks(lines(known), known, sweep)
    assert [(check.name, check.nodes, check.measured) for check in found] == [
        (one.name, one.nodes, pytest.approx(total(one))) for one in known
    ]
    assert [check.left_out for check in found] == [one.nodes > 1 for one in known]
    for check, one in zip(found, known, strict=True):
        assert check.error == pytest.approx(check.predicted / check.measured - 1)
        if one.nodes == 4:
            assert check.predicted == pytest.approx(TRUTH.seconds(work_of(one)), rel=0.01)
    text = cost_model(lines(known), known, [], sweep).text
    assert "Fitted without the number of nodes that it is asked about, it is off by" in text
    within = sum(abs(check.error) <= 0.15 for check in found if check.left_out)
    out = sum(check.left_out for check in found)
    assert f"at most, where 15 % are aimed at: {within} of {out} are within; in waiting" in text


def test_too_few_numbers_of_nodes_are_said():
    known = [timed(record, TRUTH) for record in runs((1, 2))]
    model = cost_model(lines(known), known, [], sums(TRUTH.network, (2,)))
    assert not any(check.left_out for check in model.checks)
    assert "cannot be told: that takes three numbers of nodes" in model.text
    for check in model.checks:
        assert check.error == pytest.approx(0, abs=0.01)


def test_waiting_for_rows_is_a_part_of_the_seconds():
    slow = replace(TRUTH, reading=Reading(0.5, 2e-5))
    known = [timed(record, slow) for record in runs((1, 2))]
    model = cost_model(lines(known), known, [], sums(slow.network, (2,)))
    assert (model.seconds_to_begin, model.seconds_per_row_read) == pytest.approx((0.5, 2e-5))
    for check, one in zip(model.checks, known, strict=True):
        assert one.seconds.feed > 0.3 * check.measured
        assert check.measured == one.seconds.feed + one.seconds.train
        assert check.reading == one.seconds.feed and check.reading_predicted == pytest.approx(check.reading)


def handed(numbers, truth, every_row=True, first=None):
    """Runs of clusters to which Spark has handed rows: by lanes, or all of them to each node. first: the number of
    nodes of its first hand-off."""
    found = []
    for nodes in numbers:
        rows = tuple([ROWS] * nodes if every_row else [ROWS // nodes] * nodes)
        handoff = HandOff(0.0, rows, 2, nodes == first)
        handoff = replace(handoff, seconds=truth.seconds(handoff))
        found += [run(strategy, nodes, handoff=handoff) for strategy in ("batch", "local")]
    return found


def test_a_hand_off_costs_what_is_sent_to_all_nodes():
    truth = HandingOver(1.5, 2e-6)
    known = handed((1, 2, 4), truth)
    found = fit_handoff(known)
    assert (found.begin, found.per_row) == pytest.approx((1.5, 2e-6))
    assert [(one.nodes, one.rows, one.left_out) for one in handoff_checks(known)] == [
        (nodes, nodes * ROWS, True) for nodes in (1, 2, 4)
    ]  # one for each cluster, whatever it runs
    assert all(one.error == pytest.approx(0) for one in handoff_checks(known))
    late = [replace(one, handoff=replace(one.handoff, seconds=3.0)) if one.nodes == 4 else one for one in known]
    assert handoff_checks(late)[-1].predicted == pytest.approx(truth.seconds(known[-1].handoff))
    assert not any(one.left_out for one in handoff_checks(handed((1, 2), truth)))
    assert fit_handoff([run("batch", 2)]) is None and handoff_checks([run("batch", 2)]) == []


def test_hand_offs_of_one_number_of_rows_tell_no_beginning_from_rows():
    """Was: all of it per row, "29.3 min for each million rows"."""
    alike = handed((1, 2, 4), HandingOver(1.7, 1e-6), every_row=False)
    again = replace(alike[-1].handoff, rows=(ROWS + 64,))  # a task's rows that were sent twice
    known = [*alike, replace(alike[-1], handoff=again)]
    assert fit_handoff(known) == HandingOver(None, None)
    assert {(one.predicted, one.error, one.left_out) for one in handoff_checks(known)} == {(None, None, False)}
    model = cost_model(lines(alike), alike, [], [])
    assert model.seconds_to_begin_handoff is model.seconds_per_row_handed is None
    assert "One after the first of an application took 1.71 s for 6,400 rows. How much of that is for" in model.text
    assert "million" not in model.text


@given(st.floats(0.1, 5), st.floats(1e-7, 1e-4), st.floats(0.1, 30))
def test_an_applications_first_hand_off_and_later_ones_tell_only_of_themselves(begin, per_row, begin_first):
    truth = HandingOver(begin, per_row, begin_first)
    later = handed((2, 3), truth)
    first = handed((1,), truth, first=1)
    assert fit_handoff([*first, *later]).seconds(first[0].handoff) == pytest.approx(first[0].handoff.seconds)
    assert fit_handoff(later).seconds(first[0].handoff) is None
    # Of one each, of different numbers of rows, nothing is known of what a row takes.
    assert fit_handoff(handed((1, 2), truth, first=1)) == HandingOver(None, None)
    again = [*first, *handed((4,), truth, first=4)]  # of a second application, which went on
    assert fit_handoff(again).seconds(again[-1].handoff) == pytest.approx(again[-1].handoff.seconds)
    assert fit_handoff(again).seconds(later[0].handoff) is None


def test_the_hand_off_is_told_where_there_was_one():
    known = [timed(record, TRUTH) for record in handed((1, 2, 4), HandingOver(1.5, 2e-6))]
    model = cost_model(lines(known), known, [], sums(TRUTH.network, (2, 4)))
    assert "To begin it takes 1.50 s after the first of an application; and 2.00 s for each million rows" in model.text
    assert "`train` is an application of its own, and pays what a first one takes, which was not measured" in model.text
    assert "Fitted without that number of nodes, it is off by 0 % in the median." in model.text
    assert (model.seconds_to_begin_handoff, len(model.handoffs)) == (pytest.approx(1.5), 3)
    begun = [timed(record, TRUTH) for record in handed((1, 2, 3, 4), HandingOver(1.5, 2e-6, 6.5), first=1)]
    model = cost_model(lines(begun), begun, [], [])
    assert "takes 6.50 s as the first of an application and 1.50 s after that; and 2.00 s for each" in model.text
    assert "and pays what a first one takes." in model.text
    assert model.seconds_to_begin_first_handoff == pytest.approx(6.5)
    assert [(one.first, one.left_out) for one in model.handoffs] == [(True, False), *[(False, True)] * 3]
    assert all(one.error == pytest.approx(0) for one in model.handoffs)
    same = [replace(one, handoff=replace(one.handoff, seconds=2.0)) for one in known]
    assert "takes 2.00 s after the first of an application; and no time for" in cost_model(
        lines(same), same, [], []
    ).text  # fmt: skip
    two = [timed(record, TRUTH) for record in handed((1, 2), HandingOver(1.5, 1e-4, 6.5), first=1)]
    text = cost_model(lines(two), two, [], []).text
    assert "The first of an application took 7.14 s for 6,400 rows and one after the first of an" in text
    read = cost_model(lines([run("single")]), [run("single")], [], [])
    assert read.seconds_to_begin_handoff is None and "hand-off" not in read.text and read.handoffs == []


def test_the_model_predicts_beyond_the_nodes_at_hand_for_what_always_reached_the_target():
    known = [timed(record, TRUTH) for record in (run("single"), run("batch", 2))]
    far = run("epoch", 8, virtual=True)
    table = lines(known, to_target=ToTarget(0.5, 2.0, 1, 1))
    table += lines([far], virtual=True, timed=0, to_target=ToTarget(None, 3.0, 1, 1))
    model = cost_model(table, known, [far], sums(TRUTH.network, (2,)))
    strategies = [(record.name, record.nodes) for record in (*known, far)]
    assert [(check.name, check.nodes) for check in model.checks] == strategies[:2]
    found = [(item.name, item.nodes, item.gbit_per_s) for item in model.predictions if not item.measured]
    assert found == [(*strategy, gbit) for strategy in strategies for gbit in (1, 10, 100)]
    for to in (ToTarget(None, None, 0, 3), ToTarget(1.0, 2.0, 1, 3)):
        found = cost_model(lines(known[1:], to_target=to), known, [far], []).predictions
        assert len(found) == 3 and all((item.seconds, item.passes) == (None, None) for item in found)
        assert {(item.reached, item.of) for item in found} == {(to.reached, 3)}
    gone = table_row(name="batch", nodes=2, runs=0, timed=0, diverged=3)
    model = cost_model([table[0], gone], known[:1], [], [])
    assert {item.name for item in (*model.checks, *model.predictions)} == {"single 64"}
