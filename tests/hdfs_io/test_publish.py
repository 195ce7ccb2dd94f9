"""Invariant 6: nothing half-written is ever read, and nothing is replaced that should stay."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from hdfs_io import filesystem
from hdfs_io.lease import Lease
from hdfs_io.publish import (
    COMMANDS,
    CONFIG,
    SUCCESS,
    Output,
    check_owner,
    made_from,
    overlap,
    publish_folder,
)
from sparksplit.base.errors import InputError, OutputInUse, RunError, UsageError


def output(path: object, config_hash: str = "a", command: str = "train", **inputs: str) -> Output:
    return Output(str(path), config_hash, command, inputs)


def stage(one: Output, content: str = "x", overwrite: bool = True) -> None:
    """What preprocess and predict do."""
    with one.claimed(overwrite), one.staging() as folder:
        Path(folder, "data").write_text(content)


def fill(one: Output, content: str = "x", complete: bool = True, **options: bool) -> None:
    """What train and compare do."""
    with one.claimed(**options) as decision:
        if decision == "resume":
            one.go_on()
        else:
            one.begin()
        Path(one.folder, "run.json").write_text(content)
        if complete:
            one.complete()


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def test_a_complete_output_is_done_for_the_same_hash_only(tmp_path: Path) -> None:
    path = tmp_path / "out"
    assert output(path).decide() == "fresh"
    stage(output(path))
    assert names(path) == [CONFIG, SUCCESS, "data"]
    assert output(path).decide() == "done"
    assert output(path).decide(resume=True) == "done"
    with pytest.raises(UsageError, match="made with another configuration; --overwrite replaces it") as caught:
        output(path, "b").decide()
    assert caught.value.exit_status == 2
    assert output(path).decide(overwrite=True) == "fresh"
    assert output(path, "b").decide(overwrite=True) == "fresh"
    stage(output(path, "b"), "new")
    assert (path / "data").read_text() == "new"
    assert names(tmp_path) == ["out"]


def test_a_complete_output_is_done_for_the_same_input_only(tmp_path: Path) -> None:
    path = f"{tmp_path}/out"

    def made(config_hash: str, input_hash: str | None) -> Output:
        return Output(path, config_hash, "preprocess", None, input_hash)

    stage(made("a", "x"))
    assert made_from(path) == {"config_hash": "a", "input_hash": "x"}
    assert made("a", "x").decide() == "done"
    assert made("a", None).decide() == "done"  # nothing is known of the input by now
    with pytest.raises(UsageError, match="made from other input: it has changed since; --overwrite replaces it"):
        made("a", "y").decide()
    with pytest.raises(UsageError, match="made with another configuration"):
        made("b", "y").decide()
    assert made("a", "y").decide(overwrite=True) == "fresh"
    stage(made("a", None))
    assert made_from(path) == {"config_hash": "a"} and made_from(f"{tmp_path}/none") == {}
    with pytest.raises(UsageError, match="made from other input"):
        made("a", "x").decide()


def test_an_incomplete_output_is_replaced_or_resumed(tmp_path: Path) -> None:
    one = output(tmp_path / "run")
    fill(one, complete=False)
    assert one.decide() == one.decide(overwrite=True) == "fresh"
    assert one.decide(resume=True) == one.decide(overwrite=True, resume=True) == "resume"
    with pytest.raises(UsageError, match="begun with another configuration"):
        output(one.path, "b").decide(resume=True)
    assert output(one.path, "b").decide(resume=True, resumable={"a"}) == "resume"
    assert output(one.path, "b").decide(overwrite=True, resume=True) == "fresh"
    with one.claimed():
        one.begin()
        assert names(tmp_path / "run") == [CONFIG]
        one.complete()
    assert one.decide() == "done"


# What is replaced, and when.


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("options", [{}, {"overwrite": True}, {"resume": True}])
def test_the_output_of_another_command_is_named_and_never_replaced(tmp_path, command, complete, options):
    for other, is_one in COMMANDS.items():
        path = tmp_path / other
        path.mkdir()
        (path / CONFIG).write_text(json.dumps({"command": other, "config_hash": "a"}))
        (path / "content").write_text("x")
        if complete:
            (path / SUCCESS).touch()
        if other == command:
            assert output(path, command=command).decide(**options) in ("done", "fresh", "resume")
            continue
        with (
            pytest.raises(UsageError, match=f"{other}: is {is_one}, not {COMMANDS[command]}; choose another folder"),
            output(path, command=command).claimed(**options),
        ):
            raise AssertionError
        assert names(path) == sorted([CONFIG, "content", *([SUCCESS] if complete else [])])


@pytest.mark.parametrize(
    ("content", "command"),
    [
        (["manifest.json", "train"], "preprocess"),
        (["run.json", "model.keras"], "train"),
        (["checkpoints"], "train"),
        (["runs"], "compare"),
        (["results.json", "report.html"], "compare"),
        (["predictions", "metrics.json"], "predict"),
        (["thesis.tex"], None),
    ],
)
def test_a_mark_of_before_is_known_by_what_lies_beside_it(tmp_path, content, command):
    """Such a mark names no command; where nothing else does, nothing is replaced."""
    (tmp_path / CONFIG).write_text('{"config_hash": "a", "created_by": "sparksplit 0.1.0"}')
    for name in content:
        (tmp_path / name).touch()
    for own in COMMANDS:
        if own == command:
            assert output(tmp_path, command=own).decide(overwrite=True) == "fresh"
        else:
            with pytest.raises(UsageError, match=f"is .*, not {COMMANDS[own]}"):
                output(tmp_path, command=own).decide(overwrite=True)


@pytest.mark.parametrize("mark", ['{"config_hash": "a"}', "[]", "half of"])
def test_a_mark_with_nothing_beside_it_is_replaced(tmp_path, mark):
    (tmp_path / CONFIG).write_text(mark)
    (tmp_path / f".{CONFIG}.0123abcd").touch()  # what kill -9 leaves of writing it
    for own in COMMANDS:
        assert output(tmp_path, "b", own).decide() == "fresh"


def test_folders_of_others_are_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis").write_text("x")
    for overwrite in (False, True):
        with pytest.raises(UsageError, match="is not an output of sparksplit"):
            output(tmp_path / "home").decide(overwrite=overwrite)
    with pytest.raises(InputError, match="is not a folder"):
        output(tmp_path / "home" / "thesis").decide()
    (tmp_path / "empty").mkdir()
    assert output(tmp_path / "empty").decide() == "fresh"
    stage(output(tmp_path / "empty"))
    assert (tmp_path / "empty" / "data").exists()


@pytest.mark.parametrize(
    ("path", "read", "problem"),
    [
        ("{}/D", "{}/D", "is what"),
        ("{}/D/", "file://{}/x/../D", "is what"),
        ("{}/link", "{}/D", "is what"),
        ("{}/D", "{}/link/", "is what"),
        ("{}", "{}/D", "holds what"),
        ("{}", "{}/D/mine.py", "holds what"),
        ("{}/D", "{}/link/mine.py", "holds what"),
        ("{}/D/run", "{}/D", "lies within what"),
        ("file://{}/link/a/b", "{}/D", "lies within what"),
        ("{}/D2", "{}/D", None),
        ("{}/D", "{}/D2", None),
        ("{}/run", "{}/mine.py", None),
        ("{}/D", "hdfs://host:8020{}/D", None),
        ("hdfs://cluster/a", "hdfs:///a/", "is what"),
        ("hdfs:///a/run", "hdfs://cluster//a", "lies within what"),
        ("hdfs://NN1/a", "hdfs://cluster/a/b", "holds what"),
        ("hdfs://nn1:8020/a", "hdfs://nn1/a", "is what"),
        ("hdfs://nn3/a", "hdfs://cluster/a", None),
        ("hdfs://nn3/", "hdfs://nn3/a", "holds what"),
    ],
)
def test_an_output_and_an_input_never_share_a_place(tmp_path, monkeypatch, path, read, problem):
    """However the two are written: slashes, schemes, symbolic links, HDFS's default, a name service's NameNodes."""
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "core-site.xml").write_text(site({"fs.defaultFS": "hdfs://cluster"}))
    keys = {"dfs.ha.namenodes.cluster": "a,b", "dfs.namenode.rpc-address.cluster.a": "nn1:8020"}
    (tmp_path / "conf" / "hdfs-site.xml").write_text(site(keys))
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path / "conf"))
    (tmp_path / "D").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "D")
    path, read = path.format(tmp_path), read.format(tmp_path)
    found = overlap(path, {"data": read})
    if problem is None:
        assert found is None
    else:
        assert found == f"{path}: {problem} the command reads (data: {read}); choose another output"


def site(keys: dict[str, str]) -> str:
    """A file of Hadoop's configuration."""
    text = "".join(f"<property><name>{key}</name><value>{value}</value></property>" for key, value in keys.items())
    return f"<configuration>{text}</configuration>"


