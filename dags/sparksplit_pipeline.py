"""
### sparksplit: preprocess, train, predict

`preprocess` turns the day's raw data into a prepared data set. `train` trains a model on this data set, and `predict`
predicts with the model. Each task is `spark-submit jobs/COMMAND.py --config FILE --set ...`, and writes one folder:
`BASE/prepared/DATE`, `BASE/runs/DATE`, `BASE/predictions/DATE`. DATE is the date of the run's `run_after`, in UTC.

* **What to change:** `conf/airflow.yaml` (paths, schedule, queue, resources, retries) and the connection
  `spark_default` (master). No Airflow Variable is read.
* **A second run of a date** finds complete outputs and changes nothing. With another configuration, or with changed
  raw files, the run fails with an error.
* **A retry continues:** `train` continues from its last checkpoint, and finished tasks are not repeated. Half-written
  output is never read: a complete output has the file `_SUCCESS`.
* **If an earlier try still runs,** it keeps its output. The retry ends with exit status 3, and Airflow tries again
  later.
* **Exit status 2** (the configuration or the input is wrong) fails at once, because a retry would fail too. For the
  reason, see the line `sparksplit COMMAND: ...` in the task's log.
* **To start another DAG after this DAG,** schedule it on one of the assets, such as `BASE/predictions`. The event's
  `extra` has the `path` and the `date` of the output.

`docs/airflow.md` has the rest: backfills, and what to check if the DAG is stuck.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Asset
from sparksplit_common import DATE, command, new_dag, settings, triggers


def pipeline(site: dict[str, Any]) -> DAG:
    """Return the DAG for the site's settings."""
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
