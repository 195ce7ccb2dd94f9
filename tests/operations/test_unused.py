"""What is not packed: named paths of known packages, and what only sparksplit's own tests need."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparksplit.operations.unused import only_for_tests, unused

SITE = "lib/python3.11/site-packages"

REQUIRES = {
    "sparksplit": ["tensorflow<2.22,>=2.21", "pytest>=9; extra == 'test'", 'Playwright; extra == "test"'],
    "tensorflow": ["numpy>=2"],
    "numpy": [],
    "pytest": ["pluggy>=1", "Iniconfig", "absent; python_version < '3.9'", "tensorflow; extra == 'dev'"],
    "pluggy": [],
    "iniconfig": [],
    "playwright": ["greenlet"],
    "greenlet": [],
}


@pytest.mark.parametrize(
    ("more", "asked_for", "dropped"),
    [
        ({}, set(), {"pytest", "pluggy", "iniconfig", "playwright", "greenlet"}),
        ({"mine": ["greenlet (>=1)"]}, set(), {"pytest", "pluggy", "iniconfig", "playwright"}),
        ({}, {"playwright"}, {"pytest", "pluggy", "iniconfig"}),
        ({"sparksplit": ["tensorflow"]}, set(), set()),
        (
            {"sparksplit": [*REQUIRES["sparksplit"], "playwright; extra == 'pages'"]},
            set(),
            {"pytest", "pluggy", "iniconfig"},
        ),
    ],
    ids=[
        "none of the user's",
        "a package of the user's requires one",
        "installed by name",
        "no such extra",
        "another extra names it too",
    ],
)
def test_packages_for_tests_alone_are_told_from_the_users(more, asked_for, dropped):
    assert only_for_tests(REQUIRES | more, asked_for | {"sparksplit"}) == dropped


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    """An environment with two packages of sparksplit's tests, one of which was installed by its own name."""
    for name, required, requested in (
        ("sparksplit", "one; extra == 'test'\nRequires-Dist: two; extra == 'test'", True),
        ("one", "", False),
        ("two", "", True),
    ):
        folder = tmp_path / SITE / f"{name}-1.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(f"Name: {name}\nVersion: 1\n{required and f'Requires-Dist: {required}'}\n")
        (folder / "RECORD").write_text(f"{name}/__init__.py,,\n../../../bin/{name},,\n")
        for file in (tmp_path / SITE / name / "__init__.py", tmp_path / "bin" / name):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()  # newer Pythons leave out files that are not there
        if requested:
            (folder / "REQUESTED").touch()
    (tmp_path / SITE / "half-1.dist-info").mkdir()  # an interrupted installation's
    return tmp_path


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        (f"{SITE}/one/__init__.py", True),
        ("bin/one", True),
        (f"{SITE}/one/__pycache__/__init__.cpython-311.pyc", True),
        (f"{SITE}/two/__init__.py", False),
        (f"{SITE}/two/__pycache__/__init__.cpython-311.pyc", False),
        ("bin/two", False),
        ("bin/python3.11", False),
        (f"{SITE}/tensorflow/include/a/b.h", True),
        (f"{SITE}/tensorflow/python/include.py", False),
        (f"{SITE}/pyspark/jars/a.jar", True),
        (f"{SITE}/pyspark/sql/session.py", False),
        (f"{SITE}/scipy/tests/a.py", True),
        (f"{SITE}/scipy/stats/tests/__pycache__/a.pyc", True),
        (f"{SITE}/numpy/testing/tests.py", False),
        (f"{SITE}/mine/tests/a.py", False),
        (f"{SITE}/mine/tensorflow/include/a.h", False),
        (f"{SITE}/pip_like/a.py", False),
        ("pip/a.py", False),
    ],
)
def test_what_is_not_packed(prefix, file, expected):
    assert unused(prefix)(file) == expected
