"""What a pass over the training rows fits: the same for any tasks, and without a look at other rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from sparksplit.dataset.description import TensorSpec
from sparksplit.dataset.lane_files import binary_column
from sparksplit.dataset.manifest import SPLITS
from sparksplit.prepare.passes.cut import Cut
from sparksplit.prepare.passes.identify import Identify
from sparksplit.prepare.passes.kept import Kept, Pack, codec_of
from sparksplit.prepare.passes.parse import CONTENT, NUMBER, PART, spark_schema
from sparksplit.prepare.passes.training_passes import (
    Merge,
    NumberColumn,
    NumberCounts,
    TextCounts,
    Want,
    fitted_quantiles,
    fitted_texts,
)

SPEC = TensorSpec(name="numbers_float64", dtype="float64", shape=[2])
WHOLE = TensorSpec(name="numbers_int32", dtype="int32", shape=[1])
SCHEMA = pa.schema(
    [
        (PART, pa.int32()),
        *((name, pa.int64()) for name in (*CONTENT, NUMBER)),
        *((name, pa.binary()) for name in ("tensor_0", "tensor_1")),
        *((name, pa.string()) for name in ("text_0", "text_1")),
    ]
)
TRAIN, TEST = SPLITS.index("train"), SPLITS.index("test")
IDENTIFY = Identify(None)
LEAST = -(2**31)

Row = tuple[int, float, float, int, str | None, str | None]
"""(part, both numbers, a whole number, both texts)"""


def batch_of(rows: list[Row], first: int = 0) -> pa.RecordBatch:
    part, one, two, whole, text, other = zip(*rows, strict=True)
    content = np.random.default_rng(first).integers(-(2**63), 2**63, (len(rows), 2))
    columns = [pa.array(part, pa.int32()), pa.array(content[:, 0]), pa.array(content[:, 1])]
    columns += [pa.array(np.zeros(len(rows), np.int64)), binary_column(np.array([one, two]).T, SPEC)]
    columns += [binary_column(np.array(whole, np.int32)[:, None], WHOLE)]
    return pa.RecordBatch.from_arrays(
        [*columns, pa.array(text, pa.string()), pa.array(other, pa.string())], schema=SCHEMA
    )


texts = st.none() | st.sampled_from(["", "a", "b c", "c  b b", "é", "\U0001f600"])
number = st.sampled_from([math.nan, 0.0, 1.5, -3.0]) | st.floats(-1e6, 1e6)
row = st.tuples(st.sampled_from([TRAIN, TEST]), number, number, st.integers(-3, 3) | st.just(LEAST), texts, texts)
tasks = st.lists(st.lists(st.lists(row, min_size=1, max_size=8), max_size=3), max_size=3)


@settings(max_examples=40)
@given(tasks, st.sampled_from([1, 200, 2**26]))
def test_the_counts_of_all_tasks_are_those_of_the_training_rows(given: list[list[list[Row]]], held: int) -> None:
    stage = TextCounts(IDENTIFY, Cut(), [Want("text_0"), Want("text_1", tokens=pc.utf8_split_whitespace)], held)
    found: Counter[tuple[int, str]] = Counter()
    for task in given:
        for batch in stage([batch_of(rows) for rows in task]):
            assert batch.schema == stage.schema
            for each in batch.to_pylist():
                found[each["column"], each["text"]] += each["rows"]
    train = [row for task in given for rows in task for row in rows if row[0] == TRAIN]
    wanted = Counter((0, row[4]) for row in train if row[4])
    wanted += Counter((1, word) for row in train for word in (row[5] or "").split())
    assert found == wanted


def test_a_task_holds_no_more_texts_than_it_has_room_for() -> None:
    batches = [
        batch_of([(TRAIN, 0.0, 0.0, 0, f"{start}-{place}", "same") for place in range(50)]) for start in range(9)
    ]

    def read() -> Iterator[pa.RecordBatch]:
        for batch in batches:
            seen.append(len(handed))
            yield batch

    seen: list[int] = []
    handed: list[pa.RecordBatch] = []
    for batch in TextCounts(IDENTIFY, Cut(), [Want("text_0"), Want("text_1")], 4000)(read()):
        handed.append(batch)
    assert seen[0] == 0 and seen[-1] > 1  # texts that are new each time were handed on
    assert [row for batch in handed for row in batch.to_pylist() if row["text"] == "same"] == [
        {"column": 1, "text": "same", "rows": 450}
    ]


COLUMNS = [
    NumberColumn("tensor_0", SPEC, 0, buckets=3),
    NumberColumn("tensor_1", WHOLE, 0),
    NumberColumn("tensor_0", SPEC, 1, buckets=2),
]


def exact(values: list[float], buckets: int | None) -> list[float]:
    known = np.array(sorted(value for value in values if not math.isnan(value) and value != LEAST))
    if buckets is None:
        return [float(known[math.ceil(len(known) / 2) - 1])] if len(known) else []
    found = set()
    for place in range(1, buckets):
        if len(known):
            at = known[math.ceil(Fraction(place, buckets) * len(known)) - 1]
            below, upto = int((known < at).sum()), int((known <= at).sum())
            first = below if place * len(known) - below * buckets <= upto * buckets - place * len(known) else upto
            found |= {float(known[first])} if 0 < first < len(known) else set()
    return sorted(found)


@settings(max_examples=40)
@given(tasks, st.integers(0, 3))
def test_merged_bins_have_the_buckets_and_the_median_of_the_training_rows(
    given: list[list[list[Row]]], turn: int
) -> None:
    counts = NumberCounts(IDENTIFY, Cut(), COLUMNS, 1 << 16)
    sent = [batch for task in given for batch in counts([batch_of(rows) for rows in task])]
    assert all(batch.schema == counts.schema for batch in sent)
    merge = Merge(COLUMNS, 1 << 16)
    found: dict[int, list[float]] = {}
    for batch in merge(sent[turn:] + sent[:turn]):
        for each in batch.to_pylist():
            found.setdefault(each["column"], []).append(each["value"])
    train = [row for task in given for rows in task for row in rows if row[0] == TRAIN]
    for place, (column, own) in enumerate(zip(COLUMNS, (1, 3, 2), strict=True)):
        assert found.get(place, []) == exact([row[own] for row in train], column.buckets)  # type: ignore[misc]


def test_many_bins_are_sent_in_rows_of_a_bounded_size() -> None:
    rows: list[Row] = [(TRAIN, float(place), 0.0, 0, None, None) for place in range(1000)]
    (batch, *_) = NumberCounts(IDENTIFY, Cut(), COLUMNS[:1], 1 << 16)([batch_of(rows)])
    assert batch.num_rows == 16 and batch.nbytes < 16 * 2048


@pytest.fixture(scope="module")
def planted() -> list[Row]:
    """Training rows, and others that would change all that is fitted."""
    rng = np.random.default_rng(5)
    rows: list[Row] = []
    for place in range(400):
        one = float(rng.normal()) if place % 9 else math.nan
        text = None if place % 5 == 0 else ["red", "green", "blue", "é"][place % 4]
        rows.append((TRAIN, one, float(place), place % 30 if place % 7 else LEAST, text, f"of {'abc'[place % 3]} word"))
        part = 1 + place % 2
        rows.append((part, 1e9 + place, -1e9, 10**6, "leak", "leak leak"))
    return rows


def kept(spark: SparkSession, rows: list[Row], partitions: int) -> Kept:
    table = batch_of(rows).to_pylist()
    frame = spark.createDataFrame([tuple(each.values()) for each in table], spark_schema(SCHEMA))
    pack = Pack(codec_of(SCHEMA, SCHEMA.names, {"tensor_0": SPEC.row_bytes, "tensor_1": WHOLE.row_bytes}), 1000)
    return Kept(frame.repartition(partitions).mapInArrow(pack, spark_schema(pack.schema)), pack)


@pytest.mark.slow
def test_what_is_fitted_ignores_other_rows_and_tasks(spark: SparkSession, planted: list[Row]) -> None:
    wants = [
        Want("text_0", min_count=2, max_size=3),
        Want("text_1", tokens=pc.utf8_split_whitespace, max_size=1000),
        Want("text_0", min_count=10**6),
    ]
    train = [row for row in planted if row[0] == TRAIN]
    entries = Counter(row[4] for row in train if row[4])
    texts = [text for text, _ in sorted(entries.items(), key=lambda each: (-each[1], each[0].encode()))]
    tokens = Counter(word for row in train for word in (row[5] or "").split())
    ordered = [text for text, _ in sorted(tokens.items(), key=lambda each: (-each[1], each[0]))]
    for partitions in (1, 7):
        rows = kept(spark, planted, partitions)
        assert fitted_texts(rows, IDENTIFY, Cut(), wants) == [texts[:3], ordered, []]
        # Of what the other rows have, or of too few bins, these would not be exact.
        assert fitted_quantiles(rows, IDENTIFY, Cut(), COLUMNS) == [
            exact([row[own] for row in train], column.buckets)  # type: ignore[misc]
            for column, own in zip(COLUMNS, (1, 3, 2), strict=True)
        ]
    assert fitted_texts(rows, IDENTIFY, Cut(), []) == fitted_quantiles(rows, IDENTIFY, Cut(), []) == []
