"""The cluster that the tests in this folder share, and their markers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import pytest

from sparksplit.base.errors import ConfigError
from sparksplit.spark.settings.java import java_home
from tests.hadoop.cluster import HadoopCluster
from tests.hadoop.jars import Unavailable, fetch
from tests.hadoop.submit import Submission, submit

_FOLDER = Path(__file__).parent
_SECONDS = 1200  # the first test may have to fetch the jars


@pytest.fixture(scope="session")
def hadoop(nothing_left_running: None) -> Iterator[HadoopCluster]:
    """A running HDFS with two DataNodes, and YARN with one NodeManager and two simulated GPUs.

    Tests that use it carry the markers `hadoop` and `slow`.
    """
    try:
        java = java_home()
        jars = fetch(java)
    except (ConfigError, Unavailable) as error:
        _unavailable(str(error))
    with HadoopCluster(jars, java) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def whole_cluster(request: pytest.FixtureRequest) -> Iterator[None]:
    """Start again what a test has killed, however the test ended."""
    yield
    if "hadoop" in request.fixturenames:
        request.getfixturevalue("hadoop").restore()


@pytest.fixture
def yarn_submit(hadoop: HadoopCluster) -> Iterator[Callable[..., Submission]]:
    """`submit` (tests/hadoop/submit.py) without its first argument; ends what the test leaves running."""
    started: list[Submission] = []

    def call(script: str | Path, *arguments: str, **options: Any) -> Submission:
        started.append(submit(hadoop, script, *arguments, **options))
        return started[-1]

    yield call
    for submission in started:
        submission.kill()


@pytest.hookimpl(tryfirst=True)  # before the root's, which reads the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test that uses the cluster, directly or through a fixture."""
    for item in items:
        if _FOLDER in item.path.parents and "hadoop" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.hadoop)
            item.add_marker(pytest.mark.slow)
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(_SECONDS))


def _unavailable(reason: str) -> NoReturn:
    """Skip, or fail where a skip would go unseen."""
    if os.environ.get("CI"):
        pytest.fail(f"no Hadoop for the tests: {reason}", pytrace=False)
    pytest.skip(f"no Hadoop for the tests: {reason}")
