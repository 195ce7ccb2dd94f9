"""A scheduled pipeline: days prepared by what the first has fitted, trained on together, and a day more."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from sparksplit.commands import predict, preprocess, train
from tests.commands.mixed_tables import FEATURES, clients
from tests.forked import Zygote, nodes_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

DAYS = [f"2026-11-{day:02d}" for day in range(16, 20)]
MODEL = ("model.build=tabular", "model.params.hidden=[8]", "strategy=batch", "nodes=2", "epochs=2", "batch_size=40")


def content(folder: Path) -> dict[str, float]:
    """When each file was last changed."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {f"{path.relative_to(folder)}": path.stat().st_mtime for path in files}


def test_each_step_of_some_days_run_twice_changes_nothing(
    spark: SparkSession, zygote: Zygote, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def twice(command: Callable[[list[str]], int], output: Path, *words: str) -> None:
        arguments = [word for each in (*words, f"output={output}") for word in ("--set", each)]
        assert command(arguments) == 0
        there = content(output)
        capsys.readouterr()
        assert command(arguments) == 0
        assert "is up to date" in "".join(capsys.readouterr())
        assert content(output) == there

    def day(number: int, *words: str) -> None:
        file = tmp_path / f"{DAYS[number]}.parquet"
        pq.write_table(clients(120, seed=number, first_day=30 * number), file)
        section = json.dumps({"format": "parquet", "path": f"{file}", "label": "left", "keep": ["id"]})
        twice(preprocess.main, tmp_path / "prepared" / f"ds={DAYS[number]}", f"input={section}", *words)

    day(0, f"features={json.dumps(FEATURES)}")
    for number in (1, 2):
        day(number, f"fitted={tmp_path}/prepared/ds={DAYS[0]}")
    with nodes_of(zygote, spark=True):
        twice(train.main, tmp_path / "week", f"data={tmp_path}/prepared/ds=*", *MODEL)
        run = json.loads((tmp_path / "week" / "run.json").read_text())
        assert run["ledger"]["exact"] and run["ledger"]["rows"] == 2 * run["rows"] > 2 * 2 * 120
        day(3, f"fitted={tmp_path}/prepared/ds={DAYS[0]}")
        last = f"data={tmp_path}/prepared/ds={DAYS[3]}"
        twice(train.main, tmp_path / "day", last, *MODEL, f"init={tmp_path}/week")
        assert json.loads((tmp_path / "day" / "run.json").read_text())["init"]["fresh"] == []
    table = tmp_path / "table"
    for number in (2, 3):
        rows = (f"model={tmp_path}/day", f"input={tmp_path}/prepared/ds={DAYS[number]}", "split=[train, validation]")
        twice(predict.main, table, *rows, "keep=[id]", f"partition.ds={DAYS[number]}")
    found = ds.dataset(table, partitioning="hive", exclude_invalid_files=True).to_table().to_pandas()
    assert found.groupby("ds").size().to_dict() == {DAYS[2]: 120, DAYS[3]: 120}
