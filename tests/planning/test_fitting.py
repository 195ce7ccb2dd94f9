"""The numbers of nodes that a strategy fits, before anything is measured."""

from __future__ import annotations

import numpy as np
import pytest

from sparksplit.base.config import parse
from sparksplit.base.errors import ConfigError
from sparksplit.dataset.arrays import from_arrays
from sparksplit.planning import plan as planning
from sparksplit.planning.fitting import works
from sparksplit.planning.plan_config import PlanConfig, candidates
from tests.planning.made_up import measured

MINE = """
from sparksplit import BatchSplit, StepSync, Strategy


class Mine(BatchSplit):
    def lanes(self, lanes, rank, nodes):
        own = super().lanes(lanes, rank, nodes)
        return own[:-1] if nodes in {left_out} else own

    def batch_size(self, batch_size, nodes):
        if nodes == 6:
            raise KeyError("six")
        return batch_size


def mine():
    return Strategy(Mine(), StepSync)
"""


@pytest.fixture
def file(tmp_path):
    x = np.arange(90).reshape(-1, 1)
    for lanes in (1, 8):
        from_arrays(str(tmp_path / f"data{lanes}"), {"train": (x, x[:, 0] % 3)}, lanes=lanes)

    def make(lanes=8, left_out=(), **keys):
        (tmp_path / "mine.py").write_text(MINE.replace("{left_out}", repr(set(left_out))))
        named = {"data": str(tmp_path / f"data{lanes}"), "output": "o", "strategies": [f"{tmp_path}/mine.py:mine"]}
        return parse(PlanConfig, {**named, **keys})

    return make


def test_numbers_of_nodes_that_an_own_split_does_not_fit_are_left_out(file, capsys):
    batch, mine = candidates(file(left_out=[3, 5]))
    assert [*works(mine, [10] * 8, 8)] == [2, 4, 7, 8]
    line = "mine is not planned for 3, 5, 6 nodes: its split does not fit: ValueError: not every_row, so 1 of 3 nodes"
    assert line in capsys.readouterr().err
    assert [*works(batch, [10] * 8, 8)] == [2, 3, 4, 5, 6, 7, 8] and not capsys.readouterr().err


def test_what_fits_no_number_of_nodes_is_left_out_before_the_measurement(file, capsys, monkeypatch):
    said = []

    def measure(*_):
        said.append(capsys.readouterr().err)
        return measured()

    monkeypatch.setattr(planning, "measure", measure)
    for left_out, names in ((range(9), {"single", "batch"}), ([3], {"single", "batch", "mine"})):
        made = planning.plan(file(left_out=left_out))
        assert {row.name for row in made.rows} == names and "mine is not planned for " in said[-1]
    assert {row.nodes for row in made.rows if row.name == "mine"} == {2, 4, 8}


def test_data_with_one_lane_are_refused_by_their_own_line(file, monkeypatch):
    """Nobody has set `nodes`."""
    monkeypatch.setattr(planning, "measure", lambda *_: pytest.fail("measured"))
    with pytest.raises(ConfigError, match=r"data: .*data1: has one lane"):
        planning.plan(file(lanes=1))
