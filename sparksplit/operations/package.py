"""`package`: makes a folder from which spark-submit works on a cluster without sparksplit."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from hdfs_io.errors import using
from sparksplit.base.progress import Progress
from sparksplit.operations import archives
from sparksplit.operations.operations_config import PackageConfig

_LINE = " \\\n    "


def package(config: PackageConfig) -> Iterator[str]:
    """Fill the output folder. Yield a line for each part once the part is written, and finally the command to copy."""
    folder = Path(config.output).expanduser().absolute()
    with using(str(folder), "cannot be made"):
        for part in (folder, folder / "jobs", folder / "conf"):
            part.mkdir(parents=True, exist_ok=True)
    yield _said(folder / archives.ZIP, archives.publish(folder / archives.ZIP, archives.project_zip()))
    changed = [archives.publish(folder / "jobs" / job.name, job.read_bytes()) for job in archives.beside("jobs")]
    yield _said(folder / "jobs", any(changed))
    changed = [
        archives.publish(folder / "conf" / file.name, file.read_bytes(), executable=file.suffix == ".sh")
        for file in archives.beside("conf")
    ]
    yield _said(folder / "conf", any(changed))
    if config.environment:
        yield _said(folder / archives.ENVIRONMENT, _pack(folder))
        yield f"every host needs the environment's Python installation at the same path: {archives.base_interpreter()}"
    yield from ("", command(folder, config.environment))


def command(folder: Path, environment: bool) -> str:
    """Return the spark-submit command for people to copy. The command trains with the shipped configuration."""
    parts = [
        "spark-submit --master yarn --deploy-mode cluster --num-executors 2",
        "--name 'sparksplit train NAME' --conf spark.yarn.tags=sparksplit,train",
        f"--properties-file {_quoted(folder / 'conf' / 'spark-defaults.conf')}",
        f"--py-files {_quoted(folder / archives.ZIP)}",
        f"--files {_quoted(folder / 'conf' / 'train-mlp.yaml')}",
    ]
    if environment:
        python = "./environment/bin/python"
        parts += [
            f"--archives {_quoted(folder / archives.ENVIRONMENT)}#environment",
            f"--conf spark.yarn.appMasterEnv.PYSPARK_PYTHON={python} --conf spark.executorEnv.PYSPARK_PYTHON={python}",
        ]
    parts.append(f"{_quoted(folder / 'jobs' / 'train.py')} --config train-mlp.yaml --set data=DATA --set output=OUTPUT")
    return _LINE.join(parts)


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))


def _said(path: Path, changed: bool) -> str:
    return f"{path}: {'written' if changed else 'is up to date'}"


def _pack(folder: Path) -> bool:
    prefix, target, stamp = Path(sys.prefix), folder / archives.ENVIRONMENT, folder / archives.STAMP
    digest = f"{archives.environment_digest(prefix)}\n".encode()
    if target.is_file() and stamp.is_file() and stamp.read_bytes() == digest:
        return False
    with Progress("packing the environment", None, "MB") as progress:
        archives.pack_environment(
            prefix, target, lambda done, total: progress.update(done // 10**6, "", total // 10**6)
        )
    archives.publish(stamp, digest)
    return True
