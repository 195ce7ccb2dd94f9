"""What an output may take the place of: nothing of another command's, of the user's, or of what the command reads."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path

import pytest

from hdfs_io import filesystem
from hdfs_io.marks import COMMANDS, CONFIG, SUCCESS
from hdfs_io.replacing import overlap, publish_folder
from sparksplit.base.errors import InputError, UsageError
from tests.hdfs_io.outputs import fill, names, output, stage
from tests.prepare.interleaved import before_call


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("options", [{}, {"overwrite": True}, {"going_on": {"a"}}])
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


@pytest.mark.parametrize("content", ["manifest.json", "runs", "thesis.tex"])
@pytest.mark.parametrize("mark", ['{"config_hash": "a"}', "half of"])
def test_where_a_mark_names_no_command_nothing_is_replaced(tmp_path, mark, content):
    (tmp_path / CONFIG).write_text(mark)
    (tmp_path / content).touch()
    for own in COMMANDS:
        with pytest.raises(UsageError, match="_CONFIG in this folder is damaged, so its command is unknown"):
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
    assert (tmp_path / "empty" / "run.json").exists()


@pytest.mark.parametrize(
    ("path", "read", "problem"),
    [
        ("{}/D", "{}/D", "is what"),
        ("{}/D/", "file://{}/x/../D", "is what"),
        ("file:{}/D", "{}/D", "is what"),
        ("{}/D/run", "file:{}/D", "lies within what"),
        ("/{}", "{}/D", "holds what"),
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
        ("hdfs:/a", "hdfs://cluster/a", "is what"),
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


@pytest.mark.parametrize("root", ["/", "//", "/..", "file:///", "file:/", "hdfs://host:8020", "hdfs://host:8020/"])
def test_a_root_is_no_output(root: str) -> None:
    with pytest.raises(UsageError) as error:
        output(root, data="/a")
    assert str(error.value) == f"{root}: is the root of a file system; choose a folder in it"


def test_a_link_to_a_root_is_no_output(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/")
    with pytest.raises(UsageError, match=r"/link: is the root of a file system; choose a folder in it"):
        output(tmp_path / "link")


@pytest.mark.parametrize("overwrite", [False, True])
def test_an_overlap_is_refused_whatever_is_there(tmp_path, overwrite):
    stage(output(tmp_path / "D", command="preprocess"))
    for path, problem in (("D", "is what"), ("D/deeper/run", "lies within what")):
        with pytest.raises(UsageError, match=f"{problem} the command reads \\(data: "):
            output(tmp_path / path, command="preprocess", data=f"{tmp_path}/D").decide(overwrite)
    assert names(tmp_path / "D") == [CONFIG, SUCCESS, "run.json"]


def test_a_symbolic_link_stays_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "disk" / "out")
    (tmp_path / "disk" / "out").mkdir()
    for content in ("one", "two"):
        stage(output(tmp_path / "out"), content)
        assert (tmp_path / "out").is_symlink() and (tmp_path / "disk" / "out" / "run.json").read_text() == content


def with_others(path: Path) -> dict[str, bytes]:
    """Put into the folder of an output what is its user's: the finished output of another command, one that is being
    filled, and a note. Returns it all by name."""
    stage(output(path / "mine", command="predict"), "predicted")
    (path / ".mine.owner").write_text("{}")
    (path / "notes.md").write_text("good")
    return others(path)


def others(path: Path) -> dict[str, bytes]:
    files = [path / "notes.md", path / ".mine.owner", *sorted((path / "mine").rglob("*"))]
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


@pytest.mark.parametrize("begun", ["unfinished", "complete"])
@pytest.mark.parametrize("which", [stage, fill])
def test_what_another_has_put_into_the_folder_stays_there(tmp_path, which, begun):
    path = tmp_path / "out"
    fill(output(path), "old", complete=begun == "complete")
    (path / "checkpoints").mkdir()
    before = with_others(path)
    which(output(path, "b"), "new", overwrite=True)
    assert others(path) == before
    assert (path / "run.json").read_text() == "new" and not (path / "checkpoints").exists()
    assert names(tmp_path) == ["out"]


@pytest.mark.parametrize("which", [stage, fill])
def test_what_another_has_put_there_survives_a_kill_at_any_moment(tmp_path, which, monkeypatch):
    """Before each call to the file system; the next command finds it where it was."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)

    def kill() -> None:
        raise KeyboardInterrupt

    for number in itertools.count():
        path = tmp_path / str(number) / "out"
        fill(output(path), "old", complete=False)
        before = with_others(path)
        try:
            with before_call(number, kill) as calls:
                which(output(path, "b"), "new", overwrite=True)
        except KeyboardInterrupt:
            pass
        fill(output(path, "c"), "newer", overwrite=True)
        assert others(path) == before and (path / "run.json").read_text() == "newer", calls
        assert names(path.parent) == ["out"], calls
        if len(calls) <= number:
            assert number > 20
            return


