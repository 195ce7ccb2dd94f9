"""How many descriptors a process may have."""

from __future__ import annotations

import resource
from collections.abc import Iterator

import pytest

from sparksplit.base import descriptors


@pytest.fixture
def limits() -> Iterator[tuple[int, int]]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    yield before
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_more_are_asked_for_up_to_the_hard_limit_and_never_fewer(limits: tuple[int, int]) -> None:
    _, hard = limits
    resource.setrlimit(resource.RLIMIT_NOFILE, (600, hard))
    assert descriptors.ask(500) == 600
    assert descriptors.ask(700) == 700 == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if hard != resource.RLIM_INFINITY:
        assert descriptors.ask(hard + 1) == hard
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[1] == hard
