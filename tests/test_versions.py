"""The served pairs of Python and pyspark: what pyproject.toml declares, and the exact versions in constraints/."""

from __future__ import annotations

import re
import subprocess
import tomllib
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FILES = {file.stem: file for file in sorted((ROOT / "constraints").iterdir())}
OLDEST = "python3.11-pyspark3.5"
OF_A_PAIR = {"pandas", "py4j", "pyspark", "pytz"}
"""Packages whose versions may differ between pairs. pandas 2 brings pytz."""


def pins(pair: str) -> dict[str, str]:
    lines = FILES[pair].read_text().splitlines()
    return dict(re.fullmatch(r"([\w.-]+)==([\w.]+)", line).groups() for line in lines)  # type: ignore[union-attr]


def versions(pair: str) -> tuple[str, str]:
    return re.fullmatch(r"python([\d.]+)-pyspark([\d.]+)", pair).groups()  # type: ignore[union-attr, return-value]


@pytest.mark.parametrize("pair", FILES)
def test_a_served_pair_is_declared_and_has_all_versions(pair: str) -> None:
    python, pyspark = versions(pair)
    found = pins(pair)
    assert f"Programming Language :: Python :: {python}" in PROJECT["classifiers"]
    assert found["pyspark"].startswith(f"{pyspark}.")
    for text in (*PROJECT["dependencies"], *chain.from_iterable(PROJECT["optional-dependencies"].values())):
        needed = Requirement(text)
        if needed.name == "sparksplit":  # another of its own extras
            continue
        assert found[canonicalize_name(needed.name)] in needed.specifier, needed
    common = [{name: one for name, one in each.items() if name not in OF_A_PAIR} for each in (found, pins(OLDEST))]
    assert common[0] == common[1]


def test_every_declared_python_and_pyspark_is_in_a_pair() -> None:
    pythons, pysparks = map(set, zip(*map(versions, FILES), strict=True))
    prefix = "Programming Language :: Python :: "
    assert pythons == {one.removeprefix(prefix) for one in PROJECT["classifiers"] if one.startswith(prefix)}
    (declared,) = (one for one in map(Requirement, PROJECT["dependencies"]) if one.name == "pyspark")
    released = {"3.4", "3.5", "4.0", "4.1", "4.2", "4.3", "4.4"}
    assert pysparks == {line for line in released if f"{line}.99" in declared.specifier}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["python=3.10", "pyspark=4.3"],
            "test: python=3.10 pyspark=4.3 is not served. Served: python=3.11 pyspark=3.5, ",
        ),
        (
            ["python=3.13"],
            "test: --with takes both versions, such as --with python=3.13 pyspark=4.3 (got: python=3.13 )",
        ),
    ],
)
def test_another_pair_is_refused_in_one_line(arguments: list[str], message: str) -> None:
    ended = subprocess.run(
        [ROOT / "scripts" / "test", "--with", *arguments], capture_output=True, text=True, check=False, timeout=60
    )
    assert (ended.returncode, ended.stdout, ended.stderr.count("\n")) == (2, "", 1)
    assert ended.stderr.startswith(message)
