"""An Airflow for each test that asks for one."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from tests.dags.environment import Unavailable, airflow_python
from tests.dags.site import Site

_FOLDER = Path(__file__).parent
_SECONDS = 2400  # the first test may have to install Airflow; two busy cores


@pytest.fixture(scope="session")
def python() -> Path:
    """The Python of Airflow's environment. Tests that use it carry the marker `outside`."""
    try:
        return airflow_python()
    except Unavailable as error:
        _unavailable(str(error))


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory, python: Path) -> Path:
    """The database of an Airflow that has just been installed."""
    site = Site(tmp_path_factory.mktemp("airflow"), python)
    try:
        assert site.airflow("db", "migrate") == 0, site.log.read_text()[-2000:]
        return site.database
    finally:
        site.close()


@pytest.fixture
def site(tmp_path: Path, python: Path, migrated: Path) -> Iterator[Site]:
    """A migrated Airflow with nothing run yet."""
    site = Site(tmp_path, python)
    site.database.parent.mkdir()
    shutil.copy(migrated, site.database)
    try:
        yield site
    finally:
        site.close()


@pytest.hookimpl(tryfirst=True)  # before the root's, which reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test here that uses Airflow, directly or through a fixture."""
    for item in items:
        if _FOLDER in item.path.parents and "python" in getattr(item, "fixturenames", ()):
            for mark in (pytest.mark.outside, pytest.mark.timeout(_SECONDS)):
                item.add_marker(mark)


def _unavailable(reason: str) -> NoReturn:
    """Skip, or fail where a skip would go unseen."""
    if os.environ.get("CI"):
        pytest.fail(f"no Airflow for the tests: {reason}", pytrace=False)
    pytest.skip(f"no Airflow for the tests: {reason}")
