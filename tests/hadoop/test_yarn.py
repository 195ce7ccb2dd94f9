"""The jobs as operators run them: spark-submit on a real YARN with sparksplit.zip, from folders that are not ours."""

from __future__ import annotations

import json
import re
import time
import uuid
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pytest
from hdfs_native import Client

from hdfs_io import filesystem, lease
from sparksplit.commands.predict import COMMAND as PREDICT
from sparksplit.commands.preprocess import COMMAND as PREPROCESS
from sparksplit.commands.train import COMMAND as TRAIN
from sparksplit.operations.devices.devices_record import DevicesRecord
from sparksplit.operations.operations_config import PackageConfig
from sparksplit.operations.package import package
from sparksplit.training import checkpoints
from tests.faults.two_drivers import contents
from tests.forked import nodes_of
from tests.hadoop.submit import explain

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

USER = "alice"
"""Who submits; YARN's containers run as the user of the tests."""

OTHER = "bob"

MODEL = """
import os
import time
import keras

def build(data, width=8):
    print("NODE SEES", repr(os.environ.get("CUDA_VISIBLE_DEVICES")), flush=True)
    return keras.Sequential([
        keras.layers.Input(data.input_shape),
        keras.layers.Dense(width, "relu"),
        keras.layers.Dense(data.outputs, data.activation),
    ])

def large_once(data, mark):
    # 3 GB in the one process that makes the folder `mark`.
    import numpy as np
    try:
        os.mkdir(mark)
    except FileExistsError:
        return build(data)
    held = np.ones(3 << 27)
    time.sleep(60)
    raise RuntimeError(f"{held.nbytes} bytes were not too many")

def slowly(tensors, label, seeds):
    time.sleep(1.0 if os.path.exists("%s") else 0.0)
    return tensors, label
"""

SLOWLY = ["--set", "transform=mine.py:slowly", "--set", "epochs=60", "--set", "checkpoint.every=epoch"]
"""While the file `slow` exists, each epoch takes a second or more: time to do something to a run."""


SEVERAL = """
import importlib
import sys

from sparksplit.spark.manager import Manager
from sparksplit.spark.session import spark_session

with spark_session("sparksplit several", 2) as spark, Manager(spark.sparkContext) as manager:
    for words in " ".join(sys.argv[1:]).split(" then "):
        name, *arguments = words.split()
        if status := importlib.import_module(f"sparksplit.commands.{name}").main(arguments):
            sys.exit(status)
    print("YARN HAS GRANTED", manager.granted, flush=True)
"""
"""A job that runs several commands, one after the other, in one application. It ends with the number of executors that
have a container, as YARN tells it."""


@pytest.fixture(scope="module")
def place(hadoop):
    """A new folder on HDFS, which belongs to the user who submits the jobs."""
    path = f"{hadoop.uri}/yarn-{uuid.uuid4().hex}"
    for folder in (path, f"{hadoop.uri}/user/{USER}"):
        filesystem.make_folder(folder)
        Client(hadoop.uri).set_owner(folder.removeprefix(hadoop.uri), USER, USER)
    yield path
    filesystem.remove(path)


@pytest.fixture(scope="module")
def shipped(tmp_path_factory, place):
    """A local folder: what `package` makes, and a user's own files beside it. Rows and results are on HDFS."""
    folder = tmp_path_factory.mktemp("shipped")
    list(package(PackageConfig(output=str(folder))))
    (folder / "jobs" / "several.py").write_text(SEVERAL)
    (folder / "mine.py").write_text(MODEL % (folder / "slow"))
    draw = np.random.default_rng(1)
    label = draw.integers(0, 3, 400)
    rows = np.column_stack([draw.normal(label[:, None], 0.1, (400, 4)), label])
    np.savetxt(folder / "rows.csv", rows, fmt=["%.6f"] * 4 + ["%d"], delimiter=",")
    filesystem.write_bytes(f"{place}/rows.csv", (folder / "rows.csv").read_bytes())
    for name, config in configs(place, "mine.py").items():
        (folder / name).write_text(json.dumps(config))
    return folder


