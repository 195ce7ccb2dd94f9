"""The pipeline's DAG, in a real Airflow, with real spark-submits."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.dags.site import ROOT, RUN_SECONDS, Site, eventually

DATE = "2026-01-02"
DAG = "sparksplit_pipeline"
DONE = dict.fromkeys(("preprocess", "train", "predict"), "success")


def follower(base: Path) -> str:
    """The page's example of a DAG that follows the pipeline."""
    (example,) = re.findall(r"```python\n(from airflow.*?)```", (ROOT / "docs" / "airflow.md").read_text(), re.DOTALL)
    assert "hdfs:///sparksplit/predictions" in example
    return str(example).replace("hdfs:///sparksplit", str(base))


def test_a_run_waits_for_its_predecessor_changes_nothing_that_is_complete_and_leaves_everything(site: Site) -> None:
    """Airflow's task is killed, its spark-submit is not: nobody watches it any more, and nobody ends it. The second run
    finds the data prepared; that each command changes nothing again is tested by commands/test_week.py."""
    (site.dags / "after.py").write_text(follower(site.out))
    # Date by date: the raw folder's name has it too.
    (site.folder / "raw").rename(site.folder / DATE)
    site.settings["raw"] = f"{site.folder}/{{{{ dag_run.run_after | ds }}}}"
    slow = site.train_slowly(20)
    running = site.begin(DATE, DAG)
    eventually(lambda: running.poll() is not None or list(site.out.glob("runs/*/checkpoints/update-*")))
    running.kill()
    running.wait()
    (orphan,) = site.processes("java", "jobs/train.py")
    prepared = site.files("prepared")
    successor = site.begin(DATE, DAG)
    eventually(lambda: successor.poll() is not None or "is being written by train on" in site.log.read_text())
    assert orphan.is_running()
    slow.unlink()
    assert successor.wait(RUN_SECONDS) == 0, site.log.read_text()[-3000:]
    eventually(lambda: not orphan.is_running() and not site.processes())

    assert site.states() == DONE
    for name in ("prepared", "runs", "predictions"):
        assert [path.name for path in (site.out / name).iterdir()] == [DATE]
        assert (site.out / name / DATE / "_SUCCESS").is_file()
    assert prepared and site.files("prepared") == prepared
    run = json.loads((site.out / "runs" / DATE / "run.json").read_text())
    metrics = json.loads((site.out / "predictions" / DATE / "metrics.json").read_text())
    assert not run["resumed"] and run["ledger"]["exact"]  # the orphan was left alone
    assert metrics["accuracy"] > 0.9 and metrics["model"]["run_id"] == run["run_id"]
    # The first run's preprocess has an event, and each task of the second.
    paths = {name: str(site.out / name / DATE) for name in ("prepared", "runs", "predictions")}
    assert site.events() == [
        (str(site.out / name), {"path": paths[name], "date": DATE})
        for name in ("prepared", "prepared", "runs", "predictions")
    ]
    # What a scheduler would now start.
    assert site.query("select target_dag_id from asset_dag_run_queue") == [("after_predictions",)]
