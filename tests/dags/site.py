"""A real Airflow with a home of its own, whose Spark is a local cluster on this machine."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pyspark
import yaml

from sparksplit.commands.quickstart import digits
from sparksplit.spark.settings.java import java_home

ROOT = Path(__file__).resolve().parent.parent.parent
_FOLDER = Path(__file__).parent
RUN_SECONDS = 700.0
"""For whatever is waited for, however busy the machine; idle, a run takes a minute."""
COMMANDS = ("preprocess", "train", "predict", "compare")

SLOWLY = """
import time
from pathlib import Path

def slowly(tensors, label, seeds):
    time.sleep(1.0 if Path({slow!r}).exists() else 0.0)
    return tensors, label
"""


class Site:
    """An Airflow home, the pipeline's settings, raw data (the handwritten digits) and outputs, in one folder."""

    def __init__(self, folder: Path, python: Path) -> None:
        self.folder, self.python = folder, python
        self.out = folder / "out"
        self.dags = folder / "dags"
        self.dags.mkdir()
        for file in (ROOT / "dags").glob("*.py"):
            shutil.copy(file, self.dags)
        self.settings: dict[str, Any] = self._settings()
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "SPARK_", "PYTHON"))
        }
        self.environment = kept | {
            "AIRFLOW_HOME": str(folder / "home"),
            "AIRFLOW__CORE__DAGS_FOLDER": str(self.dags),
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local-cluster[2,1,1024]"}),
            "SPARKSPLIT_PIPELINE": str(folder / "airflow.yaml"),  # also how its processes are found
            "JAVA_HOME": java_home(),
            "TMPDIR": str(folder / "tmp"),
        }

    def _settings(self) -> dict[str, Any]:
        folder, configs = self.folder, yaml.safe_load((ROOT / "conf" / "quickstart.yaml").read_text())
        configs["preprocess"]["input"]["path"] = "filled in"
        for command, keys in {
            "preprocess": ["output"],
            "train": ["data", "output"],
            "predict": ["model", "input", "output"],
            "compare": ["data", "output"],
        }.items():
            content = configs[command] | dict.fromkeys(keys, "filled in")
            if command == "compare":  # seconds, beside those that the nodes take to start
                content |= {"strategies": ["single", "batch", "epoch"], "virtual": [], "epochs": 2}
            (folder / f"{command}.yaml").write_text(yaml.safe_dump(content))
        # A local cluster writes into $SPARK_HOME/work, and sparksplit's environment may be shared.
        (folder / "spark").mkdir()
        for entry in Path(pyspark.__file__).parent.iterdir():
            if entry.name not in ("work", "logs"):
                (folder / "spark" / entry.name).symlink_to(entry)
        (folder / "tmp").mkdir()
        (folder / "raw").mkdir()
        shutil.copy(digits(), folder / "raw" / "digits.csv.gz")
        return {
            "schedule": "@daily",
            "compare_schedule": "@weekly",
            "raw": str(folder / "raw"),
            "base": str(self.out),
            "config": {name: str(folder / f"{name}.yaml") for name in COMMANDS},
            "days": {"data": None, "init": None, "partition": None},
            "home": str(ROOT),
            "spark_submit": str(Path(sys.executable).with_name("spark-submit")),
            "python": sys.executable,
            "environment": {
                "SPARK_HOME": str(folder / "spark"),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "PYTHONPATH": str(ROOT),
            },
            "deploy_mode": "client",
            "spark_defaults": {
                command: f"conf/spark-defaults{'-preprocess' if command in ('preprocess', 'predict') else ''}.conf"
                for command in COMMANDS
            },
            "spark": {
                # What the executors of this local cluster have.
                "spark.executor.cores": 1,
                "spark.task.cpus": 1,
                "spark.executor.memory": "1g",
                "spark.ui.enabled": "false",
                "spark.driver.host": "127.0.0.1",
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.local.dir": str(folder / "tmp"),
                "spark.driver.extraJavaOptions": f"-Djava.io.tmpdir={folder / 'tmp'}",
            },
            "retries": 3,
            "retry_minutes": 0.02,
            "timeout_hours": dict.fromkeys(COMMANDS, 1),
        }

    def train_slowly(self, epochs: int) -> Path:
        """Make the model train so long, with a checkpoint at each epoch's end, and a second and more for each epoch
        while the file that is returned exists.
        """
        slow = self.folder / "slow"
        slow.touch()
        transform = self.folder / "mine.py"
        transform.write_text(SLOWLY.format(slow=str(slow)))
        file = self.folder / "train.yaml"
        given = {"epochs": epochs, "checkpoint": {"every": "epoch"}, "transform": f"{transform}:slowly"}
        file.write_text(yaml.safe_dump(yaml.safe_load(file.read_text()) | given))
        return slow

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Airflow's Python with `arguments`, writing to the file `log`."""
        (self.folder / "airflow.yaml").write_text(yaml.safe_dump(self.settings))
        with self.log.open("w") as log:
            return subprocess.Popen(
                [str(self.python), *arguments],
                cwd=self.folder,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )

    @property
    def database(self) -> Path:
        """Airflow's own."""
        return self.folder / "home" / "airflow.db"

    @property
    def log(self) -> Path:
        """What the last `start` has written."""
        return self.folder / "log"

    def airflow(self, *arguments: str) -> int:
        """The exit status of the command `airflow`."""
        return self.start("-m", "airflow", *arguments).wait(RUN_SECONDS)

    def begin(self, date: str, dag: str) -> subprocess.Popen[str]:
        """Start a run of the DAG for `date`."""
        return self.start(str(_FOLDER / "run_dag.py"), dag, date)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of Airflow's database."""
        with sqlite3.connect(self.database) as database:
            return database.execute(sql).fetchall()

    def events(self) -> list[tuple[str, dict[str, str]]]:
        """The assets' events: (address, extra)."""
        joined = "asset_event join asset on asset.id = asset_id"
        found = self.query(f"select asset.uri, asset_event.extra from {joined} order by asset_event.id")
        return [(uri, json.loads(extra)) for uri, extra in found]

    def tasks(self) -> dict[str, tuple[str, int]]:
        """State and tries of the last run's tasks."""
        last = "(select run_id from dag_run order by id desc limit 1)"
        rows = self.query(f"select task_id, state, try_number from task_instance where run_id = {last}")
        return {name: (state, tries) for name, state, tries in rows}

    def states(self) -> dict[str, str]:
        """The states alone: on too busy a machine a node may be silent for too long, and Airflow tries again."""
        return {name: state for name, (state, _) in self.tasks().items()}

    def files(self, inside: str = "") -> dict[Path, tuple[int, int]]:
        """Every file and folder of the outputs, or of one of them, with its time of modification and its size."""
        found = sorted((self.out / inside).rglob("*"))
        return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in found}

    def processes(self, *words: str) -> list[psutil.Process]:
        """The living processes that this site's runs started, whose command lines have all the words."""
        found = []
        for process in psutil.process_iter():
            try:
                mine = process.environ().get("SPARKSPLIT_PIPELINE") == self.environment["SPARKSPLIT_PIPELINE"]
                line = " ".join(process.cmdline())
            except psutil.Error:
                continue
            if mine and process.status() != psutil.STATUS_ZOMBIE and all(word in line for word in words):
                found.append(process)
        return found

    def close(self) -> None:
        """End everything that is left."""
        while left := self.processes():
            for process in left:
                process.kill()
            psutil.wait_procs(left, timeout=5)


