"""The common parts of sparksplit's DAGs: the site's settings, and tasks that submit a command and report its output.

This is not a DAG file, and must not become a DAG file. Airflow would register an imported DAG as the importing file's
DAG, too.
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

DATE = "{{ dag_run.run_after | ds }}"  # `ds` is undefined if an asset started the run
KEYS = {
    *("schedule", "compare_schedule", "raw", "base", "days", "config", "home", "spark_submit", "python", "environment"),
    *("deploy_mode", "spark_defaults", "spark", "retries", "retry_minutes", "timeout_hours"),
}
DAYS = {"data", "init", "partition"}
COMMANDS = {"preprocess", "train", "predict", "compare"}

# Keys that must not be on spark-submit's command line, because every user of the host can read it.
_SECRET = re.compile(r"(?i)(secret([._-]?key)?|password|access[._-]?key|account\.key\..*|token)$")

# Exit status 2 (wrong configuration or input), as spark-submit (client mode) and YARN (cluster mode) report it.
_WRONG = re.compile(r"Error code is: 2\.|User application exited with (?:status )?2\b")
_ELSEWHERE = "set it in the site's own spark-defaults.conf, which spark-submit reads itself"


class SparksplitOperator(SparkSubmitOperator):
    """spark-submit, except that exit status 2 fails without a retry, and that the outlets' events name the output.

    folder: the command's output (templated)
    report: file name of a page in this folder; its address is added to the events
    """

    template_fields = (*SparkSubmitOperator.template_fields, "folder")

    def __init__(self, *, folder: str, report: str | None = None, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.folder = folder
        self.report = report

    def execute(self, context: Any) -> None:
        """Submit the command, and wait for its end.

        Raise AirflowFailException if the configuration or the input is wrong.
        """
        try:
            super().execute(context)
        except Exception as error:
            if _WRONG.search(str(error)):
                raise AirflowFailException(
                    f"{self.task_id}: the configuration or the input is wrong (see the last line of sparksplit above);"
                    " a retry would fail alike"
                ) from error
            raise
        extra = {"path": self.folder, "date": context["dag_run"].run_after.strftime("%Y-%m-%d")}
        if self.report:
            extra["report"] = f"{self.folder}/{self.report}"
        for asset in self.outlets:
            context["outlet_events"][asset].extra = extra


def settings() -> dict[str, Any]:
    """Return the content of conf/airflow.yaml, or of the file that SPARKSPLIT_PIPELINE names.

    Raise ValueError for unknown or missing keys. Airflow shows this error as the DAG's import error.
    """
    file = Path(
        os.environ.get("SPARKSPLIT_PIPELINE") or Path(__file__).resolve().parent.parent / "conf" / "airflow.yaml"
    )
    found = yaml.safe_load(file.read_text(encoding="utf-8"))
    if not isinstance(found, dict):
        raise ValueError(f"{file}: must be a mapping of keys to values")
    sections = (
        (found, KEYS, ""),
        (found.get("days"), DAYS, "days."),
        (found.get("config"), COMMANDS, "config."),
        (found.get("spark_defaults"), COMMANDS, "spark_defaults."),
        (found.get("timeout_hours"), COMMANDS, "timeout_hours."),
    )
    for section, keys, prefix in sections:
        for key in sorted(keys ^ set(section or ())):
            raise ValueError(f"{file}: {prefix}{key}: {'is missing' if key in keys else 'unknown key'}")
    if found["deploy_mode"] not in ("client", "cluster"):
        raise ValueError(f"{file}: deploy_mode: must be client or cluster (is {found['deploy_mode']})")
    found["base"] = found["base"].rstrip("/")
    found["home"] = Path(found["home"] or Path(__file__).resolve().parent.parent)
    shown = dict.fromkeys(found["spark"], file)
    if found["deploy_mode"] == "cluster":  # Airflow turns these keys into spark.yarn.appMasterEnv.NAME
        shown |= dict.fromkeys(found["environment"], file)
    for each in filter(None, found["spark_defaults"].values()):
        shown |= dict.fromkeys(properties(found["home"] / each), found["home"] / each)
    for key, where in shown.items():
        if _SECRET.search(key):
            raise ValueError(f"{where}: {key}: every user could read it on a command line: {_ELSEWHERE}")
    return found


def properties(file: Path) -> dict[str, str]:
    """Return the keys and values of a file of Spark's settings.

    The tasks pass them to spark-submit one by one, because --properties-file would disable the site's own
    spark-defaults.conf.
    """
    lines = (line.strip() for line in file.read_text(encoding="utf-8").splitlines())
    pairs = (re.split(r"\s*[=:\s]\s*", line, maxsplit=1) for line in lines if line and line[0] not in "#!")
    return {pair[0]: pair[1] for pair in pairs if len(pair) == 2}


def triggers(schedule: str | None) -> list[Asset]:
    """Return the asset that the schedule of the settings names, if it names an asset."""
    return [Asset(schedule)] if "://" in (schedule or "") else []


def new_dag(site: dict[str, Any], dag_id: str, schedule: str | None, description: str, doc: str | None) -> DAG:
    """Return a DAG without tasks. Its tasks are later submitted with the site's settings."""
    on_cluster = site["deploy_mode"] == "cluster"
    return DAG(
        dag_id,
        description=description,
        doc_md=doc,
        schedule=triggers(schedule) or schedule,
        start_date=datetime(2026, 1, 1, tzinfo=UTC),
        catchup=False,
        max_active_runs=1,
        tags=["sparksplit"],
        default_args={
            "conn_id": "spark_default",
            "spark_binary": str(site["home"] / site["spark_submit"]),
            "env_vars": {"PYSPARK_PYTHON": str(site["home"] / site["python"]), **site["environment"]},
            "deploy_mode": site["deploy_mode"],
            # In cluster mode, a retry finds the application that is still running, and watches it.
            "yarn_track_via_rm_api": on_cluster,
            "retries": site["retries"],
            "retry_delay": timedelta(minutes=site["retry_minutes"]),
        },
    )


