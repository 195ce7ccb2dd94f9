"""Airflow's own environment, made once for each user: its Spark provider brings another pyspark than sparksplit's."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

from tests.caches import Unavailable, caches, locked

CONSTRAINTS = Path(__file__).resolve().parent.parent.parent / "dags" / "constraints-airflow.txt"
_PACKAGES = ("apache-airflow", "apache-airflow-providers-apache-spark")
_INSTALL_SECONDS = 900.0


def airflow_python() -> Path:
    """The Python of an environment with the packages of dags/constraints-airflow.txt, made if this user has not got it.

    It lies outside the checkout, which its making does not change. Raises Unavailable where it cannot be made.
    """
    pins = CONSTRAINTS.read_text()
    version = next(line.partition("==")[2] for line in pins.splitlines() if line.startswith("apache-airflow=="))
    made_from = hashlib.sha256(f"{sys.base_prefix} {sys.version} {pins}".encode()).hexdigest()[:12]
    cache = caches()
    folder = cache / f"airflow-{version}-{made_from}"
    complete = folder / "complete"  # written last
    if not complete.is_file():
        cache.mkdir(parents=True, exist_ok=True)
        with locked(cache / f"{folder.name}.lock", _INSTALL_SECONDS):
            if not complete.is_file():  # another process may have made it meanwhile
                _install(folder)
                complete.touch()
    return folder / "bin" / "python"


def _install(folder: Path) -> None:
    python = str(folder / "bin" / "python")
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--constraint", str(CONSTRAINTS)]
    for command in ([sys.executable, "-m", "venv", "--clear", str(folder)], [*pip, *_PACKAGES]):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"{command[2]} took more than {_INSTALL_SECONDS:.0f} s") from None
        if done.returncode != 0:
            lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
            raise Unavailable(f"Airflow could not be installed (is there a network?): {lines[-1]}")
