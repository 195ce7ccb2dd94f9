"""The rows to be predicted: what shows that they have changed."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest

from hdfs_io.marks import CONFIG
from sparksplit.base.config import parse
from sparksplit.base.errors import ConfigError, InputError
from sparksplit.base.options import Options
from sparksplit.dataset.arrays import from_arrays
from sparksplit.dataset.description import (
    Description,
    FittedPreprocessing,
    LabelSpec,
    TensorPreprocessing,
    TensorSpec,
    Windows,
)
from sparksplit.inference import predict as predict_module
from sparksplit.inference.predict_config import PredictConfig
from sparksplit.inference.rows import PreparedRows, RawRows
from sparksplit.inference.trained import TrainedModel
from sparksplit.prepare.passes.parse import parse as parsed
from tests.inference.runs import make_complete


@pytest.fixture
def prepared(tmp_path):
    x = np.arange(20, dtype=np.float32).reshape(10, 2)
    return from_arrays(f"{tmp_path}/prepared", {"train": (x, x[:, 0] > 4), "test": (x, x[:, 0] > 4)}, lanes=2)


@pytest.fixture
def trained(tmp_path, prepared):
    run = tmp_path / "run"
    (run / "saved_model" / "1").mkdir(parents=True)
    (run / "saved_model" / "1" / "saved_model.pb").touch()
    prepared.description.write(str(run))
    make_complete(run)
    return TrainedModel.open(str(run))


def test_a_missing_path_is_seen_before_spark_starts(tmp_path, trained, monkeypatch):
    monkeypatch.setattr(predict_module, "session_with_executors", lambda *_, **__: pytest.fail("Spark was started"))
    rows = {"format": "csv", "path": f"{tmp_path}/gone.csv"}
    config = parse(PredictConfig, {"model": trained.path, "output": f"{tmp_path}/out", "input": rows})
    with pytest.raises(InputError, match=f"^{tmp_path}/gone.csv: does not exist"):
        predict_module.predict(config, Options())


def test_other_kept_columns_are_other_rows(tmp_path, prepared, trained):
    def content(**keys):
        values = {"model": "m", "output": "o", "input": prepared.path, **keys}
        return PreparedRows(parse(PredictConfig, values), trained).content

    def remade(**made):
        (tmp_path / "prepared" / CONFIG).write_text(json.dumps({"config_hash": "c", **made}))

    before = content()
    remade(input_hash="one")
    assert content() == before
    manifest = tmp_path / "prepared" / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "keep": ["id"]}))
    kept = content()
    remade(input_hash="two")
    assert content() != kept
    assert content(keep=[]) == content(keep=["label"]) == before


WINDOWS = Windows(window=2, horizon=3, by=["at"], order="hour", label="load", step=3_600_000_000, time=True)


@pytest.mark.parametrize(
    ("other", "problem"),
    [
        (
            {"label": "wind"},
            "have the label 'wind', but those of the model .* have 'load'; prepare it with fitted: .*run",
        ),
        ({"horizon": 2}, "have the horizon 2, but those of the model .* have 3; prepare"),
        ({"step": 1_800_000_000}, "have the step '30min', but those of the model .* have '1h'; prepare"),
        ({"by": []}, None),
        (None, None),
    ],
)
def test_other_windows_than_the_models_are_refused(tmp_path, prepared, trained, other, problem):
    trained = replace(trained, description=trained.description.model_copy(update={"windows": WINDOWS}))
    manifest = prepared.manifest
    windows = None if other is None else WINDOWS.model_copy(update=other)
    manifest.model_copy(update={"windows": windows}).write(prepared.path)
    config = parse(PredictConfig, {"model": "m", "output": "o", "input": prepared.path})
    if problem is None:
        assert PreparedRows(config, trained).splits == ["test"]
        return
    with pytest.raises(InputError, match=f"prepared: its windows {problem}"):
        PreparedRows(config, trained)


def test_another_number_of_labels_than_the_model_predicts_is_refused(tmp_path, trained):
    x = np.zeros((4, 2), np.float32)
    data = from_arrays(f"{tmp_path}/pairs", {"test": (x, x), "train": (x, x)})
    number = LabelSpec(dtype="float32", kind="number", shape=[3])
    trained = replace(trained, description=trained.description.model_copy(update={"label": number}))
    config = parse(PredictConfig, {"model": "m", "output": "o", "input": data.path})
    with pytest.raises(InputError, match=r"pairs: a row has 2 labels; the model .*run predicts 3 per row"):
        PreparedRows(config, trained)


def test_raw_files_that_changed_are_other_rows(spark, tmp_path, trained):
    file = tmp_path / "rows.csv"
    file.write_text("1,2,0\n3,4,1\n")
    raw = {"format": "csv", "path": f"{file}", "header": False, "label_type": "integer"}

    def rows():
        config = parse(PredictConfig, {"model": "m", "output": "o", "input": raw})
        return RawRows(config, config.input, trained, spark=spark)

    before = rows()
    assert (rows().identity, rows().content) == (before.identity, before.content)
    # Replaced by one with as many bytes, which the size does not show.
    facts = file.stat()
    file.write_text("5,6,0\n7,8,1\n")
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns + 10**9))
    assert rows().identity == before.identity and rows().content != before.content


def test_a_number_that_preprocess_would_not_round_is_not_rounded(spark, tmp_path, trained):
    file = tmp_path / "rows.csv"
    file.write_text("1,16777217,0\n3,4,1\n")

    def bad(**keys):
        raw = {"format": "csv", "path": f"{file}", "header": False, "label_type": "integer", **keys}
        config = parse(PredictConfig, {"model": "m", "output": "o", "input": raw})
        source = RawRows(config, config.input, trained, spark=spark)._source
        return parsed(spark, source).where("bad is not null").count()

    # Asked for by name, it is.
    assert (bad(), bad(dtype="float32")) == (1, 0)


def _trained(impute):
    description = Description(
        tensors=[TensorSpec(name="x", dtype="float32", shape=[2])],
        label=LabelSpec(dtype="float32", kind="number"),
        preprocessing=FittedPreprocessing(tensors={"x": TensorPreprocessing(impute=impute)}),
    )
    return TrainedModel("runs/model", description, False, {})


def _rows(spark, tmp_path, trained, **keys):
    path = tmp_path / "rows.csv"
    path.write_text("a,b,y\n1700061,2,3\n,5,6\n")
    raw = {"format": "csv", "path": f"{path}", "label": "y", **keys}
    config = parse(PredictConfig, {"model": "runs/model", "input": raw, "output": "out"})
    return RawRows(config, config.input, trained, spark=spark)


def test_gaps_want_a_model_that_knows_their_means(spark, tmp_path):
    assert _rows(spark, tmp_path, _trained([1.0, 2.0]), missing="mean").splits == ["train"]
    with pytest.raises(
        ConfigError, match=r"missing: must be error: the model runs/model was fitted on data without missing values"
    ):
        _rows(spark, tmp_path, _trained(None), missing="mean")


@pytest.mark.parametrize(("classes", "alike"), [(["false", "true"], True), (["0", "1"], True), (["no", "yes"], False)])
def test_classes_that_are_booleans_are_those_of_the_model_however_they_are_spelled(prepared, trained, classes, alike):
    assert prepared.manifest.label.classes == ["False", "True"]
    label = trained.description.label.model_copy(update={"classes": classes})
    trained = replace(trained, description=trained.description.model_copy(update={"label": label}))
    config = parse(PredictConfig, {"model": "m", "output": "o", "input": prepared.path})
    if alike:
        assert PreparedRows(config, trained).label is not None
        return
    with pytest.raises(InputError, match="class 0 is 'False', but 'no' in the model"):
        PreparedRows(config, trained)
