"""What is told of the columns that are there, where one is missing."""

from __future__ import annotations

from sparksplit.features.missing_columns import delimiter_hint, there_are


def test_the_columns_that_are_there_and_the_nearest_are_named() -> None:
    assert there_are("Age", ["age", "job"]) == "; it has age, job; did you mean 'age'?"
    assert there_are("plan", ["age", "job"]) == "; it has age, job"
    many = [f"x{number}" for number in range(40)]
    assert there_are("plan", many) == f"; it has {', '.join(many[:30])} and 10 more"


def test_a_line_that_is_one_column_has_another_delimiter() -> None:
    for mark, name in ((";", "semicolon"), ("\t", "tab"), ("|", "pipe"), (",", "comma"), ("\x01", "^A")):
        line = mark.join(["age", "job, or none", "city"]) if mark != "," else "age,job,city"
        assert delimiter_hint([line]) == f"; if its columns are separated by {mark!r}, set input.delimiter: {name}"
    assert delimiter_hint(["age"]) == delimiter_hint(["a;b", "c"]) == ""
    assert there_are("age", ["age;job"]).endswith(
        "it has age;job; if its columns are separated by ';', set input.delimiter: semicolon"
    )
