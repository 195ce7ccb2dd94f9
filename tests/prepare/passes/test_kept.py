"""Parsed rows that are packed to be kept: good ones come back as they were, bad ones beside them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.dataset.description import TensorSpec
from sparksplit.prepare.passes.kept import Pack, unpacked
from sparksplit.prepare.passes.parse import parsed_schema, to_batch
from sparksplit.prepare.passes.stored_passes import _codec
from sparksplit.prepare.source import BadRow, ParsedRows, Source


class Rows(Source):
    """A source as far as its columns go."""

    label_kind, keep, cut_by = "text", ("k",), "key"
    tensors = (TensorSpec(name="x", dtype="int16", shape=[2]),)

    def parts(self):  # type: ignore[no-untyped-def]
        raise NotImplementedError

    raw = parts


SCHEMA = parsed_schema(Rows())
Item = list[tuple[int, str, str | None, int]] | str
"""Good rows (value, label, kept text, what the cut goes by), or why a row is bad."""


def batch_of(item: Item, part: str, wanted: bool = True) -> pa.RecordBatch:
    if isinstance(item, str):
        return to_batch(BadRow("file", 1, item), part, SCHEMA)
    values, labels, kept, cut = (list(column) for column in zip(*item, strict=True)) if item else ([], [], [], [])
    tensor = np.array(values, np.int16).reshape(-1, 1).repeat(2, axis=1)
    return to_batch(ParsedRows([tensor], labels, [kept], np.array(cut, np.int64)), part, SCHEMA, wanted)


texts = st.text(max_size=3)
good = st.lists(st.tuples(st.integers(-9, 9), texts, st.none() | texts, st.integers(-3, 3)), max_size=6)
items = st.lists(st.tuples(good | st.sampled_from(["odd", "even"]), st.sampled_from(["train", "test"])), max_size=6)


@given(items, st.sampled_from([1, 7, 10**6]))
def test_every_row_is_kept_once_and_bad_ones_are_told(rows: list[tuple[Item, str]], batch_rows: int) -> None:
    batches = [batch_of(item, part) for item, part in rows]
    pack = Pack(_codec(Rows()), batch_rows)
    packed = list(pack(batches))
    assert all(batch.schema == pack.schema for batch in packed)
    chunks = [batch.select(pack.chunks) for batch in packed]
    found = [row for batch in unpacked(chunks, pack.codec) for row in batch.to_pylist()]
    names = pack.codec.schema.names
    wanted = [{name: row[name] for name in names} for batch in batches for row in batch.to_pylist() if not row["bad"]]
    assert found == wanted
    told = [row for batch in packed for row in batch.to_pylist()]
    assert sum(row["good"] for row in told) == len(wanted)
    assert [row["bad"]["reason"] for row in told if row["bad"]] == [item for item, _ in rows if isinstance(item, str)]


def test_rows_of_parts_that_nobody_wants_take_no_room_for_tensors() -> None:
    pack = Pack(_codec(Rows(), fixed=False), 100)
    (packed,) = pack([batch_of([(5, "a", None, 1)], "train", wanted=False)])
    (found,) = unpacked([packed.select(pack.chunks)], pack.codec)
    assert found.column("tensor_0").to_pylist() == [None] and found.column("label").to_pylist() == ["a"]
    (packed,) = pack([batch_of([(5, "a", None, 1)], "test")])
    (found,) = unpacked([packed.select(pack.chunks)], pack.codec)
    assert found.column("tensor_0").to_pylist() == [np.array([5, 5], "<i2").tobytes()]


def test_rows_come_back_in_batches_of_a_few_megabytes() -> None:
    pack = Pack(_codec(Rows()), 1)
    rows: Item = [(0, "x" * 3_000_000, None, 0)] * 2
    (packed,) = pack([batch_of(rows, "train")])
    found = list(unpacked([packed.select(pack.chunks)], pack.codec))
    assert [batch.num_rows for batch in found] == [2] and packed.num_rows == 1  # a chunk is not cut
    packed = pa.concat_batches([packed.select(pack.chunks)] * 3)
    assert [batch.num_rows for batch in unpacked([packed], pack.codec)] == [2, 2, 2]


def test_only_what_is_needed_to_tell_rows_apart_is_packed_of_keys() -> None:
    assert _codec(Rows(), tensors=False).schema.names == ["part", "content_a", "content_b", "label", "keep_0", "cut"]
