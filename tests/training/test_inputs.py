"""What a run is given, as the driver checks it: data sets that are trained on as one."""

import keras
import numpy as np
import pytest

from hdfs_io.publish import Output
from sparksplit.base.config import parse
from sparksplit.base.errors import ConfigError, InputError, UsageError
from sparksplit.dataset.arrays import from_arrays
from sparksplit.training.callbacks.given import Given
from sparksplit.training.inputs import RunInputs, open_data
from sparksplit.training.messages import Payload
from sparksplit.training.train_config import TrainConfig
from tests.hdfs_io.outputs import begun


@pytest.fixture
def days(tmp_path):
    for number in range(3):
        x = np.arange(60, dtype=np.uint8).reshape(30, 2) + number
        from_arrays(f"{tmp_path}/ds={number}", {"train": (x, x[:, 0] % 2)}, lanes=4, classes=2)
    return tmp_path


def inputs_of(data, **keys):
    config = parse(TrainConfig, {"data": data, "output": "o", **keys})
    return RunInputs.of(config, open_data(config))


def test_names_and_places_of_the_data_sets_do_not_count_and_their_content_does(days):
    one = inputs_of(f"{days}/ds=*")
    other = inputs_of([f"{days}/ds=2", f"{days}/ds=0", f"{days}/ds=1"])
    assert one.hash() == other.hash() and one.data.paths == other.data.paths
    assert len({one.hash(), inputs_of(f"{days}/ds=[01]").hash(), inputs_of(f"{days}/ds=0").hash()}) == 3
    assert inputs_of([f"{days}/ds=0"]).hash() == inputs_of(f"{days}/ds=[0]").hash() == inputs_of(f"{days}/ds=0").hash()


def test_collectives_with_the_same_bits_make_the_same_run(days):
    def hash_of(collective):
        return inputs_of(f"{days}/ds=0", strategy="batch", nodes=2, collective=collective).hash()

    assert hash_of("ring") == hash_of("shared") == hash_of("mixed") == hash_of("auto") != hash_of("tensorflow")


def test_keys_that_came_later_and_change_nothing_leave_data_sets_and_runs_their_hashes(days):
    """Runs and data sets of earlier commits with this data format are complete, or resumed, today."""
    inputs = inputs_of(f"{days}/ds=0")
    assert (inputs.data.digest, inputs.hash()) == ("7ee1071e8d4d86d9", "cc552eb35e2bb8c7")
    changes = ("class_weights", "balanced"), ("accumulate", 2), ("threads", 2), ("device", "cpu"), ("jit_compile", True)
    for changed in [{key: value} for key, value in (*changes, ("deterministic", False))]:
        assert inputs_of(f"{days}/ds=0", **changed).hash() != inputs.hash()
    assert inputs_of(f"{days}/ds=0", class_weights={}).hash() == inputs.hash()


def test_training_rows_that_all_weigh_nothing_are_refused(tmp_path):
    for name, weight in (("some", np.arange(4)), ("none", np.zeros(4))):
        tensors = {"x": np.zeros((4, 2), np.float32), "weight": weight.astype(np.float32)}
        from_arrays(f"{tmp_path}/{name}", {"train": (tensors, np.arange(4) % 2)}, lanes=1)
    assert inputs_of(f"{tmp_path}/some").hash()
    with pytest.raises(ConfigError, match=r"data: .*none: all rows of the training split have the weight 0"):
        inputs_of(f"{tmp_path}/none")


def test_nodes_get_the_folders_that_the_driver_has_found(days, tmp_path):
    inputs = inputs_of(f"{days}/ds=*")
    alone = inputs_of(f"{days}/ds=[1]")
    with begun(tmp_path / "run") as run:
        payload, of_one = (Payload.of(each.config, each.data, run, {}, "a", 1) for each in (inputs, alone))
    assert payload.train_config().data == inputs.data.paths
    assert of_one.train_config().data == f"{days}/ds=1"


def test_the_output_may_not_lie_in_one_of_them(days):
    inputs = inputs_of(f"{days}/ds=*")
    assert list(inputs.paths) == ["data.0", "data.1", "data.2"]
    with pytest.raises(UsageError, match=r"lies within what the command reads \(data\.\d: .*ds=1\)"):
        Output(f"{days}/ds=1/run", inputs.hash(), "train", inputs.paths).decide()


def test_what_does_not_go_with_several_is_refused(days):
    with pytest.raises(ConfigError, match="input_mode: must be tensorflow with several data sets"):
        inputs_of(f"{days}/ds=*", input_mode="spark")
    assert inputs_of(f"{days}/ds=1", input_mode="spark")
    from_arrays(f"{days}/ds=3", {"train": (np.zeros((3, 5), np.uint8), [0, 1, 1])}, lanes=4)
    with pytest.raises(InputError, match=r"ds=3: differs from .*/ds=0 in its tensors; prepare it with `fitted"):
        inputs_of(f"{days}/ds=*")
    with pytest.raises(ConfigError, match="data: "):
        inputs_of([])


def test_one_class_is_nothing_to_train_on(tmp_path):
    """One output is the probability of the second class: accuracy was 0 in training, and 1 in predicting."""
    x, y = np.zeros((20, 2), np.float32), np.zeros(20, np.int64)
    from_arrays(f"{tmp_path}/data", {"train": (x, y)}, lanes=2)
    with pytest.raises(ConfigError, match=r"data: .*/data: all labels are '0'; prepare rows of two classes or more"):
        inputs_of(f"{tmp_path}/data")


def test_other_keys_are_checked_with_the_callbacks(days):
    """Such as the keys of a comparison, which may have a learning-rate schedule."""
    values = {"data": f"{days}/ds=0", "output": "runs/x"}
    config = parse(TrainConfig, values)
    given, _ = Given.of([keras.callbacks.ReduceLROnPlateau("loss")], values, "runs/x")
    inputs = RunInputs.of(config, open_data(config), given=given)
    assert inputs.changed(config).hash() == inputs.hash()
    schedule = {"learning_rate": {"name": "CosineDecay", "initial_learning_rate": 0.1, "decay_steps": 10}}
    with pytest.raises(ConfigError, match=r"^optimizer.learning_rate: must be a number with callbacks\[0\]"):
        inputs.changed(parse(TrainConfig, {**values, "optimizer": schedule}))


def test_nodes_with_epochs_of_their_own_need_an_order_that_differs(tmp_path):
    """Without a shuffle, all nodes would train on the same mini-batches."""
    x, y = np.zeros((20, 2), np.float32), np.arange(20) % 2
    given = from_arrays(str(tmp_path / "given"), {"train": (x, y)}, order="given").path
    for strategy in ("epoch", "epoch-delayed"):
        with pytest.raises(ConfigError, match=rf"^strategy: must not be {strategy} on several nodes with order: given"):
            inputs_of(given, strategy=strategy, nodes=2)
        assert inputs_of(given, strategy=strategy, nodes=1)
    assert inputs_of(given, strategy="local", nodes=2)
