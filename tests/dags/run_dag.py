"""Runs in Airflow's environment: one run of a DAG for a date (`airflow dags test` knows no `run_after` but now).

python run_dag.py DAG DATE: the run has no logical date, as if an asset had triggered it. Exits as `dags test` does.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime

from airflow.utils.cli import get_bagged_dag

if __name__ == "__main__":
    after = datetime.fromisoformat(sys.argv[2]).replace(tzinfo=UTC)
    run = get_bagged_dag(None, sys.argv[1]).test(run_after=after, logical_date=None)
    sys.exit(0 if run.state == "success" else 1)