def test_what_was_begun_and_is_given_up_keeps_what_another_has_put_there(tmp_path: Path) -> None:
    one = output(tmp_path / "out")
    with one.claimed():
        one.begin()
        before = with_others(tmp_path / "out")
        one.abandon()
    assert others(tmp_path / "out") == before
    fill(output(tmp_path / "out"), "new")
    assert others(tmp_path / "out") == before


def test_what_cannot_move_along_stays_where_it_is_and_is_named(tmp_path, monkeypatch, caplog):
    """The next command moves it."""
    fill(output(tmp_path / "out"), "old")
    before, rename = with_others(tmp_path / "out"), filesystem.rename

    def refuse(old: str, new: str) -> None:
        if new.endswith("/mine"):
            raise InputError(f"{new}: cannot be written: Permission denied")
        rename(old, new)

    with monkeypatch.context() as patched:
        patched.setattr(filesystem, "rename", refuse)
        stage(output(tmp_path / "out"), "new")
    (aside,) = (name for name in names(tmp_path) if name != "out")
    assert f"/{aside}/mine: could not be moved to {tmp_path}/out/mine" in caplog.text
    assert (tmp_path / aside / "mine" / "metrics.json").read_text() == "predicted"
    stage(output(tmp_path / "out"), "newer")
    assert others(tmp_path / "out") == before and names(tmp_path) == ["out"]


def test_what_cannot_move_along_takes_no_replaced_output_back(tmp_path, monkeypatch):
    """Its user has made notes of the same name meanwhile. Later a command is killed between its two renames."""
    out, rename = tmp_path / "out", filesystem.rename
    stage(output(out, "a"), "one")
    for name in ("mine.md", "notes.md"):
        (out / name).write_text("of one")

    def with_notes(old: str, new: str) -> None:
        rename(old, new)
        if new == str(out):
            (out / "mine.md").write_text("of two")

    with monkeypatch.context() as patched:
        patched.setattr(filesystem, "rename", with_notes)
        stage(output(out, "b"), "two")
    (aside,) = (tmp_path / name for name in names(tmp_path) if name != "out")
    assert names(aside) == ["mine.md"] and (out / "notes.md").read_text() == "of one"
    out.rename(tmp_path / ".out.old-ffffffff")
    with output(out, "b").claimed() as decision:
        assert decision == "done"
    assert (out / "run.json").read_text() == "two" and (out / "mine.md").read_text() == "of two"
    assert names(aside) == ["mine.md"] and names(tmp_path) == sorted([aside.name, "out"])


def test_publishing_replaces_folders_by_rename(tmp_path: Path) -> None:
    for content in ("one", "two"):
        temporary = tmp_path / "temporary"
        temporary.mkdir()
        (temporary / "file").write_text(content)
        publish_folder(f"{temporary}", f"{tmp_path}/final", lambda: None, lambda _: True)
        assert (tmp_path / "final" / "file").read_text() == content
    assert names(tmp_path) == ["final"]


def test_what_was_set_aside_comes_back_where_its_successor_cannot_take_its_place(tmp_path: Path) -> None:
    (tmp_path / "final").mkdir()
    (tmp_path / "final" / "file").write_text("old")
    with pytest.raises(InputError):
        publish_folder(f"{tmp_path}/nowhere", f"{tmp_path}/final", lambda: None, lambda _: True)
    assert names(tmp_path) == ["final"] and (tmp_path / "final" / "file").read_text() == "old"
