"""The files of conf/ for operators: Spark's settings pass our own check, the discovery script prints Spark's JSON."""

from __future__ import annotations

import json
import re
import subprocess

import pytest

from sparksplit.base.shipped import shipped
from sparksplit.operations.check.judge import setting_findings
from sparksplit.spark.settings.user_settings import read_defaults

GPU_KEYS = ("executor.resource.gpu.amount", "task.resource.gpu.amount", "executor.resource.gpu.discoveryScript")


def discover(folder):
    # With its own PATH: this machine may have a GPU, or none.
    return subprocess.run(
        ["/bin/sh", shipped("conf/gpu-discovery.sh")],
        env={"PATH": f"{folder}:/usr/bin:/bin"} if folder else {"PATH": "/nowhere"},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def nvidia_smi(folder, lines):
    folder.mkdir()
    program = folder / "nvidia-smi"
    program.write_text(f"#!/bin/sh\nprintf '{lines}'\n")
    program.chmod(0o755)
    return folder


def test_the_shipped_settings_have_no_findings(tmp_path):
    from pathlib import Path

    text = Path(shipped("conf/spark-defaults.conf")).read_text()
    settings = {"spark.master": "yarn", **read_defaults(Path(shipped("conf/spark-defaults.conf")))}
    assert setting_findings(settings, nodes=2) == []
    # And with the lines for GPUs put in.
    for key in GPU_KEYS:
        assert f"#spark.{key} " in text
        text = text.replace(f"#spark.{key} ", f"spark.{key} ")
    (tmp_path / "gpus.conf").write_text(text)
    settings = {"spark.master": "yarn", **read_defaults(tmp_path / "gpus.conf")}
    assert settings["spark.task.resource.gpu.amount"] == "1"
    assert setting_findings(settings, nodes=2) == []


def test_the_settings_for_standalone_are_those_for_yarn_with_smaller_nodes():
    from pathlib import Path

    settings = read_defaults(Path(shipped("conf/spark-defaults-standalone.conf")))
    assert setting_findings({"spark.master": "spark://host:7077", **settings}, nodes=2) == []
    yarn = read_defaults(Path(shipped("conf/spark-defaults.conf")))
    assert settings.keys() <= yarn.keys()
    assert {key for key in settings if settings[key] != yarn[key]} == {"spark.executor.cores", "spark.task.cpus"}


def test_the_settings_for_rows_have_several_tasks_in_an_executor_and_no_node_takes_them():
    from pathlib import Path

    settings = {"spark.master": "yarn", **read_defaults(Path(shipped("conf/spark-defaults-preprocess.conf")))}
    assert int(settings["spark.executor.cores"]) > int(settings["spark.task.cpus"]) == 1
    assert [key for key in settings if "gpu" in key] == []
    assert [problem.key for problem in setting_findings(settings, nodes=2)] == ["spark.task.cpus"]
    # Whatever the two files both say they say alike, but for the executors' size.
    nodes = read_defaults(Path(shipped("conf/spark-defaults.conf")))
    different = {key for key in settings.keys() & nodes.keys() if settings[key] != nodes[key]}
    assert different and all(key.startswith("spark.executor.") or key == "spark.task.cpus" for key in different)


@pytest.mark.parametrize(("lines", "addresses"), [(r"0\n", ["0"]), (r"0\n1\n2\n", ["0", "1", "2"])])
def test_gpus_are_listed_as_spark_wants_them(tmp_path, lines, addresses):
    ran = discover(nvidia_smi(tmp_path / "bin", lines))
    assert (ran.returncode, ran.stderr) == (0, "")
    assert json.loads(ran.stdout) == {"name": "gpu", "addresses": addresses}


def test_a_host_without_gpus_is_said_to_have_none(tmp_path):
    ran = discover(nvidia_smi(tmp_path / "bin", ""))
    assert ran.returncode == 1 and "nvidia-smi lists no GPU" in ran.stderr and ran.stdout == ""
    ran = discover(None)
    assert ran.returncode == 1 and "nvidia-smi not found" in ran.stderr and ran.stdout == ""


def test_a_failure_brings_none_of_javas_frames_into_sparks_log():
    """Spark has them in the text of its message, and the logger in the exception's."""
    from pathlib import Path

    lines = Path(shipped("conf/log4j2.properties")).read_text().splitlines()
    (pattern,) = (line for line in lines if line.startswith("appender.console.layout.pattern"))
    found = re.search(r"%replace\{%m%n%ex\}\{(.*)\}\{\}$", pattern)
    assert "appender.console.layout.alwaysWriteExceptions = false" in lines
    frames = (
        "\n\tat org.apache.spark.rdd.RDD.iterator(RDD.scala:331)\n\tat java.base/java.lang.Thread.run(Thread.java:1)"
    )
    text = f'Lost task 0.0: PythonException: Traceback:\n  File "x.py", line 4, in f\nValueError: mine{frames}\n'
    caused = f"Caused by: java.io.IOException: disk is full{frames}\n\t... 12 more\n"
    left = re.sub(found[1].replace("\\\\", "\\"), "", text + caused)
    assert left == (
        'Lost task 0.0: PythonException: Traceback:\n  File "x.py", line 4, in f\nValueError: mine\n'
        "Caused by: java.io.IOException: disk is full\n"
    )
