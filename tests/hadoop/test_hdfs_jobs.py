"""The commands from raw rows to predictions on a real HDFS: the bits of a local folder, also without a DataNode."""

from __future__ import annotations

import gzip
import os
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.utils import AnalysisException

from hdfs_io import filesystem
from sparksplit.commands.predict import COMMAND as PREDICT
from sparksplit.commands.preprocess import COMMAND as PREPROCESS
from sparksplit.commands.quickstart import digits as digits_file
from sparksplit.commands.train import COMMAND as TRAIN
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.diagnosis.preprocess.diagnose_preprocess import Trials
from sparksplit.prepare.preprocess_config import PreprocessConfig
from tests.commands.texts import sentences
from tests.forked import Zygote, nodes_of
from tests.hadoop.cluster import HadoopCluster

pytestmark = pytest.mark.slow

TRAINING = {
    "nodes": 2,
    "strategy": "batch",
    "epochs": 3,
    "batch_size": 50,
    "checkpoint.every": 5,
    "model.build": "mlp",
}

AWAY_SECONDS = 15

SLOWLY = TRAINING | {"cache_mb": 0, "transform": f"{Path(__file__).parents[1]}/training/models.py:slowly"}


@pytest.fixture(scope="module")
def hdfs(hadoop: HadoopCluster) -> Iterator[str]:
    """A new folder on HDFS, with the digits in it."""
    path = f"{hadoop.uri}/jobs-{uuid.uuid4().hex}"
    filesystem.write_bytes(f"{path}/raw/digits.csv.gz", Path(digits_file()).read_bytes())
    yield path
    filesystem.remove(path)


@pytest.fixture(scope="module")
def call(spark: SparkSession, zygote: Zygote) -> Callable[..., None]:
    """Run a command with keys, whose nodes are forked; it must succeed."""

    def run(command: Any, keys: dict[str, Any]) -> None:
        sets = [word for key, value in keys.items() for word in ("--set", f"{key}={value}")]
        with nodes_of(zygote, spark=True):
            assert command.main(sets) == 0

    return run


def preprocess(call: Callable[..., None], source: str, output: str) -> None:
    csv = {"format": "csv", "path": source, "header": "false", "dtype": "uint8", "shape": "[8, 8]"}
    keys = {f"input.{key}": value for key, value in csv.items()} | {"test": 0.2, "scaling": "unit", "output": output}
    call(PREPROCESS, keys)


