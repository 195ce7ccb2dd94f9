"""
### sparksplit: strategies to split the work, compared

`preprocess` turns the date's raw data into a prepared data set of this DAG's own, `compare` trains on it with
several strategies, several times each, and reports which strategy to use. The tasks write `BASE/compared/DATE` and
`BASE/comparisons/DATE`, where DATE is that of the run's `run_after`, in UTC. What the daily pipeline writes is neither
read nor touched.

* **The report:** `BASE/comparisons/DATE/report.html`, complete in itself; `results.json` beside it has all figures.
* **What to change:** `conf/airflow.yaml` (`compare_schedule`, `config.compare`, and what it shares with the pipeline).
* **A second run of a date** finds complete outputs and changes nothing. With another configuration it fails, and says
  so.
* **A retry goes on** with the runs that are missing; `runs/` in the output has one file for each that is done.
* **A predecessor that still runs** keeps its output: a retry is refused (exit status 3), and tried again later.
* **Exit status 2** (the configuration or the input is wrong) fails at once, because a retry would fail too. The
  reason is the line of the task's log that begins with `sparksplit COMMAND:`.
* **To follow this DAG** with another, schedule that on the asset `BASE/comparisons`; the event's `extra` has the
  `path`, the `date` and the address of the `report`.

`docs/airflow.md` has the rest.
"""

from __future__ import annotations

from typing import Any

from airflow.sdk import DAG, Asset
from sparksplit_common import DATE, command, new_dag, settings, triggers


def comparison(site: dict[str, Any]) -> DAG:
    """The DAG, as the site's settings say."""
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
