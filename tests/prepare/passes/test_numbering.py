"""Numbers among equal rows: given where rows are parsed, they are those of one sort of all rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.base.errors import RunError
from sparksplit.dataset import row_ids
from sparksplit.prepare.passes import numbering
from sparksplit.prepare.passes.identify import Identify, move_apart
from sparksplit.prepare.passes.numbering import Numbering, Spread, _Entries, several, unpacked
from sparksplit.prepare.passes.parse import CONTENT, PART

Row = tuple[int, int, str | None]
"""(content, part, kept column)"""


def content_of(rows: list[Row]) -> row_ids.U64:
    """The first word alone tells contents below 100 apart; the others have it in pairs."""
    values = np.array([row[0] for row in rows], np.uint64)
    return np.stack([np.where(values < 100, values, values // 2), values], axis=1)


def batch_of(rows: list[Row]) -> pa.RecordBatch:
    content = row_ids.signed(content_of(rows))
    columns = [pa.array([row[1] for row in rows], pa.int32()), pa.array(content[:, 0]), pa.array(content[:, 1])]
    return pa.RecordBatch.from_arrays(
        [*columns, pa.array([row[2] for row in rows], pa.string())], [PART, *CONTENT, "keep_0"]
    )


def entries_of(partitions: list[list[Row]], monkeypatch: pytest.MonkeyPatch) -> pa.Table:
    """What the tasks count, of the contents that occur more than once."""
    every = [row for rows in partitions for row in rows]
    several = [row for row in every if sum(other[0] == row[0] for other in every) > 1]
    found: list[pa.Table] = []
    monkeypatch.setattr(numbering, "BATCH_BYTES", 100)  # a few entries
    monkeypatch.setattr(numbering, "_GROUPED_BYTES", 200)
    for number, rows in enumerate(partitions):
        monkeypatch.setattr(numbering, "partition_id", lambda number=number: number)
        task = _Entries(np.unique(content_of(several), axis=0), [PART, *CONTENT, "keep_0"])
        if several and rows:
            for batch in task([batch_of(rows[:3]), batch_of(rows[3:])]):
                found.append(unpacked(batch.column("packed")[0].as_py()))
                assert batch.column("rows").to_pylist() == [found[-1].num_rows]
    words = [(word, pa.int64()) for word in CONTENT]
    columns = [(PART, pa.int32()), *words, ("keep_0", pa.string()), ("rows", pa.int64()), ("partition", pa.int32())]
    return pa.concat_tables([pa.schema(columns).empty_table(), *found])


rows = st.tuples(st.integers(0, 5) | st.integers(100, 105), st.integers(0, 2), st.sampled_from([None, "", "a", "é"]))


@given(st.lists(st.lists(rows, min_size=1, max_size=12), min_size=1, max_size=4), st.integers(1, 5))
def test_numbers_are_those_of_a_sort_by_part_and_kept_columns(partitions: list[list[Row]], size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        known = numbering.number(entries_of(partitions, patch), kept=["keep_0"])
    found: list[tuple[Row, int]] = []
    for place, given_rows in enumerate(partitions):
        numberer = known.of(place)
        for start in range(0, len(given_rows), size):
            some = given_rows[start : start + size]
            batch = batch_of(some)
            part = batch.column(0).to_numpy()
            numbers = numberer.numbers(content_of(some), part, [batch.column("keep_0")])
            found += zip(some, numbers.tolist(), strict=True)
        numberer.check()
    expected: list[tuple[Row, int]] = []
    for row in sorted(
        (row for each in partitions for row in each),
        key=lambda row: (row[0], row[1], row[2] is not None, (row[2] or "").encode()),
    ):
        expected.append((row, expected[-1][1] + 1 if expected and expected[-1][0][0] == row[0] else 0))
    assert sorted(found, key=repr) == sorted(expected, key=repr)


def test_a_partition_with_other_rows_than_were_counted_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    same = (1, 0, None)
    known = numbering.number(entries_of([[same, same], [same]], monkeypatch), kept=["keep_0"])
    numberer = known.of(0)
    numberer.numbers(content_of([same]), np.zeros(1, np.int32), [pa.array([None], pa.string())])
    with pytest.raises(RunError, match="the input changed while it was read"):
        numberer.check()


@pytest.mark.parametrize("limit", ["MAX_ENTRIES", "MAX_BYTES"])
def test_a_task_with_too_many_entries_stops_where_it_has_them(limit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal rows, each with its own kept text."""
    monkeypatch.setattr(numbering, "_GROUPED_BYTES", 2000)
    monkeypatch.setattr(numbering, limit, {"MAX_ENTRIES": 40, "MAX_BYTES": 40 * 100}[limit])
    read = []

    def batches(count: int) -> Iterator[pa.RecordBatch]:
        for start in range(0, count, 10):
            read.append(start)
            yield batch_of([(1, 0, f"{row:070d}") for row in range(start, start + 10)])

    task = _Entries(content_of([(1, 0, None)]), [PART, *CONTENT, "keep_0"])
    (said,) = task(batches(1000))
    assert said.to_pylist() == [{"rows": numbering.MAX_ENTRIES + 1, "packed": b""}]
    assert len(read) < 10
    assert [batch.column("rows").to_pylist() for batch in task(batches(30))] == [[30]]
    (said,) = task(batches(50))  # no more than are put together at the end
    assert not said.column("packed")[0].as_py()


