"""
### sparksplit: strategies to split the work, compared

`preprocess` turns the date's raw data into a prepared data set for this DAG alone. `compare` trains on this data set
with several strategies, several times each, and reports which strategy to use. The tasks write `BASE/compared/DATE` and
`BASE/comparisons/DATE`. DATE is the date of the run's `run_after`, in UTC. The DAG neither reads nor changes the
outputs of the daily pipeline.

* **The report:** `BASE/comparisons/DATE/report.html`, a single file. `results.json` in the same folder has all figures.
* **What to change:** `conf/airflow.yaml` (`compare_schedule`, `config.compare`, and the keys shared with the pipeline).
* **A second run of a date** finds complete outputs and changes nothing. With another configuration, the run fails with
  an error.
* **A retry continues** with the missing training runs. `runs/` in the output has one file for each finished run.
* **If an earlier try still runs,** it keeps its output. The retry ends with exit status 3, and Airflow tries again
  later.
* **Exit status 2** (the configuration or the input is wrong) fails at once, because a retry would fail too. For the
  reason, see the line `sparksplit COMMAND: ...` in the task's log.
* **To start another DAG after this DAG,** schedule it on the asset `BASE/comparisons`. The event's `extra` has the
  `path`, the `date` and the address of the `report`.

`docs/airflow.md` has the rest.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Asset
from sparksplit_common import DATE, command, new_dag, settings, triggers


def comparison(site: dict[str, Any]) -> DAG:
    """Return the DAG for the site's settings."""
    base, schedule = site["base"], site["compare_schedule"]
    compared, comparisons = Asset(f"{base}/compared"), Asset(f"{base}/comparisons")
    data = f"{base}/compared/{DATE}"
    summary = "sparksplit: strategies to split the work, side by side, and a report of which to use"
    with new_dag(site, "sparksplit_compare", schedule, summary, __doc__) as dag:
        (
            command(site, "preprocess", triggers(schedule), compared, **{"input.path": site["raw"]})
            >> command(site, "compare", [compared], comparisons, report="report.html", data=data)
        )
    return dag


DAG_OBJECT = comparison(settings())
