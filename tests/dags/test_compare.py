"""The DAG of the comparison, in a real Airflow, with real spark-submits."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import yaml

from tests.dags.site import ROOT, Site, eventually, imported

DATE = "2026-01-04"
DAG = "sparksplit_compare"
DONE = {"preprocess": "success", "compare": "success"}


def test_the_shipped_settings_make_the_dag_without_spark(python: Path, tmp_path: Path) -> None:
    done = imported(python, tmp_path, DAG)
    assert done.returncode == 0, done.stderr
    dag = json.loads(done.stdout.splitlines()[-1])
    assert dag["foreign"] == []
    assert not list(tmp_path.rglob("*.db"))
    assert dag["order"] == ["preprocess", "compare"]
    assert (dag["catchup"], dag["max_active_runs"]) == (False, 1)
    assert dag["schedule"] == "0 12 * * 0"
    date = "{{ dag_run.run_after | ds }}"
    data, output = f"hdfs:///sparksplit/compared/{date}", f"hdfs:///sparksplit/comparisons/{date}"
    preprocess, compare = (dag["tasks"][name] for name in dag["order"])
    assert (preprocess["inlets"], preprocess["outlets"]) == ([], ["hdfs:/sparksplit/compared"])
    assert (compare["inlets"], compare["outlets"]) == (["hdfs:/sparksplit/compared"], ["hdfs:/sparksplit/comparisons"])
    config = str(ROOT / "conf" / "compare-mlp.yaml")
    assert compare["arguments"] == ["--config", config, "--set", f"data={data}", "--set", f"output={output}"]
    assert preprocess["arguments"][-1] == f"output={data}"
    assert compare["files"] is None
    assert (compare["retries"], compare["timeout"]) == (3, 12 * 3600)
    assert compare["conf"]["spark.yarn.queue"] == "default"


def test_cluster_mode_without_a_schedule(python: Path, tmp_path: Path) -> None:
    text = (ROOT / "conf" / "airflow.yaml").read_text()
    text = text.replace("deploy_mode: client", "deploy_mode: cluster").replace('"0 12 * * 0"', "null")
    (tmp_path / "airflow.yaml").write_text(text)
    done = imported(python, tmp_path, DAG, SPARKSPLIT_PIPELINE=str(tmp_path / "airflow.yaml"))
    assert done.returncode == 0, done.stderr
    dag = json.loads(done.stdout.splitlines()[-1])
    assert dag["schedule"] == "None"
    # The driver runs where there is no checkout.
    compare = dag["tasks"]["compare"]
    assert compare["files"] == str(ROOT / "conf" / "compare-mlp.yaml")
    assert compare["arguments"][:2] == ["--config", "compare-mlp.yaml"]


def test_a_run_leaves_a_report_and_the_same_date_again_changes_nothing(site: Site) -> None:
    assert site.run(DATE, DAG) == 0, site.log.read_text()[-3000:]
    assert site.states() == DONE
    # The folders of the pipeline are not among them.
    assert sorted(path.name for path in site.out.iterdir()) == ["compared", "comparisons"]
    folder = site.out / "comparisons" / DATE
    assert (folder / "_SUCCESS").is_file()
    results = json.loads((folder / "results.json").read_text())
    ways = [(row["way"].partition(",")[0], row["nodes"]) for row in results["table"]]
    assert ways == [("single", 1), ("single", 1), ("batch", 2), ("epoch", 2)]
    assert results["config_hash"] in (folder / "report.html").read_text()

    compared = {"path": str(site.out / "compared" / DATE), "date": DATE}
    reported = {"path": str(folder), "date": DATE, "report": str(folder / "report.html")}
    assert site.events() == [(str(site.out / "compared"), compared), (str(site.out / "comparisons"), reported)]
    # Each DAG is its own file's, and what they share is no mistake to Airflow.
    assert sorted(site.query("select dag_id, relative_fileloc from dag")) == [
        (name, f"{name}.py") for name in ("sparksplit_compare", "sparksplit_pipeline")
    ]
    assert site.query("select filename, stacktrace from import_error") == []

    before = site.files()
    assert site.run(DATE, DAG) == 0, site.log.read_text()[-3000:]
    assert site.states() == DONE
    assert site.files() == before

    # Another configuration for the same date is refused at once, although the task has retries.
    config = site.folder / "compare.yaml"
    config.write_text(yaml.safe_dump(yaml.safe_load(config.read_text()) | {"epochs": 4}))
    assert site.run(DATE, DAG) == 1
    assert "made with another configuration; --overwrite replaces it" in site.log.read_text()
    assert site.tasks()["compare"] == ("failed", 1)
    assert site.files() == before


def test_a_killed_spark_submit_is_retried_and_goes_on(site: Site) -> None:
    running = site.start("-m", "airflow", "dags", "test", DAG)
    # Then another cluster starts, of two nodes.
    first = "comparisons/*/runs/single-n1-s1.json"
    eventually(lambda: running.poll() is not None or list(site.out.glob(first)))
    (record,) = site.out.glob(first)
    before = record.stat().st_mtime_ns
    (submit,) = site.processes("java", "jobs/compare.py")
    submit.send_signal(signal.SIGKILL)
    assert running.wait(700) == 0, site.log.read_text()[-3000:]
    assert site.states() == DONE
    assert site.tasks()["compare"][1] >= 2
    assert record.stat().st_mtime_ns == before
    # `single`, the control of `epoch`, `batch`, `epoch`, and a reference.
    assert len(list(record.parent.iterdir())) == 5 and (record.parent.parent / "report.html").is_file()
    assert site.processes() == []
