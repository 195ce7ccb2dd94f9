"""The jobs as operators run them: spark-submit on a real YARN with sparksplit.zip, from folders that are not ours."""

from __future__ import annotations

import json

import numpy as np
import pytest

from operations.config import PackageConfig
from operations.package import package
from tests.hadoop.submit import explain

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

MODEL = """
import os
import keras

def build(data, width=8):
    print("NODE SEES", repr(os.environ.get("CUDA_VISIBLE_DEVICES")), flush=True)
    return keras.Sequential([
        keras.layers.Input(data.input_shape),
        keras.layers.Dense(width, "relu"),
        keras.layers.Dense(data.outputs, data.activation),
    ])

def fail(data):
    raise RuntimeError("no such layer, for the test")
"""


@pytest.fixture(scope="module")
def shipped(tmp_path_factory):
    """What `package` makes, and a user's own files beside it."""
    folder = tmp_path_factory.mktemp("shipped")
    list(package(PackageConfig(output=str(folder))))
    (folder / "mine.py").write_text(MODEL)
    draw = np.random.default_rng(1)
    label = draw.integers(0, 3, 400)
    rows = np.column_stack([draw.normal(label[:, None], 0.1, (400, 4)), label])
    np.savetxt(folder / "rows.csv", rows, fmt=["%.6f"] * 4 + ["%d"], delimiter=",")
    configs = {
        "prepare.yaml": {
            "input": {"format": "csv", "path": f"{folder}/rows.csv", "header": False, "label": -1},
            "output": f"{folder}/prepared",
            "test": 0.2,
            "validation": 0.1,
        },
        "train.yaml": {
            "data": f"{folder}/prepared",
            "output": f"{folder}/run",
            "model": {"build": "mine.py:build"},
            "nodes": 2,
            "split": "batch",
            "batch_size": 16,
            "epochs": 2,
        },
        "predict.yaml": {"model": f"{folder}/run", "input": f"{folder}/prepared", "output": f"{folder}/predictions"},
    }
    for name, config in configs.items():
        (folder / name).write_text(json.dumps(config))
    return folder


@pytest.fixture
def run(shipped, yarn_submit):
    """spark-submit of a job with the zip and nothing else of ours; what became of it."""

    def call(job, *arguments, mode="cluster", executors=2, settings=None, files=()):
        wanted = {
            "spark.submit.pyFiles": f"{shipped}/sparksplit.zip",
            "spark.yarn.maxAppAttempts": "1",
            "spark.yarn.dist.files": ",".join(
                [*(f"{shipped}/{name}" for name in ("mine.py", "prepare.yaml", "train.yaml", "predict.yaml")), *files]
            ),
            **(settings or {}),
        }
        script = shipped / "jobs" / f"{job}.py"
        submission = yarn_submit(
            script, *arguments, mode=mode, executors=executors, settings=wanted, environment={"PYTHONPATH": ""}
        )
        return submission.finish()

    return call


def ok(application):
    assert (application.status, application.final_status) == (0, "SUCCEEDED"), explain(application)
    return application.output + "".join(application.containers.values())


def test_prepare_train_in_both_input_modes_and_predict_in_cluster_mode(shipped, run):
    ok(run("preprocess", "--config", "prepare.yaml"))
    ok(run("train", "--config", "train.yaml"))
    fed = ("--set", "input_mode=spark", "--set", f"output={shipped}/fed")
    ok(run("train", "--config", "train.yaml", *fed, executors=3))
    ok(run("predict", "--config", "predict.yaml"))
    # A scheduler's retry of what is done succeeds, for YARN too.
    assert "nothing to do" in ok(run("train", "--config", "train.yaml"))
    first, second = (json.loads((shipped / name / "run.json").read_text()) for name in ("run", "fed"))
    assert first["ledger"]["exact"] and first["application_id"].startswith("application_")
    assert first["weights"] == second["weights"]
    assert json.loads((shipped / "predictions" / "metrics.json").read_text())["rows"] > 0


def test_check_finds_a_ready_cluster_and_a_wrong_setting(shipped, run):
    assert "ready: nothing was found" in ok(
        run("check", "--path", str(shipped), settings={"spark.executor.memoryOverhead": "1100m"})
    )
    application = run("check", mode="client", settings={"spark.executor.memoryOverhead": "400m"})
    assert application.status == 2
    assert "spark.executor.memoryOverhead: must be at least 1024m" in application.output


@pytest.mark.parametrize(
    ("settings", "executors", "said"),
    [
        ({"spark.dynamicAllocation.enabled": "true"}, 2, "spark.dynamicAllocation.enabled: must be false"),
        ({"spark.speculation": "true"}, 2, "spark.speculation: must be false"),
        ({"spark.executor.cores": "2"}, 2, "spark.task.cpus: an executor must have one task slot (has 2)"),
        ({}, 1, "nodes: 2 nodes need 2 executors and there are 1"),
        ({"spark.executor.resource.gpu.amount": "1"}, 2, "spark.task.resource.gpu.amount: is missing"),
        # More than the cluster has: granted in part, and the rest never.
        ({"spark.executor.memory": "6g", "start": "20"}, 3, "nodes: 3 nodes need 3 executors, and Spark has"),
    ],
)
def test_settings_under_which_train_cannot_run_end_it_soon_and_are_named(
    shipped, run, prepared, settings, executors, said
):
    limit = settings.get("start", "120")
    spark = {key: value for key, value in settings.items() if key != "start"}
    changed = ["--set", f"output={shipped}/never", "--set", f"start_timeout={limit}"]
    if executors == 3:
        changed += ["--set", "nodes=3"]
    config = ["--config", str(shipped / "train.yaml"), "--set", f"model.build={shipped}/mine.py:build"]
    application = run("train", *config, *changed, mode="client", executors=executors, settings=spark)
    assert application.status in (1, 2)
    assert said in application.output, explain(application)


@pytest.fixture
def prepared(shipped, run):
    """The data set, whichever test comes first."""
    if not (shipped / "prepared" / "_SUCCESS").exists():
        ok(run("preprocess", "--config", "prepare.yaml"))


def test_the_first_error_and_the_way_to_the_logs(shipped, run, prepared):
    config = ["--config", str(shipped / "train.yaml"), "--set", f"output={shipped}/failed"]
    application = run("train", *config, "--set", f"model.build={shipped}/mine.py:fail", mode="client")
    assert application.status != 0
    assert "no such layer, for the test" in application.output, explain(application)


def test_each_node_sees_the_gpu_that_yarn_and_spark_gave_it(shipped, run, prepared, tmp_path):
    discovery = tmp_path / "pretended.sh"
    discovery.write_text("""#!/bin/sh\necho '{"name": "gpu", "addresses": ["7"]}'\n""")
    discovery.chmod(0o755)
    settings = {
        "spark.executor.resource.gpu.amount": "1",
        "spark.task.resource.gpu.amount": "1",
        "spark.executor.resource.gpu.discoveryScript": "./pretended.sh",
    }
    said = ok(
        run("train", "--config", "train.yaml", "--set", f"output={shipped}/gpu", settings=settings, files=[discovery])
    )
    assert said.count("NODE SEES '7'") == 2
    # The same GPU twice on one host: what `check` is there to find.
    application = run("check", mode="client", settings=settings, files=[discovery])
    assert application.status == 2 and "were given GPU 7" in application.output, explain(application)
