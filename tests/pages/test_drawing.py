"""Marks of lines, their names, and where labels go, in pictures; columns of tables."""

from __future__ import annotations

import pytest
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from sparksplit.comparison.numbers import compact
from sparksplit.pages.drawing import (
    Picture,
    canvas,
    coinciding,
    label_points,
    log_axis,
    marks,
    named,
    shortened,
)
from sparksplit.pages.tables import Table, number, text


def test_marks_differ_in_each_of_colour_marker_and_dashes():
    found = list(marks(f"line {index}" for index in range(5)).values())
    for part in ("colour", "marker", "dash"):
        assert len({getattr(mark, part) for mark in found}) == 5
    many = list(marks(f"line {index}" for index in range(40)).values())
    assert len(set(many)) == 40


def test_a_long_name_is_shortened_in_its_middle():
    assert shortened("abcdefghijkl", 7) == "abcd…kl"


def test_lines_that_lie_on_each_other_are_found():
    lines = {
        "single": [(1, 5.0), (2, 7.0)],
        "batch": [(1, 5.001), (2, 7.0)],
        "epoch": [(2, 7.0)],
        "local": [(1, 5.1), (2, 7)],
    }
    assert coinciding(lines, 2, 2) == [["single", "batch"], ["epoch"], ["local"]]
    assert coinciding(lines, 2, 0.1) == [["single"], ["batch"], ["epoch"], ["local"]]
    assert named(["single", "batch"]) == "single and batch"
    assert named(["a" * 30, "b" * 30]) == "a" * 30 + "\nand " + "b" * 30


def test_labels_beside_points_cover_neither_points_nor_each_other():
    points = [(1.0, 1.0), (1.02, 1.0), (1.0, 1.03), (3.0, 1.0), (5.0, 5.0)]
    with canvas() as (_, axes):
        axes.plot(*zip(*points, strict=True), linestyle="none", marker="o")
        label_points(axes, points, [f"N = {index}" for index in range(len(points))])
        boxes = [Text.get_window_extent(text) for text in axes.texts]
        places = axes.transData.transform(points)
        lines = [((3.0, 2.0), (3.0, 4.0)), ((2.0, 3.0), (4.0, 3.0))]
        label_points(axes, [(3.0, 3.0)], ["beside"], lines)
        beside = axes.texts[-1].get_window_extent()
        label_points(axes, [(2.0, 2.0)] * 60, ["crowded"] * 60)
        crossed = [Bbox(axes.transData.transform(line)) for line in lines]
    found = [text.get_text() for text in axes.texts]
    assert found == [f"N = {index}" for index in range(len(points))] + ["beside"] + ["crowded"] * 60
    for place, box in enumerate(boxes):
        assert box.count_overlaps(boxes[:place]) == 0
        assert not any(box.contains(*point) for point in places)
    assert beside.count_overlaps(crossed) == 0


@pytest.mark.parametrize("high", [90.0, 3e3, 28e3, 1e5])
def test_ticks_of_a_logarithmic_axis_have_room(high):
    with canvas(2.0) as (figure, axes):
        axes.set_xscale("log")
        axes.set_xlim(0.9 * high / 60, 1.5 * high)
        log_axis(axes.xaxis, compact)
        figure.draw_without_rendering()
        ticks = [label.get_window_extent() for label in axes.get_xticklabels()]
        inside = [box for box in ticks if axes.bbox.x0 <= (box.x0 + box.x1) / 2 <= axes.bbox.x1]
    assert len(inside) > 1
    assert not any(box.count_overlaps(inside[:place]) for place, box in enumerate(inside))


@pytest.mark.parametrize("factor", [1.2, 1.5, 2.0, 2.25, 3.0, 8.0, 40.0, 3000.0])
@pytest.mark.parametrize("low", [0.0117, 1.02, 11.9, 260.0])
def test_every_logarithmic_axis_has_two_ticks(low, factor):
    with canvas(2.0) as (_, axes):
        for axis, scale, limits in (
            (axes.xaxis, axes.set_xscale, axes.set_xlim),
            (axes.yaxis, axes.set_yscale, axes.set_ylim),
        ):
            scale("log")
            limits(low, low * factor)
            log_axis(axis, compact)
            assert sum(low <= tick <= low * factor for tick in axis.get_majorticklocs()) >= 2


def test_columns_without_anything_are_left_out_of_tables():
    table = Table(
        "k",
        "c",
        [("strategy", ""), ("seconds", "x"), ("N", "")],
        [[text("a"), number(None, "–"), number(0, "0")]],
        filled_only=True,
    )
    assert [name for name, _ in table.columns] == ["strategy", "N"] and [cell.text for cell in table.rows[0]] == [
        "a",
        "0",
    ]
    assert Picture("k", "t", columns=("a", "b"), rows=[["1", "–"], ["2", ""]]).columns == ["a"]