def configs(folder, model):
    """The jobs' configurations, with everything in `folder`."""
    return {
        "prepare.yaml": {
            "input": {"format": "csv", "path": f"{folder}/rows.csv", "header": False, "label": -1},
            "output": f"{folder}/prepared",
            "test": 0.2,
            "validation": 0.1,
        },
        "train.yaml": {
            "data": f"{folder}/prepared",
            "output": f"{folder}/run",
            "model": {"build": f"{model}:build"},
            "nodes": 2,
            "strategy": "batch",
            "batch_size": 16,
            "epochs": 2,
        },
        "compare.yaml": {
            "data": f"{folder}/prepared",
            "output": f"{folder}/compared",
            "model": {"build": f"{model}:build"},
            "strategies": ["batch", "epoch"],
            "nodes": [2],
            "seeds": 2,
            "batch_size": 16,
            "epochs": 2,
            "input_mode": "spark",
        },
        "predict.yaml": {"model": f"{folder}/run", "input": f"{folder}/prepared", "output": f"{folder}/predictions"},
    }


@pytest.fixture
def begin(shipped, yarn_submit):
    """spark-submit of a job with the zip and nothing else of ours."""

    def call(job, *arguments, mode="cluster", executors=2, settings=None, files=()):
        wanted = {
            "spark.submit.pyFiles": f"{shipped}/sparksplit.zip",
            "spark.yarn.maxAppAttempts": "1",
            "spark.yarn.dist.files": ",".join(
                [
                    *(
                        f"{shipped}/{name}"
                        for name in ("mine.py", "prepare.yaml", "train.yaml", "compare.yaml", "predict.yaml")
                    ),
                    *files,
                ]
            ),
            **(settings or {}),
        }
        script = shipped / "jobs" / f"{job}.py"
        return yarn_submit(
            script,
            *arguments,
            mode=mode,
            executors=executors,
            settings=wanted,
            environment={"PYTHONPATH": "", "HADOOP_USER_NAME": USER},
        )

    return call


@pytest.fixture
def run(begin):
    """Begin a job, wait for its end, and return its result."""

    def call(job, *arguments, **options):
        return begin(job, *arguments, **options).finish()

    return call


def ok(application):
    assert (application.status, application.final_status) == (0, "SUCCEEDED"), explain(application)
    return application.output + "".join(application.containers.values())


@pytest.fixture(scope="module")
def local(shipped, spark, zygote, tmp_path_factory):
    """A local folder that the jobs have filled, on a local cluster and forked nodes."""
    folder = tmp_path_factory.mktemp("local")
    (folder / "rows.csv").write_bytes((shipped / "rows.csv").read_bytes())
    found = configs(folder, shipped / "mine.py")
    with nodes_of(zygote, spark=True):
        for name, command in (("prepare", PREPROCESS), ("train", TRAIN), ("predict", PREDICT)):
            (folder / f"{name}.yaml").write_text(json.dumps(found[f"{name}.yaml"]))
            assert command.main(["--config", str(folder / f"{name}.yaml")]) == 0
    return str(folder)


@pytest.fixture
def gpus(tmp_path):
    """Options of `begin` under which YARN and Spark give each executor a pretended GPU, always the same one."""
    discovery = tmp_path / "pretended.sh"
    discovery.write_text("""#!/bin/sh\necho '{"name": "gpu", "addresses": ["7"]}'\n""")
    discovery.chmod(0o755)
    settings = {
        "spark.executor.resource.gpu.amount": "1",
        "spark.task.resource.gpu.amount": "1",
        "spark.executor.resource.gpu.discoveryScript": "./pretended.sh",
    }
    return {"settings": settings, "files": [str(discovery)]}


def test_the_jobs_on_yarn_and_hdfs_give_the_bits_of_a_local_folder(shipped, place, run, local, gpus):
    """Invariant 1, in cluster mode: preprocess, train, predict. With input_mode: spark see the comparison below."""
    gpus["settings"]["spark.yarn.queue"] = "training"
    words = "preprocess --config prepare.yaml then train --config train.yaml then predict --config predict.yaml"
    done = run("several", *words.split(), **gpus)
    assert ok(done).count("NODE SEES '7'") == 2
    assert "YARN HAS GRANTED 2" in ok(done)
    assert done.queue.endswith("training")
    # A scheduler's retry of what is done succeeds, for YARN too, whose list shows the name that it gives.
    again = run("train", "--config", "train.yaml", executors=1, settings={"spark.app.name": "sparksplit train run"})
    assert "is up to date" in ok(again) and again.name == "sparksplit train run"
    runs = [filesystem.read_json(f"{folder}/run/run.json") for folder in (local, place)]
    assert all(found["ledger"]["exact"] for found in runs)
    assert [found["application_id"].startswith("application_") for found in runs] == [False, True]
    for key in ("weights", "metrics", "rows", "updates"):
        assert runs[0][key] == runs[1][key], key
    found, expected = (filesystem.read_json(f"{folder}/predictions/metrics.json") for folder in (place, local))
    assert found == expected | {"model": found["model"], "input": f"{place}/prepared"}
    written = Client(place).list_status("/" + place.split("/")[-1], recursive=True)
    assert {status.owner for status in written if not status.path.endswith("/rows.csv")} == {USER}