IMPORT = """
import json, os, pathlib, runpy, sys
cases = json.load(sys.stdin)
sys.path.append(str(pathlib.Path(cases[0][0]).parent))  # as Airflow does

FOREIGN = {"pyspark", "tensorflow", "sparksplit", "hdfs_io", "training", "numpy", "pandas"}

def told(dag):
    return {
        "foreign": sorted(FOREIGN & set(sys.modules)),
        "order": [task.task_id for task in dag.topological_sort()],
        "catchup": dag.catchup,
        "max_active_runs": dag.max_active_runs,
        "doc": dag.doc_md[:40],
        "schedule": str(dag.schedule),
        "tasks": {task.task_id: {
            "inlets": [asset.uri for asset in task.inlets],
            "outlets": [asset.uri for asset in task.outlets],
            "retries": task.retries,
            "retry_delay": task.retry_delay.total_seconds(),
            "timeout": task.execution_timeout.total_seconds(),
            "conf": task.conf,
            "arguments": task.application_args,
            "files": task.files,
            "name": task.name,
        } for task in dag.tasks},
    }

found = []
for file, settings in cases:
    os.environ.pop("SPARKSPLIT_PIPELINE", None)
    if settings:
        os.environ["SPARKSPLIT_PIPELINE"] = settings
    try:
        found.append(told(runpy.run_path(file)["DAG_OBJECT"]))
    except Exception as error:
        found.append(f"{type(error).__name__}: {error}")
print(json.dumps(found))
"""


def imported(python: Path, home: Path, cases: list[tuple[str, Path | None]]) -> list[Any]:
    """Each DAG, by its name and its settings (None: the shipped ones), or what its import raises.

    A bare Python of Airflow's environment imports them, with an empty folder for Airflow's home.
    """
    given = [(str(ROOT / "dags" / f"{dag}.py"), str(settings) if settings else None) for dag, settings in cases]
    environment = {"PATH": "/usr/bin:/bin", "AIRFLOW_HOME": str(home)}
    done = subprocess.run(
        [str(python), "-c", IMPORT],
        input=json.dumps(given),
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def eventually(what: Callable[[], Any], seconds: float = RUN_SECONDS) -> Any:
    """The first true value of `what`. Raises TimeoutError where there is none in time."""
    end = time.monotonic() + seconds
    while not (value := what()):
        if time.monotonic() > end:
            raise TimeoutError(f"nothing true in {seconds:.0f} s")
        time.sleep(0.05)
    return value
