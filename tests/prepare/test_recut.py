"""Rows in other files: the same rows in the same order, in files of about equal size."""

from __future__ import annotations

import gzip
import random
import struct
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.base.errors import InputError
from sparksplit.prepare import recut as module
from sparksplit.prepare.config import InputConfig
from sparksplit.prepare.recut import main, recut, training_files, why_not
from sparksplit.prepare.sources.idx import IdxSource
from tests.prepare.idx_files import digits, write_folder

LINE = st.text(st.sampled_from('abc,"é 1'), min_size=1).map(str.encode).filter(bytes.strip)


def write(folder: Path, files: Sequence[bytes], packed: bool, suffix: str) -> InputConfig:
    folder.mkdir()
    for number, content in enumerate(files):
        name = f"file-{number}.{suffix}{'.gz' if packed else ''}"
        (folder / name).write_bytes(gzip.compress(content) if packed else content)
    header = {"header": suffix == "csv"} if suffix == "csv" else {}
    return InputConfig(format={"txt": "text"}.get(suffix, suffix), path=str(folder), **header)


def contents(folder: Path) -> list[bytes]:
    files = sorted(folder.iterdir())
    return [gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes() for file in files]


@given(st.lists(st.lists(LINE, min_size=1, max_size=20), min_size=1, max_size=5), st.integers(1, 6), st.data())
def test_the_same_lines_come_out_with_one_header_each(
    files: list[list[bytes]], count: int, data: st.DataObject
) -> None:
    packed, bom, end = (data.draw(st.booleans()) for _ in range(3))
    begin = (b"\xef\xbb\xbf" if bom else b"") + b" \n" * data.draw(st.integers(0, 2))
    made = [begin + b"\r\n".join([b"x,y", *lines]) + (b"\r\n" if end else b"") for lines in files]
    with TemporaryDirectory() as name:
        config = write(Path(name) / "in", made, packed, "csv")
        written = recut(config, f"{name}/out", count)
        found = contents(Path(name) / "out")
        assert written.files == len(found) <= count
        assert written.bytes == sum(file.stat().st_size for file in (Path(name) / "out").iterdir())
    rows = [content.replace(b"\r\n", b"\n").removesuffix(b"\n").split(b"\n") for content in found]
    assert all(each[0] == b"x,y" for each in rows)
    assert [line for each in rows for line in each[1:]] == [line for lines in files for line in lines]


@pytest.mark.parametrize("packed", [True, False])
def test_files_are_about_equal_whatever_the_old_ones_were(tmp_path: Path, packed: bool) -> None:
    chance = random.Random(3)
    rows = [b"%d,%d\n" % (chance.randrange(10**9), chance.randrange(10**9)) for _ in range(60_000)]
    cuts = [0, 50_000, 50_100, 55_000, 60_000]
    files = [b"".join([b"a,b\n", *rows[start:end]]) for start, end in pairwise(cuts)]
    config = write(tmp_path / "in", files, packed, "csv")
    written = recut(config, str(tmp_path / "out"), 8)
    sizes = [file.stat().st_size for file in (tmp_path / "out").iterdir()]
    assert written.files == len(sizes) == 8
    assert written.largest == max(sizes) < 1.15 * min(sizes)


@given(st.lists(st.text(st.sampled_from("ab é\n"), min_size=1), min_size=1, max_size=4), st.integers(1, 5))
def test_a_text_stays_the_same_text_and_its_words_end_where_files_do(texts: list[str], count: int) -> None:
    with TemporaryDirectory() as name:
        config = write(Path(name) / "in", [text.encode() for text in texts], True, "txt")
        recut(config, f"{name}/out", count)
        found = [content.decode() for content in contents(Path(name) / "out")]
    assert "".join(found) == "".join(texts)
    ends, place = set(), 0
    for content in found:
        place += len(content)
        ends.add(place)
    assert {len("".join(texts[: number + 1])) for number in range(len(texts))} <= ends


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=30), st.booleans())
def test_records_stay_whole(records: list[bytes], packed: bool) -> None:
    framed = b"".join(struct.pack("<QI", len(each), 7) + each + b"\1\2\3\4" for each in records)
    with TemporaryDirectory() as name:
        config = write(Path(name) / "in", [framed], packed, "tfrecord")
        recut(config, f"{name}/out", 3)
        found = contents(Path(name) / "out")
    assert b"".join(found) == framed
    for content in found:
        place = 0
        while place < len(content):
            place += 16 + struct.unpack_from("<Q", content, place)[0]
        assert place == len(content)


