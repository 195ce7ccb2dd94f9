"""The pages list every configuration key with its type and default, as the code has them."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from sparksplit.base.config import documented_keys

ROOT = Path(__file__).parent.parent


def table(command: str) -> str:
    """The page's table of keys."""
    rows = ["| key | type | default | |", "| --- | --- | --- | --- |"]
    for key, kind, default, text in documented_keys(
        importlib.import_module(f"sparksplit.commands.{command}").COMMAND.config
    ):
        cells = (f"`{key}`", kind.replace("|", "or"), f"`{default}`" if default else "", text.replace("|", "\\|"))
        rows.append(f"| {' | '.join(cells)} |".replace("|  |", "| |"))
    return "\n".join(rows)


PAGES = {
    "preprocess": "preprocess",
    "train": "train",
    "compare": "compare",
    "predict": "predict",
    "check": "operations",
    "package": "operations",
}


@pytest.mark.parametrize(("command", "page"), PAGES.items())
def test_the_page_lists_every_key(command, page):
    text = (ROOT / "docs" / f"{page}.md").read_text()
    assert table(command) in text, f"docs/{page}.md should hold this table:\n{table(command)}"


def test_every_shipped_configuration_is_valid():
    from sparksplit.base.config import load
    from sparksplit.comparison.plan import plan

    commands = {"preprocess": 3, "train": 3, "compare": 3, "predict": 1, "quickstart": 1}
    for command, count in commands.items():
        files = sorted((ROOT / "conf").glob(f"{command}*.yaml"))
        assert len(files) == count
        for file in files:
            config = load(importlib.import_module(f"sparksplit.commands.{command}").COMMAND.config, str(file))
            if command == "compare":
                assert len({run.way for run in plan(config)}) == 5
