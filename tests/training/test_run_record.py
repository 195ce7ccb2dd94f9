"""run.json and metrics.jsonl as they are written and read back."""

from __future__ import annotations

import json

import pytest

from sparksplit.base.errors import InputError
from sparksplit.training.progress_record import EpochRecord, read_history
from sparksplit.training.run_record import RunRecord
from tests.hdfs_io.outputs import fenced
from tests.training.records import EPOCH, RUN_JSON, run_json


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"metrics": {"train": {"loss": [1.0, None]}, "test": {}}},
        {"metrics": {"test": {"auc": None}}},
        {"sync": {"every": 32, "outer": "nesterov", "after": 10}},
        {"resumed": [{"update": 2, "nodes_before": 2, "nodes": 1, "optimizer": "passed on"}]},
    ],
)
def test_what_is_written_is_read_back_key_for_key(tmp_path, values):
    content = run_json(**values)
    record = RunRecord.from_json(content, "memory")
    with fenced(tmp_path) as run:
        record.write(run)
    written = json.loads((tmp_path / "run.json").read_text())
    assert (written, list(written)) == (content, list(content))
    assert RunRecord.read(str(tmp_path)) == record


def test_what_a_later_version_writes_beside_is_passed_over():
    found = RunRecord.from_json({**RUN_JSON, "energy": 1, "data": {**RUN_JSON["data"], "rows": 1}}, "memory")
    assert found == RunRecord.from_json(RUN_JSON, "memory")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "it is not valid JSON"),
        (json.dumps(RUN_JSON)[:300], "it is not valid JSON"),
        ("[" * 5000, "it is not valid JSON"),
        ("[]", "it: input should be an object"),
        ("{}", "run_id is missing"),
        (json.dumps(run_json(ledger={"rows": 1, "checksum": "1"})), "ledger.exact is missing"),
        (json.dumps(run_json(nodes="2")), "nodes: input should be a valid integer"),
        (json.dumps(run_json(metrics={"train": {"loss": ["1"]}, "test": {}})), r"metrics.train.loss.0: input should"),
        (json.dumps({"command": "compare", "runs": []}), "run_id is missing"),
    ],
)
def test_another_or_a_damaged_file_is_refused_in_one_line_that_says_what_to_do(tmp_path, content, problem):
    (tmp_path / "run.json").write_text(content)
    expected = rf"^{tmp_path}/run\.json: is not what train writes: {problem}.*; train again with --overwrite$"
    with pytest.raises(InputError, match=expected):
        RunRecord.read(str(tmp_path))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"run\.json: does not exist"):
        RunRecord.read(str(tmp_path))


def test_the_history_is_read_line_by_line(tmp_path):
    without = {key: value for key, value in EPOCH.items() if key != "validation"}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(EPOCH) + "\n" + json.dumps(without) + "\n")
    first, second = read_history(str(tmp_path))
    assert [first.to_json(), second.to_json()] == [EPOCH, without]
    assert (list(first.to_json()), second.validation) == (list(EPOCH), None)
    assert first == EpochRecord.from_json(EPOCH, "memory")


def test_a_line_of_the_history_that_is_cut_off_is_named(tmp_path):
    (tmp_path / "metrics.jsonl").write_text(json.dumps(EPOCH) + "\n" + json.dumps(EPOCH)[:50])
    with pytest.raises(InputError, match=r"metrics\.jsonl:2: is not a line of metrics\.jsonl: it is not valid JSON"):
        read_history(str(tmp_path))
