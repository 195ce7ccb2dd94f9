"""What an output may take the place of: nothing of another command's, of the user's, or of what the command reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hdfs_io.publish import (
    COMMANDS,
    CONFIG,
    SUCCESS,
    overlap,
    publish_folder,
)
from sparksplit.base.errors import InputError, UsageError
from tests.hdfs_io.outputs import names, output, stage


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
    assert names(tmp_path / "D") == [CONFIG, SUCCESS, "data"]


def test_a_symbolic_link_stays_and_what_it_leads_to_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / "disk" / "out")
    (tmp_path / "disk" / "out").mkdir()
    for content in ("one", "two"):
        stage(output(tmp_path / "out"), content)
        assert (tmp_path / "out").is_symlink() and (tmp_path / "disk" / "out" / "data").read_text() == content


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