@pytest.fixture(scope="module")
def local(call: Callable[..., None], tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the commands leave in a local folder: prepared, run, predictions."""
    folder = str(tmp_path_factory.mktemp("local"))
    preprocess(call, digits_file(), f"{folder}/prepared")
    call(TRAIN, TRAINING | {"data": f"{folder}/prepared", "output": f"{folder}/run"})
    keys = {"model": f"{folder}/run", "input": f"{folder}/prepared", "output": f"{folder}/predictions"}
    call(PREDICT, keys)
    return folder


@pytest.fixture(scope="module")
def prepared(call: Callable[..., None], hdfs: str) -> str:
    """The digits prepared from HDFS to HDFS."""
    preprocess(call, f"{hdfs}/raw", f"{hdfs}/prepared")
    return f"{hdfs}/prepared"


def weights(run: str) -> str:
    """The digest of a run's weights; the run's ledger must be exact."""
    record = filesystem.read_json(f"{run}/run.json")
    assert record["ledger"]["exact"]
    return str(record["weights"])


@contextmanager
def at_the_first_checkpoint(run: str, happens: Callable[[], None]) -> Iterator[None]:
    """Do `happens` in the background once `run` has a checkpoint, before it has ended."""

    def watch() -> None:
        end = time.monotonic() + 120
        while not filesystem.listing(f"{run}/checkpoints"):
            assert time.monotonic() < end
            time.sleep(0.1)
        assert not filesystem.exists(f"{run}/_SUCCESS")
        happens()

    with ThreadPoolExecutor(1) as pool:
        watching = pool.submit(watch)
        yield
        watching.result()


def test_the_same_bits_as_in_a_local_folder(
    call: Callable[..., None],
    hadoop: HadoopCluster,
    hdfs: str,
    prepared: str,
    local: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hadoop.conf_dir))
    short = hdfs.replace(hadoop.uri, "hdfs://")  # hdfs:///...
    preprocess(call, f"{short}/raw", f"{short}/prepared")  # there is nothing to do: it is the same folder
    for split in ("train", "validation", "test"):
        files = filesystem.listing(f"{local}/prepared/{split}")
        assert files == filesystem.listing(f"{prepared}/{split}") and files
        for name in files:
            path = f"prepared/{split}/{name}"
            assert filesystem.read_bytes(f"{hdfs}/{path}") == filesystem.read_bytes(f"{local}/{path}")
    call(TRAIN, TRAINING | {"data": f"{short}/prepared", "output": f"{short}/run"})
    assert weights(f"{hdfs}/run") == weights(f"{local}/run")
    found = filesystem.listing(f"{hdfs}/run")
    assert set(found) == set(filesystem.listing(f"{local}/run")) and "_SUCCESS" in found
    call(PREDICT, {"model": f"{short}/run", "input": f"{short}/prepared", "output": f"{short}/predictions"})
    for name in filesystem.listing(f"{local}/predictions/predictions"):
        path = f"predictions/predictions/{name}"
        assert filesystem.read_bytes(f"{hdfs}/{path}") == filesystem.read_bytes(f"{local}/{path}")
    call(TRAIN, TRAINING | {"data": f"{hdfs}/prepared", "output": f"{hdfs}/run"})  # there is nothing to do


# A kill at the start of a phase is the hardest case: the NameNode offers the dead DataNode for ten more seconds.


def test_a_datanode_is_lost_while_spark_prepares(
    call: Callable[..., None], hadoop: HadoopCluster, hdfs: str, local: str
) -> None:
    hadoop.kill_datanode(0)
    preprocess(call, f"{hdfs}/raw", f"{hdfs}/prepared-2")
    manifests = [
        filesystem.read_json(f"{folder}/manifest.json") for folder in (f"{hdfs}/prepared-2", f"{local}/prepared")
    ]
    assert manifests[0]["splits"] == manifests[1]["splits"]


def test_a_datanode_is_lost_while_nodes_read_and_write_and_the_other_while_spark_predicts(
    call: Callable[..., None], hadoop: HadoopCluster, hdfs: str, prepared: str, local: str
) -> None:
    run, predictions = f"{hdfs}/run-2", f"{hdfs}/predictions-2"
    hadoop.kill_datanode(0)
    call(TRAIN, TRAINING | {"data": prepared, "output": run})
    assert weights(run) == weights(f"{local}/run")
    hadoop.restart_datanode(0)
    hadoop.await_replicated()
    hadoop.kill_datanode(1)
    call(PREDICT, {"model": run, "input": prepared, "output": predictions})
    found, expected = (filesystem.read_json(f"{path}/metrics.json") for path in (predictions, f"{local}/predictions"))
    assert found == expected | {"model": found["model"], "input": prepared}


def test_a_namenode_that_restarts_while_nodes_train_is_waited_for(
    call: Callable[..., None], hadoop: HadoopCluster, hdfs: str, prepared: str, local: str
) -> None:
    """For longer than a node may be without progress: it tries again, and so gets on."""
    run = f"{hdfs}/run-6"

    def restart() -> None:
        hadoop.stop_namenode()
        time.sleep(AWAY_SECONDS)
        hadoop.restart_namenode()

    with at_the_first_checkpoint(run, restart):
        call(TRAIN, SLOWLY | {"data": prepared, "output": run, "stall_timeout": 8, "phase_timeout": 12})
    assert filesystem.read_json(f"{run}/run.json")["restarts"] == 0
    assert weights(run) == weights(f"{local}/run")


def test_local_paths_stay_local_for_spark_on_a_hadoop_cluster(
    spark: SparkSession, hadoop: HadoopCluster, tmp_path: Path
) -> None:
    folder = f"{tmp_path}/a [b] {{c}}"
    os.mkdir(folder)  # noqa: PTH102
    spark.range(7).write.parquet(filesystem.for_spark(folder).replace("\\", "") + "/rows")
    session = spark.newSession()
    session.conf.set("fs.defaultFS", hadoop.uri)
    with pytest.raises(AnalysisException, match=r"Path does not exist: hdfs://"):
        session.read.parquet(f"{tmp_path}")
    assert session.read.parquet(filesystem.for_spark(f"{folder}/rows")).count() == 7


def test_a_text_on_hdfs_gives_the_files_of_a_local_one(hdfs: str, call: Callable[..., None], tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text(sentences(9000))
    filesystem.write_bytes(f"{hdfs}/text/a.gz", gzip.compress(sentences(9000)[:4000].encode(), mtime=0))
    filesystem.write_bytes(f"{hdfs}/text/b.txt", sentences(9000)[4000:].encode())
    places = {f"{tmp_path}/text.txt": f"{tmp_path}/prepared", f"{hdfs}/text": f"{hdfs}/text-prepared"}
    for source, output in places.items():
        call(PREPROCESS, {"input.format": "text", "input.path": source, "test": 0.2, "output": output})
    one, two = (PreparedDataSet.open(output) for output in places.values())
    assert one.digest == two.digest and one.manifest.splits == two.manifest.splits
    for split in one.manifest.splits:
        for file, size in one.files(split).items():
            same = filesystem.read_bytes(f"{two.path}/{file}")
            assert Path(one.path, file).read_bytes() == same and len(same) == size


def test_of_a_measured_preparation_nothing_stays(spark: SparkSession, hdfs: str) -> None:
    raw = f"{hdfs}/skewed"
    for number, rows in enumerate((5000, 100, 100)):
        lines = "".join(f"{number},{row},{row % 3}\n" for row in range(rows))
        filesystem.write_bytes(f"{raw}/part-{number}.csv.gz", gzip.compress(f"a,b,label\n{lines}".encode()))
    values = {"input": {"format": "csv", "path": raw}, "output": f"{hdfs}/deep/set"}
    config = PreprocessConfig.model_validate(values)
    before = filesystem.listing(hdfs)
    prepared = Trials(spark, config).prepare()
    assert sum(split.rows for split in prepared.manifest.splits.values()) == 5200
    stages = prepared.stages
    assert {"parse", "number", "shuffle", "write"} <= {stage.part for stage in stages}
    assert filesystem.listing(hdfs) == before
