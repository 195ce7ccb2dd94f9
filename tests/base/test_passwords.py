"""Passwords in addresses."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparksplit.base.config import load
from sparksplit.base.errors import ConfigError
from sparksplit.base.passwords import has_password, keys_with_passwords, without_passwords
from sparksplit.prepare.preprocess_config import PreprocessConfig


@pytest.mark.parametrize(
    "text",
    [
        "hdfs://user:secret@host:8020/x",
        "s3a://KEY:SEC/RET@bucket/x",
        "S3A://:secret@bucket",
        "https://host/x?a=1&access_token=secret",
        "abfss://c@account.dfs.core.windows.net/x?sig=secret",
        "jdbc:postgresql://host/base?user=a&password=secret",
        "jdbc:sqlserver://host;user=a;Password=secret",
        "https://bucket/x?X-Amz-Signature=secret",
    ],
)
def test_addresses_with_a_password(text: str) -> None:
    assert has_password(text)


@pytest.mark.parametrize(
    "text",
    [
        "hdfs://host:8020/user/me@corp/x",
        "hdfs://[::1]:8020/a@b",
        "hdfs:///a:b@c",
        "abfss://container@account.dfs.core.windows.net/x",
        "mongodb://a:27017,b:27017/x@y",
        "/data/a:b@c?token=d",
        "models/mine.py:build",
        "SELECT * FROM t WHERE url = 'http://a:b@c'",
        "https://host/x?token=",
    ],
)
def test_addresses_without_one(text: str) -> None:
    assert not has_password(text)


def test_they_are_found_at_any_depth() -> None:
    values = {"a": {"b": ["x", "s3a://k:s@b"]}, "c": 1, "d": "s3a://k:s@b"}
    assert list(keys_with_passwords(values)) == [("a", "b", "1"), ("d",)]


@pytest.mark.parametrize("in_file", [True, False])
def test_a_configuration_with_one_is_refused_without_showing_it(tmp_path: Path, in_file: bool) -> None:
    file, address = tmp_path / "p.yaml", "s3a://KEY:hidden@bucket/x"
    file.write_text("output: o\ninput:\n  format: parquet\n" + (f"  path: {address}\n" if in_file else ""))
    with pytest.raises(ConfigError) as caught:
        load(PreprocessConfig, str(file), [] if in_file else [f"input.path={address}"])
    place = f"{file}:4" if in_file else "--set input.path"
    assert str(caught.value).startswith(f"{place}: input.path: contains a password or token in an address")
    assert "hidden" not in str(caught.value)


def test_the_secrets_of_addresses_in_a_text_are_replaced() -> None:
    text = "GET http://user:a/b@c@host:5000/x?token=secret&page=2 failed; see hdfs://host/a"
    assert without_passwords(text) == "GET http://***@host:5000/x?token=***&page=2 failed; see hdfs://host/a"
