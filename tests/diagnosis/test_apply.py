"""`--apply`: what it writes into the user's file, and what it does not."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from sparksplit.base.config import load
from sparksplit.base.errors import ConfigError, InputError
from sparksplit.diagnosis import apply
from sparksplit.diagnosis.apply import ConfigFile
from sparksplit.training.train_config import TrainConfig

TEXT = """# Ours.
data: prepared  # of today
output: 'run'

# One is enough?
readers: 1   # as before
checkpoint: {seconds: 60, keep: 3}
"""
Opened = Callable[..., ConfigFile]


@pytest.fixture(autouse=True)
def no_settings_of_sparks(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What Spark has been told: nothing, or what the test puts here."""
    settings: dict[str, str] = {}
    monkeypatch.setattr(apply, "known_settings", lambda: settings)
    return settings


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Opened:
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text(TEXT)

    def open_it(*overrides: str, file: str | None = "c.yaml") -> ConfigFile:
        return ConfigFile(load(TrainConfig, file, overrides).origin, TrainConfig)

    return open_it


def test_settings_are_written_and_nothing_else_changes(opened: Opened) -> None:
    Path("c.yaml").chmod(0o640)
    applied = opened().write({"readers": 4, "cache_mb": 2048, "checkpoint.seconds": 300})
    assert Path("c.yaml").read_text() == TEXT.replace("readers: 1", "readers: 4").replace("60", "300") + (
        "cache_mb: 2048\n"
    )
    assert applied.changed == [
        "c.yaml:6: readers: 1   # as before -> readers: 4   # as before",
        "c.yaml:7: checkpoint: {seconds: 60, keep: 3} -> checkpoint: {seconds: 300, keep: 3}",
        "c.yaml:8: new line: cache_mb: 2048",
    ]
    assert applied.left == []
    assert Path("c.yaml").stat().st_mode & 0o777 == 0o640
    assert [file.name for file in Path().iterdir()] == ["c.yaml"]
    config = load(TrainConfig, "c.yaml")
    assert (config.readers, config.cache_mb, config.checkpoint.seconds, config.checkpoint.keep) == (4, 2048, 300, 3)


def test_what_is_there_already_changes_nothing(opened: Opened) -> None:
    before = Path("c.yaml").stat().st_ino
    applied = opened().write({"readers": 1})
    assert (applied.changed, applied.left) == ([], [])
    assert Path("c.yaml").stat().st_ino == before


def test_what_was_set_on_the_command_line_is_left_and_said(opened: Opened) -> None:
    applied = opened("readers=2", "checkpoint.keep=5").write({"readers": 4, "checkpoint.seconds": 300})
    assert applied.left == [
        "readers: 4 is not written: --set readers=2 goes before the file; change it there",
    ]
    assert Path("c.yaml").read_text() == TEXT.replace("60", "300")


def test_a_section_set_on_the_command_line_is_left_whole(opened: Opened) -> None:
    applied = opened("checkpoint={keep: 5}").write({"checkpoint.seconds": 300})
    assert applied.changed == []
    assert len(applied.left) == 1


def test_another_key_of_a_section_set_on_the_command_line_is_in_nobodys_way(opened: Opened) -> None:
    Path("c.yaml").write_text("data: a\noutput: b\n")
    applied = opened("checkpoint.keep=5").write({"checkpoint.seconds": 300})
    assert applied.changed == ["c.yaml:3: new line: checkpoint: {seconds: 300}"]


@pytest.mark.parametrize("key", ["batch_size", "window", "sync.every", "output", "seed"])
def test_what_may_change_the_weights_is_never_written(opened: Opened, key: str) -> None:
    applied = opened().write({key: 8})
    assert applied.changed == []
    assert applied.left == [f"{key}: 8 is not written: it may change the result"]
    assert Path("c.yaml").read_text() == TEXT


def test_what_other_keys_share_by_an_anchor_is_left_and_the_rest_is_written(opened: Opened) -> None:
    text = "data: a\noutput: b\nreaders: &few 2\nmax_restarts: *few\n"
    Path("c.yaml").write_text(text)
    applied = opened().write({"readers": 4, "cache_mb": 64})
    assert applied.left == ["readers: 4 is not written: the file would change elsewhere too; write it by hand"]
    assert Path("c.yaml").read_text() == text + "cache_mb: 64\n"


def test_a_section_of_a_file_is_written_within_it(opened: Opened) -> None:
    Path("c.yaml").write_text("output: x\ntrain:\n  data: a\n  readers: 1\nother: 1\n")
    from sparksplit.base.config import Origin

    applied = ConfigFile(Origin("c.yaml").section(("train",)), TrainConfig).write({"readers": 4})
    assert applied.changed == ["c.yaml:4: readers: 1 -> readers: 4"]


def test_a_file_that_changed_meanwhile_is_left(opened: Opened) -> None:
    file = opened()
    Path("c.yaml").write_text("data: other\noutput: b\n")
    with pytest.raises(InputError, match=re.escape("c.yaml: has changed since it was read; write by hand: readers: 4")):
        file.write({"readers": 4})
    assert Path("c.yaml").read_text() == "data: other\noutput: b\n"
    assert [file.name for file in Path().iterdir()] == ["c.yaml"]


def test_a_file_that_is_gone_is_said(opened: Opened) -> None:
    file = opened()
    Path("c.yaml").unlink()
    with pytest.raises(InputError, match=r"c\.yaml: does not exist"):
        file.write({"readers": 4})


def test_a_link_stays_one(opened: Opened) -> None:
    Path("folder").mkdir()
    Path("c.yaml").rename("folder/real.yaml")
    Path("c.yaml").symlink_to("folder/real.yaml")
    opened().write({"readers": 4})
    assert Path("c.yaml").is_symlink()
    assert Path("folder/real.yaml").read_text() == TEXT.replace("readers: 1", "readers: 4")


def test_without_a_file_it_is_said_before_anything_is_measured(opened: Opened) -> None:
    with pytest.raises(ConfigError, match="--apply: needs --config FILE"):
        opened("data=a", "output=b", file=None)


@pytest.mark.parametrize("what", ["it", "its folder"])
def test_a_read_only_file_is_said_before_anything_is_measured(
    opened: Opened, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    if what == "it":
        Path("c.yaml").chmod(0o444)
    else:
        real = os.access
        monkeypatch.setattr(os, "access", lambda path, mode: not Path(path).is_dir() and real(path, mode))
    with pytest.raises(ConfigError, match=f"--apply: c.yaml: {what} is read-only"):
        opened()


def test_what_is_no_file_is_said(opened: Opened) -> None:
    read, write = os.pipe()
    os.write(write, TEXT.encode())
    os.close(write)
    with pytest.raises(ConfigError, match=r"--apply: /dev/fd/\d+: is not a file that can be written"):
        opened(file=f"/dev/fd/{read}")
    os.close(read)


def test_a_copy_that_the_cluster_made_is_not_written(opened: Opened, no_settings_of_sparks: dict[str, str]) -> None:
    no_settings_of_sparks["spark.submit.deployMode"] = "cluster"
    with pytest.raises(ConfigError, match="only a copy of the file"):
        opened()
