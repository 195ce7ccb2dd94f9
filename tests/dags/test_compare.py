"""The DAG of the comparison, in a real Airflow, with real spark-submits."""

from __future__ import annotations

import json
import signal

import yaml

from tests.dags.site import RUN_SECONDS, Site, eventually

DATE = "2026-01-04"
DAG = "sparksplit_compare"
DONE = {"preprocess": "success", "compare": "success"}


def test_a_killed_spark_submit_is_retried_goes_on_and_leaves_a_report_and_what_is_wrong_is_not_retried(
    site: Site,
) -> None:
    running = site.begin(DATE, DAG)
    # Then another cluster starts, of two nodes.
    first = site.out / "comparisons" / DATE / "runs" / "single-n1-s1.json"
    eventually(lambda: running.poll() is not None or first.exists())
    made = first.stat().st_mtime_ns
    (submit,) = site.processes("java", "jobs/compare.py")
    submit.send_signal(signal.SIGKILL)
    assert running.wait(RUN_SECONDS) == 0, site.log.read_text()[-3000:]
    assert site.states() == DONE
    assert site.tasks()["compare"][1] >= 2
    assert first.stat().st_mtime_ns == made
    assert site.processes() == []

    # The folders of the pipeline are not among them.
    assert sorted(path.name for path in site.out.iterdir()) == ["compared", "comparisons"]
    folder = site.out / "comparisons" / DATE
    assert (folder / "_SUCCESS").is_file()
    # `single`, the control of `epoch`, `batch`, `epoch`, and a reference.
    assert len(list((folder / "runs").iterdir())) == 5
    results = json.loads((folder / "results.json").read_text())
    strategies = [(row["name"].partition(",")[0], row["nodes"]) for row in results["table"]]
    assert strategies == [("single", 1), ("single", 1), ("batch", 2), ("epoch", 2)]
    assert results["config_hash"] in (folder / "report.html").read_text()

    compared = {"path": str(site.out / "compared" / DATE), "date": DATE}
    reported = {"path": str(folder), "date": DATE, "report": str(folder / "report.html")}
    events = [(str(site.out / "compared"), compared), (str(site.out / "comparisons"), reported)]
    assert site.events() == events
    # Each DAG is its own file's, and what they share is no mistake to Airflow.
    assert sorted(site.query("select dag_id, relative_fileloc from dag")) == [
        (name, f"{name}.py") for name in ("sparksplit_compare", "sparksplit_pipeline")
    ]
    assert site.query("select filename, stacktrace from import_error") == []

    # Another configuration for the same date is refused at once, although the task has retries; what is done stays.
    before = site.files()
    config = site.folder / "preprocess.yaml"
    config.write_text(yaml.safe_dump(yaml.safe_load(config.read_text()) | {"test": 0.3}))
    assert site.begin(DATE, DAG).wait(RUN_SECONDS) == 1
    assert "made with another configuration (" in site.log.read_text()
    assert site.tasks()["preprocess"] == ("failed", 1)
    assert site.states()["compare"] == "upstream_failed"
    assert site.files() == before
    assert site.events() == events
