"""The searched values: checked before Spark starts, and put into configurations."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import sparksplit
from sparksplit.base.config import load, parse
from sparksplit.base.errors import UsageError
from sparksplit.dataset.arrays import from_arrays
from sparksplit.searching import checked as checked_module
from sparksplit.searching import space
from sparksplit.searching.best import best_yaml
from sparksplit.searching.checked import check_around, checked
from sparksplit.searching.search_config import Range, SearchConfig
from sparksplit.searching.search_record import SearchRecord, Trial
from sparksplit.training.train_config import TrainConfig

BUILDER = """
import keras

def build(data):
    return keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(3)])
"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("search") / "data"
    generator = np.random.default_rng(5)
    rows = (generator.integers(0, 9, (40, 4, 4)).astype("u1"), np.arange(40) % 3)
    from_arrays(str(folder), {"train": rows, "validation": rows}, scaling="unit", classes=3, lanes=4)
    return folder


def config(data: Path, folder: Path, keys: str, **others: Any) -> SearchConfig:
    """The configuration in a file whose sixth line has the searched keys."""
    section = {"trials": 2, **others.pop("search", {})}
    text = f"data: {data}\noutput: {folder}/out\nsearch:\n  trials: {section.pop('trials')}\n  keys:\n    {keys}\n"
    text += "".join(f"  {key}: {value}\n" for key, value in section.items())
    text += yaml.safe_dump(others) if others else ""
    (folder / "search.yaml").write_text(text)
    return load(SearchConfig, str(folder / "search.yaml"))


@pytest.mark.parametrize(
    ("keys", "line"),
    [
        ("batch_sise: [32, 64]", "search.yaml:6: batch_sise: unknown key; did you mean 'batch_size'?"),
        ("batch_size: [32, 64.5]", "search.yaml:6: batch_size: must be a whole number (is 64.5)"),
        ("batch_size: {low: 0, high: 64}", "search.yaml:6: batch_size: must be above 0 (is 0)"),
        ("batch_size: [32, 32]", "search.yaml:6: search.keys.batch_size: has a value twice (32)"),
        ("optimizer.learning_rate: {low: 1, high: 0.1}", "must go from a lower number to a higher one (is 1 to 0.1)"),
        ("optimizer.learning_rate: {low: 0, high: 1, log: true}", "low must be above 0 with log: true (is 0)"),
        ("optimizer: [{name: sgd}, {name: adan}]", "search.yaml:6: optimizer.name: Keras has no 'adan'"),
        ("model.params.hiden: [[16], [8]]", "model.params.hiden: mlp has no such argument; did you mean 'hidden'?"),
        ("data: [a, b]", "search.yaml:6: search.keys.data: cannot be searched: all trials must have the same rows"),
        ("{optimizer: [{}, {name: adam}], optimizer.name: [sgd, adam]}", "belongs to optimizer, which is searched too"),
        ("{strategy: [single, batch], nodes: [1, 2]}", "nodes must be 1 with strategy: single (is 2)"),
        ("{batch_size: [1, 2], epochs: [1, 2]}", ""),
        ("metric_weights: [true, false]", "cannot be searched: all trials must be measured alike"),
        ("checkpoint.keep: [1, 2]", "search.keys.checkpoint.keep: cannot be searched: it does not change the model"),
        ("tls: [true, false]", "search.keys.tls: cannot be searched: it does not change the model"),
        ("{strategy: [batch, auto], nodes: [2, 3]}", "must not be auto in a search"),
        (
            "model.params.dropout: {low: 0, high: 1}",
            "dropout: must be written with a decimal point, as {low: 0.0, high",
        ),
    ],
)
def test_values_that_no_trial_could_have_are_refused(data: Path, tmp_path: Path, keys: str, line: str) -> None:
    if not line:
        assert checked(config(data, tmp_path, keys)).metric == "accuracy"
        return
    with pytest.raises(UsageError) as error:
        checked(config(data, tmp_path, keys))
    assert line in str(error.value)
    assert "\n" not in str(error.value)