@pytest.mark.parametrize("overwrite", [False, True])
def test_an_overlap_is_refused_whatever_is_there(tmp_path, overwrite):
    stage(output(tmp_path / "D", command="preprocess"))
    for path, problem in (("D", "is what"), ("D/deeper/run", "lies within what")):
        with pytest.raises(UsageError, match=f"{problem} the command reads \\(data: "):
            output(tmp_path / path, command="preprocess", data=f"{tmp_path}/D").decide(overwrite)
    assert names(tmp_path / "D") == [CONFIG, SUCCESS, "data"]


def test_a_symbolic_link_stays_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "disk" / "out")
    (tmp_path / "disk" / "out").mkdir()
    for content in ("one", "two"):
        stage(output(tmp_path / "out"), content)
        assert (tmp_path / "out").is_symlink() and (tmp_path / "disk" / "out" / "data").read_text() == content


def test_a_complete_output_stays_until_its_successor_is_complete(tmp_path: Path) -> None:
    path, beside = tmp_path / "run", tmp_path / ".run.next"
    fill(output(path), "old")
    # One that fails: the old one is as it was, and can be read.
    fill(output(path, "b"), "new", complete=False, overwrite=True)
    assert (path / "run.json").read_text() == "old" and (path / SUCCESS).exists()
    assert names(tmp_path) == [".run.next", "run"]
    assert output(path).decide() == "done"
    assert output(path).decide(resume=True) == "done"  # what was begun is another's
    # It is found again, with and without --overwrite.
    for options in ({"resume": True}, {"resume": True, "overwrite": True}):
        again = output(path, "b")
        assert (again.decide(**options), again.folder) == ("resume", str(beside))
    # Or begun anew.
    with output(path, "b").claimed(overwrite=True) as decision:
        assert decision == "fresh" and (beside / "run.json").exists()
    fill(output(path, "b"), "new", resume=True)
    assert (path / "run.json").read_text() == "new" and output(path, "b").decide() == "done"
    assert names(tmp_path) == ["run"]


