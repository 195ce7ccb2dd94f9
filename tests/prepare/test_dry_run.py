"""What a dry run tells, from facts that were made up; tests/commands/test_preprocess_dry_run.py has real ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

from sparksplit.dataset.description import UNKNOWN, Description, FittedPreprocessing, LabelSpec, TensorSpec
from sparksplit.features import doubts
from sparksplit.features.feature_config import FeatureConfig
from sparksplit.features.table import table_of
from sparksplit.prepare import dry_run, sample
from sparksplit.prepare.passes.parse import LABEL, PART, parsed_schema, to_batch
from sparksplit.prepare.preprocess_config import InputConfig, PreprocessConfig
from sparksplit.prepare.sample import Facts, Sample
from sparksplit.prepare.source import BadRow, ParsedRows
from sparksplit.prepare.sources import Source


class Rows(Source):
    """Three numbers a row, and a label."""

    tensors = (TensorSpec(name="x", dtype="float32", shape=[3]),)
    label_kind = "integer"
    has_test = False
    files = ()
    place = "there"

    def parts(self) -> list[str]:
        return ["train"]

    def raw(self, spark: Any) -> Any:
        raise NotImplementedError


def read(rows: list[int], bad: int = 0) -> Iterator[tuple[str, ParsedRows | BadRow]]:
    """Items of so many rows, and bad rows after them."""
    for count in rows:
        yield "train", ParsedRows([np.ones((count, 3), np.float32)], np.arange(count))
    for row in range(bad):
        yield "train", BadRow("f", row + 1, f"column 'x': {row} is wrong", kind="column 'x': is wrong")


def taken(*rows: int, bad: int = 0) -> tuple[pa.Table, bool] | None:
    """(the rows that a task takes of these, whether they are all); None where it takes none."""
    take = sample._Take(lambda _: read(list(rows), bad), parsed_schema(Rows()), 20)
    found = [batch.to_pylist()[0] for batch in take([])]
    if not found:
        return None
    assert found[0]["rate"] >= 0
    return pa.ipc.open_stream(found[0]["rows"]).read_all(), found[0]["ended"]


def test_a_task_takes_its_first_rows_and_tensors_of_few() -> None:
    for rows, count, ended in (((3, 4, 5), 12, True), ((15, 5), 20, True), ((15, 6), 20, False), ((90, 90), 20, False)):
        table, whole = taken(*rows) or pytest.fail()
        assert (table.num_rows, whole) == (count, ended)
        assert table.column("tensor_0").null_count == count - sample.SHOWN_ROWS
        assert table.column(PART).to_pylist() == [0] * count
    for valued, bad in ((6, 0), (6, 3), (20, 3)):
        take = sample._Take(lambda _, bad=bad: read([4, 5], bad), parsed_schema(Rows()), 20, valued)
        (batch,) = take([])
        (row,) = batch.to_pylist()
        head = pa.ipc.open_stream(row["rows"]).read_all().slice(0, row["valued"])
        assert head.column("label").to_pylist() == [*range(4), *range(5)][:valued]
        assert head.column("tensor_0").null_count == 0
    table, whole = taken(4, bad=2) or pytest.fail()
    assert (table.num_rows, whole, Sample(table, 1.0, True).good.num_rows) == (6, True, 4)
    assert [row.row for row in Sample(table, 1.0, True).bad] == [1, 2]
    assert taken() is None


def test_rows_that_a_part_brings_stay_in_its_split() -> None:
    dealt = {"train": 0.75, "validation": 0.25, "test": 0.0}
    found = sample.expected_splits(dealt, {"train": 800, "test": 50})
    assert found == {"train": 600, "validation": 200, "test": 50}
    assert sample.expected_splits(dealt, None) == dealt
    assert sample.expected_splits({}, {"train": 800}) == {}


@pytest.mark.parametrize(
    ("told", "line"),
    [
        (Facts(10, seconds=0.2, cores=1), "about 1 s on 1 core, plus Spark's start (estimated from the sample)"),
        (Facts(10, seconds=89, cores=8), "about 89 s on 8 cores"),
        (Facts(10, seconds=600, cores=8), "about 10 min on 8 cores"),
        (Facts(10, seconds=4.6 * 3600, cores=8), "about 4.6 h on 8 cores"),
        (Facts(None), "unknown"),
    ],
)
def test_a_time_is_told_as_an_estimate(told: Facts, line: str) -> None:
    assert dry_run.taking(told).startswith(line)


def test_splits_are_told_as_exactly_as_they_are_known() -> None:
    schema = parsed_schema(Rows())
    some, every = (Sample(schema.empty_table(), 1.0, whole) for whole in (False, True))
    rows = {"train": 1199.7, "validation": 300.3}
    assert dry_run.splits(Facts(1500, rows), every) == "train 1,200, validation 300 rows"
    assert dry_run.splits(Facts(1500, rows), some) == "train about 1,200, validation about 300 rows"
    assert dry_run.splits(Facts(None, {"train": 0.8, "test": 0.2}), some) == "train 80.0%, test 20.0%"
    assert dry_run.splits(Facts(None, note="unknown from the sample alone: why"), some).endswith("why")


def test_rejected_rows_are_counted_by_reason_and_the_consequence_is_told() -> None:
    bad = [BadRow("f", row, f"column 'x': {row} is wrong", "a,b", kind="column 'x': is wrong") for row in (3, 9)]
    config = InputConfig(format="csv", path="f")
    lines = [text for _, text in dry_run.rejected(config, bad, 8)]
    assert lines == [
        "2 of 10: 2 column 'x': is wrong",
        "f: row 3: column 'x': 3 is wrong (a,b)",
        "f: row 9: column 'x': 9 is wrong (a,b)",
        "preprocess will refuse this input: see input.max_bad_rows and input.max_bad_fraction",
    ]
    allowed = InputConfig(format="csv", path="f", max_bad_rows=2)
    assert [text for _, text in dry_run.rejected(allowed, bad, 8)] == lines[:-1]
    assert dry_run.rejected(config, [], 8) == [("rejected", "none")]
    none_left = [text for _, text in dry_run.rejected(allowed, bad, 8, none_left=True)]
    assert none_left == [
        *lines[:-1],
        "preprocess will refuse this input if all its rows are like these: none is left to train on",
    ]


def test_rejected_rows_are_told_as_a_part_of_all_rows_and_not_of_windows() -> None:
    table, _ = taken(1, bad=2) or pytest.fail()
    config = PreprocessConfig(input=InputConfig(format="csv", path="there", max_bad_fraction=0.05), output="out")
    windows = Sample(table, 1.0, True, good_rows=98)
    lines = dry_run.report(config, Rows(), windows, windows.bad, Facts(3))
    assert "rejected   2 of 100: 2 column 'x': is wrong" in lines
    assert "input.max_bad_fraction" not in "".join(lines)


def test_all_rows_may_be_rejected() -> None:
    table, _ = taken(bad=2) or pytest.fail()
    config = PreprocessConfig(input=InputConfig(format="csv", path="there", max_bad_rows=9), output="out")
    whole = Sample(table, 1.0, True)
    split, note = sample._dealt(None, config, Rows(), whole.good)  # type: ignore[arg-type]
    assert split is None
    lines = dry_run.report(config, Rows(), whole, whole.bad, Facts(2, note=note))
    assert "rejected   2 of 2: 2 column 'x': is wrong" in lines
    assert (
        "           preprocess will refuse this input if all its rows are like these: none is left to train on" in lines
    )
    assert "splits     unknown: all rows of the sample are rejected" in lines


@pytest.mark.parametrize("own_test", [False, True])
def test_a_whole_sample_leaves_out_the_rows_that_preprocess_leaves_out_for_their_label(own_test: bool) -> None:
    labels = [*(row % 4 for row in range(360)), *range(100, 140)]
    random = np.random.default_rng(3)
    rows = ParsedRows([random.normal(size=(400, 3)).astype(np.float32)], np.array(labels))
    parts = ["train", "test"][: 1 + own_test]
    batches = [
        to_batch(_rows_of(rows, place, len(parts)), name, parsed_schema(Rows())) for place, name in enumerate(parts)
    ]
    whole = Sample(pa.Table.from_batches(batches), 1.0, True)
    counts = {name: 400 // len(parts) for name in parts}
    given = {"input": {"format": "csv", "path": "there"}, "output": "out", "validation": 0.2, "unseen_labels": "drop"}
    config = PreprocessConfig.model_validate(given)
    split, note = sample._dealt(None, config, Rows(), whole.good)  # type: ignore[arg-type]
    assert split is not None and not note
    label = np.array(whole.good.column(LABEL).to_pylist())
    by_split = {name: label[split == place].tolist() for place, name in enumerate(("train", "validation", "test"))}
    left = {name: sum(each not in by_split["train"] for each in of) for name, of in by_split.items()}
    left = {name: rows for name, rows in left.items() if rows}
    assert list(left) == ["validation", "test"][: 1 + own_test]

    splits, unseen = sample.expected(config, Rows(), whole, split, counts)
    assert splits == {name: len(of) - left.get(name, 0) for name, of in by_split.items()} and unseen == left
    told = " and ".join(f"{rows} {name} rows" for name, rows in left.items())
    [(_, line)] = dry_run.unseen(config, unseen)
    assert line == f"left out, because no training row has their label (unseen_labels: drop): {told}"

    refused = config.model_copy(update={"unseen_labels": "error"})
    splits, unseen = sample.expected(refused, Rows(), whole, split, counts)
    assert sum(splits.values()) == 400 and unseen == left
    [(_, line)] = dry_run.unseen(refused, unseen)
    assert line == f"preprocess will refuse this input: no training row has the label of {told}; see unseen_labels"

    # A sample of a part says nothing about the labels of all training rows.
    assert sample.expected(config, Rows(), replace(whole, whole=False), split, counts)[1] == {}
    taken_in = config.model_copy(update={"unseen_labels": "unknown"})
    assert dry_run.unseen(taken_in, unseen) == []
    [(_, line)] = dry_run.unseen(taken_in.model_copy(update={"fitted": "day1"}), unseen)
    assert line.startswith("preprocess will refuse this input: day1 (fitted) does not have the label of ")


def test_a_whole_sample_is_compared_with_the_classes_that_are_fitted() -> None:
    whole = Sample(of_labels(1, 1, 2, 3), 1.0, True)
    config = PreprocessConfig.model_validate(
        {"input": {"format": "csv", "path": "there"}, "output": "out", "unseen_labels": "drop"}
    )
    for classes, unknown, wanted in ((["1", "3"], False, 1), (["1", UNKNOWN], True, 2)):
        label = LabelSpec(dtype="int64", kind="integer", classes=classes, unknown=unknown)
        earlier = Description(tensors=list(Rows.tensors), label=label, preprocessing=FittedPreprocessing())
        split = np.zeros(4, np.int32)
        splits, unseen = sample.expected(config, Rows(), whole, split, {"train": 4}, earlier)
        assert (splits["train"], unseen) == (4 - wanted, {"train": wanted})
        refused = config.model_copy(update={"unseen_labels": "error"})
        taken_in = sample.expected(refused, Rows(), whole, split, {"train": 4}, earlier)
        assert taken_in == ({"train": 4, "validation": 0, "test": 0}, {} if unknown else {"train": wanted})


def _rows_of(rows: ParsedRows, first: int, step: int) -> ParsedRows:
    """Every `step`th row."""
    assert isinstance(rows.label, np.ndarray)
    return ParsedRows([tensor[first::step] for tensor in rows.tensors], rows.label[first::step])


def test_long_lists_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dry_run, "SHOWN_CLASSES", 2)
    monkeypatch.setattr(dry_run, "SHOWN_COLUMNS", 1)
    assert dry_run.classes({"b": 2, "a": 1}) == "2 in the sample: a: 1, b: 2"
    assert dry_run.classes({3: 1, 1: 1, 2: 2}) == "3 in the sample: 1: 1, 2: 2, and 1 more"
    assert dry_run.columns({"a": "int"}) == "a int"
    assert dry_run.columns({"a": "int", "b": "string"}) == "a int, and 1 more"


def test_each_column_of_a_table_is_told_with_its_values() -> None:
    types = {"id": "string", "day": "string", "age": "int", "since": "date", "pair": "array<float>"}
    source = Rows()
    source.table = table_of(types, {}, "there", lambda _: 2)
    source.tensors = source.table.tensors
    rows = 40
    numbers = {"float32": np.ones((rows, 2)), "int32": np.stack([np.arange(rows) % 7, np.arange(rows)], axis=1)}
    numbers["int32"][0] = np.iinfo(np.int32).min
    made = ParsedRows(
        [numbers[spec.dtype].astype(spec.dtype) for spec in source.tensors],
        np.arange(rows) % 2,
        texts=[pa.array([f"c{row}" for row in range(rows)]), pa.array(["", *["9/18/2024"] * (rows - 1)])],
    )
    valued = pa.Table.from_batches([to_batch(made, "train", parsed_schema(source))])
    config = PreprocessConfig(input=InputConfig(format="csv", path="there"), output="out")
    lines = [text for _, text in dry_run.features(config, source, valued)]
    vocabulary = "category, embedding: the 20,000 most frequent in at least 2 rows"
    assert lines == [
        f"id (string): {vocabulary}", "40 different in 40 rows, none missing: c0, c1, c2",
        doubts._id("id"),
        f"day (string): {vocabulary}", "1 different in 40 rows, 2.5% missing: 9/18/2024",
        "looks like dates: --set 'features.day={format: M/d/yyyy}' reads them",
        "age (int): number, missing: mean", "7 different in 40 rows, 2.5% missing: 1, 2, 3",
        "since (date): date: month, weekday",
        "39 different in 40 rows, 2.5% missing: 1970-01-02, 1970-01-03, 1970-01-04",
        "pair (array<float>): 2 numbers, missing: mean",
    ]  # fmt: skip
    asked = config.model_copy(update={"features": {"id": FeatureConfig(kind="category"), "day": FeatureConfig(hash=9)}})
    assert not [text for _, text in dry_run.features(asked, source, valued) if "looks like" in text]
    assert len(dry_run.features(config, source, valued.slice(0, 0))) == len(types)


def test_numbers_of_one_tensor_are_told_where_they_have_names_and_are_few() -> None:
    config = PreprocessConfig(input=InputConfig(format="csv", path="there"), output="out")
    table, _ = taken(5) or pytest.fail()
    source = Rows()
    assert dry_run.features(config, source, table) == []
    source.tensors = [TensorSpec(name="x", dtype="float32", shape=[3], columns=["a", "b", "c"])]
    found = dry_run.features(config, source, table)
    assert found[:2] == [("feature", "a: number"), ("", "1 different in 5 rows, none missing: 1")]
    assert len(found) == 6


def of_labels(*labels: int) -> pa.Table:
    """Rows with these labels."""
    rows = ParsedRows([np.ones((len(labels), 3), np.float32)], np.array(labels))
    return pa.Table.from_batches([to_batch(rows, "train", parsed_schema(Rows()))])


@pytest.mark.parametrize(
    ("labels", "refused"),
    [
        (
            range(400),
            "400 different labels in 400 rows. If the labels are numbers to predict, set input.label_type: number",
        ),
        ([7, 7, 7], "all 3 training rows have the label 7: a classifier needs two classes or more."),
        ([7, 8, 8], None),
        ([*range(400)] * 2, None),
    ],
)
def test_labels_that_preprocess_refuses_are_refused(labels: list[int], refused: str | None) -> None:
    config = PreprocessConfig(input=InputConfig(format="csv", path="there"), output="out")
    for whole, words in ((True, "this input: "), (False, "this input if its other rows are like these: ")):
        lines = dry_run.found_classes(config, Rows(), Sample(of_labels(*labels), 1.0, whole))
        assert lines[0][1].startswith(f"{len(set(labels))} in the sample: ")
        assert [text.startswith(f"preprocess will refuse {words}{refused}") for _, text in lines[1:]] == [True] * bool(
            refused
        )
    fitted = config.model_copy(update={"fitted": "earlier"})
    assert len(dry_run.found_classes(fitted, Rows(), Sample(of_labels(*labels), 1.0, True))) == 1


def test_what_becomes_of_the_label_is_told() -> None:
    source = Rows()
    assert source.label_said(False) == "class (integer)"
    source.label_name, source.label_kind = "price", "number"
    assert source.label_said(False) == "price: number"
    assert source.label_said(True) == "price: number, scaled to mean 0 and standard deviation 1"
    source.label_kind = None
    assert source.label_said(False) == "none"


def test_the_first_rows_show_what_becomes_of_them() -> None:
    table, _ = taken(9) or pytest.fail()
    shown = dry_run.first_rows(Rows(), table)
    assert shown == [f"x = [1.0 1.0 1.0], label = {row}" for row in range(sample.SHOWN_ROWS)]
    assert LABEL in table.column_names


def test_notes_are_told_and_a_vocabulary_is_counted_without_the_unknown() -> None:
    class Text(Rows):
        label_kind = "characters"
        notes = ("the index is no feature",)
        vocabulary: ClassVar = ["<unknown>", "a", "b"]

    table, _ = taken(9) or pytest.fail()
    config = PreprocessConfig(input=InputConfig(format="text", path="there"), output="out")
    lines = dry_run.report(config, Text(), Sample(table, 1.0, True), [], Facts(9))
    assert [line.split() for line in lines if line.startswith("vocabulary")] == [["vocabulary", "2", "characters"]]
    assert "note       the index is no feature" in lines
