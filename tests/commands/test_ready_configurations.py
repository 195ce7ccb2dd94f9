"""Each kind of data by its ready configurations: every row once, one result on one node and on two."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from benchmarks import generated_tables as generated
from sparksplit.base.shipped import shipped
from sparksplit.commands import compare, preprocess, train
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.strategies import COMPARED
from tests.forked import Zygote, nodes_of
from tests.training.runs import largest_difference, weights

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

EPOCHS = 2


@dataclass(frozen=True)
class Kind:
    """write: makes the rows at a path. suffix: of the file's name. prepared, trained: what is set beside the paths."""

    write: Callable[[Path], None]
    suffix: str
    prepared: tuple[str, ...]
    trained: tuple[str, ...] = ()


def _table(make: Callable[[], pa.Table]) -> Callable[[Path], None]:
    return lambda path: (pc.write_csv if path.suffix == ".csv" else pq.write_table)(make(), path)


def _texts() -> pa.Table:
    return generated.texts(300).rename_columns({"message": "text"})


KINDS = {
    "census": Kind(
        _table(lambda: generated.census(1000)),
        ".csv",
        ("input.format=csv", f"input.label={generated.CENSUS_LABEL}"),
    ),
    "airline": Kind(
        _table(lambda: generated.airline(3000)),
        ".parquet",
        ("input.format=parquet", f"input.label={generated.AIRLINE_LABEL}"),
        ("class_weights=balanced",),
    ),
    "text-classes": Kind(_table(_texts), ".csv", ("input.format=csv", f"input.label={generated.TEXTS_LABEL}")),
    "series": Kind(
        _table(lambda: generated.series(600, 2)),
        ".csv",
        (
            "input.format=csv",
            "input.label=load",
            "input.windows.order=time",
            "input.windows.by=[station]",
            "input.windows.stride=4",
        ),
        ("model.params.units=[8]",),
    ),
    "images": Kind(
        lambda path: generated.image_folders(path, 60, side=16), "", ("input.format=images", "input.size=[16, 16]")
    ),
}


def call(command: Any, config: str, *settings: str) -> int:
    return int(command.main(["--config", shipped(f"conf/{config}"), *(w for s in settings for w in ("--set", s))]))


@pytest.fixture(scope="module")
def nodes(zygote: Zygote) -> Iterator[None]:
    with nodes_of(zygote, spark=True):
        yield


@pytest.mark.parametrize("name", KINDS)
def test_the_nodes_do_not_matter(name: str, spark: SparkSession, nodes: None, tmp_path: Path) -> None:
    kind = KINDS[name]
    rows, data = tmp_path / f"rows{kind.suffix}", tmp_path / "data"
    kind.write(rows)
    config = name if name in ("text-classes", "series", "images") else "table"
    assert call(preprocess, f"preprocess-{config}.yaml", f"input.path={rows}", f"output={data}", *kind.prepared) == 0
    split = PreparedDataSet.open(str(data)).manifest.splits["train"]
    for count in (1, 2):
        run = tmp_path / f"run{count}"
        strategy = "single" if count == 1 else "batch"
        given = (f"data={data}", f"output={run}", f"nodes={count}", f"strategy={strategy}", f"epochs={EPOCHS}")
        assert call(train, f"train-{config}.yaml", *given, *kind.trained) == 0
        ledger = json.loads((run / "run.json").read_text())["ledger"]
        assert ledger["exact"] and ledger["rows"] == EPOCHS * split.rows
        assert largest_difference(weights(tmp_path / "run1"), weights(run)) < 1e-4
    if name == "census":
        output = tmp_path / "compared"
        assert call(compare, "compare-table.yaml", f"data={data}", f"output={output}", "seeds=1", "epochs=2") == 0
        results = json.loads((output / "results.json").read_text())
        assert {found["strategy"] for found in results["runs"]} == set(COMPARED)
        assert all(found["ledger"]["exact"] for found in results["runs"]) and (output / "report.html").exists()
