"""The Airflow DAG, in a real Airflow, with real spark-submits."""

from __future__ import annotations

import gzip
import json
import re
import signal
from pathlib import Path

from tests.dags.site import ROOT, Site, eventually, imported, refused

DATE = "2026-01-02"
SLOTS = ("executor.cores", "task.cpus")


def test_the_shipped_settings_make_the_dag_without_spark(python: Path, tmp_path: Path) -> None:
    done = imported(python, tmp_path)
    assert done.returncode == 0, done.stderr
    dag = json.loads(done.stdout.splitlines()[-1])
    assert dag["foreign"] == []
    assert not list(tmp_path.rglob("*.db"))  # nor was the database asked: parsing stays cheap
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
    date = "{{ dag_run.run_after | ds }}"
    for name, task in tasks.items():
        assert (task["retries"], task["retry_delay"]) == (3, 300) and 0 < task["timeout"] <= 12 * 3600
        assert task["conf"]["spark.yarn.queue"] == "default" and task["conf"]["spark.yarn.maxAppAttempts"] == "1"
        assert all(date in text for text in task["arguments"] if text.startswith(("output=", "data=", "model=")))
        assert ("--resume" in task["arguments"]) == (name == "train")
    # A node has its executor to itself; rows go through several tasks at a time in each.
    slots = {name: [task["conf"][f"spark.{key}"] for key in SLOTS] for name, task in tasks.items()}
    assert slots == {"preprocess": ["4", "1"], "train": ["2", "2"], "predict": ["4", "1"]}
    # What stands in the settings themselves takes precedence over the files.
    assert {task["conf"]["spark.driver.memory"] for task in tasks.values()} == {"2g"}


def test_cluster_mode_and_a_schedule_by_asset(python: Path, tmp_path: Path) -> None:
    text = (ROOT / "conf" / "airflow.yaml").read_text()
    text = text.replace("deploy_mode: client", "deploy_mode: cluster").replace('"@daily"', "hdfs://nn:8020/data/mnist")
    (tmp_path / "airflow.yaml").write_text(text)
    done = imported(python, tmp_path, SPARKSPLIT_PIPELINE=str(tmp_path / "airflow.yaml"))
    assert done.returncode == 0, done.stderr
    dag = json.loads(done.stdout.splitlines()[-1])
    assert "Asset" in dag["schedule"] and dag["tasks"]["preprocess"]["inlets"] == ["hdfs://nn:8020/data/mnist"]
    # The driver runs where there is no checkout.
    train = dag["tasks"]["train"]
    assert train["files"] == str(Path(train["files"]).parent / "train-mlp.yaml")
    assert train["arguments"][:2] == ["--config", "train-mlp.yaml"]


def test_dates_may_go_together(python: Path, tmp_path: Path) -> None:
    text = (ROOT / "conf" / "airflow.yaml").read_text()
    days = {"data": "hdfs:///sparksplit/prepared/*", "init": "hdfs:///sparksplit/runs/first", "partition": "ds"}
    for key, value in days.items():
        assert f"  {key}: null\n" in text
        text = text.replace(f"  {key}: null\n", f"  {key}: {value}\n")
    (tmp_path / "airflow.yaml").write_text(text)
    done = imported(python, tmp_path, SPARKSPLIT_PIPELINE=str(tmp_path / "airflow.yaml"))
    assert done.returncode == 0, done.stderr
    tasks = json.loads(done.stdout.splitlines()[-1])["tasks"]
    train, predict = tasks["train"]["arguments"], tasks["predict"]["arguments"]
    assert {f"data={days['data']}", f"init={days['init']}"} <= set(train)
    date = "{{ dag_run.run_after | ds }}"
    assert {"output=hdfs:///sparksplit/predictions", f"partition.ds={date}"} <= set(predict)
    assert f"input=hdfs:///sparksplit/prepared/{date}" in predict


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
]


def test_mistakes_in_the_settings_are_named(python: Path, tmp_path: Path) -> None:
    text = (ROOT / "conf" / "airflow.yaml").read_text()
    files = [tmp_path / f"airflow-{number}.yaml" for number in range(len(MISTAKES))]
    for file, (old, new, _) in zip(files, MISTAKES, strict=True):
        assert old in text
        file.write_text(text.replace(old, new))
    wanted = [f"ValueError: {file}: {message}" for file, (_, _, message) in zip(files, MISTAKES, strict=True)]
    assert refused(python, tmp_path, files) == wanted


def follower(base: Path) -> str:
    """The page's example of a DAG that follows the pipeline."""
    (example,) = re.findall(r"```python\n(from airflow.*?)```", (ROOT / "docs" / "airflow.md").read_text(), re.DOTALL)
    assert "hdfs:///sparksplit/predictions" in example
    return str(example).replace("hdfs:///sparksplit", str(base))