def command(
    site: dict[str, Any],
    name: str,
    reads: list[Asset],
    writes: Asset,
    *switches: str,
    report: str | None = None,
    partition: str | None = None,
    **paths: Any,
) -> SparksplitOperator:
    """Return the task that runs the command `name` into the folder DATE of the asset that it writes.

    partition: column of the table; DATE is then a partition of this column. paths: further keys of the configuration.
    """
    on_cluster, config = site["deploy_mode"] == "cluster", site["home"] / site["config"][name]
    defaults = site["spark_defaults"][name]
    table = f"{site['base']}/{writes.name.rpartition('/')[2]}"
    folder = f"{table}/{partition}={DATE}" if partition else f"{table}/{DATE}"
    output = {"output": table, f"partition.{partition}": DATE} if partition else {"output": folder}
    sets = [text for key, path in {**paths, **output}.items() for text in ("--set", f"{key}={path}")]
    return SparksplitOperator(
        task_id=name,
        folder=folder,
        report=report,
        application=str(site["home"] / "jobs" / f"{name}.py"),
        # On YARN, the driver has no checkout, but only the files that were sent with the application.
        files=str(config) if on_cluster else None,
        conf={
            # Airflow retries. Retries by YARN would be a second layer.
            "spark.yarn.maxAppAttempts": "1",
            "spark.yarn.tags": f"sparksplit,{name}",
            **({} if defaults is None else properties(site["home"] / defaults)),
            **{key: str(value) for key, value in site["spark"].items()},
        },
        application_args=["--config", config.name if on_cluster else str(config), *sets, *switches],
        name=f"sparksplit {name} {DATE}",
        inlets=reads,
        outlets=[writes],
        execution_timeout=timedelta(hours=site["timeout_hours"][name]),
    )
