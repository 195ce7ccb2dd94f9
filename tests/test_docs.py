"""The pages list every configuration key with its type and default, as the code has them."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from sparksplit.base.config import documented_keys

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


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
    "search": "search",
    "plan": "plan",
    "predict": "predict",
    "check": "operations",
    "devices": "devices",
    "package": "operations",
}


@pytest.mark.parametrize(("command", "page"), PAGES.items())
def test_the_page_lists_every_key(command, page):
    text = (ROOT / "docs" / f"{page}.md").read_text()
    assert table(command) in text, f"docs/{page}.md should hold this table:\n{table(command)}"


def test_the_page_of_diagnose_lists_what_is_measured():
    from sparksplit.diagnosis.measured import VARIANTS

    rows = [f"| `{name}` | {text} |" for name, text in VARIANTS.items()]
    assert "\n".join(["| variant | is |", "| --- | --- |", *rows]) in (DOCS / "diagnose.md").read_text()


def test_who_begins_with_compare_reads_what_each_strategy_is():
    from sparksplit.strategies import COMPARED

    rows = [f"| `{name}` | {strategy.told} |" for name, strategy in COMPARED.items()]
    page = (DOCS / "compare.md").read_text()
    assert "\n".join(["| strategy | is |", "| --- | --- |", *rows]) in page.partition("\n## ")[0]
    assert all(f" {name}: {strategy.told}." in table("compare") for name, strategy in COMPARED.items() if strategy.told)


def test_every_shipped_configuration_is_valid():
    from sparksplit.base.config import load
    from sparksplit.comparison.plan import plan

    commands = {"preprocess": 11, "train": 7, "compare": 4, "search": 1, "predict": 1, "quickstart": 1}
    for command, count in commands.items():
        files = sorted((ROOT / "conf").glob(f"{command}*.yaml"))
        assert len(files) == count
        for file in files:
            config = load(importlib.import_module(f"sparksplit.commands.{command}").COMMAND.config, str(file))
            if command == "compare":
                assert len({run.name for run in plan(config)}) == 7


PATHS = re.compile(r"`((?:sparksplit|hdfs_io|tests|models|jobs|conf|dags|docs|benchmarks|scripts)/[\w./-]*)(?::\w+)?`")
"""What stands in backticks and begins with one of the top folders: a path within this repository."""


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", *sorted(f"docs/{p.name}" for p in DOCS.glob("*.md"))])
def test_the_files_that_a_page_names_are_there(page):
    text = (ROOT / page).read_text()
    missing = [path for path in PATHS.findall(text) if not (ROOT / path).exists()]
    links = [link.partition("#")[0] for link in re.findall(r"\]\((?!https?:|#)([^)]+)\)", text)]
    missing += [link for link in links if not ((ROOT / page).parent / link).exists()]
    assert missing == []


def test_the_map_of_the_code_names_files_that_are_there():
    rooms = [f"sparksplit/{room.name}/" for room in (ROOT / "sparksplit").iterdir() if (room / "__init__.py").exists()]
    text = (DOCS / "architecture.md").read_text()
    assert [room for room in rooms if f"`{room}`" not in text] == []
    short = re.findall(r"`((?:training|comparison|cluster|collectives)/[\w./]+\.py)`", text)
    assert short and [path for path in short if not (ROOT / "sparksplit" / path).exists()] == []
