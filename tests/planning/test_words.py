"""A plan in words."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from sparksplit.comparison.costs import ethernet
from sparksplit.planning.measured import Branched
from sparksplit.planning.plan_record import FORMAT, Plan
from sparksplit.planning.useful import useful
from sparksplit.planning.words import mini_batches, table, words
from tests.planning.made_up import measured
from tests.planning.test_decide import made
from tests.planning.test_useful import branched


def plan(gbit: float, source: str = "given") -> Plan:
    rows, worth, answer = made(ethernet(gbit))
    return Plan(
        format=FORMAT, version="0.2.0", made="2026-11-28T00:00:00+00:00", seconds=40.0, config={}, link=f"{gbit:g}Gbit",
        link_source=source, answer=answer, worth=worth, rows=rows, useful=None, measured=measured(),
    )  # fmt: skip


def test_several_nodes_are_recommended_with_the_command():
    lines = words(plan(100))
    choice = plan(100).answer.choice
    assert lines[0].startswith(f"Use {choice.nodes} nodes with `batch`: ") and "saves less than 5 %" in lines[0]
    assert lines[-1].endswith(f"--set strategy=batch --set nodes={choice.nodes}")
    assert len(lines) <= 6


@pytest.mark.parametrize(("devices", "place"), [(["CPU"], "host"), (["GPU:0"], "GPU")])
def test_nodes_that_one_host_cannot_have_are_not_started_there(devices, place):
    """Also where the link is given: the nodes that were measured share a host."""
    for source in ("given", "assumed"):
        found = plan(100, source)
        lines = words(replace(found, measured=measured(hosts=["one", "one"], devices=devices)))
        assert lines[0].startswith(
            f"Use {found.answer.choice.nodes} nodes with `batch`, each on a {place} of its own: "
        )
        assert lines[-1].startswith(f"Next on {found.answer.choice.nodes} {place}s: sparksplit train, ")
    stay = replace(plan(0.01), measured=measured(hosts=["one", "one"]))
    assert words(stay)[-1].startswith("Next: sparksplit train, ") and "own" not in words(stay)[0]


def test_one_node_is_recommended_where_a_second_saves_nothing():
    lines = words(plan(0.01))
    assert lines[0] == "Stay on 1 node: with `batch`, a second node saves less than 5 %."
    assert "epoch-delayed" in " ".join(lines) and len(lines) <= 6


def test_the_command_takes_away_what_does_not_fit():
    made_for = plan(0.01)
    keys = {"sync": {"every": 7}, "min_nodes": 2, "local_batch_size": None, "comparison": "compared"}
    changed = replace(made_for, config=keys)
    told = "--set strategy=single --set nodes=1 --set 'sync={}' --set min_nodes=null --set comparison=null"
    assert words(changed)[-1].endswith(told)


def test_the_most_nodes_are_not_called_enough():
    made_for = plan(100)
    rows = [row for row in made_for.rows if row.nodes <= made_for.answer.choice.nodes]
    assert "More nodes were not planned for." in words(replace(made_for, rows=rows))[0]


@pytest.mark.parametrize(
    ("source", "told"), [("given", "as given"), ("measured", "rate of sums"), ("assumed", "--link 1Gbit")]
)
def test_the_network_is_named_with_its_source(source, told):
    assert told in " ".join(words(plan(1, source)))


def test_the_table_has_a_row_for_each_run_and_marks_what_was_not_measured():
    out = io.StringIO()
    Console(file=out, width=200).print(table(plan(1)))
    lines = out.getvalue().splitlines()
    assert len(lines) == 1 + len(plan(1).rows)
    assert sum("~" in line for line in lines) == sum(row.extrapolated for row in plan(1).rows)


def passes_of(made_for: Plan) -> list[list[str]]:
    """The cells of the column, if there is one."""
    return [list(column.cells) for column in table(made_for).columns if column.header == "passes"]


def test_the_table_shows_passes_where_a_strategy_makes_more():
    """Three nodes share eight epochs in three rounds, which are nine passes."""
    made_for = plan(1)
    (passes,) = passes_of(made_for)
    assert passes == [str(row.passes) for row in made_for.rows] and {"8", "9"} <= {*passes}
    assert passes_of(replace(made_for, rows=[row for row in made_for.rows if row.name in ("single", "batch")])) == []


def with_branches(branches: Branched) -> Plan:
    found = useful(branches) if branches.repeats else None
    return replace(plan(1), measured=measured(branched=branches), useful=found)


@pytest.mark.parametrize(
    ("shares", "told", "each"),
    [
        ((1.0, 1.0), "256 rows, with 4 times the learning rate. Larger ones were not tried.", "128 learn "),
        ((1.0, 0.7), "128 rows, with 2 times the learning rate. 256 rows learn less.", "256 learn "),
        ((0.5, 0.3), "64 rows. 128 rows learn less.", "128 learn "),
        ((0.9, 0.3), "at least 64 rows. It is undecided whether 128 rows learn as much.", "256 learn "),
        ((1.0, -2.0), "128 rows, with 2 times the learning rate. 256 rows learn less.", "256 raise the loss"),
        ((0.5, 1.0), "64 rows. 128 rows learn less.", "256 learn "),
        ((1.0, None), "128 rows, with 2 times the learning rate. 256 rows learn less.", "256 learn less"),
    ],
)
def test_the_useful_mini_batch_is_told_beside_the_noise_scale(shares, told, each):
    first, second, third = mini_batches(with_branches(branched(*shares)))
    assert first == f"Useful mini-batch: {told}"
    assert each in second and "mini-batches of 64:" in second and "after 6,400 rows" in second
    assert third.startswith("Gradient noise scale: ") and "stronger assumptions" in third


def test_a_loss_that_does_not_fall_recommends_nothing():
    first, second, _ = mini_batches(with_branches(branched(1.0, 1.0, progress=-1.0)))
    assert first == "Useful mini-batch: not known. The loss does not surely fall with 64 rows."
    assert "128 learn less, 256 learn less" in second


@pytest.mark.parametrize(
    ("problem", "told"),
    [
        ("seconds", "--set branch_seconds=48"),
        ("rows", "sample of 9,600 rows"),
        ("loss", "not finite"),
        ("memory", "too little memory for 256 rows"),
        ("order", "has `order: given`"),
        ("node", "A node ended meanwhile: node 0 was killed"),
    ],
)
def test_without_branches_the_reason_is_told(problem, told):
    nothing = replace(branched(1.0, 1.0), repeats=[], problem=problem, needed=40.0, why="node 0 was killed\nhost one")
    (line,) = mini_batches(with_branches(nothing))
    assert line.startswith("Useful mini-batch: not known. ") and told in line
    assert mini_batches(plan(1)) == []


def test_the_record_can_be_read_again():
    for made_for in (plan(1), with_branches(branched(1.0, None))):
        assert Plan.from_json(made_for.to_json(), "plan.json") == made_for