def test_more_trials_than_values_and_wrong_metrics_are_refused(data: Path, tmp_path: Path) -> None:
    keys = "batch_size: [1, 2]"
    for section, line in (
        ({"trials": 3}, "search.trials: must be at most 2 (is 3)"),
        ({"metric": "aucc"}, "search.metric: must be one of loss, accuracy (is 'aucc')"),
        ({"metric_better": "lower"}, "search.metric_better: is lower, but the opposite is true of accuracy"),
    ):
        with pytest.raises(UsageError) as error:
            checked(config(data, tmp_path, keys, search=section))
        assert line in str(error.value)


def test_the_loss_of_another_reduction_cannot_decide(data: Path, tmp_path: Path) -> None:
    keys = "reduction: [mean_with_sample_weight, sum_over_batch_size]"
    assert checked(config(data, tmp_path, keys)).metric == "accuracy"
    with pytest.raises(UsageError, match="reduction: cannot be searched: the losses of the trials could not be comp"):
        checked(config(data, tmp_path, keys, search={"metric": "loss"}))


def test_a_key_of_the_other_command_says_where_it_belongs(data: Path, tmp_path: Path) -> None:
    found = config(data, tmp_path, "batch_size: [1, 2]").origin.file
    with pytest.raises(UsageError, match=r"search.yaml:3: search: is for `sparksplit search`, which reads this file"):
        load(TrainConfig, found)
    with pytest.raises(UsageError, match="callbacks: is for train: the trials of a search have no callbacks of yours"):
        sparksplit.search(str(data), f"{tmp_path}/out", keys={"batch_size": [1, 2]}, callbacks=[])
    with pytest.raises(UsageError, match="search: give its keys as arguments, such as trials=20"):
        sparksplit.search(str(data), f"{tmp_path}/out", keys={"batch_size": [1, 2]}, search={"trials": 2})


def test_choices_are_as_json_gives_them_back() -> None:
    def choices(*values: Any) -> Any:
        section = {"keys": {"a": list(values)}, "trials": 2}
        return parse(SearchConfig, {"data": "d", "output": "o", "search": section}).search.keys["a"]

    assert choices((8,), (16, 8)) == [[8], [16, 8]]
    found = choices(np.float32(0.5), np.int64(2))
    assert found == [0.5, 2] and [type(value) for value in found] == [float, int]
    with pytest.raises(UsageError, match=r"a: must have only texts, numbers, .* \(is \[<object"):
        choices(object(), 1)
    with pytest.raises(UsageError, match="a: has a value twice"):
        choices((8,), [8])


def test_all_pairs_of_values_are_checked_if_there_are_many_keys(data: Path, tmp_path: Path) -> None:
    keys = {f"k{number}": list(range(3)) for number in range(8)}
    pairs = {(one, other) for each in space.corners(keys) for one, other in itertools.combinations(each.items(), 2)}
    assert len(pairs) == 9 * math.comb(8, 2)