def test_idx_files_are_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = digits(50)
    config = InputConfig(format="idx", path=str(write_folder(tmp_path / "in", train, digits(9), compressed=True)))
    assert why_not(config, training_files(config)) == "up to 64 MiB of values are one task's, packed or not"
    monkeypatch.setattr(module, "RANGE_BYTES", 100)
    assert why_not(config, training_files(config)) is None
    recut(config, str(tmp_path / "out"), 1)
    source = IdxSource(InputConfig(format="idx", path=str(tmp_path / "out")))
    (task, _) = source.tasks()
    (rows,) = source.read(task)
    assert not isinstance(rows, Exception) and np.array_equal(rows.tensors[0], train[0])  # type: ignore[union-attr]


def test_what_cannot_be_put_into_other_files(tmp_path: Path) -> None:
    def reason(name: str, content: bytes = b"x\n1\n", **keys: object) -> str | None:
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.write_bytes(content)
        config = InputConfig.model_validate({"format": "csv", "path": str(tmp_path), **keys})
        found = why_not(config, training_files(config))
        file.unlink()
        return found

    assert reason("a.csv") is None
    assert reason("a.csv", multiline=True) == "with input.multiline a line's end need not be a row's"
    assert reason("a.csv", multiline=True, encoding="UTF-16") is not None
    assert reason("a.csv.zst") == f"{tmp_path}/a.csv.zst is compressed, and not by gzip"
    assert "folders give columns" in (reason("day=1/a.csv") or "")
    assert "files of parquet have no lines" in (reason("a.parquet", format="parquet") or "")


def test_what_is_wrong_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = write(tmp_path / "in", [b"x\r1\r2\r"], False, "csv")
    with pytest.raises(InputError, match=r"file-0.csv: its lines end in carriage returns alone"):
        recut(config, str(tmp_path / "out"), 2)
    cut = gzip.compress(b"x\n" + random.Random(1).randbytes(10_000).hex().encode() + b"\n")[:-500]
    (tmp_path / "cut").mkdir()
    (tmp_path / "cut" / "a.csv.gz").write_bytes(cut)
    with pytest.raises(InputError, match=r"a.csv.gz: is truncated"):
        recut(InputConfig(format="csv", path=str(tmp_path / "cut")), str(tmp_path / "out"), 2)
    monkeypatch.setattr(module, "_LINE_BYTES", 5000)
    config = write(tmp_path / "long", [b"x\n" + b"y" * 20_000], False, "csv")
    with pytest.raises(InputError, match="no line end within"):
        recut(config, str(tmp_path / "out"), 2)
    # What was not written whole has not appeared.
    assert not (tmp_path / "out").exists() or list((tmp_path / "out").iterdir()) == []


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "in", [b"x,y\n" + b"1,2\n" * 5000], True, "csv")
    file = tmp_path / "preprocess.yaml"
    file.write_text(f"input: {{format: csv, path: {tmp_path}/in}}\noutput: {tmp_path}/prepared\n")
    into = str(tmp_path / "out")
    assert main(["--config", str(file), "--files", "2", "--into", into]) == 0
    assert capsys.readouterr().out.startswith(f"{into}: ")
    assert main(["--config", str(file), "--files", "2", "--into", into]) == 2
    assert main(["--config", str(file), "--files", "0", "--into", f"{into}2"]) == 2
    assert main(["--config", str(file), "--set", "input.multiline=true", "--files", "2", "--into", f"{into}2"]) == 2
    errors = capsys.readouterr().err.splitlines()
    assert [error.partition(": ")[2].partition(":")[0] for error in errors] == [into, "--files", f"{tmp_path}/in"]