def test_a_run_leaves_everything_and_the_same_date_again_changes_nothing(site: Site) -> None:
    (site.dags / "after.py").write_text(follower(site.out))
    # Date by date: the raw folder's name has it too.
    (site.folder / "raw").rename(site.folder / DATE)
    site.settings["raw"] = f"{site.folder}/{{{{ dag_run.run_after | ds }}}}"
    assert site.run(DATE) == 0, site.log.read_text()[-3000:]
    done = dict.fromkeys(("preprocess", "train", "predict"), "success")
    assert site.states() == done
    for name in ("prepared", "runs", "predictions"):
        assert [path.name for path in (site.out / name).iterdir()] == [DATE]
        assert (site.out / name / DATE / "_SUCCESS").is_file()
    run = json.loads((site.out / "runs" / DATE / "run.json").read_text())
    metrics = json.loads((site.out / "predictions" / DATE / "metrics.json").read_text())
    assert run["ledger"]["exact"] and metrics["accuracy"] > 0.9 and metrics["model"]["run_id"] == run["run_id"]

    written = [(str(site.out / name), str(site.out / name / DATE)) for name in ("prepared", "runs", "predictions")]
    assert site.events() == [(uri, {"path": path, "date": DATE}) for uri, path in written]
    # What a scheduler would now start.
    assert site.query("select target_dag_id from asset_dag_run_queue") == [("after_predictions",)]

    before = site.files()
    assert site.run(DATE) == 0, site.log.read_text()[-3000:]
    assert site.states() == done
    assert site.files() == before

    # Another configuration for the same date is refused, and what is there stays.
    site.train_for(21)
    assert site.run(DATE) == 1
    assert "made with another configuration; --overwrite replaces it" in site.log.read_text()
    assert site.tasks()["train"] == ("failed", 1)
    assert site.files() == before


def test_a_bad_row_fails_the_task_at_once_and_leaves_nothing(site: Site) -> None:
    file = site.folder / "raw" / "digits.csv.gz"
    rows = gzip.decompress(file.read_bytes()).decode().splitlines()
    rows[41] = "1,2,3"
    file.write_bytes(gzip.compress("\n".join(rows).encode(), mtime=0))
    assert site.airflow("dags", "test", "sparksplit_pipeline") == 1
    log = site.log.read_text()
    assert f"sparksplit preprocess: {file}: row 42: has 3 columns, 65 are needed" in log, log[-3000:]
    # Once, although the task has retries: the row stays bad.
    assert site.tasks() == {
        "preprocess": ("failed", 1),
        "train": ("upstream_failed", 0),
        "predict": ("upstream_failed", 0),
    }
    assert not list(site.files())
    assert site.query("select * from asset_event") == []


def test_a_killed_spark_submit_is_retried_and_resumes(site: Site) -> None:
    slow = site.train_slowly(40)
    running = site.start("-m", "airflow", "dags", "test", "sparksplit_pipeline")
    eventually(lambda: running.poll() is not None or list(site.out.glob("runs/*/checkpoints/update-*")))
    (prepared,) = (site.out / "prepared").iterdir()
    before = {path: path.stat().st_mtime_ns for path in prepared.rglob("*")}
    (submit,) = site.processes("java", "jobs/train.py")
    submit.send_signal(signal.SIGKILL)
    slow.unlink()
    assert running.wait(700) == 0, site.log.read_text()[-3000:]
    assert site.states() == dict.fromkeys(("preprocess", "train", "predict"), "success")
    assert site.tasks()["train"][1] >= 2
    (file,) = site.out.glob("runs/*/run.json")
    run = json.loads(file.read_text())
    assert run["resumed"] and run["ledger"]["exact"] and run["epochs"] == 40
    assert {path: path.stat().st_mtime_ns for path in prepared.rglob("*")} == before
    assert site.processes() == []


def test_a_run_whose_predecessor_still_trains_waits_for_it(site: Site) -> None:
    """Airflow's task is killed, its spark-submit is not: nobody watches it any more, and nobody ends it."""
    slow = site.train_slowly(60)
    running = site.start(str(Path(__file__).with_name("run_dag.py")), "sparksplit_pipeline", DATE)
    eventually(lambda: running.poll() is not None or list(site.out.glob("runs/*/checkpoints/update-*")))
    running.kill()
    running.wait()
    (orphan,) = site.processes("java", "jobs/train.py")
    successor = site.start(str(Path(__file__).with_name("run_dag.py")), "sparksplit_pipeline", DATE)
    eventually(lambda: successor.poll() is not None or "is being filled by train on" in site.log.read_text())
    assert orphan.is_running()
    slow.unlink()
    assert successor.wait(300) == 0, site.log.read_text()[-3000:]
    assert site.tasks()["train"][0] == "success"
    run = json.loads((site.out / "runs" / DATE / "run.json").read_text())
    assert not run["resumed"] and run["ledger"]["exact"]  # it was left alone
    eventually(lambda: not orphan.is_running() and not site.processes())
