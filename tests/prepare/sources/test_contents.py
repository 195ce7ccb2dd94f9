"""Files that are not what their names say: named by what they are, with what to do, before their bytes are columns."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparksplit.base.errors import InputError
from sparksplit.prepare.preprocess_config import InputConfig
from sparksplit.prepare.sources import check_paths, contents

TEXT = "x,y\n1,0\n2,1\n"


def zipped() -> bytes:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        archive.writestr("a.csv", TEXT)
    return whole.getvalue()


def parquet() -> bytes:
    whole = io.BytesIO()
    pq.write_table(pa.table({"x": [1]}), whole)
    return whole.getvalue()


GZIP, BZIP2 = gzip.compress(TEXT.encode()), bz2.compress(TEXT.encode())


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.csv", GZIP, "is packed with gzip: rename it, so that it ends in .gz"),
        ("a.json", BZIP2, "is packed with bzip2: rename it, so that it ends in .bz2"),
        ("a.csv.gz", BZIP2, "is named .gz, but is not a gzip file; rename it"),
        ("a.csv.bz2", TEXT.encode(), "is named .bz2, but is not a bzip2 file; rename it"),
        ("a.csv", zipped(), "is a zip archive (or an Excel file), not text: save it as text, or unpack it"),
        ("a.csv", lzma.compress(TEXT.encode()), "is an xz file, not text: unpack it, or pack it with gzip"),
        ("a.csv", parquet(), "is a Parquet file, not text: use input.format: parquet"),
        ("a.csv", b"ORC\x08\x03", "is an ORC file, not text: use input.format: orc"),
        ("a.json", b"Obj\x01\x04", "is an Avro file, not text: use input.format: avro"),
        *(
            ("a.csv", TEXT.encode(name), "is UTF-16 text: convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)")
            for name in ("utf-16", "utf-16-le", "utf-16-be")
        ),
    ],
)
def test_a_file_that_is_not_what_its_name_says(name: str, content: bytes, said: str) -> None:
    assert contents.problem(name, content[: contents.FIRST]) == said


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", TEXT.encode()),
        ("a.csv", TEXT.encode("utf-8-sig")),
        ("a.csv", b"BZh91,y\n"),
        ("a.csv", b"PK,y\n"),
        ("a.csv", b"ORCID,name\n1,b\n"),
        ("a.csv", b"PAR1\x01PAR2\n"),
        ("a.csv", b"a\x00b,c\n"),
        ("a.csv", b"1"),
        ("a.csv.gz", GZIP),
        ("part.bz2", BZIP2),
        ("a.csv.zst", b"(\xb5/\xfd"),
    ],
)
def test_text_and_what_is_packed_as_its_name_says(name: str, content: bytes) -> None:
    assert contents.problem(name, content[: contents.FIRST]) is None


def test_utf_16_that_the_user_has_said() -> None:
    assert contents.problem("a.csv", TEXT.encode("utf-16"), "UTF_16LE") is None


def test_what_our_own_tasks_read() -> None:
    assert contents.problem("a.txt", GZIP, ours=True) is None
    packed = contents.problem("a.bz2", BZIP2, ours=True)
    assert packed == "is packed with bzip2: unpack it, or pack it with gzip"
    assert contents.problem("a.gz", TEXT.encode("utf-16-le"), ours=True) is not None
    assert contents.problem("a.gz", TEXT.encode(), ours=True) is None


@pytest.mark.parametrize("format_", ["csv", "hive-text", "json"])
def test_every_file_of_lines_is_looked_at(tmp_path: Path, format_: str) -> None:
    (tmp_path / "a").write_text(TEXT)
    (tmp_path / "b").write_bytes(GZIP)
    with pytest.raises(InputError, match=rf"^{tmp_path}/b: is packed with gzip: "):
        check_paths(InputConfig(format=format_, path=f"{tmp_path}"))