def test_what_was_begun_beside_an_output_that_is_gone_is_resumed(tmp_path: Path) -> None:
    fill(output(tmp_path / "run"))
    fill(output(tmp_path / "run"), "new", complete=False, overwrite=True)
    shutil.rmtree(tmp_path / "run")
    assert output(tmp_path / "run").decide() == "fresh"
    fill(output(tmp_path / "run"), "new", resume=True)
    assert (tmp_path / "run" / "run.json").read_text() == "new"


def test_what_was_once_begun_beside_an_output_is_not_resumed_after_a_fresh_one(tmp_path: Path) -> None:
    fill(output(tmp_path / "run"))
    fill(output(tmp_path / "run"), "half", complete=False, overwrite=True)
    shutil.rmtree(tmp_path / "run")  # by hand
    fill(output(tmp_path / "run"), "new")
    assert output(tmp_path / "run").decide(resume=True) == "done"
    assert names(tmp_path) == ["run"]


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    one = output(tmp_path / "out")

    def fail(content: str) -> None:
        with one.claimed(overwrite=True), one.staging() as folder:
            Path(folder, "data").write_text(content)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail("first")
    assert list(tmp_path.iterdir()) == []
    stage(one)
    with pytest.raises(KeyboardInterrupt):
        fail("second")
    assert Path(one.path, "data").read_text() == "x"
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("which", ["stage", "fill"])
@pytest.mark.parametrize("crash", range(1, 6))
def test_a_crash_while_publishing_loses_neither(tmp_path, monkeypatch, which, crash):
    """At each rename and removal of the end; the next command finds the old one or the new one, complete."""
    do = {"stage": stage, "fill": fill}[which]
    do(output(tmp_path / "out", command="train"), "old")
    calls = 0

    def then_killed(function):
        def call(*arguments):
            nonlocal calls
            calls += Path(arguments[0]).is_dir() and SUCCESS in names(Path(arguments[0]))
            if calls >= crash:
                raise KeyboardInterrupt
            function(*arguments)

        return call

    with monkeypatch.context() as patched:
        for name in ("rename", "remove"):
            patched.setattr(filesystem, name, then_killed(getattr(filesystem, name)))
        try:
            do(output(tmp_path / "out", "b"), "new", overwrite=True)
        except KeyboardInterrupt:
            pass
        else:
            assert crash > 3
    for holder in tmp_path.glob(".out.owner"):  # a kill leaves it, to be known as a dead process's
        holder.unlink()
    found = []
    for config_hash in ("a", "b"):
        try:
            with output(tmp_path / "out", config_hash).claimed() as decision:
                found.append((config_hash, decision))
        except UsageError:
            pass
    ((made, decision),) = found
    content = (tmp_path / "out" / ("data" if which == "stage" else "run.json")).read_text()
    assert decision == "done" and content == {"a": "old", "b": "new"}[made]


