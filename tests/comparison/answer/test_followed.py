"""The key `comparison` of `train`: a run takes what a finished comparison has decided, or says why it cannot."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sparksplit.base.config import load, parse
from sparksplit.base.errors import ConfigError
from sparksplit.comparison.answer.content import Answer, Gain, Note
from sparksplit.comparison.answer.followed import followed
from sparksplit.comparison.compare_config import CompareConfig
from sparksplit.comparison.content import DataFacts
from sparksplit.comparison.content_table import Pair, TimePair
from sparksplit.comparison.plan import plan
from sparksplit.comparison.results import settings_of
from sparksplit.comparison.work import Work
from sparksplit.dataset.arrays import from_arrays
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.training.choice import note
from sparksplit.training.decided import decided
from sparksplit.training.inputs import RunInputs, open_data
from sparksplit.training.report import versions
from sparksplit.training.train_config import TrainConfig
from tests.comparison.records import compared_run, metric_of, some_results, table_row
from tests.hdfs_io.outputs import fenced

BUILDER = "def build(data, units=3):\n    ...\n"
KEYS = {"batch_size": 16, "optimizer": {"name": "sgd", "learning_rate": 0.1}, "epochs": 3, "readers": 2}
LOCAL = {"strategy": "local", "sync": {"every": 8, "outer": "nesterov"}, "optimizer": {"learning_rate": 0.02}}

_PAIRED = {
    "name": "n", "nodes": 2, "against": "single", "against_nodes": 1, "seeds": 5, "of": 5, "low": None, "high": None,
    "pooled": False,
}  # fmt: skip
GAIN = Gain(
    speed=TimePair(**_PAIRED, what="in all", times=2.0, at_least=None, verdict="faster"),
    quality=Pair(**_PAIRED, virtual=False, quantity="accuracy", mean=0.0, verdict="no difference"),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("followed")
    x = np.arange(90, dtype=np.int32).reshape(-1, 1)
    for name, label in (("data", x[:, 0] % 3), ("other", x[:, 0] % 2)):
        from_arrays(str(folder / name), dict.fromkeys(("train", "validation", "test"), (x, label)), lanes=8)
    (folder / "mine.py").write_text(BUILDER)
    return folder


@pytest.fixture
def finished(folder):
    """Writes results.json of a comparison whose answer is one of its planned runs. Gives these runs by row. record:
    fields of the run's record. facts: fields of the results."""

    def finish(row=("batch", 2), record=None, facts=None, **answer):
        keys = {"data": str(folder / "data"), "output": "o", "model": {"build": f"{folder}/mine.py:build"}, **KEYS}
        config = parse(CompareConfig, {**keys, "strategies": ["single", "batch", "epoch", LOCAL], "nodes": [1, 2, 4]})
        data = PreparedDataSet.open(keys["data"])
        runs = {(run.name, run.config.nodes): run for run in plan(config) if not run.reference}
        run = runs[row]
        made = {
            "name": run.name, "nodes": run.config.nodes, "seed": run.config.seed,
            "config": run.config.model_dump(mode="json"), "config_hash": Work.of(run, data).hash,
        }  # fmt: skip
        choice = table_row(name=run.name, nodes=run.config.nodes, settings=settings_of(run.config, config))
        told = Answer(**{"decision": "use", "choice": choice, "gain": GAIN, **answer})
        results = some_results(
            [], [], metric_of(), config=config.model_dump(mode="json"), runs=[compared_run(**made | (record or {}))],
            answer=told, data=DataFacts("elsewhere", data.digest, {"train": 90}), **facts or {},
        )  # fmt: skip
        (folder / "compared").mkdir(exist_ok=True)
        (folder / "compared" / "results.json").write_text(json.dumps(results.to_json()))
        (folder / "compared" / "_SUCCESS").touch()
        return runs

    return finish


def inputs(folder, has_frame=False, **keys):
    """A run with `strategy: auto`."""
    values = {
        "data": str(folder / "data"), "output": str(folder / "run"), "model": {"build": f"{folder}/mine.py:build"},
        **KEYS, "strategy": "auto", "nodes": 4, "comparison": str(folder / "compared"), **keys,
    }  # fmt: skip
    (folder / "train.yaml").write_text("".join(f"{key}: {json.dumps(value)}\n" for key, value in values.items()))
    config = load(TrainConfig, str(folder / "train.yaml"))
    return RunInputs.of(config, open_data(config), has_frame)


def test_each_planned_run_can_be_followed(folder, finished, capsys):
    """`epoch` on four nodes raises the epochs of all, and `local` has its own learning rate."""
    rows = finished()
    assert {name.partition(",")[0] for name, _ in rows} == {"single", "batch", "epoch", "local"}
    for row, run in rows.items():
        finished(row)
        asked = inputs(folder, seed=7, metrics=["accuracy"], early_stop={}, readers=1, max_restarts=0)
        found, choice = decided(asked, None, followed)
        free = ("seed", "metrics", "early_stop", "readers", "max_restarts", "output", "comparison")
        assert found.config == run.config.model_copy(update={key: getattr(found.config, key) for key in free})
        assert (choice.nodes, choice.seconds) == (run.config.nodes, {})
        said, called = capsys.readouterr().err, f"{row[1]} node{'s' if row[1] > 1 else ''}"
        assert f"auto, by {folder / 'compared'}: Use {called}" in said and "2 times as fast as 1 node" in said
        assert "It changes: " in said and "epochs was 3, is 4" in said and "nodes was" not in said
        assert ("optimizer.learning_rate was 0.1, is 0.02" in said) == ("0.02" in row[0])
        assert "Its times are with other keys: readers was 2, is 1." in said


