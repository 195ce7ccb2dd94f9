"""Invariant 6: nothing half-written is ever read."""

from __future__ import annotations

from pathlib import Path

import pytest

from hdfs_io.publish import CONFIG, OWNER, SUCCESS, Output, check_owner, made_from, publish_file, publish_folder
from sparksplit.errors import InputError, RunError, UsageError


def fill(output: Output, content: str = "x") -> None:
    with output.staging() as folder:
        Path(folder, "data").write_text(content)


def test_a_complete_output_is_done_for_the_same_hash_only(tmp_path: Path) -> None:
    path = f"{tmp_path}/out"
    assert Output(path, "a").decide() == "fresh"
    fill(Output(path, "a"))
    assert sorted(entry.name for entry in Path(path).iterdir()) == [CONFIG, SUCCESS, "data"]
    assert Output(path, "a").decide() == "done"
    assert Output(path, "a").decide(resume=True) == "done"
    with pytest.raises(UsageError, match="made with another configuration; --overwrite replaces it") as caught:
        Output(path, "b").decide()
    assert caught.value.exit_status == 2
    assert Output(path, "a").decide(overwrite=True) == "fresh"
    assert Output(path, "b").decide(overwrite=True) == "fresh"
    fill(Output(path, "b"), "new")
    assert Path(path, "data").read_text() == "new"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_a_complete_output_is_done_for_the_same_input_only(tmp_path: Path) -> None:
    path = f"{tmp_path}/out"
    fill(Output(path, "a", "x"))
    assert made_from(path) == {"config_hash": "a", "input_hash": "x"}
    assert Output(path, "a", "x").decide() == "done"
    assert Output(path, "a").decide() == "done"  # nothing is known of the input by now
    with pytest.raises(UsageError, match="made from other input: it has changed since; --overwrite replaces it"):
        Output(path, "a", "y").decide()
    with pytest.raises(UsageError, match="made with another configuration"):
        Output(path, "b", "y").decide()
    assert Output(path, "a", "y").decide(overwrite=True) == "fresh"
    fill(Output(path, "a"))
    assert made_from(path) == {"config_hash": "a"} and made_from(f"{tmp_path}/none") == {}
    with pytest.raises(UsageError, match="made from other input"):
        Output(path, "a", "x").decide()


def test_an_incomplete_output_is_replaced_or_resumed(tmp_path: Path) -> None:
    output = Output(f"{tmp_path}/run", "a")
    output.begin()
    (tmp_path / "run" / "checkpoint").write_text("1")
    assert output.decide() == "fresh"
    assert output.decide(resume=True) == "resume"
    with pytest.raises(UsageError, match="begun with another configuration"):
        Output(output.path, "b").decide(resume=True)
    output.begin()
    assert [entry.name for entry in (tmp_path / "run").iterdir()] == [CONFIG, OWNER]
    output.complete()
    assert output.decide() == "done"


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    output = Output(f"{tmp_path}/out", "a")

    def fail(content: str) -> None:
        with output.staging() as folder:
            Path(folder, "data").write_text(content)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail("first")
    assert list(tmp_path.iterdir()) == []
    fill(output)
    with pytest.raises(KeyboardInterrupt):
        fail("second")
    assert Path(output.path, "data").read_text() == "x"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]


def test_what_killed_predecessors_left_is_removed(tmp_path: Path) -> None:
    for name in (".out.staging-0123abcd", ".out.old-0123abcd"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "half").write_text("x")
    (tmp_path / ".other.staging-0123abcd").mkdir()
    fill(Output(f"{tmp_path}/out", "a"))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".other.staging-0123abcd", "out"]


def test_folders_of_others_are_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis").write_text("x")
    for overwrite in (False, True):
        with pytest.raises(UsageError, match="is not an output of sparksplit"):
            Output(f"{tmp_path}/home", "a").decide(overwrite=overwrite)
    with pytest.raises(InputError, match="is not a folder"):
        Output(f"{tmp_path}/home/thesis", "a").decide()
    (tmp_path / "empty").mkdir()
    assert Output(f"{tmp_path}/empty", "a").decide() == "fresh"
    fill(Output(f"{tmp_path}/empty", "a"))
    assert Path(tmp_path, "empty", "data").exists()


def test_publishing_replaces_folders_and_files_by_rename(tmp_path: Path) -> None:
    for content in ("one", "two"):
        temporary = tmp_path / "temporary"
        temporary.mkdir()
        (temporary / "file").write_text(content)
        publish_folder(f"{temporary}", f"{tmp_path}/deep/final")
        publish_file(f"{tmp_path}/deep/note", content.encode())
        assert (tmp_path / "deep" / "final" / "file").read_text() == content
        assert (tmp_path / "deep" / "note").read_text() == content
    assert sorted(entry.name for entry in (tmp_path / "deep").iterdir()) == ["final", "note"]


def test_the_last_that_went_on_owns_the_output_and_the_others_end(tmp_path: Path) -> None:
    first, second = Output(f"{tmp_path}/run", "a"), Output(f"{tmp_path}/run", "a")
    first.begin()
    check_owner(first.path, first.owner)
    second.claim()
    check_owner(second.path, second.owner)
    with pytest.raises(RunError, match="another run has taken over this output; this one ends"):
        first.complete()
    assert not (tmp_path / "run" / SUCCESS).exists()
    second.complete()
    assert second.decide() == "done"


def test_what_a_successor_has_swept_away_is_not_published_in_part(tmp_path: Path) -> None:
    first = Output(f"{tmp_path}/out", "a")
    with pytest.raises(RunError, match="another run has taken over"), first.staging() as folder:
        Path(folder, "one").write_text("1")
        fill(Output(f"{tmp_path}/out", "a"), "whole")
        Path(folder).mkdir()
        Path(folder, "two").write_text("2")
    assert sorted(entry.name for entry in (tmp_path / "out").iterdir()) == [CONFIG, SUCCESS, "data"]
    assert [entry.name for entry in tmp_path.iterdir()] == ["out"]