def test_the_metric_of_a_compiled_model_decides(data: Path, tmp_path: Path) -> None:
    import keras

    model = keras.Sequential([keras.layers.Input((4, 4)), keras.layers.Flatten(), keras.layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(loss=loss, metrics=["sparse_top_k_categorical_accuracy"])
    model.save(tmp_path / "own.keras")
    build = {"build": str(tmp_path / "own.keras")}
    assert checked(config(data, tmp_path, "batch_size: [1, 2]", model=build)).metric == "loss"


def test_data_and_files_of_all_choices_are_in_the_hash_and_compared_again(data: Path, tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.py").write_text(BUILDER)
    keys = f"model.build: ['{tmp_path}/a.py:build', '{tmp_path}/b.py:build']"
    known = checked(config(data, tmp_path, keys))
    assert {f"{tmp_path}/a.py", f"{tmp_path}/b.py"} <= set(known.paths.values())
    known.check_unchanged()
    (tmp_path / "b.py").write_text(BUILDER + "# changed\n")
    assert checked(known.config).hash != known.hash
    with pytest.raises(UsageError, match=r"have changed since the search began \(model.build's file.*begin anew with"):
        known.check_unchanged()


def test_too_few_executors_are_known_before_spark_starts(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = checked(config(data, tmp_path, "nodes: [1, 3]", strategy="batch"))
    settings = {"spark.master": "local-cluster[2,1,1024]", "spark.executor.cores": "1"}
    monkeypatch.setattr(checked_module, "known_settings", lambda: settings)
    with pytest.raises(UsageError, match="3 nodes need 3 executors, and the settings allow 2"):
        check_around(known)


def test_validation_rows_are_needed(tmp_path: Path) -> None:
    rows = (np.zeros((6, 4, 4), "u1"), np.arange(6) % 2)
    from_arrays(str(tmp_path / "data"), {"train": rows}, scaling="unit", classes=2, lanes=2)
    with pytest.raises(UsageError, match="no validation rows, and a search needs them; prepare it with `validation`"):
        checked(config(tmp_path / "data", tmp_path, "batch_size: [1, 2]"))


def test_the_hash_is_of_what_can_change_the_result(data: Path, tmp_path: Path) -> None:
    def hashed(keys: str = "batch_size: [1, 2]", **others: Any) -> str:
        return checked(config(data, tmp_path, keys, **others)).hash

    same = hashed(search={"side_by_side": 2})
    assert hashed() == same == hashed(mlflow=True)
    others = [{"keys": "batch_size: [1, 3]"}, {"seed": 2}, {"search": {"prune": "false"}}, {"search": {"trials": 1}}]
    assert len({same, *(hashed(**each) for each in others)}) == 1 + len(others)


@given(st.integers(-20, 20), st.integers(1, 30), st.integers(2, 4))
def test_whole_numbers_are_counted(low: int, width: int, choices: int) -> None:
    values: space.Space = {"a": Range(low=low, high=low + width), "b": list(range(choices))}
    every = list(space.combinations(values))
    assert len(every) == space.size(values) == (width + 1) * choices
    assert len(set(map(str, every))) == len(every)
    corners = space.corners(values)
    assert {tuple(one.values()) for one in corners} == set(itertools.product([low, low + width], range(choices)))
    assert {one["a"] for one in space.singles(values)} == {low, low + width}


@given(st.floats(-1e6, 1e6), st.floats(1e-9, 1e6), st.floats(0, 1))
def test_a_rounded_number_stays_in_its_range(low: float, width: float, part: float) -> None:
    values = Range(low=low, high=low + max(width, abs(low) * 1e-6))
    assert values.low <= space.rounded(values, values.low + part * (values.high - values.low)) <= values.high


def test_a_value_replaces_the_whole_earlier_value() -> None:
    values = {"optimizer": {"name": "sgd", "momentum": 0.9}, "nodes": 2}
    changed = space.with_keys(values, {"optimizer": {"name": "adam"}, "nodes.virtual": 4, "model.params.hidden": [8]})
    assert changed["optimizer"] == {"name": "adam"} and changed["nodes"] == {"virtual": 4}
    assert changed["model"] == {"params": {"hidden": [8]}}
    assert values == {"optimizer": {"name": "sgd", "momentum": 0.9}, "nodes": 2}


def test_the_best_is_a_configuration_of_train(data: Path, tmp_path: Path) -> None:
    found = config(data, tmp_path, "optimizer.learning_rate: {low: 0.00001, high: 1, log: true}", epochs=3)
    best = Trial(number=2, keys={"optimizer.learning_rate": 0.00003}, state="complete", value=0.5)
    record = SearchRecord(metric="accuracy", higher=True, wanted=2, trials=[best])
    (tmp_path / "best.yaml").write_text(best_yaml(found, record, best))
    train = load(TrainConfig, str(tmp_path / "best.yaml"))
    assert train.optimizer.learning_rate == 0.00003 and train.epochs == 3 and train.output == f"{tmp_path}/out-best"
    assert train == parse(TrainConfig, train.model_dump(exclude_unset=True))
