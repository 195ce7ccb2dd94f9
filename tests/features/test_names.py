"""Names of raw columns in the exported model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.dataset.feature_spec import Category, Number
from sparksplit.features.names import serving_name, serving_names


def numbers(*columns):
    return [Number(column=column, type="double", tensor="n", place=0) for column in columns]


@pytest.mark.parametrize(
    ("column", "name"),
    [
        *(("age", "age"), ("Capital.Gain", "Capital_Gain"), ("hours-per-week", "hours_per_week"), ("größe", "gr__e")),
        *(("1st", "arg_1st"), ("_x", "arg__x"), ("", "arg_"), ("class", "arg_class"), ("self", "arg_self")),
    ],
)
def test_what_a_column_is_called(column, name):
    assert serving_name(column) == name


@given(st.text())
def test_a_name_is_one_that_python_takes_and_its_own(column):
    name = serving_name(column)
    assert name.isidentifier() and name.isascii() and name[0].isalpha()
    assert serving_name(name) == name


@pytest.mark.parametrize(("one", "other"), [("a b", "a-b"), ("Age", "age"), ("1", "arg_1"), ("a", "a")])
def test_two_columns_of_one_name_are_refused(one, other):
    with pytest.raises(ValueError, match=f"columns '{one}' and '{other}' would both be '.*' in the exported model"):
        serving_names(numbers("x", one, other))


def test_the_models_own_name_is_refused_for_an_input():
    numbers_of_indices = Category(column="numbers", type="string", tensor="i", place=0)
    with pytest.raises(ValueError, match="column 'numbers': the model uses this name"):
        serving_names([numbers_of_indices])
    assert serving_names(numbers("numbers", "x")) == {"numbers": "numbers", "x": "x"}


def test_a_name_that_keras_does_not_take_is_refused_for_an_input():
    with pytest.raises(ValueError, match="column 'km/h': Keras does not allow / in the name of an input"):
        serving_names([Category(column="km/h", type="string", tensor="i", place=0)])
    assert serving_names(numbers("km/h")) == {"km/h": "km_h"}
