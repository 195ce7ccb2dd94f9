"""Marks of ways, and their names, in pictures."""

from __future__ import annotations

from sparksplit.pages.drawing import marks, shortened


def test_marks_differ_in_each_of_colour_marker_and_dashes():
    found = list(marks(f"way {index}" for index in range(5)).values())
    for part in ("colour", "marker", "dash"):
        assert len({getattr(mark, part) for mark in found}) == 5
    many = list(marks(f"way {index}" for index in range(40)).values())
    assert len(set(many)) == 40


def test_a_long_name_is_shortened_in_its_middle():
    assert shortened("abcdefghijkl", 7) == "abcd…kl"
