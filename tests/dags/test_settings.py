"""What the DAGs' files make of the site's settings when Airflow imports them, without Spark and its database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.dags.site import ROOT, imported

PIPELINE, COMPARE = "sparksplit_pipeline", "sparksplit_compare"
SHIPPED = (ROOT / "conf" / "airflow.yaml").read_text()
CLUSTER_MODE = ("deploy_mode: client", "deploy_mode: cluster")
DATE = "{{ dag_run.run_after | ds }}"
SLOTS = ("executor.cores", "task.cpus")
DAYS = {"data": "hdfs:///sparksplit/prepared/*", "init": "hdfs:///sparksplit/runs/first", "partition": "ds"}

CASES: dict[str, tuple[str, list[tuple[str, str]] | None]] = {
    "pipeline": (PIPELINE, None),
    "pipeline, by asset": (PIPELINE, [CLUSTER_MODE, ('"@daily"', "hdfs://nn:8020/data/mnist")]),
    "pipeline, dates together": (
        PIPELINE,
        [(f"  {key}: null\n", f"  {key}: {value}\n") for key, value in DAYS.items()],
    ),
    "compare": (COMPARE, None),
    "compare, no schedule": (COMPARE, [CLUSTER_MODE, ('"0 12 * * 0"', "null")]),
}
"""The DAG's file, and what is changed in the shipped settings; None: they are taken from where they are shipped."""