def test_rows_that_are_all_different_have_number_0() -> None:
    numberer = Numbering.none().of(7)
    content = row_ids.mix64(np.arange(20, dtype=np.uint64)).reshape(10, 2)
    assert not numberer.numbers(content, np.zeros(10, np.int32)).any()
    numberer.check()


@pytest.mark.parametrize("bits", [6, 7, 10])
def test_different_rows_with_the_same_id_are_moved_apart_whatever_their_order(bits: int) -> None:
    """With ids of so few bits, 40 rows are often moved onto yet others."""
    generator = np.random.default_rng(bits)
    rows = [(int(a), int(b), 0) for a, b in generator.integers(0, 2**63, (40, 2))]
    results = []
    for _ in range(3):
        identify = Identify(Numbering.none(), bits=bits)
        for _ in range(100):
            ids = identify.ids(np.array([row[:2] for row in rows], np.uint64), np.zeros(40, np.int64))
            again = {value for value, count in zip(*np.unique(ids, return_counts=True), strict=True) if count > 1}
            if not again:
                break
            clashing = [row for row, own in zip(rows, ids, strict=True) if own in again]
            identify = Identify(Numbering.none(), bits=bits, moved=move_apart(clashing, identify))
        assert len(set(ids.tolist())) == 40
        results.append({row: int(own) for row, own in zip(rows, ids, strict=True)})
        rows = [rows[place] for place in generator.permutation(40)]
    assert results[0] == results[1] == results[2]


@given(
    st.lists(st.lists(st.lists(st.integers(0, 8), max_size=8), max_size=4), min_size=1, max_size=3), st.integers(1, 3)
)
def test_contents_that_occur_again_are_found_wherever_they_are(tasks: list[list[list[int]]], partitions: int) -> None:
    """tasks: the contents of each record batch of each task"""
    keys = np.array([5, -1, 3], np.int32)[:partitions]
    spread = Spread(keys, 40)
    random = np.random.default_rng(0).integers(0, 2**63, (9, 2), np.int64)
    random[8, 0] = random[7, 0]  # two contents may share their first word
    sent: dict[int, list[pa.RecordBatch]] = {}
    for batches in tasks:
        given_ = [
            pa.RecordBatch.from_arrays([pa.array(column) for column in random[rows].T], CONTENT)
            for rows in batches
            if rows
        ]
        for batch in spread(given_):
            assert batch.schema == spread.schema
            for key in batch.column(0).unique().to_pylist():
                own = batch.filter(pa.compute.equal(batch.column(0), key))
                sent.setdefault(key, []).append(own.select([1]))
    found = [
        tuple(row.values()) for batches in sent.values() for batch in several(batches) for row in batch.to_pylist()
    ]
    every = [content for batches in tasks for rows in batches for content in rows]
    assert sorted(found) == sorted(tuple(random[each].tolist()) for each in set(every) if every.count(each) > 1)


def test_many_equal_rows_are_sent_twice_for_each_batch() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array(np.full(1000, word)) for word in (1, 2)], CONTENT)
    (sent,) = Spread(np.array([0], np.int32), 10**6)([batch])
    assert len(sent.column(1)[0].as_py()) == 2 * 16


def test_batches_without_contents_have_none_that_occur_again() -> None:
    empty = pa.RecordBatch.from_arrays([pa.array([], pa.int64())] * 2, CONTENT)
    sent = [batch.select([1]) for batch in Spread(np.array([0], np.int32), 40)([empty])]
    assert sum(batch.num_rows for batch in several(sent)) == 0
    none = pa.RecordBatch.from_arrays([pa.array([b"", b""])], ["rows"])
    assert sum(batch.num_rows for batch in several([none])) == 0


@pytest.mark.parametrize(
    "rows",
    [
        [(5, 6, 0), (5, 6, 0)],
        [(5, 6, 0), (5, 6, 1), (5, 6, 1)],
        [(5, 6, 0)],
        [],
    ],
)
def test_rows_that_cannot_be_moved_apart_are_not_those_that_were_read(rows: list[tuple[int, int, int]]) -> None:
    """Not again and again: the same row twice gets the same other id."""
    with pytest.raises(RunError, match="the input changed while it was read"):
        move_apart(rows, Identify(Numbering.none()))
