"""`preprocess` on a text: the same files however it is spread, and what it says where the text is wrong."""

from __future__ import annotations

import gzip
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from sparksplit.base.config import parse
from sparksplit.base.shipped import shipped
from sparksplit.commands import preprocess
from sparksplit.dataset.description import UNKNOWN
from sparksplit.dataset.prepared import BlockReader, PreparedDataSet
from sparksplit.prepare.passes.identify import identified
from sparksplit.prepare.preprocess_config import InputConfig
from sparksplit.prepare.sources import open_source, text, text_tokens
from sparksplit.prepare.sources.raw import raw_rows
from tests.commands.texts import sentences

KEYS = ("input.format=text", "input.length=12", "input.stride=5", "validation=0.2", "test=0.1", "lanes=7")


def run(output: Path, *settings: str) -> int:
    arguments = [part for setting in (f"output={output}", *settings) for part in ("--set", setting)]
    return preprocess.main(["--config", shipped("conf/preprocess-text.yaml"), *arguments])


def read(data: PreparedDataSet, split: str) -> tuple[np.ndarray[Any, Any], ...]:
    """(row_ids, sequences, labels) of a split."""
    with BlockReader(data, split) as reader:
        blocks = [
            reader.read(lane, block)
            for lane in range(data.manifest.lanes)
            for block in range(data.manifest.blocks(split, lane))
        ]
    columns = zip(*((block.row_ids, block.tensors["x"], block.label) for block in blocks), strict=True)
    ids, x, label = (np.concatenate(column) for column in columns)
    return ids, x, label


@pytest.mark.slow
def test_a_text_in_other_files_and_tasks_gives_the_same_files(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = sentences(6000) + "Zeus: 7 words that training never had."
    (tmp_path / "one.txt").write_text(content)
    assert run(tmp_path / "one", f"input.path={tmp_path}/one.txt", *KEYS) == 0
    data = PreparedDataSet.open(f"{tmp_path}/one")

    folder = tmp_path / "elsewhere" / "parts"
    folder.mkdir(parents=True)
    cuts = [0, 1, 2000, 4567, len(content)]
    for number, (start, stop) in enumerate(itertools.pairwise(cuts)):
        (folder / f"part-{number}.gz").write_bytes(gzip.compress(content[start:stop].encode(), mtime=0))
    monkeypatch.setattr(text_tokens, "RANGE_BYTES", 2000)
    assert run(tmp_path / "two", f"input.path={folder}", *KEYS) == 0
    other = PreparedDataSet.open(f"{tmp_path}/two")
    assert data.digest == other.digest and data.description == other.description
    assert data.manifest.splits == other.manifest.splits
    files = [file for split in data.manifest.splits for file in data.files(split)]
    assert len(files) == 3
    for file in files:
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()

    used = content[: 4999 * 5 + 13]
    cut = text.stretches(len(used), 0.2, 0.1)
    training = content[: cut["train"].stop]
    label = data.manifest.label
    assert label is not None and label.classes == [UNKNOWN, *sorted(set(training))]
    assert data.manifest.dependent == "text"
    assert (label.dtype, label.shape, label.kind) == ("uint8", [12], "characters")
    names = np.array(["?", *label.classes[1:]])
    unknown = {}
    for split, place in cut.items():
        part = "".join(letter if letter in training else "?" for letter in used[place.start : place.stop])
        ids, x, y = read(data, split)
        found = sorted("".join(names[row]) + str(names[last]) for row, last in zip(x, y[:, -1], strict=True))
        assert found == sorted(part[start : start + 13] for start in range(0, len(part) - 12, 5))
        assert (x[:, 1:] == y[:, :-1]).all() and len(set(ids.tolist())) == len(ids)
        counts = data.manifest.splits[split].label_counts
        assert counts == np.bincount(y.ravel(), minlength=len(names)).tolist()
        unknown[split] = f"{counts[0]:,} of {sum(counts):,} in {split}"
    assert unknown["train"].startswith("0 of") and not unknown["test"].startswith("0 of")
    printed = capsys.readouterr().out
    line = f"vocabulary {len(names) - 1} characters; unknown: {', '.join(unknown.values())}\n"
    assert printed.count(line) == 2

    # Raw rows for a model, and rows of any DataFrame, get the row_ids of the data set's rows.
    config = parse(InputConfig, {"format": "text", "path": f"{tmp_path}/one.txt", "stride": 5})
    with raw_rows(spark, open_source(config, data.description), data.description) as raw:
        rows = raw.frames
        assert rows["train"].columns == ["row_id", "x", "label"] and not raw.tally.rows
        known = {(row.row_id, bytes(row.x), bytes(row.label)) for row in rows["train"].collect()}
    ids, x, y = read(data, "train")
    signed = ids.view(np.int64).tolist()
    assert {(one, a.tobytes(), b.tobytes()) for one, a, b in zip(signed, x, y, strict=True)} <= known
    frame = spark.read.parquet(f"{tmp_path}/one/train").drop("row_id")
    assert sorted(row.row_id for row in identified(frame, data.description).collect()) == sorted(signed)


@pytest.mark.parametrize(
    ("content", "settings", "message"),
    [
        (b"abc\xff", (), "text.txt: is not UTF-8 text: byte 3 is 0xff"),
        (b"abc", (), "text.txt: too short: the train part has 3 of 3 characters, but one sequence"),
        (b"ab" * 60, ("validation=0.01",), "text.txt: too short: the validation part has 1 of 120 characters"),
        (b"ab" * 60, ("input.stride=0",), "--set input.stride=0: input.stride: must be at least 1 (is 0)"),
        (b"ab" * 60, ("scaling=unit",), "scaling: must be none for a text: its tokens are not quantities (is unit)"),
        (b"ab" * 60, ("input.label=null",), "input.label: must not be null: on a text, a model is trained to"),
        (b"ab" * 60, ("test=0.2", "input.test=x"), "test: must be 0, because input.test is the test split"),
        (b"ab" * 60, ("test=0", "input.test=nowhere.txt"), "nowhere.txt: does not exist"),
    ],
)
def test_a_text_that_will_not_do_ends_before_spark_starts(
    no_spark: None,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    content: bytes,
    settings: tuple[str, ...],
    message: str,
) -> None:
    (tmp_path / "text.txt").write_bytes(content)
    shares = ("validation=0", "test=0")
    assert run(tmp_path / "out", f"input.path={tmp_path}/text.txt", *shares, *settings) == 2
    printed = capsys.readouterr()
    assert message in printed.err and printed.err.count("\n") == 1 and printed.out == ""
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]
