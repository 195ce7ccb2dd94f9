"""What a node publishes about a run's rounds."""

import json

import pytest

from sparksplit.training.node import publishing
from tests.hdfs_io.outputs import fenced
from tests.training.records import epoch


def test_metrics_jsonl_has_a_line_for_each_epoch_and_each_once(tmp_path):
    history = [epoch(1), epoch(2, validation=None)]
    with fenced(tmp_path) as run:
        publishing.publish_metrics(run, history[:1])
        publishing.publish_metrics(run, history)
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [record.to_json() for record in history]
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]


def test_events_leave_out_what_is_null(tmp_path):
    history = [
        epoch(1, train={"loss": 2.0, "auc": None}, validation={"loss": None}),
        epoch(2, train={"loss": 1.0, "auc": 0.5}, validation={"loss": None}),
    ]
    with fenced(tmp_path / "run") as run:
        publishing.publish_events(run, history, str(tmp_path))
    assert {path.name for path in (tmp_path / "run" / "tensorboard").iterdir()} == {"train", "validation"}


def test_events_hold_each_epoch_once_however_often_they_are_written(tmp_path):
    import tensorflow as tf
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    history = [epoch(number, train={"loss": 1 / number}, validation={"loss": 2 / number}) for number in (1, 2)]
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    for known in (history[:1], history):
        with fenced(tmp_path) as run:
            publishing.publish_events(run, known, str(scratch))
    for name, factor in (("train", 1), ("validation", 2)):
        events = EventAccumulator(str(tmp_path / "tensorboard" / name))
        events.Reload()
        tensors = events.Tensors("epoch_loss")
        assert [event.step for event in tensors] == [1, 2]
        values = [float(tf.make_ndarray(event.tensor_proto)) for event in tensors]
        assert values == pytest.approx([factor, factor / 2])
