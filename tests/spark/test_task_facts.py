"""The way of a task's facts to the driver, without Spark."""

from types import SimpleNamespace

import pyarrow as pa
import pytest
from pydantic import ValidationError

from sparksplit.dataset.lane_files import FileFacts
from sparksplit.handoff.sender import Partition, Sent
from sparksplit.inference.tasks import Facts
from sparksplit.spark.task_facts import decode, encode, facts_of

EVERY_KIND = [
    FileFacts(
        "train", 3, "a", 10, 2, [(3, 5, 0)], [2**32 - 1], 2**64 - 1, 5, {}, [{"x": {"mean": [0.1, 1e308]}}], [-7]
    ),
    Partition(7, [Sent(5, 2**64 - 1)], [3, 2], 11, 2**64 - 1),
    Partition(7, [Sent(5, 2**64 - 1)], [3, 2], 11, 2**64 - 1).packed(),
    Facts("part", {"test": 3}, {"test": 2**64 - 1}, {"test": {"rows": 3, "loss": float("inf")}}, 1),
]


@pytest.mark.parametrize("facts", EVERY_KIND, ids=lambda facts: type(facts).__qualname__)
def test_every_kind_of_facts_survives_the_way(facts):
    """Sums modulo 2^64 among them, and floats to the last bit."""
    assert decode(type(facts), encode(facts)) == facts


def test_what_is_not_of_the_kind_is_refused():
    with pytest.raises(ValidationError, match="lane_rows"):
        decode(Partition, '{"number": 1, "sent": [], "checksum": 0}')


def test_each_of_a_partitions_facts_is_a_row():
    """Of none, one and two of them."""

    class Frame:
        def mapInArrow(self, run, schema):  # noqa: N802 (Spark's name)
            assert schema == "facts string"
            parts = [[], [pa.RecordBatch.from_pydict({"n": [1]})], [pa.RecordBatch.from_pydict({"n": [2, 3]})]]
            rows = [tuple(row.values()) for part in parts for batch in run(part) for row in batch.to_pylist()]
            return SimpleNamespace(collect=lambda: rows)

    def task(batches):
        for batch in batches:
            yield from (Sent(number, 0) for number in batch.column(0).to_pylist())

    assert facts_of(Frame(), task, Sent) == [Sent(1, 0), Sent(2, 0), Sent(3, 0)]
