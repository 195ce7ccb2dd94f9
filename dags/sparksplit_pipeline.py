"""
### sparksplit: preprocess, train, predict

`preprocess` turns the day's raw data into a prepared data set, `train` trains a model on it, `predict` predicts with
it. Each task is `spark-submit jobs/COMMAND.py --config FILE --set ...`, and writes one folder:
`BASE/prepared/DATE`, `BASE/runs/DATE`, `BASE/predictions/DATE`, where DATE is that of the run's `run_after`, in UTC.

* **What to change:** `conf/airflow.yaml` (paths, schedule, queue, resources, retries) and the connection
  `spark_default` (master). No Airflow Variable is read.
* **A second run of a date** finds complete outputs and changes nothing. With another configuration, or where the
  raw files have changed since, it fails, and says so.
* **A retry goes on:** `train` continues from its last checkpoint, and what was done stays done. Nothing half-written is
  ever read: an output without `_SUCCESS` is no output.
* **A predecessor that still runs** keeps its output: a retry is refused (exit status 3), and tried again later.
* **Exit status 2** (the configuration or the input is wrong) fails at once, because a retry would fail too. The
  reason is the line of the task's log that begins with `sparksplit COMMAND:`.
* **To follow this DAG** with another, schedule that on one of its assets, such as `BASE/predictions`; the event's
  `extra` has the `path` and the `date` that were written.

`docs/airflow.md` has the rest: backfills, and what to look at when it is stuck.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Asset
from sparksplit_common import DATE, command, new_dag, settings, triggers


def pipeline(site: dict[str, Any]) -> DAG:
    """The DAG, as the site's settings say."""
    base = site["base"]
    prepared, runs, predictions = (Asset(f"{base}/{name}") for name in ("prepared", "runs", "predictions"))
    data, model, days = f"{base}/prepared/{DATE}", f"{base}/runs/{DATE}", site["days"]
    begins = {"init": days["init"]} if days["init"] else {}
    summary = "sparksplit: the day's raw data prepared, a model trained on it, its predictions"
    with new_dag(site, "sparksplit_pipeline", site["schedule"], summary, __doc__) as dag:
        (
            command(site, "preprocess", triggers(site["schedule"]), prepared, **{"input.path": site["raw"]})
            >> command(site, "train", [prepared], runs, data=days["data"] or data, **begins)
            >> command(
                site, "predict", [prepared, runs], predictions, partition=days["partition"], model=model, input=data
            )
        )
    return dag


DAG_OBJECT = pipeline(settings())
