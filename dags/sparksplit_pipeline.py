"""
### sparksplit: preprocess, train, predict

`preprocess` turns the day's raw data into a prepared data set, `train` trains a model on it, `predict` predicts with
it. Each task is `spark-submit jobs/COMMAND.py --config FILE --set ...`, and writes one folder:
`BASE/prepared/DATE`, `BASE/runs/DATE`, `BASE/predictions/DATE`, where DATE is that of the run's `run_after`, in UTC.

* **What to change:** `conf/airflow.yaml` (paths, schedule, queue, resources, retries) and the connection
  `spark_default` (master). No Airflow Variable is read.
* **A second run of a date** finds complete outputs and changes nothing. With another configuration it fails, and says
  so.
* **A retry resumes:** `train --resume` goes on from its last checkpoint; what was done stays done. Nothing half-written
  is ever read: an output without `_SUCCESS` is no output.
* **Exit status 2** (the configuration or the input is wrong) fails at once, because a retry would fail alike. The
  reason is the line of the task's log that begins with `sparksplit COMMAND:`.
* **To follow this DAG** with another, schedule that on one of its assets, such as `BASE/predictions`; the event's
  `extra` has the `path` and the `date` that were written.

`docs/airflow.md` has the rest: backfills, and what to look at when it is stuck.
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, Asset
from airflow.sdk.exceptions import AirflowFailException

DATE = "{{ dag_run.run_after | ds }}"  # `ds` itself is undefined where an asset started the run
KEYS = {
    *("schedule", "raw", "base", "config", "home", "spark_submit", "python", "environment"),
    *("deploy_mode", "spark", "retries", "retry_minutes", "timeout_hours"),
}
COMMANDS = {"preprocess", "train", "predict"}

# The status of a command that was given something wrong, as spark-submit (client) and YARN (cluster mode) report it.
_WRONG = re.compile(r"Error code is: 2\.|User application exited with (?:status )?2\b")


class SparksplitOperator(SparkSubmitOperator):
    """spark-submit, where exit status 2 fails without a retry, and the outlets' events tell what was written.

    folder: the command's output (templated)
    """

    template_fields = (*SparkSubmitOperator.template_fields, "folder")

    def __init__(self, *, folder: str, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.folder = folder

    def execute(self, context: Any) -> None:
        """Submit, and wait. Raises AirflowFailException where the configuration or the input is wrong."""
        try:
            super().execute(context)
        except Exception as error:
            if _WRONG.search(str(error)):
                raise AirflowFailException(
                    f"{self.task_id}: the configuration or the input is wrong (see the last line of sparksplit above);"
                    " a retry would fail alike"
                ) from error
            raise
        date = context["dag_run"].run_after.strftime("%Y-%m-%d")
        for asset in self.outlets:
            context["outlet_events"][asset].extra = {"path": self.folder, "date": date}


def settings() -> dict[str, Any]:
    """The content of conf/airflow.yaml, or of the file that SPARKSPLIT_PIPELINE names.

    Raises ValueError, which Airflow shows as the DAG's import error, for keys that are unknown or missing.
    """
    file = Path(
        os.environ.get("SPARKSPLIT_PIPELINE") or Path(__file__).resolve().parent.parent / "conf" / "airflow.yaml"
    )
    found = yaml.safe_load(file.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise ValueError(f"{file}: must be a mapping of keys to values")
    sections = (
        (found, KEYS, ""),
        (found.get("config"), COMMANDS, "config."),
        (found.get("timeout_hours"), COMMANDS, "timeout_hours."),
    )
    for section, keys, prefix in sections:
        for key in sorted(keys ^ set(section or ())):
            raise ValueError(f"{file}: {prefix}{key}: {'is missing' if key in keys else 'unknown key'}")
    if found["deploy_mode"] not in ("client", "cluster"):
        raise ValueError(f"{file}: deploy_mode: must be client or cluster (is {found['deploy_mode']})")
    found["home"] = Path(found["home"] or Path(__file__).resolve().parent.parent)
    return found


def pipeline(site: dict[str, Any]) -> DAG:
    """The DAG, as the site's settings say."""
    home, base, on_cluster = site["home"], site["base"].rstrip("/"), site["deploy_mode"] == "cluster"
    prepared, runs, predictions = (Asset(f"{base}/{name}") for name in ("prepared", "runs", "predictions"))
    raw = Asset(site["schedule"]) if "://" in (site["schedule"] or "") else None

    def command(name: str, reads: list[Asset], writes: Asset, *switches: str, **paths: str) -> SparksplitOperator:
        config = home / site["config"][name]
        folder = f"{base}/{writes.name.rpartition('/')[2]}/{DATE}"
        sets = [text for key, path in {**paths, "output": folder}.items() for text in ("--set", f"{key}={path}")]
        return SparksplitOperator(
            task_id=name,
            folder=folder,
            application=str(home / "jobs" / f"{name}.py"),
            # On YARN the driver has no checkout, but the files that were sent along.
            files=str(config) if on_cluster else None,
            application_args=["--config", config.name if on_cluster else str(config), *sets, *switches],
            name=f"sparksplit-{name}-{DATE}",
            inlets=reads,
            outlets=[writes],
            execution_timeout=timedelta(hours=site["timeout_hours"][name]),
        )

    with DAG(
        "sparksplit_pipeline",
        description="sparksplit: the day's raw data prepared, a model trained on it, its predictions",
        doc_md=__doc__,
        schedule=[raw] if raw else site["schedule"],
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        tags=["sparksplit"],
        default_args={
            "conn_id": "spark_default",
            "spark_binary": str(home / site["spark_submit"]),
            "env_vars": {"PYSPARK_PYTHON": str(home / site["python"]), **site["environment"]},
            # Airflow tries again; YARN doing so by itself would be a second layer.
            "conf": {"spark.yarn.maxAppAttempts": "1", **{key: str(value) for key, value in site["spark"].items()}},
            "deploy_mode": site["deploy_mode"],
            # In cluster mode a retry finds the application that is still running, and watches that.
            "yarn_track_via_rm_api": on_cluster,
            "retries": site["retries"],
            "retry_delay": timedelta(minutes=site["retry_minutes"]),
        },
    ) as dag:
        data, model = f"{base}/prepared/{DATE}", f"{base}/runs/{DATE}"
        (
            command("preprocess", [raw] if raw else [], prepared, **{"input.path": site["raw"]})
            >> command("train", [prepared], runs, "--resume", data=data)
            >> command("predict", [prepared, runs], predictions, model=model, input=data)
        )
    return dag


DAG_OBJECT = pipeline(settings())
