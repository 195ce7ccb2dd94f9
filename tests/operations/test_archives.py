"""The archives: complete, reproducible, appearing by rename, and working where they are unpacked."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from sparksplit.base.errors import UsageError
from sparksplit.base.version import __version__
from sparksplit.operations import archives
from sparksplit.operations.operations_config import PackageConfig
from sparksplit.operations.package import command, package


def test_the_zip_has_the_same_bytes_every_time_and_its_version(tmp_path, monkeypatch):
    first = archives.project_zip()
    monkeypatch.chdir(tmp_path)
    assert archives.project_zip() == first
    file = tmp_path / "sparksplit.zip"
    file.write_bytes(first)
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
        assert archive.comment.decode() == f"sparksplit {__version__}"
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
    assert names == sorted(names)
    some = ("cluster/node_main.py", "shipped/conf/train-mlp.yaml", "shipped/models/mlp.py", "__init__.py")
    assert {f"sparksplit/{name}" for name in some} <= set(names)
    assert {name.partition("/")[0] for name in names} == {"sparksplit", "hdfs_io"}


def link_what_is_packed(prefix: Path, target: Path) -> None:
    """Make `target` what is packed of `prefix`, by links: one for a folder of which all is packed."""
    packed = [name for name, _ in archives.environment_files(prefix)]
    every = (f"{folder}/{name}".removeprefix(f"{prefix}/") for folder, _, names in os.walk(prefix) for name in names)
    here, there = Counter(folders(packed)), Counter(folders(every))
    whole = {folder for folder, number in here.items() if number == there[folder]}
    for place in {next((part for part in folders([name]) if part in whole), name) for name in packed}:
        (target / place).parent.mkdir(parents=True, exist_ok=True)
        real = prefix / place
        (target / place).symlink_to(real.readlink() if real.is_symlink() else real)


def folders(files: Iterable[str]) -> Iterator[str]:
    """The folders above each file, the outermost first."""
    for file in files:
        parts = file.split("/")
        yield from ("/".join(parts[:depth]) for depth in range(1, len(parts)))


@pytest.mark.slow
def test_everything_can_be_imported_from_the_zip_and_the_packed_environment_alone(tmp_path):
    file, prefix = tmp_path / "sparksplit.zip", tmp_path / "environment"
    file.write_bytes(archives.project_zip())
    link_what_is_packed(Path(sys.prefix), prefix)
    code = (
        "import importlib, sys, sparksplit.commands.cli as cli\n"
        f"assert (cli.__file__.startswith({str(file)!r}), sys.prefix) == (True, {str(prefix)!r})\n"
        "for name in cli.COMMANDS: importlib.import_module('sparksplit.commands.' + name)\n"
        "import sparksplit.training.node.main, sparksplit.inference.tasks, sparksplit.prepare.prepare\n"
        "from sparksplit.model import builders\n"
        "assert builders.models() == ['cnn', 'lstm', 'mlp', 'tabular', 'text']\n"
        "assert callable(builders.load_builder('mlp', None))\n"
        "import pyspark.ml, sklearn.datasets, scipy.stats, matplotlib.figure, tensorboard.compat.proto.event_pb2\n"
        "import keras, tensorflow\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(file)}
    python = str(prefix / "bin" / "python")
    subprocess.run([python, "-c", code], env=environment, cwd=tmp_path, check=True, timeout=120)


def test_a_rerun_changes_nothing_and_a_changed_file_is_replaced(tmp_path):
    config = PackageConfig(output=str(tmp_path / "out"))
    assert all(line.endswith("written") for line in list(package(config))[:3])
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "out").rglob("*")}
    assert all(line.endswith("is up to date") for line in list(package(config))[:3])
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "out").rglob("*")} == before
    (tmp_path / "out" / "sparksplit.zip").write_bytes(b"old")
    assert next(package(config)).endswith("written")
    assert (tmp_path / "out" / "sparksplit.zip").read_bytes() == archives.project_zip()
    assert os.access(tmp_path / "out" / "conf" / "gpu-discovery.sh", os.X_OK)


def test_the_command_names_what_is_there(tmp_path):
    text = command(tmp_path / "a b", environment=True)
    assert f"--py-files '{tmp_path}/a b/sparksplit.zip'" in text
    assert f"--archives '{tmp_path}/a b/environment.tar.gz'#environment" in text
    assert "--archives" not in command(tmp_path, environment=False)
    assert " --name 'sparksplit train NAME' --conf spark.yarn.tags=sparksplit,train " in text


def test_an_environment_runs_where_it_is_unpacked(tmp_path):
    prefix, archive, unpacked = tmp_path / "env", tmp_path / "environment.tar.gz", tmp_path / "elsewhere"
    venv.create(prefix, with_pip=False, symlinks=True)
    packages = next(prefix.glob("lib/python3.*/site-packages"))
    (packages / "mine.py").write_text("print('mine', __file__)")
    (packages / "_editable_impl_sparksplit.pth").write_text("/nowhere")
    (prefix / "loop").symlink_to(prefix)
    seen = []
    archives.pack_environment(prefix, archive, lambda done, total: seen.append((done, total)))
    assert seen[-1][0] == seen[-1][1]
    first, digest = archive.read_bytes(), archives.environment_digest(prefix)
    archives.pack_environment(prefix, archive, lambda done, total: None)
    assert archive.read_bytes() == first and archives.environment_digest(prefix) == digest
    with tarfile.open(archive) as tar:
        tar.extractall(unpacked, filter="tar")
    environment = {"PATH": os.environ["PATH"]}
    ran = subprocess.run(
        ["./elsewhere/bin/python", "-c", "import sys; import mine; print(sys.prefix)"],
        cwd=tmp_path, env=environment, check=True, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert ran.stdout.startswith(f"mine {unpacked}") and ran.stdout.splitlines()[1] == str(unpacked)
    assert not list(unpacked.rglob("_editable*")) and not (unpacked / "loop").is_symlink()
    (packages / "mine.pyc").write_text("compiled")
    assert archives.environment_digest(prefix) == digest
    (packages / "mine.py").write_text("other")
    assert archives.environment_digest(prefix) != digest


def test_a_package_that_is_only_a_link_is_named_unless_it_is_sparksplit_itself(tmp_path: Path) -> None:
    """sparksplit travels with --py-files. Nobody ships the others, whatever their links are called."""
    prefix, archive = tmp_path / "env", tmp_path / "environment.tar.gz"
    venv.create(prefix, with_pip=False, symlinks=True)
    (packages,) = prefix.glob("lib/python3.*/site-packages")

    def installed(name: str, origin: str) -> None:
        (packages / f"{name}-1.0.dist-info").mkdir()
        (packages / f"{name}-1.0.dist-info" / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\n")
        (packages / f"{name}-1.0.dist-info" / "direct_url.json").write_text(origin)

    installed("sparksplit", '{"url": "file:///src/sparksplit", "dir_info": {"editable": true}}')
    installed("copied", '{"url": "file:///src/copied", "dir_info": {}}')
    archives.pack_environment(prefix, archive, lambda done, total: None)
    archive.unlink()
    installed("mine", '{"url": "file:///src/my%20code", "dir_info": {"editable": true}}')
    (packages / "mine.pth").write_text("/src/my code")
    with pytest.raises(UsageError) as caught:
        archives.pack_environment(prefix, archive, lambda done, total: None)
    assert str(caught.value) == (
        "environment: other hosts lack the modules of mine (/src/my code): installed with --editable, and so only"
        f" linked into {prefix}. Install without --editable: pip install '/src/my code'"
    )
    assert not archive.exists()


def test_what_is_no_environment_is_refused_and_leaves_nothing(tmp_path):
    with pytest.raises(UsageError, match="not a virtual environment"):
        archives.pack_environment(tmp_path, tmp_path / "x.tar.gz", lambda done, total: None)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupted_archive_does_not_appear(tmp_path):
    prefix = tmp_path / "env"
    venv.create(prefix, with_pip=False, symlinks=True)

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    (tmp_path / "out").mkdir()
    with pytest.raises(KeyboardInterrupt):
        archives.pack_environment(prefix, tmp_path / "out" / "environment.tar.gz", stop)
    assert list(Path(tmp_path / "out").iterdir()) == []
