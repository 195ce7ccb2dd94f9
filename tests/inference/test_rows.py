import pytest

from hdfs_io.preprocessing import Description, FittedPreprocessing, LabelSpec, TensorPreprocessing, TensorSpec
from inference.config import PredictConfig
from inference.rows import RawRows
from inference.trained import TrainedModel
from sparksplit.config import parse
from sparksplit.errors import ConfigError


def _trained(impute):
    description = Description(
        tensors=[TensorSpec(name="x", dtype="float32", shape=[2])],
        label=LabelSpec(dtype="float32", kind="number"),
        preprocessing=FittedPreprocessing(tensors={"x": TensorPreprocessing(impute=impute)}),
    )
    return TrainedModel("runs/model", description, False, {})


def _rows(tmp_path, trained, **keys):
    path = tmp_path / "rows.csv"
    path.write_text("a,b,y\n1700000061,2,3\n,5,6\n")
    raw = {"format": "csv", "path": f"{path}", "label": "y", **keys}
    config = parse(PredictConfig, {"model": "runs/model", "input": raw, "output": "out"})
    return RawRows(config, config.input, trained)


def test_gaps_want_a_model_that_knows_their_means(tmp_path):
    assert _rows(tmp_path, _trained([1.0, 2.0]), missing="mean").splits == ["train"]
    with pytest.raises(
        ConfigError, match=r"missing: must be error: the model runs/model was trained on data without gaps"
    ):
        _rows(tmp_path, _trained(None), missing="mean")
