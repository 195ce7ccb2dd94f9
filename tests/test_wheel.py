"""The wheel, as a user installs it: it brings two names, and goes well with folders that have names of our rooms."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from sparksplit.operations import archives
from tests import test_layers

ROOT = Path(__file__).parent.parent
MINE = sorted({"models", "jobs", "utils", *test_layers.MAY_IMPORT} - {"hdfs_io"})
"""Folders of the user's own."""
BUILD = """
import keras
import utils

def build(data):
    return keras.Sequential([
        keras.layers.Input(data.input_shape),
        keras.layers.Flatten(),
        keras.layers.Dense(utils.UNITS, "relu"),
        keras.layers.Dense(data.outputs, data.activation),
    ])
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (file,) = folder.glob("*.whl")
    return file


def test_it_holds_two_packages_and_what_comes_with_them(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"sparksplit", "hdfs_io"}
    for folder in ("conf", "jobs", "models"):
        files = {file.name for file in (ROOT / folder).iterdir() if file.is_file()}
        assert {f"sparksplit/shipped/{folder}/{name}" for name in files} <= names


def test_package_makes_of_it_what_it_makes_of_a_checkout(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path)
    code = (
        "import sys\nfrom sparksplit.operations import archives\n"
        f"assert archives.__file__.startswith({str(tmp_path)!r})\n"
        "sys.stdout.buffer.write(archives.project_zip())"
    )
    made = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        cwd=tmp_path,
        check=True,
        capture_output=True,
    )
    assert (made.stdout, made.stderr) == (archives.project_zip(), b"")


@pytest.mark.slow
def test_a_training_beside_folders_of_the_users_own(wheel: Path, digits: Path, tmp_path: Path) -> None:
    python = tmp_path / "env" / "bin" / "python"
    venv.create(tmp_path / "env", with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-index", "--no-deps", str(wheel)], check=True)
    # What sparksplit needs is found where the tests have it, but not this checkout: .pth files there do not count.
    packages = next((tmp_path / "env" / "lib").glob("python*/site-packages"))
    (packages / "needed.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    for name in MINE:
        (tmp_path / "mine" / name).mkdir(parents=True)
        (tmp_path / "mine" / name / "__init__.py").write_text("UNITS = 8\n")
    (tmp_path / "mine" / "models" / "own.py").write_text(BUILD)
    (tmp_path / "elsewhere").mkdir()

    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    code = (
        "import importlib.util, sparksplit, hdfs_io;"
        f"print([name for name in {MINE!r} if importlib.util.find_spec(name)], sparksplit.__file__)"
    )
    found = subprocess.run(
        [python, "-c", code], env=environment, cwd=tmp_path / "elsewhere", check=True, capture_output=True, text=True
    )
    assert found.stdout.strip() == f"[] {packages}/sparksplit/__init__.py"

    settings = (
        f"data={digits}",
        f"output={tmp_path}/run",
        "nodes=2",
        "strategy=batch",
        "epochs=1",
        "metrics=[accuracy]",
    )
    command = [tmp_path / "env" / "bin" / "sparksplit", "train"]
    for setting in (*settings, "model.build=models.own:build"):
        command += ["--set", setting]
    environment["PYTHONPATH"] = str(tmp_path / "mine")
    done = subprocess.run(
        command, env=environment, cwd=tmp_path / "elsewhere", check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert run["ledger"] == {**run["ledger"], "rows": 1300, "exact": True}
    assert list((tmp_path / "elsewhere").iterdir()) == []
