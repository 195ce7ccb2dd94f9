"""Texts as tokens and their indices."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.dataset.feature_spec import Text
from sparksplit.features.tokens import token_indices, tokens


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Don't stop", ["don", "'", "t", "stop"]),
        (" a\tb\n\x0bc  ", ["a", "b", "c"]),
        ("snake_case, x2: ÄRGER!", ["snake_case", ",", "x2", ":", "Ärger", "!"]),
        ("no\u00a0break 😀日本", ["no", "\u00a0", "break", "😀", "日本"]),
        ("", []),
        (None, []),
    ],
)
def test_words(text, words):
    assert tokens(pa.array([text], pa.string()), "words", lowercase=True).to_pylist() == [words]


def test_case_is_kept_on_request():
    assert tokens(pa.array(["A b"]), "words", lowercase=False).to_pylist() == [["A", "b"]]


@given(st.lists(st.none() | st.text(max_size=12)))
def test_characters_are_code_points(texts):
    found = tokens(pa.array(texts, pa.string()), "characters", lowercase=False)
    assert found.to_pylist() == [list(text or "") for text in texts]


@given(st.lists(st.none() | st.text(max_size=12)), st.sampled_from(["words", "characters"]))
def test_indices_are_those_of_the_first_tokens(texts, unit):
    feature = Text(column="t", type="string", tensor="t", place=0, values=4, unit=unit, vocabulary=["a", "0", "é"])
    column = pa.array(texts, pa.string())
    known = {token: index for index, token in enumerate(feature.vocabulary, 2)}
    expected = [
        ([known.get(token, 1) for token in found] + [0] * 4)[:4] for found in tokens(column, unit, True).to_pylist()
    ]
    np.testing.assert_array_equal(token_indices(feature, column), np.array(expected, np.int32).reshape(-1, 4))