def test_the_line_says_nothing_of_what_is_the_same(folder, finished, capsys):
    finished(decision="stay", gain=None, row=("single", 1), facts={"versions": versions()})
    decided(inputs(folder, epochs=4), None, followed)
    line = f"auto, by {folder / 'compared'}: Stay on 1 node as configured: nothing else is shown to be faster"
    assert capsys.readouterr().err.endswith(f"{line} without learning worse or diverging.\n")


def test_the_line_names_other_versions(folder, finished, capsys):
    finished(facts={"versions": {**versions(), "keras": "3.0"}})
    decided(inputs(folder), None, followed)
    assert "It was made with other versions: keras was 3.0, is 3." in capsys.readouterr().err


def test_a_choice_holds_although_the_comparison_is_gone(folder, finished, tmp_path, capsys):
    """It has the hash of `auto`, whatever was chosen, and whether a comparison has chosen."""
    rows = finished(("epoch", 4))
    asked = inputs(folder)
    found, choice = decided(asked, None, followed)
    with fenced(tmp_path) as run:
        note(run, choice)
    later = inputs(folder, comparison="/none", nodes=8)
    capsys.readouterr()
    again, chosen = decided(later, str(tmp_path), followed)
    assert chosen == choice and later.hash() == asked.hash() == inputs(folder, comparison=None).hash()
    same = {"comparison": found.config.comparison}
    assert again.config.model_copy(update=same) == found.config and found.config.nodes == rows["epoch", 4].config.nodes
    assert "auto: epoch on 4 nodes, by a comparison (chosen by an earlier command;" in capsys.readouterr().err
    with pytest.raises(ConfigError, match=r"nodes: must be at least 4 \(is 2\), as the comparison recommends"):
        decided(inputs(folder, nodes=2), str(tmp_path), followed)


def test_without_the_key_the_nodes_measure(folder):
    asked = inputs(folder, comparison=None)
    assert decided(asked, None, followed) == (asked, None)


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"comparison": "/none"}, "comparison: /none: not a complete comparison: no _SUCCESS file"),
        ({"strategy": "batch"}, "comparison: needs strategy: auto (is batch)"),
        ({"nodes": 1}, "comparison: {} recommends 2 nodes with `batch`: "),
        ({"nodes": 1}, "nodes: must be at least 2 (is 1), as the comparison recommends"),
        ({"collective": "tensorflow"}, "comparison: {} is not about this run (collective was ring, is tensorflow)"),
        ({"batch_size": 32}, "comparison: {} is not about this run (batch_size was 16, is 32)"),
        ({"optimizer": {"name": "adam", "learning_rate": 0.1}}, "(optimizer.name was sgd, is adam)"),
        ({"model": {"build": "mlp"}}, "(model.build has changed)"),
        ({"data": "other"}, "comparison: {} is not about this run (data has changed)"),
        ({"init": "weights.keras"}, "comparison: {} is not about this run: its runs had other files of functions"),
        ({"epochs": 5}, "comparison: {} is not about this run (epochs was 3, is 5)"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_in_a_line(folder, finished, monkeypatch, keys, problem):
    from sparksplit.training.initial import Initial

    monkeypatch.setattr(Initial, "of", lambda config: config.init and Initial(config.init, "digest", None))
    finished()
    keys = {key: str(folder / value) if key == "data" else value for key, value in keys.items()}
    with pytest.raises(ConfigError) as error:
        followed(inputs(folder, **keys))
    assert f"{folder}/train.yaml:" in str(error.value) and "\n" not in str(error.value)
    assert problem.format(folder / "compared") in str(error.value)


def test_another_file_of_the_builder_is_refused(folder, finished):
    finished()
    file = Path(folder / "mine.py")
    file.write_text(BUILDER.replace("3", "4"))
    try:
        with pytest.raises(ConfigError, match="its runs had other files of functions"):
            followed(inputs(folder))
    finally:
        file.write_text(BUILDER)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (
            {"decision": "undecided", "facts": {"seeds": [1]}},
            "has decided nothing: No winner yet: one seed cannot tell a real",
        ),
        (
            {"decision": "nothing to compare", "choice": None, "notes": [Note(kind="no other")]},
            "has decided nothing: Nothing to compare: `strategies` needs another one than `single`",
        ),
    ],
)
def test_an_answer_that_decides_nothing_is_refused(folder, finished, answer, problem):
    finished(**answer)
    with pytest.raises(ConfigError, match=problem):
        followed(inputs(folder))


@pytest.mark.parametrize(
    ("record", "problem"),
    [
        ({"name": "other"}, "has no run of 2 nodes with `batch`, which it recommends"),
        ({"config": {"data": "d", "output": "o", "gone": 1}}, "was made by another version of sparksplit: gone: "),
    ],
)
def test_a_record_that_does_not_fit_is_named(folder, finished, record, problem):
    finished(record=record)
    with pytest.raises(ConfigError, match=f"{folder}/train.yaml:.*comparison: {folder / 'compared'} {problem}"):
        followed(inputs(folder))


def test_what_the_recommended_strategy_refuses_is_said_to_be_recommended(folder, finished):
    finished(next(row for row in finished() if row[0].startswith("local") and row[1] == 2))
    with pytest.raises(ConfigError, match=r"recommends 2 nodes with `local`.*checkpoint\.every must be epoch or null"):
        followed(inputs(folder, checkpoint={"every": 8}))


def test_a_comparison_says_nothing_about_the_rows_of_a_dataframe(folder, finished):
    finished()
    with pytest.raises(ConfigError, match="not about those of a DataFrame"):
        followed(inputs(folder, has_frame=True))


def test_the_comparison_is_an_input_of_the_run(folder):
    """Inputs are never replaced, also with --overwrite."""
    assert inputs(folder).paths["comparison"] == str(folder / "compared")