def killed_while_removing(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Removal of a folder ends when so many of its entries are gone, in the order of their names; marks are first."""

    def remove(path: str) -> None:
        for number, entry in enumerate(sorted(Path(path).iterdir())):
            if number == after:
                raise KeyboardInterrupt
            entry.unlink()

    monkeypatch.setattr(filesystem, "remove", remove)


@pytest.mark.parametrize("after", range(3))
def test_an_unfinished_output_that_was_being_removed_is_not_in_the_way(tmp_path, monkeypatch, after):
    fill(output(tmp_path / "out"), complete=False)
    with monkeypatch.context() as patched:
        killed_while_removing(patched, after)
        if after < 2:
            with pytest.raises(KeyboardInterrupt):
                fill(output(tmp_path / "out"))
    for holder in tmp_path.glob(".out.owner"):
        holder.unlink()
    fill(output(tmp_path / "out"), "new")
    assert (tmp_path / "out" / "run.json").read_text() == "new" and names(tmp_path) == ["out"]


@pytest.mark.parametrize("after", range(3))
def test_what_is_left_of_a_replaced_output_is_never_taken_for_one(tmp_path, monkeypatch, after):
    stage(output(tmp_path / "out"), "old")
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        killed_while_removing(patched, after)
        stage(output(tmp_path / "out"), "new")
    for path in (tmp_path / ".out.owner", *(tmp_path / "out").iterdir()):
        path.unlink()
    (tmp_path / "out").rmdir()  # the new one is removed by hand
    with output(tmp_path / "out").claimed() as decision:
        assert decision == "fresh"
    assert names(tmp_path) == []


def test_what_cannot_be_removed_is_said_and_tried_again(tmp_path, monkeypatch, caplog):
    """Files that a reader holds open keep their folder on NFS."""
    stage(output(tmp_path / "out"), "old")

    def refuse(path: str) -> None:
        if Path(path).is_dir():
            raise InputError(f"{path}: cannot be removed: Directory not empty")
        Path(path).unlink()

    with monkeypatch.context() as patched:
        patched.setattr(filesystem, "remove", refuse)
        for content in ("new", "newer"):
            stage(output(tmp_path / "out"), content)
            assert "is left over" in caplog.text and "Directory not empty" in caplog.text
            assert (tmp_path / "out" / "data").read_text() == content
    stage(output(tmp_path / "out"))
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RunError("the first cause")])
def test_an_error_is_not_hidden_by_one_of_the_cleaning_after_it(tmp_path, monkeypatch, error):
    def refuse(path: str, *_: str) -> None:
        raise RunError(f"{path}: Input/output error")

    one = output(tmp_path / "out")
    with pytest.raises(type(error)) as caught, one.claimed(), one.staging():
        for name in ("rename", "remove"):
            monkeypatch.setattr(filesystem, name, refuse)
        raise error
    assert caught.value is error


def test_what_killed_predecessors_left_is_removed(tmp_path: Path) -> None:
    for name in (".out.staging-0123abcd", ".out.old-0123abcd", ".out.gone-0123abcd"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "half").write_text("x")
    (tmp_path / "out").mkdir()
    (tmp_path / ".other.staging-0123abcd").mkdir()
    stage(output(tmp_path / "out"))
    assert names(tmp_path) == [".other.staging-0123abcd", "out"]


def test_what_killed_predecessors_left_of_a_lease_is_removed_once_it_is_old(tmp_path: Path) -> None:
    for name in ("..out.owner.0123abcd", ".out.owner.0123abcd", ".out.owner.unknown", ".out.owner.txt"):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (0, 0))
    (tmp_path / ".out.owner.4567abcd").touch()
    fill(output(tmp_path / "out"))
    assert names(tmp_path) == [".out.owner.4567abcd", ".out.owner.txt", "out"]


def test_publishing_replaces_folders_by_rename(tmp_path: Path) -> None:
    for content in ("one", "two"):
        temporary = tmp_path / "temporary"
        temporary.mkdir()
        (temporary / "file").write_text(content)
        publish_folder(f"{temporary}", f"{tmp_path}/deep/final")
        assert (tmp_path / "deep" / "final" / "file").read_text() == content
    assert names(tmp_path / "deep") == ["final"]


def test_what_was_set_aside_comes_back_where_its_successor_cannot_take_its_place(tmp_path: Path) -> None:
    (tmp_path / "final").mkdir()
    (tmp_path / "final" / "file").write_text("old")
    with pytest.raises(InputError):
        publish_folder(f"{tmp_path}/nowhere", f"{tmp_path}/final")
    assert names(tmp_path) == ["final"] and (tmp_path / "final" / "file").read_text() == "old"


def test_why_an_output_could_not_take_its_place_is_told_where_nothing_else_works_either(tmp_path, monkeypatch):
    stage(output(tmp_path / "out"), "old")
    rename, calls = filesystem.rename, []

    def fail(old: str, new: str) -> None:
        calls.append(old)
        if len(calls) > 1:
            raise RunError(f"failure {len(calls) - 1}")
        rename(old, new)

    with monkeypatch.context() as patched, pytest.raises(RunError, match=r"^failure 1$"):
        patched.setattr(filesystem, "rename", fail)
        stage(output(tmp_path / "out"), "new")
    with output(tmp_path / "out").claimed() as decision:
        assert decision == "done"
    assert (tmp_path / "out" / "data").read_text() in ("old", "new")


# One command at a time.


@pytest.mark.parametrize("options", [{}, {"overwrite": True}, {"resume": True}])
@pytest.mark.parametrize("which", ["stage", "fill"])
def test_the_same_command_while_the_first_still_runs_is_refused_and_touches_nothing(tmp_path, which, options):
    first = output(tmp_path / "out")
    with first.claimed():
        if which == "fill":
            first.begin()
            (tmp_path / "out" / "checkpoints").mkdir()
        else:
            (tmp_path / ".out.staging-0123abcd").mkdir()
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(
            OutputInUse, match=r"/out: is being filled by train on \S+ \(process \d+\), since 20.*; wait"
        ):
            fill(output(tmp_path / "out"), **options)
        assert sorted(tmp_path.rglob("*")) == before
        check_owner(first.path, first.owner)
    assert OutputInUse.exit_status == 3
    assert not (tmp_path / ".out.owner").exists()
    fill(output(tmp_path / "out"), **options)


def test_one_that_lost_its_lease_touches_nothing(tmp_path, monkeypatch):
    """The second has taken over the first one's lease, and begun, when the first comes to what others have left."""
    first, second = output(tmp_path / "out"), output(tmp_path / "out")
    mend, refused = first._mend, []

    def late() -> None:
        second.lease._write()
        with second.staging() as folder:
            Path(folder, "data").write_text("x")
            with pytest.raises(OutputInUse) as caught:
                mend()
            refused.append(caught.value)
        second.lease.release()
        raise refused[0]

    monkeypatch.setattr(first, "_mend", late)
    with pytest.raises(OutputInUse), first.claimed():
        pytest.fail("it is the second one's")
    assert names(tmp_path) == ["out"] and names(tmp_path / "out") == [CONFIG, SUCCESS, "data"]


def test_what_was_swept_away_meanwhile_does_not_become_the_output(tmp_path: Path) -> None:
    one = output(tmp_path / "out")
    with pytest.raises(RunError, match="was removed while it was filled"), one.claimed(), one.staging() as folder:
        shutil.rmtree(folder)
        filesystem.write_bytes(f"{folder}/data", b"the rest")
    assert names(tmp_path) == []


def test_a_done_output_is_left_alone_while_another_replaces_it(tmp_path: Path) -> None:
    fill(output(tmp_path / "out"))
    with output(tmp_path / "out").claimed(overwrite=True), output(tmp_path / "out").claimed() as decision:
        assert decision == "done"


def test_what_is_decided_counts_once_the_lease_is_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that was waited for may have completed the output."""
    monkeypatch.setattr(Lease, "_watch", lambda _, found: fill_without_a_lease(tmp_path / "out") or found)
    (tmp_path / ".out.owner").write_text("{}")
    with output(tmp_path / "out").claimed() as decision:
        assert decision == "done"


def fill_without_a_lease(path: Path) -> None:
    path.mkdir()
    (path / CONFIG).write_text('{"command": "train", "config_hash": "a"}')
    (path / SUCCESS).touch()


@pytest.mark.parametrize("end", ["complete", "begin", "staging"])
def test_one_whose_lease_was_taken_over_ends_and_changes_nothing(tmp_path, end):
    """It was stopped, say, for longer than its lease lasted."""
    first = output(tmp_path / "out")
    second = Lease(first.path, "train")
    try:
        with pytest.raises(RunError, match="another run has taken over this output; this one ends"), first.claimed():
            if end == "staging":
                with first.staging() as folder:
                    second._write()
                    Path(folder, "data").touch()
            else:
                first.begin()
                second._write()
                getattr(first, end)()
        assert not (tmp_path / "out" / SUCCESS).exists()
        assert second.held()  # the first has not given it back for it
    finally:
        second.release()
    assert names(tmp_path) == ([] if end == "staging" else ["out"])
