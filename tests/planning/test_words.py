"""A plan in words."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from sparksplit.comparison.costs import ethernet
from sparksplit.planning.plan_record import FORMAT, Plan
from sparksplit.planning.words import table, words
from tests.planning.made_up import measured
from tests.planning.test_decide import made


def plan(gbit: float, source: str = "given") -> Plan:
    rows, worth, answer = made(ethernet(gbit))
    return Plan(
        format=FORMAT, version="0.2.0", made="2026-11-28T00:00:00+00:00", seconds=40.0, config={}, link=f"{gbit:g}Gbit",
        link_source=source, answer=answer, worth=worth, rows=rows, measured=measured(),
    )  # fmt: skip


def test_several_nodes_are_recommended_with_the_command():
    lines = words(plan(100))
    choice = plan(100).answer.choice
    assert lines[0].startswith(f"Use {choice.nodes} nodes with `batch`: ") and "saves less than 5 %" in lines[0]
    assert lines[-1].endswith(f"--set strategy=batch --set nodes={choice.nodes}")
    assert len(lines) <= 6


def test_one_node_is_recommended_where_a_second_saves_nothing():
    lines = words(plan(0.01))
    assert lines[0] == "Stay on 1 node: with `batch`, a second node saves less than 5 %."
    assert "epoch-delayed" in " ".join(lines) and len(lines) <= 6


def test_the_command_takes_away_what_does_not_fit():
    made_for = plan(0.01)
    changed = replace(made_for, config={"sync": {"every": 7}, "min_nodes": 2, "local_batch_size": None})
    assert words(changed)[-1].endswith("--set strategy=single --set nodes=1 --set 'sync={}' --set min_nodes=null")


def test_the_most_nodes_are_not_called_enough():
    made_for = plan(100)
    rows = [row for row in made_for.rows if row.nodes <= made_for.answer.choice.nodes]
    assert "More nodes were not planned for." in words(replace(made_for, rows=rows))[0]


@pytest.mark.parametrize(
    ("source", "told"), [("given", "as given"), ("measured", "measured between two hosts"), ("assumed", "--link 1Gbit")]
)
def test_the_network_is_named_with_its_source(source, told):
    assert told in " ".join(words(plan(1, source)))


def test_the_table_has_a_row_for_each_run_and_marks_what_was_not_measured():
    out = io.StringIO()
    Console(file=out, width=200).print(table(plan(1)))
    lines = out.getvalue().splitlines()
    assert len(lines) == 1 + len(plan(1).rows)
    assert sum("~" in line for line in lines) == sum(row.extrapolated for row in plan(1).rows)


def test_the_record_can_be_read_again():
    assert Plan.from_json(plan(1).to_json(), "plan.json") == plan(1)
