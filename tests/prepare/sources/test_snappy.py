"""Files of Hadoop's snappy are whole, or refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from sparksplit.base.errors import InputError
from sparksplit.prepare.sources.snappy import is_whole
from tests.prepare.sources.raw_columns import source


def packed(*blocks: list[bytes]) -> bytes:
    """Each block in the chunks that it is given in."""
    found = b""
    for chunks in blocks:
        found += sum(map(len, chunks)).to_bytes(4, "big")
        for chunk in chunks:
            one = pa.compress(chunk, "snappy", asbytes=True)
            found += len(one).to_bytes(4, "big") + one
    return found


def test_only_whole_blocks_are_a_whole_file(tmp_path: Path) -> None:
    text = b"".join(b"%d,%d\n" % (row, row % 3) for row in range(2000))
    first = packed([text, b"1,2\n"])
    whole = first + packed([], [text])
    file = tmp_path / "a"

    def tried(content: bytes) -> bool:
        file.write_bytes(content)
        return is_whole(f"{file}")

    assert tried(b"") and tried(first) and tried(whole)
    assert [tried(whole[:-cut]) for cut in range(1, len(whole), 97)] == [
        len(whole) - cut in (len(first), len(first) + 4) for cut in range(1, len(whole), 97)
    ]
    assert not tried(pa.compress(text, "snappy", asbytes=True)) and not tried(text)
    assert not tried((10).to_bytes(4, "big") + first[4:])


def test_what_spark_would_read_in_part_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(50_000).selectExpr("id AS x", "id % 3 AS y").coalesce(1)
    rows.write.csv(f"{tmp_path}/raw", header=True, compression="snappy")
    assert source(spark, format="csv", path=f"{tmp_path}/raw").tensors[0].columns == ["x"]
    file = next((tmp_path / "raw").glob("*.snappy"))
    (tmp_path / "raw" / f".{file.name}.crc").unlink()
    file.write_bytes(file.read_bytes()[:-3])
    with pytest.raises(InputError, match=r"\.snappy: is truncated, or is not in Hadoop's snappy format; unpack"):
        source(spark, format="csv", path=f"{tmp_path}/raw")
