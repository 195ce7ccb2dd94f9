"""Records: written and read back by one pair of functions."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.base.errors import InputError
from sparksplit.base.records import Record


@dataclass(frozen=True)
class Inner:
    number: float
    pair: tuple[int, str]


@dataclass(frozen=True, kw_only=True)
class Outer(Record):
    name: str
    null: int | None
    absent: int | None = None
    inner: list[Inner]
    by_number: dict[int, bool]


number = st.floats(allow_nan=False, allow_infinity=False)
large = st.integers(-(2**64), 2**64)
outers = st.builds(
    Outer,
    name=st.text(),
    null=st.none() | large,
    absent=st.none() | large,
    inner=st.lists(st.builds(Inner, number, st.tuples(large, st.text())), max_size=3),
    by_number=st.dictionaries(st.integers(), st.booleans(), max_size=3),
)


@given(outers)
def test_every_record_is_read_back_as_it_was(record):
    assert Outer.from_json(record.to_json(), "here") == record


def test_keys_follow_the_fields_and_only_a_default_of_none_is_left_out():
    record = Outer(name="a", null=None, inner=[Inner(1.5, (2, "b"))], by_number={3: True})
    assert list(record.to_json().items()) == [
        ("name", "a"), ("null", None), ("inner", [{"number": 1.5, "pair": [2, "b"]}]), ("by_number", {"3": True}),
    ]  # fmt: skip


def test_an_error_names_the_place_and_the_key():
    good = Outer(name="a", null=None, inner=[], by_number={}).to_json()
    with pytest.raises(InputError, match=r"^there: is not a record of sparksplit: inner\.0\.pair is missing$"):
        Outer.from_json({**good, "inner": [{"number": 1}]}, "there")
    with pytest.raises(InputError, match=r"^there: is not a record of sparksplit: null: input should be"):
        Outer.from_json({**good, "null": "1"}, "there")