MISTAKES = [
    ("retries: 3", "retry: 3", "retries: is missing"),
    ("retries: 3", "retries: 3\nqueue: default", "queue: unknown key"),
    ("  partition: null\n", "", "days.partition: is missing"),
    ("  train: 12", "  trian: 12", "timeout_hours.train: is missing"),
    ("compare_schedule:", "compare_scheduled:", "compare_schedule: is missing"),
    ("  compare: conf/compare-mlp.yaml\n", "", "config.compare: is missing"),
    ("  compare: 12", "  compare: 12\n  check: 1", "timeout_hours.check: unknown key"),
    ("  predict: conf/spark-defaults-preprocess.conf\n", "", "spark_defaults.predict: is missing"),
    ("deploy_mode: client", "deploy_mode: yarn", "deploy_mode: must be client or cluster (is yarn)"),
    (
        "  spark.driver.memory: 2g\n",
        "  spark.authenticate.secret.file: x\n  spark.hadoop.fs.s3a.access.key: x\n",
        "spark.hadoop.fs.s3a.access.key: every user could read it on a command line: set it in the site's own "
        "spark-defaults.conf, which spark-submit reads itself",
    ),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Airflow's home, and the changed settings."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def dags(python: Path, home: Path) -> dict[str, Any]:
    """What came of each import, by the case's name or the mistake's file; all in one process of Airflow's Python."""
    cases: dict[str, tuple[str, Path | None]] = {}
    for number, (name, (dag, changes)) in enumerate(CASES.items()):
        cases[name] = dag, None if changes is None else write(home / f"case-{number}.yaml", changes)
    for number, (old, new, _) in enumerate(MISTAKES):
        file = write(home / f"mistake-{number}.yaml", [(old, new)])
        cases[str(file)] = PIPELINE, file
    return dict(zip(cases, imported(python, home, list(cases.values())), strict=True))


def write(file: Path, changes: list[tuple[str, str]]) -> Path:
    """The shipped settings with changes."""
    text = SHIPPED
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    file.write_text(text)
    return file


def test_the_shipped_settings_make_the_pipeline(dags: dict[str, Any]) -> None:
    dag = dags["pipeline"]
    assert dag["order"] == ["preprocess", "train", "predict"]
    assert (dag["catchup"], dag["max_active_runs"]) == (False, 1)
    assert "sparksplit" in dag["doc"]
    tasks = dag["tasks"]
    prepared, runs, predictions = (f"hdfs:/sparksplit/{name}" for name in ("prepared", "runs", "predictions"))
    assert {name: (task["inlets"], task["outlets"]) for name, task in tasks.items()} == {
        "preprocess": ([], [prepared]),
        "train": ([prepared], [runs]),
        "predict": ([prepared, runs], [predictions]),
    }
    for name, task in tasks.items():
        assert (task["retries"], task["retry_delay"]) == (3, 300) and 0 < task["timeout"] <= 12 * 3600
        assert task["conf"]["spark.yarn.queue"] == "default" and task["conf"]["spark.yarn.maxAppAttempts"] == "1"
        assert task["conf"]["spark.yarn.tags"] == f"sparksplit,{name}" and task["name"] == f"sparksplit {name} {DATE}"
        assert all(DATE in text for text in task["arguments"] if text.startswith(("output=", "data=", "model=")))
        # A retry is the same command, which goes on by itself.
        assert not {"--resume", "--restart", "--overwrite"} & {*task["arguments"]}
    # A node has its executor to itself; rows go through several tasks at a time in each.
    slots = {name: [task["conf"][f"spark.{key}"] for key in SLOTS] for name, task in tasks.items()}
    assert slots == {"preprocess": ["4", "1"], "train": ["2", "2"], "predict": ["4", "1"]}
    # What stands in the settings themselves takes precedence over the files.
    assert {task["conf"]["spark.driver.memory"] for task in tasks.values()} == {"2g"}


def test_the_shipped_settings_make_the_comparison(dags: dict[str, Any]) -> None:
    dag = dags["compare"]
    assert dag["order"] == ["preprocess", "compare"]
    assert (dag["catchup"], dag["max_active_runs"]) == (False, 1)
    assert dag["schedule"] == "0 12 * * 0"
    data, output = f"hdfs:///sparksplit/compared/{DATE}", f"hdfs:///sparksplit/comparisons/{DATE}"
    preprocess, compare = (dag["tasks"][name] for name in dag["order"])
    assert (preprocess["inlets"], preprocess["outlets"]) == ([], ["hdfs:/sparksplit/compared"])
    assert (compare["inlets"], compare["outlets"]) == (["hdfs:/sparksplit/compared"], ["hdfs:/sparksplit/comparisons"])
    config = str(ROOT / "conf" / "compare-mlp.yaml")
    assert compare["arguments"] == ["--config", config, "--set", f"data={data}", "--set", f"output={output}"]
    assert preprocess["arguments"][-1] == f"output={data}"
    assert compare["files"] is None
    assert (compare["retries"], compare["timeout"]) == (3, 12 * 3600)
    assert compare["conf"]["spark.yarn.queue"] == "default"


def test_parsing_stays_cheap(dags: dict[str, Any], home: Path) -> None:
    assert [dags[name]["foreign"] for name in CASES] == [[]] * len(CASES)
    assert not list(home.rglob("*.db"))  # the database was not asked


def test_cluster_mode_and_a_schedule_by_asset(dags: dict[str, Any]) -> None:
    dag = dags["pipeline, by asset"]
    assert "Asset" in dag["schedule"] and dag["tasks"]["preprocess"]["inlets"] == ["hdfs://nn:8020/data/mnist"]
    # The driver runs where there is no checkout.
    train = dag["tasks"]["train"]
    assert train["files"] == str(ROOT / "conf" / "train-mlp.yaml")
    assert train["arguments"][:2] == ["--config", "train-mlp.yaml"]


def test_cluster_mode_without_a_schedule(dags: dict[str, Any]) -> None:
    dag = dags["compare, no schedule"]
    assert dag["schedule"] == "None"
    compare = dag["tasks"]["compare"]
    assert compare["files"] == str(ROOT / "conf" / "compare-mlp.yaml")
    assert compare["arguments"][:2] == ["--config", "compare-mlp.yaml"]


def test_dates_may_go_together(dags: dict[str, Any]) -> None:
    tasks = dags["pipeline, dates together"]["tasks"]
    train, predict = tasks["train"]["arguments"], tasks["predict"]["arguments"]
    assert {f"data={DAYS['data']}", f"init={DAYS['init']}"} <= set(train)
    assert {"output=hdfs:///sparksplit/predictions", f"partition.ds={DATE}"} <= set(predict)
    assert f"input=hdfs:///sparksplit/prepared/{DATE}" in predict


def test_mistakes_in_the_settings_are_named(dags: dict[str, Any], home: Path) -> None:
    files = [str(home / f"mistake-{number}.yaml") for number in range(len(MISTAKES))]
    wanted = [f"ValueError: {file}: {message}" for file, (_, _, message) in zip(files, MISTAKES, strict=True)]
    assert [dags[file] for file in files] == wanted
