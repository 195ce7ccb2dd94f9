import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.base.errors import InputError
from sparksplit.dataset import row_ids
from sparksplit.dataset.arrays import from_arrays
from sparksplit.dataset.description import WEIGHT, TensorSpec
from sparksplit.dataset.lane_files import LABEL, binary_column
from sparksplit.inference import scores, tasks
from sparksplit.inference.rows import tasks_for
from sparksplit.inference.tasks import Facts, Job, read_prepared, read_raw, run_task, share
from sparksplit.inference.trained import TrainedModel
from sparksplit.inference.writer import Columns


def _model(tensors):
    """Says the class that the first value names, with certainty."""
    return np.eye(3, dtype=np.float32)[tensors["x"][:, 0]]


@pytest.fixture(autouse=True)
def loads(monkeypatch):
    """How often a model was loaded."""
    loads = []
    monkeypatch.setattr(tasks, "load", lambda trained, threads: loads.append(threads) or _model)
    return loads


@pytest.fixture
def data(tmp_path):
    """90 rows of which every third is labelled as `_model` would say, in 7 lanes and blocks of 16 rows."""
    x = np.zeros((90, 2), np.uint8)
    x[:, 0], x[:, 1] = np.arange(90) // 30, np.arange(90)
    splits = {"train": (x, np.arange(90) % 3), "test": (x[:50], np.arange(50) % 3)}
    return from_arrays(str(tmp_path / "data"), splits, lanes=7, block_size=1024)


def _job(data, tmp_path, keep=(), split=False, batch_size=8):
    description = data.description
    (tmp_path / "out").mkdir(exist_ok=True)
    trained = TrainedModel("model", description, False, {})
    return Job(trained, str(tmp_path / "out"), Columns(description.label, split, keep), True, batch_size, 1)


def test_a_tasks_blocks_are_those_of_its_share(data):
    manifest = data.manifest
    every = [
        (split, lane, block)
        for split in ("train", "test")
        for lane in range(7)
        for block in range(manifest.blocks(split, lane))
    ]
    assert tasks.count_blocks(manifest, ["train", "test"]) == len(every)
    for start in range(len(every)):
        for stop in (start, start + 1, len(every)):
            chosen = range(start, stop)
            assert list(tasks.blocks(manifest, ["train", "test"], chosen)) == every[start:stop]


def _table(tmp_path, facts):
    return pq.read_table(tmp_path / "out" / facts.file)


@given(st.integers(0, 500), st.integers(1, 50))
def test_every_block_is_one_tasks_and_shares_are_even(count, number):
    shares = [share(count, task, number) for task in range(number)]
    assert [place for found in shares for place in found] == list(range(count))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


@given(st.integers(1, 10**9), st.integers(0, 10**12), st.integers(1, 1000))
def test_tasks_are_at_least_one_and_have_rows(rows, size, slots):
    number = tasks_for(rows, size, slots)
    assert number >= 1
    assert number == 1 or rows // number >= 4096


def test_the_tasks_together_give_every_row_once(data, tmp_path):
    job, splits = _job(data, tmp_path, keep=(LABEL,), split=True), ["train", "test"]
    facts = [
        run_task(job, read_prepared(data.path, splits, job.columns.keep, task, 4), task, attempt=0) for task in range(4)
    ]
    for name in splits:
        split = data.manifest.splits[name]
        assert sum(fact.rows.get(name, 0) for fact in facts) == split.rows
        assert sum(fact.checksums.get(name, 0) for fact in facts) % 2**64 == split.checksum
    table = pa.concat_tables([_table(tmp_path, fact) for fact in facts])
    assert table.num_rows == 140
    assert table.column_names == ["row_id", "split", LABEL, "prediction", "probabilities"]
    right = sum(sum(scores.from_json(fact.scores[name]).right) for fact in facts for name in fact.scores)
    prediction, label = table["prediction"].to_numpy(), table[LABEL].to_numpy()
    assert right == (prediction == label).sum() > 0
    assert np.array_equal(np.stack(table["probabilities"].to_numpy()), np.eye(3, dtype=np.float32)[prediction])


def test_the_batch_size_changes_nothing(data, tmp_path):
    tables = []
    for size in (1, 7, 1000):
        job = _job(data, tmp_path, batch_size=size)
        tables.append(_table(tmp_path, run_task(job, read_prepared(data.path, ["test"], (), 0, 1), 0, attempt=size)))
    assert tables[0] == tables[1] == tables[2]


def test_a_task_without_rows_loads_nothing_and_writes_nothing(data, tmp_path, loads):
    job = _job(data, tmp_path)
    assert run_task(job, iter(()), 0, attempt=0) == Facts()
    assert not loads
    assert not list((tmp_path / "out").iterdir())