def test_check_and_devices_look_at_a_cluster(hadoop, place, run, gpus):
    # In cluster mode the driver's container may name another user than who submits.
    other, inner = f"{place}-{OTHER}", f"{place}-{OTHER}".removeprefix(hadoop.uri)
    filesystem.make_folder(other)
    Client(place).set_owner(inner, OTHER, OTHER)
    # The driver's container is too small for TensorFlow: its devices are left out, and it is not killed.
    settings = {
        "spark.executor.memoryOverhead": "1100m",
        "spark.driver.memoryOverhead": "600m",
        "spark.yarn.appMasterEnv.HADOOP_USER_NAME": OTHER,
    }
    words = f"check --path {other} then devices --output {other}/devices.json --limit 250"
    said = ok(run("several", *words.split(), settings=settings))
    assert "ready: no problem was found" in said and writers(said) == [OTHER] * 3, said
    written = {file.path.rpartition("/")[2]: file.owner for file in Client(place).list_status(inner)}
    assert written == {"devices.json": OTHER}
    found = DevicesRecord.parse(filesystem.read_bytes(f"{other}/devices.json"), "devices.json")
    assert (found.master, [one.who for one in found.processes]) == ("yarn", ["driver", "executor 0", "executor 1"])
    assert "spark.driver.memoryOverhead" in found.processes[0].notes[0] and found.processes[0].products == []
    assert all(one.problems == [] and one.products and one.powers for one in found.processes[1:])
    gpus["settings"]["spark.executor.memoryOverhead"] = "400m"
    application = run("check", "--path", place, mode="client", **gpus)
    assert application.status == 2
    assert writers(application.output) == [USER] * 3, explain(application)
    assert application.name == "sparksplit check" and {"sparksplit", "check"} < application.tags
    assert "spark.executor.memoryOverhead: must be at least 1024m" in application.output, explain(application)
    assert "were given GPU 7" in application.output, explain(application)


def writers(said):
    """Who owns the files that the driver and the executors have written, by the table of `check`; its cells are folded,
    and its head has another line."""
    return re.findall(rf"^[│|].*\b({USER}|{OTHER})\b", said, re.MULTILINE)


@pytest.fixture
def slow(shipped):
    """The file during whose life `slowly` is slow."""
    file = shipped / "slow"
    file.touch()
    yield file
    file.unlink(missing_ok=True)


@pytest.fixture
def prepared(place, run):
    """The data set, whichever test comes first."""
    if not filesystem.exists(f"{place}/prepared/_SUCCESS"):
        ok(run("preprocess", "--config", "prepare.yaml"))


def test_an_application_that_stood_still_writes_nothing_more(place, hadoop, begin, run, prepared, slow):
    """As where all its hosts were asleep: driver and nodes wake up when another has ended what they were doing."""
    runs = f"{place}/superseded"
    config = ["--config", "train.yaml", "--set", f"output={runs}/run", *SLOWLY]
    first = begin("train", *config)
    hadoop.wait_for("a checkpoint", lambda: checkpoints.latest(f"{runs}/run") is not None, "resourcemanager")
    asleep = put_to_sleep(hadoop.folder, first.application()["id"])
    try:
        assert len({process.pid for process in asleep} & {node.pid for node in node_processes(hadoop.folder)}) == 2
        long_ago = int(1000 * (time.time() - lease.EXPIRE_SECONDS))
        file = lease.file_of(f"{runs}/run").removeprefix(hadoop.uri)
        Client(hadoop.uri).set_times(file, long_ago, long_ago)
        slow.unlink()
        ok(run("train", *config))
        finished = contents(runs)
        slow.touch()  # whoever wakes up has epochs left
    finally:
        for process in asleep:
            with suppress(psutil.NoSuchProcess):  # those who woke up first end the others
                process.resume()
    application = first.finish()
    assert (application.status, application.final_status) == (1, "FAILED"), explain(application)
    said = "".join(application.containers.values())
    assert f"{runs}/run: another run has taken over this output; this one ends" in said, explain(application)
    assert contents(runs) == finished
    found = filesystem.read_json(f"{runs}/run/run.json")
    assert found["ledger"]["exact"] and [each["how"] for each in found["attempts"]] == ["start", "resume"]


