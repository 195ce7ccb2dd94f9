"""The `sparksplit` command itself."""

from __future__ import annotations

import importlib
import signal
import subprocess
import sys
import types
import weakref
from typing import NoReturn

import pytest

from sparksplit.base.version import __version__
from sparksplit.commands import cli
from sparksplit.commands.command import Command


@pytest.mark.parametrize(
    ("name", "hint"),
    [("trian", "; did you mean 'train'?"), ("xyz", "; the commands are " + ", ".join(cli.COMMANDS))],
)
def test_an_unknown_command_is_2(name: str, hint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([name]) == 2
    assert capsys.readouterr() == ("", f"sparksplit: {name}: unknown command{hint}\n")


def test_help_version_and_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--help"]) == cli.main(["-h"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {name}" in shown for name in cli.COMMANDS)
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"sparksplit {__version__}\n"
    assert cli.main([]) == 2
    assert capsys.readouterr().out.startswith("usage: ")


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_explains_every_key(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    module = importlib.import_module(f"sparksplit.commands.{name}")
    assert isinstance(module.COMMAND, Command) and module.COMMAND.name == name
    assert cli.main([name, "--help"]) == module.main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    keys = [number for number, line in enumerate(lines) if line.startswith("  ") and line[2].isalpha() and ": " in line]
    assert len(keys) > 3
    unexplained = [lines[number] for number in keys if not lines[number + 1].startswith("      ")]
    assert unexplained == []


def test_ctrl_c_while_a_command_is_imported_is_not_lost(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python drops what is raised in a weak reference's callback, and every import ends with one."""

    def imported(name: str) -> NoReturn:
        module = types.ModuleType(name)
        going = weakref.ref(module, lambda _: signal.raise_signal(signal.SIGINT))
        del module
        pytest.fail(f"the import went on: {going}")

    monkeypatch.setattr(importlib, "import_module", imported)
    assert cli.main(["train"]) == 130
    assert capsys.readouterr() == ("", "sparksplit train: stopped by SIGINT\n")


def test_a_mistake_is_known_before_spark_and_tensorflow_are_imported() -> None:
    code = (
        "import sys; from sparksplit.commands import cli;"
        "status = cli.main(['train', '--config', '/dev/null', '--set', 'x=1']);"
        "print(status, sorted({'tensorflow', 'keras', 'pyspark', 'sklearn'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "2 []\n"
    assert done.stderr == "sparksplit train: --set x=1: x: unknown key\n"
