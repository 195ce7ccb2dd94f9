"""Runs on rows that were damaged after they were published, or that no model can be trained on: the file is named."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparksplit.base.errors import UsageError
from sparksplit.dataset.arrays import from_arrays
from sparksplit.dataset.row_ids import mix64
from sparksplit.rows import order
from sparksplit.training import checkpoints
from tests.training.runs import MODELS, run, weights

BROKEN = """
import numpy as np

def transform(tensors, label, seeds):
    x = tensors["x"].copy()
    x[seeds == np.uint64({seed}), 2] = np.nan
    return {{"x": x}}, label
"""


def flip(file: Path) -> None:
    """Flip a bit of a pixel, which no reader notices who compares no checksums."""
    good, rows = file.read_bytes(), pq.read_table(file)
    for place in range(len(good) // 3, len(good)):
        file.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        try:
            found = pq.read_table(file)
        except (OSError, pa.ArrowException):
            continue
        same = [found.column(name).equals(rows.column(name)) for name in ("row_id", "x", "label")]
        if same == [True, False, True]:
            return
    raise AssertionError("no such bit")


@pytest.mark.parametrize(("mode", "nodes"), [("tensorflow", "forked"), ("spark", "fed")])
@pytest.mark.slow
def test_a_bit_that_has_flipped(request, digits, tmp_path, mode, nodes):
    """In both input modes the same words, and nothing is left: there is nothing to go on from."""
    request.getfixturevalue(nodes)
    shutil.copytree(digits, tmp_path / "data")
    file = next(iter((tmp_path / "data" / "train").iterdir()))
    flip(file)
    damaged = rf"{file}: row group \d+: is damaged: its checksum is \w+, but was \w+ when it was written"
    with pytest.raises(UsageError, match=damaged):
        run(tmp_path / "data", tmp_path / "run", batch_size=130, epochs=2, input_mode=mode)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_value_that_is_no_number(forked, tmp_path):
    """The row is named, and not the loss that other nodes find to be none because of it; the last checkpoint stays."""
    generator = np.random.default_rng(3)
    x, y = generator.normal(size=(400, 5)).astype("f4"), np.arange(400) % 3
    data = from_arrays(str(tmp_path / "data"), {"train": (x, y)}, lanes=6)
    split = data.split("train")
    row_id = split.reader().read(3, 0).row_ids[20]
    (tmp_path / "mine.py").write_text(BROKEN.format(seed=int(mix64(row_id ^ order.key(1, 1)))))
    place = split.place_of(int(row_id)).replace("(", r"\(").replace(")", r"\)")
    with pytest.raises(UsageError, match=f"{place}: x holds nan") as raised:
        run(
            tmp_path / "data",
            tmp_path / "run",
            nodes=2,
            batch_size=40,
            epochs=3,
            seed=1,
            transform=f"{tmp_path}/mine.py:transform",
            model={"build": f"{MODELS}:with_state"},
            checkpoint={"every": "epoch"},
        )
    assert "\n" not in str(raised.value)
    assert checkpoints.number_of(checkpoints.latest(str(tmp_path / "run"))) == 10
    assert all(np.isfinite(array).all() for array in weights(tmp_path / "run"))