def test_a_comparison_of_rows_that_spark_hands_over_goes_on_after_its_application_was_killed(
    place, hadoop, begin, run, prepared, local
):
    """All on HDFS: the rows, the records of runs, what they say together, and the page."""
    output, first = f"{place}/compared", f"{place}/compared/runs/batch-n2-s1.json"
    submission = begin("compare", "--config", "compare.yaml", executors=3)
    hadoop.wait_for("a run's record", lambda: filesystem.exists(first), "resourcemanager")
    nodes = node_processes(hadoop.folder)
    submission.kill()
    assert len(nodes) == 2 and not psutil.wait_procs(nodes, timeout=30)[1]
    kept = filesystem.read_bytes(first)
    assert not filesystem.exists(f"{output}/results.json")
    ok(run("compare", "--config", "compare.yaml", executors=3))
    assert filesystem.exists(f"{output}/_SUCCESS") and filesystem.read_bytes(first) == kept
    results = filesystem.read_json(f"{output}/results.json")
    runs = {found["key"]: found for found in results["runs"]}
    assert sorted(runs) == ["batch-n2-s1", "batch-n2-s2", "epoch-n2-s1", "epoch-n2-s2"]
    page = filesystem.read_bytes(f"{output}/report.html").decode()
    for key, record in runs.items():
        assert record["ledger"]["exact"] and record["place"]["input_mode"] == "spark"
        assert record["place"]["cluster"].startswith("yarn with hdfs://") and record["handoff"]["seconds"] > 0
        assert filesystem.exists(f"{output}/runs/{key}.json") and f'href="runs/{key}.json"' in page
    # The bits of a training that reads its rows itself.
    assert runs["batch-n2-s1"]["weights"] == filesystem.read_json(f"{local}/run/run.json")["weights"]
    # Each application has fed a cluster of its own; nodes that share epochs have been handed all rows.
    one, other = (runs[key] for key in ("batch-n2-s1", "epoch-n2-s2"))
    assert one["application_id"] != other["application_id"] and one["weights"] != runs["batch-n2-s2"]["weights"]
    assert one["handoff"]["runs"] == 4 > other["handoff"]["runs"] and other["handoff"]["rows"] == [other["rows"]] * 2


def put_to_sleep(folder, application):
    """Stop all processes of an application's containers, which are in `folder`; returns them."""
    asleep = {}
    while new := [process for process in processes_in(folder, application) if process.pid not in asleep]:
        for process in new:
            asleep[process.pid] = process
            process.suspend()
    return list(asleep.values())


def test_containers_that_yarn_ends_for_their_memory_or_asks_to_end(place, hadoop, begin, prepared, slow, tmp_path):
    output = f"{place}/ended"
    large = ["--set", "model.build=mine.py:large_once", "--set", f"model.params={{mark: {tmp_path}/large}}"]
    # Nodes that YARN ends may have no time for another checkpoint.
    submission = begin("train", "--config", "train.yaml", *large, "--set", f"output={output}", *SLOWLY)
    hadoop.wait_for("a checkpoint", lambda: checkpoints.latest(output) is not None, "resourcemanager")
    asked = node_processes(hadoop.folder)[0]
    hadoop.signal(container_of(asked), "GRACEFUL_SHUTDOWN")
    asked.wait(120)
    slow.unlink()
    application = submission.finish()
    ok(application)
    found = filesystem.read_json(f"{output}/run.json")
    assert found["ledger"]["exact"] and found["restarts"] == 2
    first, second, last = found["attempts"]
    assert "its container needed more memory" in first["cause"]["what"], first
    assert "SIGTERM" in second["cause"]["what"], second
    assert "cause" not in last and last["update"] > 0 == second["update"], found["attempts"]


def container_of(process):
    """The id of the container that a process runs in."""
    return next(part for part in Path(process.cwd()).parts if part.startswith("container_"))


def node_processes(folder):
    """The nodes whose containers are in `folder`."""
    found = []
    for process in processes_in(folder):
        with suppress(psutil.NoSuchProcess):
            if "sparksplit.cluster.node_main" in process.cmdline():
                found.append(process)
    return found


def processes_in(folder, application=""):
    """The processes that work below `folder`, in a folder of `application` if that is given."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            place = Path(process.cwd())
            if place.is_relative_to(folder) and (not application or application in place.parts):
                found.append(process)
    return found
