"""Hadoop's jars: what could not be fetched is not taken for what was."""

from __future__ import annotations

import pytest

from sparksplit.spark.settings.java import java_home
from tests.hadoop.jars import VERSION, Unavailable, fetch


def test_without_a_network_there_is_a_reason_and_nothing_else(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    # No process listens at port 1, and Ivy goes there for everything.
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=1")
    for _ in range(2):  # what the first left is not taken for the jars
        with pytest.raises(Unavailable, match=r"is there a network.*Connection refused"):
            fetch(java_home())
    assert not (tmp_path / "sparksplit" / f"hadoop-{VERSION}").exists()


def test_jars_that_are_there_are_not_fetched_again(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    there = tmp_path / "sparksplit" / f"hadoop-{VERSION}"
    there.mkdir(parents=True)
    assert fetch("/no/java") == there
