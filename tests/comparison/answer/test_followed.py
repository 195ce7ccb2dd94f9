"""The key `comparison` of `train`: a run takes what a finished comparison has decided, or says why it cannot."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sparksplit.base.config import load, parse
from sparksplit.base.errors import ConfigError
from sparksplit.comparison.answer.content import Answer, Note, Option
from sparksplit.comparison.answer.followed import followed
from sparksplit.comparison.compare import _Work
from sparksplit.comparison.compare_config import CompareConfig
from sparksplit.comparison.content import DataFacts
from sparksplit.comparison.plan import plan
from sparksplit.comparison.results import settings_of
from sparksplit.dataset.arrays import from_arrays
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.training.train_config import TrainConfig
from tests.comparison.records import compared_run, metric_of, some_results

BUILDER = "def build(data, units=3):\n    ...\n"
KEYS = {"batch_size": 16, "optimizer": {"name": "sgd", "learning_rate": 0.1}, "epochs": 3, "readers": 2}
LOCAL = {"strategy": "local", "sync": {"every": 8, "outer": "nesterov"}, "optimizer": {"learning_rate": 0.02}}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("followed")
    x = np.arange(90, dtype=np.int32).reshape(-1, 1)
    for name, label in (("data", x[:, 0] % 3), ("other", x[:, 0] % 2)):
        from_arrays(str(folder / name), {"train": (x, label), "test": (x[:9], label[:9])}, lanes=8)
    (folder / "mine.py").write_text(BUILDER)
    return folder


@pytest.fixture
def finished(folder):
    """Writes results.json of a comparison whose answer is one of its planned runs. Gives these runs by row."""

    def finish(row=("batch", 2), **answer):
        keys = {"data": str(folder / "data"), "output": "o", "model": {"build": f"{folder}/mine.py:build"}, **KEYS}
        config = parse(CompareConfig, {**keys, "strategies": ["single", "batch", "epoch", LOCAL], "nodes": [1, 2, 4]})
        data = PreparedDataSet.open(keys["data"])
        runs = {(run.name, run.config.nodes): run for run in plan(config) if not run.reference}
        run = runs[row]
        record = compared_run(
            name=run.name, nodes=run.config.nodes, seed=run.config.seed, config=run.config.model_dump(mode="json"),
            config_hash=_Work.of(run, data).hash,
        )  # fmt: skip
        choice = Option(
            name=run.name, nodes=run.config.nodes, settings=settings_of(run.config, config), seconds=1, metric=1
        )
        made = Answer(
            **{"decision": "use", "goal": "in all", "target": None, "metric": "accuracy", "split": "test", "seeds": 5,
               "choice": choice, "gain": None, **answer}
        )  # fmt: skip
        results = some_results(
            [], [], metric_of(), config=config.model_dump(mode="json"), runs=[record], answer=made,
            data=DataFacts("elsewhere", data.digest, {"train": 90}),
        )  # fmt: skip
        (folder / "compared").mkdir(exist_ok=True)
        (folder / "compared" / "results.json").write_text(json.dumps(results.to_json()))
        (folder / "compared" / "_SUCCESS").touch()
        return runs

    return finish


def asked(folder, **keys):
    """What a run with `strategy: auto` becomes."""
    values = {
        "data": str(folder / "data"), "output": "o", "model": {"build": f"{folder}/mine.py:build"}, **KEYS,
        "strategy": "auto", "nodes": 4, "comparison": str(folder / "compared"), **keys,
    }  # fmt: skip
    (folder / "train.yaml").write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in values.items()))
    return followed(load(TrainConfig, str(folder / "train.yaml")))


def test_each_planned_run_can_be_followed(folder, finished, capsys):
    """`epoch` on four nodes raises the epochs of all, and `local` has its own learning rate."""
    rows = finished()
    assert {name.partition(",")[0] for name, _ in rows} == {"single", "batch", "epoch", "local"}
    for row, run in rows.items():
        finished(row)
        found = asked(folder, seed=7, metrics=["accuracy"], early_stop={}, readers=1, max_restarts=0)
        then = run.config.model_copy(
            update={key: getattr(found, key) for key in ("seed", "metrics", "early_stop", "readers", "max_restarts")}
        )
        assert found.model_copy(update={"comparison": None, "output": then.output}) == then
        assert f"auto, by {folder / 'compared'}: Stay on 1 node" in capsys.readouterr().err


def test_without_the_key_nothing_is_looked_at(folder):
    config = parse(TrainConfig, {"data": "none", "output": "o", "strategy": "auto", "nodes": 2})
    assert followed(config) is config


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"comparison": "/none"}, "comparison: /none: not a complete comparison: no _SUCCESS file"),
        ({"strategy": "batch"}, "comparison: needs strategy: auto (is batch)"),
        ({"nodes": 1}, "nodes: must be at least 2 (is 1): {} recommends 2 nodes with `batch`"),
        ({"batch_size": 32}, "comparison: {} is not about this run (batch_size was 16, is 32)"),
        ({"optimizer": {"name": "adam", "learning_rate": 0.1}}, "(optimizer.name was sgd, is adam)"),
        ({"model": {"build": "mlp"}}, "(model.build has changed)"),
        ({"data": "other"}, "comparison: {} is not about this run (data has changed)"),
        ({"init": "weights.keras"}, "comparison: {} is not about this run: its runs had other files of functions"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_a_line(folder, finished, monkeypatch, keys, problem):
    from sparksplit.training.initial import Initial

    monkeypatch.setattr(Initial, "of", lambda config: config.init and Initial(config.init, "digest", None))
    finished()
    keys = {key: str(folder / value) if key == "data" else value for key, value in keys.items()}
    with pytest.raises(ConfigError) as error:
        asked(folder, **keys)
    assert f"{folder}/train.yaml:" in str(error.value) and "\n" not in str(error.value)
    assert problem.format(folder / "compared") in str(error.value)


def test_another_file_of_the_builder_is_refused(folder, finished):
    finished()
    file = Path(folder / "mine.py")
    file.write_text(BUILDER.replace("3", "4"))
    try:
        with pytest.raises(ConfigError, match="its runs had other files of functions"):
            asked(folder)
    finally:
        file.write_text(BUILDER)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        ({"decision": "undecided", "seeds": 1}, "has decided nothing: No winner yet: one seed cannot tell a real"),
        (
            {"decision": "nothing to compare", "choice": None, "notes": [Note(kind="missing", key="nodes", nodes=2)]},
            "has decided nothing: Nothing to compare: add 2 to `nodes`.",
        ),
    ],
)
def test_an_answer_that_decides_nothing_is_refused(folder, finished, answer, problem):
    finished(**answer)
    with pytest.raises(ConfigError, match=problem):
        asked(folder)


def test_a_comparison_says_nothing_about_the_rows_of_a_dataframe(folder, finished):
    finished()
    values = {"data": str(folder / "data"), "output": "o", "strategy": "auto", "comparison": str(folder / "compared")}
    with pytest.raises(ConfigError, match="not about those of a DataFrame"):
        followed(parse(TrainConfig, values), has_frame=True)


def test_the_comparison_is_an_input_of_the_run(folder, finished):
    """Inputs are never replaced, also with --overwrite."""
    from sparksplit.training.inputs import RunInputs, open_data

    finished()
    found = asked(folder)
    assert RunInputs.of(found, open_data(found)).paths["comparison"] == str(folder / "compared")
