"""What Spark's settings alone tell, and the folders of nodes."""

from __future__ import annotations

import fcntl
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sparksplit.base.config import parse
from sparksplit.base.errors import ConfigError
from sparksplit.cluster.launcher import PREFIX, _scratch_folder
from sparksplit.cluster.requirements import check_settings
from sparksplit.training.place import threads
from sparksplit.training.train_config import TrainConfig


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"spark.master": "local[*]"}, r"spark\.master: local\[\*\] runs everything in one process.*use local-cluster"),
        ({"spark.master": "local"}, r"spark\.master: local runs"),
        (
            {"spark.master": "yarn", "spark.dynamicAllocation.enabled": "true"},
            r"spark\.dynamicAllocation\.enabled: must be false \(is true\)",
        ),
        ({"spark.master": "yarn", "spark.speculation": "TRUE"}, r"spark\.speculation: must be false"),
        (
            {"spark.master": "yarn", "spark.executor.instances": "3", "spark.executor.cores": "4"},
            r"spark\.task\.cpus: .* one task slot \(has 4\); set it to 4",
        ),
        (
            {"spark.master": "local-cluster[1,2,1024]"},
            r"spark\.master: local-cluster\[1,2,1024\] is 1 executor of 2 cores.* use local-cluster\[2,1,1024\]: 2 ex",
        ),
        (
            {"spark.master": "local-cluster[2,1,900]"},
            r"nodes: 3 nodes need 3 executors, and the settings allow 2; .*spark\.master to local-cluster\[3,1,900\]",
        ),
        ({"spark.master": "yarn"}, r"the settings allow 2; set fewer nodes, or set spark\.executor\.instances to 3"),
        (
            {"spark.master": "spark://host:7077", "spark.cores.max": "4", "spark.executor.cores": "2"}
            | {"spark.task.cpus": "2"},
            r"the settings allow 2; set fewer nodes, or set spark\.cores\.max to 6",
        ),
    ],
)
def test_wrong_settings_are_named_with_what_to_set(settings: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        check_settings(settings, nodes=3)


@pytest.mark.parametrize(
    "settings",
    [
        {"spark.master": "local-cluster[3, 1, 1024]"},
        {"spark.master": "local-cluster[3,4,1024]", "spark.task.cpus": "4"},
        {"spark.master": "yarn", "spark.executor.instances": "5"},
        {"spark.master": "spark://host:7077"},
        {"spark.master": "spark://host:7077", "spark.executor.instances": "1"},  # which it does not look at
        {"spark.master": "yarn", "spark.executor.instances": "3", "spark.executor.cores": "8", "spark.task.cpus": "8"},
    ],
)
def test_good_settings_pass(settings: dict[str, str]) -> None:
    check_settings(settings, nodes=3)


def test_a_nodes_folder_goes_and_takes_those_of_killed_predecessors_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path}/a,{tmp_path}/b")
    for name in ("left", "living"):
        folder = tmp_path / "b" / f"{PREFIX}{name}"
        (folder / "scratch").mkdir(parents=True)
        (folder / ".lock").touch()
    other = tmp_path / "b" / "blockmgr"
    other.mkdir()
    with (tmp_path / "b" / f"{PREFIX}living" / ".lock").open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with _scratch_folder(rank=3) as scratch:
            assert list(Path(scratch).iterdir()) == []
            (Path(scratch) / "spool").write_text("rows")
            assert Path(scratch).parent.parent == tmp_path / "b"
            assert not (tmp_path / "b" / f"{PREFIX}left").exists()
        assert not Path(scratch).parent.exists()
        assert (tmp_path / "b" / f"{PREFIX}living").exists()
    assert other.exists()


def test_a_folder_that_is_not_locked_yet_is_not_taken_for_a_killed_predecessors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Executors of one host share its disks, and begin together."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    flock = fcntl.flock

    def after_another_has_begun(file: Any, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        with _scratch_folder(rank=1):
            flock(file, operation)

    monkeypatch.setattr(fcntl, "flock", after_another_has_begun)
    with _scratch_folder(rank=0) as scratch:
        assert Path(scratch).is_dir()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "cores"),
    [
        ({"spark.master": "spark://here:7077", "spark.task.cpus": "8"}, 8),  # and an executor has its worker's
        ({"spark.master": "yarn", "spark.executor.cores": "5", "spark.task.cpus": "4"}, 4),
        ({"spark.master": "local-cluster[2,1,1024]"}, 1),
        ({"spark.master": "yarn", "spark.task.cpus": ""}, 1),
    ],
)
def test_a_node_computes_with_the_cores_that_spark_grants_to_its_task(settings, cores):
    spark = SimpleNamespace(sparkContext=SimpleNamespace(getConf=lambda: SimpleNamespace(getAll=settings.items)))
    own = {"data": "d", "output": "o"}
    assert threads(parse(TrainConfig, own), spark) == cores
    assert threads(parse(TrainConfig, {**own, "threads": 3}), spark) == 3
