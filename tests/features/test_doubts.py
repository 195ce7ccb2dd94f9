"""What a column of a sample looks like."""

import pyarrow as pa
import pytest
import yaml

from sparksplit.base.yaml_edits import as_yaml
from sparksplit.dataset.feature_spec import Category, Text
from sparksplit.features import times
from sparksplit.features.doubts import _DAYS, _TIMES, doubt, shown, unknown_texts

DAYS = [f"{day % 12 + 1:02}/{day % 28 + 1:02}/2024" for day in range(60)]
IDS = [f"client-{number}" for number in range(60)]
NOTES = [f"paid {number} by card and never late" for number in range(60)]


def test_values_are_counted():
    assert shown(pa.array(["a", None, "b", "a"])) == "2 different in 4 rows, 25.0% missing: a, b"
    assert shown(pa.array([1.5, 2.0, 3.0, 4.0])) == "4 different in 4 rows, none missing: 1.5, 2, 3"
    assert shown(pa.array([None, None], pa.string())) == "0 different in 2 rows, 100.0% missing"
    assert shown(pa.array(["x" * 50])).endswith(": " + "x" * 37 + "...")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        (DAYS, "looks like dates: --set 'features.c={format: M/d/yyyy}' reads them"),
        ([f"{day % 9 + 1}.{day % 9 + 1}.1999 7:05" for day in range(60)],
         "looks like dates: --set 'features.c={format: d.M.yyyy H:mm}' reads them, or M.d.yyyy H:mm if day and month "
         "are swapped"),
        ([*DAYS, None, "?"], "looks like dates: --set 'features.c={format: M/d/yyyy}' reads them"),
        ([20240101 + day % 28 for day in range(60)],
         "looks like dates: --set 'features.c={format: yyyyMMdd}' reads them"),
        ([f"2024-05-{day % 28 + 1:02}" for day in range(60)], "looks like dates: --set features.c=date reads them"),
        (IDS, "looks like an id, from which a model learns nothing: --set 'input.keep=[c]' copies it to the output, "
         "--set features.c=ignore leaves it out"),
        ([float(number) for number in range(1000, 1060)], "looks like an id, "),
        (NOTES, "looks like free text: --set features.c=text reads its words"),
    ],
)  # fmt: skip
def test_what_is_doubted(values, said):
    assert doubt("c", pa.array(values)).startswith(said)


@pytest.mark.parametrize(
    "values",
    [
        IDS[:19],
        ["red", "green"] * 20,
        [0.5 + number for number in range(60)],
        [(7 * number) % 60 for number in range(60)],
        [20241300 + number % 50 for number in range(60)],
        [None] * 60,
    ],
)
def test_what_is_as_it_should_be(values):
    assert doubt("c", pa.array(values)) is None


@pytest.mark.parametrize("format", [day + time for day in _DAYS for time in _TIMES])
def test_a_format_that_is_recommended_can_be_written_in_yaml(format):
    assert yaml.safe_load(f"{{format: {format}}}") == {"format": times.check_format(format)}


@pytest.mark.parametrize("name", ["opened.at", "a=b"])
def test_a_name_that_set_would_split_is_for_the_file(name: str) -> None:
    said = doubt(name, pa.array(DAYS))
    assert (
        said is not None and f"`features: {{{as_yaml(name)}: {{format: M/d/yyyy}}}}` in the configuration file" in said
    )


def test_a_name_of_two_words_is_one_kept_column() -> None:
    said = doubt("Customer, ID", pa.array(IDS))
    assert said is not None and """--set 'input.keep=["Customer, ID"]'""" in said


@pytest.mark.parametrize(
    ("feature", "rows", "said"),
    [
        (Category(column="c", type="string", tensor="t", place=0), 20, True),
        (Category(column="c", type="string", tensor="t", place=0), 19, False),
        (Category(column="c", type="string", tensor="t", place=0, vocabulary=["paid"]), 20, False),
        (Category(column="c", type="string", tensor="t", place=0, hash=8), 20, False),
        (Text(column="c", type="string", tensor="t", place=0), 20, False),
    ],
)
def test_texts_that_are_all_unknown_are_told(feature, rows, said):
    start = "c: each text is in fewer training rows than `min_count`"
    assert [line.startswith(start) for line in unknown_texts([feature], rows)] == [True] * said
