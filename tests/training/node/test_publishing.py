"""What a node publishes about a run's rounds."""

import json

from sparksplit.training.node import publishing
from tests.training.records import epoch


def test_metrics_jsonl_has_a_line_for_each_epoch_and_each_once(tmp_path):
    history = [epoch(1), epoch(2, validation=None)]
    publishing.publish_metrics(str(tmp_path), history[:1])
    publishing.publish_metrics(str(tmp_path), history)
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [record.to_json() for record in history]
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_events_leave_out_what_is_null(tmp_path):
    history = [
        epoch(1, train={"loss": 2.0, "auc": None}, validation={"loss": None}),
        epoch(2, train={"loss": 1.0, "auc": 0.5}, validation={"loss": None}),
    ]
    publishing.publish_events(str(tmp_path / "run"), history, str(tmp_path))
    assert {path.name for path in (tmp_path / "run" / "tensorboard").iterdir()} == {"train", "validation"}
