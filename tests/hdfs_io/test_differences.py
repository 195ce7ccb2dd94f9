"""What is said of two configurations that differ."""

from __future__ import annotations

import pytest

from hdfs_io.differences import content, differences, said

THEN = {"epochs": 4, "model": {"build": "mlp", "params": {"units": 8}}, "data": content("a"), "nodes": 1}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, []),
        ({"epochs": 5}, ["epochs was 4, is 5"]),
        ({"model": {"build": "cnn", "params": {"units": 8}}}, ["model.build was mlp, is cnn"]),
        ({"model": {"build": "mlp", "params": {}}}, ["model.params has changed", "model.params.units was 8, is null"]),
        ({"data": content("b")}, ["data has changed"]),
        ({"nodes": {"virtual": 2}}, ["nodes.virtual was null, is 2", "nodes was 1, is null"]),
        ({"seed": 7}, ["seed was null, is 7"]),
        ({"transform": "a" * 50}, ["transform has changed"]),
        ({"splits": ("a", "b")}, ['splits was null, is ["a", "b"]']),
    ],
)
def test_each_key_that_differs_is_named_with_both_values(change: dict, expected: list[str]) -> None:
    assert differences(THEN, {**THEN, **change}) == expected


def test_other_rules_of_reading_rows_are_no_key_of_the_users() -> None:
    told = "made by another version of sparksplit, which read rows differently"
    assert differences({**THEN, "rules": 5}, {**THEN, "rules": 6}) == [told]
    assert differences({"input": {"rules": 5}}, {"input": {"rules": 6}}) == [told]


def test_nothing_is_named_where_nothing_is_known() -> None:
    """The marks of earlier outputs hold no keys."""
    assert differences({}, THEN) == [] and said([]) == ""


def test_a_long_list_is_cut() -> None:
    assert said(["a", "b"]) == " (a; b)"
    assert said([*"abcdefg"]) == " (a; b; c; d; 3 more)"
