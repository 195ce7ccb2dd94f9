"""A real MLflow server on loopback, in an environment of its own: mlflow needs an older pyarrow than sparksplit."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.caches import Unavailable, caches, locked

_PACKAGE = "mlflow==3.17.2"
_INSTALL_SECONDS = 900.0
_START_SECONDS = 120.0


def mlflow_python() -> Path:
    """The Python of an environment with mlflow, made if this user has not got it. Raises Unavailable otherwise."""
    made_from = hashlib.sha256(f"{sys.base_prefix} {sys.version} {_PACKAGE}".encode()).hexdigest()[:12]
    folder = caches() / f"mlflow-{made_from}"
    complete = folder / "complete"  # written last
    if not complete.is_file():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with locked(folder.parent / f"{folder.name}.lock", _INSTALL_SECONDS):
            if not complete.is_file():
                _install(folder)
                complete.touch()
    return folder / "bin" / "python"


def _install(folder: Path) -> None:
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", _PACKAGE]
    for command in ([sys.executable, "-m", "venv", "--clear", str(folder)], pip):
        done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False)
        if done.returncode != 0:
            lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
            raise Unavailable(f"mlflow could not be installed (is there a network?): {lines[-1]}")


@contextmanager
def serving(folder: Path, port: int) -> Iterator[str]:
    """The address of a server that keeps its runs in `folder`."""
    command = [str(mlflow_python()), "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)]
    kept = {**os.environ, "MLFLOW_DISABLE_TELEMETRY": "true"}
    kept = {key: value for key, value in kept.items() if key != "MLFLOW_TRACKING_URI"}
    folder.mkdir(exist_ok=True)
    with (folder / "log").open("ab") as log:
        server = subprocess.Popen(
            [*command, "--workers", "1"], cwd=folder, env=kept, stdout=log, stderr=log, start_new_session=True
        )
        try:
            _await(f"http://127.0.0.1:{port}/health", server, folder / "log")
            yield f"http://127.0.0.1:{port}"
        finally:
            os.killpg(server.pid, 15)
            server.wait(30)


def _await(address: str, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + _START_SECONDS
    while time.monotonic() < end and server.poll() is None:
        try:
            with urllib.request.urlopen(address, timeout=2) as answer:
                if answer.status == 200:
                    return
        except OSError:
            time.sleep(0.5)
    raise AssertionError(f"the server did not start: {log.read_text()[-1000:]}")
