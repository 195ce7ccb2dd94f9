"""What nodes spool, computed, against the spool's own files."""

from __future__ import annotations

from pathlib import Path

import pyarrow.dataset as arrow

from sparksplit.base.config import parse
from sparksplit.dataset.lane_files import Layout
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.handoff.receiver import _SpoolFile
from sparksplit.training.disks import spooled
from sparksplit.training.train_config import TrainConfig


def config(data: Path, **keys: object) -> TrainConfig:
    return parse(TrainConfig, {"data": str(data), "output": "/none", "input_mode": "spark", **keys})


def test_all_rows_in_a_spools_file_are_what_was_computed(digits: Path, tmp_path: Path) -> None:
    schema = Layout.of(PreparedDataSet.open(str(digits)).manifest).schema
    table = arrow.dataset(str(digits / "train"), format="parquet").to_table(columns=schema.names).cast(schema)
    file = _SpoolFile(tmp_path / "0-0.arrow", schema)
    for batch in table.to_batches(max_chunksize=100):
        file.write(batch)
    file.close()
    (computed,) = spooled(config(digits))
    assert computed == 1300 * (8 + 4 + 64 + 8)
    assert computed <= (tmp_path / "0-0.arrow").stat().st_size < computed + 4096


def test_nodes_share_the_rows_or_have_them_all(digits: Path) -> None:
    (whole,) = spooled(config(digits))
    shared = spooled(config(digits, strategy="batch", nodes=3))
    assert sum(shared) == whole and max(shared) < whole / 2
    assert spooled(config(digits, strategy="epoch", nodes=3)) == [whole] * 3
    assert spooled(config(digits, strategy="epoch", nodes={"virtual": 3})) == [whole]
    assert config(digits).feeders == 1


def test_what_nodes_read_themselves_is_not_spooled(digits: Path) -> None:
    reading = config(digits, input_mode="tensorflow", strategy="batch", nodes=2)
    assert spooled(reading) == [] and reading.feeders == 0