def test_damaged_input_is_told_and_its_file_dropped(data, tmp_path):
    def rows():
        yield from read_prepared(data.path, ["test"], (), 0, 2)
        raise InputError("file: row group 3: is damaged")

    assert run_task(_job(data, tmp_path), rows(), 0, 0) == Facts(error="file: row group 3: is damaged", usage=True)
    assert not list((tmp_path / "out").iterdir())


def test_another_error_leaves_no_file_either(data, tmp_path):
    def rows():
        yield from read_prepared(data.path, ["test"], (), 0, 2)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_task(_job(data, tmp_path), rows(), 0, 0)
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize(
    ("outputs", "message"),
    [
        (lambda rows: np.full((rows, 3), np.nan, np.float32), "not finite, first for row_id"),
        (lambda rows: np.zeros((rows, 4), np.float32), r"outputs are \[4\] per row, for 3 classes"),
        (lambda rows: np.zeros((rows + 1, 3), np.float32), "must be the number of rows"),
    ],
)
def test_outputs_that_are_no_predictions(data, tmp_path, monkeypatch, outputs, message):
    monkeypatch.setattr(tasks, "load", lambda *_: lambda tensors: outputs(len(tensors["x"])))
    facts = run_task(_job(data, tmp_path), read_prepared(data.path, ["test"], (), 0, 1), 0, 0)
    assert not facts.usage
    assert re.search(message, facts.error)


def test_raw_rows_and_a_label_that_the_model_does_not_know(data, tmp_path):
    x = np.array([[0, 1], [1, 2], [2, 3]], np.uint8)
    ids = row_ids.signed(np.array([5, 6, 2**63 + 7], np.uint64))
    batch = pa.RecordBatch.from_pydict(
        {
            "row_id": pa.array(ids),
            "x": binary_column(x, data.manifest.tensors[0]),
            LABEL: pa.array([0, None, 1], type=pa.int64()),
            "name": pa.array(["a", "b", None]),
        }
    )
    empty = batch.slice(0, 0)
    job = _job(data, tmp_path, keep=("name",))
    facts = run_task(job, read_raw(job, [empty, batch.slice(0, 2), batch.slice(2)], "test", ("name",)), 3, attempt=1)
    assert (facts.rows, facts.unknown) == ({"test": 3}, 1)
    assert scores.from_json(facts.scores["test"]).summary()["accuracy"] == 0.5
    table = _table(tmp_path, facts)
    assert table["row_id"].to_pylist() == ids.tolist()
    assert table["name"].to_pylist() == ["a", "b", None]
    assert table["prediction"].to_pylist() == [0, 1, 2]


@pytest.mark.parametrize("weighted", [True, False])
def test_raw_rows_count_in_metrics_by_their_weights(data, tmp_path, weighted):
    """And not by a column to keep that happens to be called so."""
    x, weight = np.array([[0, 1], [1, 2], [2, 3]], np.uint8), TensorSpec(name=WEIGHT, dtype="float32", shape=[])
    own = binary_column(np.array([5, 1, 2], np.float32), weight) if weighted else pa.array(["5", "1", "2"])
    batch = pa.RecordBatch.from_pydict(
        {
            "row_id": pa.array([1, 2, 3]),
            "x": binary_column(x, data.manifest.tensors[0]),
            LABEL: pa.array([0, 0, 0], type=pa.int64()),
            WEIGHT: own,
        }
    )
    job = replace(_job(data, tmp_path), weight=weight if weighted else None)
    facts = run_task(job, read_raw(job, [batch], "train", ()), 0, attempt=0)
    found = scores.from_json(facts.scores["train"]).summary()
    assert (found["rows"], found["accuracy"]) == (3, pytest.approx(5 / 8 if weighted else 1 / 3))


@pytest.mark.parametrize("places", [1, 3])
def test_several_numbers_to_a_row_are_a_list_also_where_there_is_one(tmp_path, monkeypatch, places):
    x = np.arange(40, dtype=np.float32).reshape(20, 2)
    rows = x, x[:, :1] + np.arange(places, dtype=np.float32)
    data = from_arrays(f"{tmp_path}/numbers", {"train": rows, "test": rows}, lanes=3)
    monkeypatch.setattr(tasks, "load", lambda trained, threads: lambda tensors: np.tile(tensors["x"][:, :1], places))
    job = _job(data, tmp_path, keep=(LABEL,))
    facts = run_task(job, read_prepared(data.path, ["test"], job.columns.keep, 0, 1), 0, attempt=0)
    table = _table(tmp_path, facts)
    prediction, label = (np.stack(table[name].to_numpy()) for name in ("prediction", LABEL))
    assert prediction.shape == label.shape == (20, places)
    assert (label - prediction == np.arange(places)).all()
    score = scores.from_json(facts.scores["test"])
    assert score.summary()["mean_absolute_error"] == np.arange(places).mean()
