"""benchmarks/shares.py: its blocks and its arithmetic."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"


@pytest.fixture(scope="module")
def shares() -> ModuleType:
    # A script, not a package's module: it runs where only the product is installed.
    spec = importlib.util.spec_from_file_location("benchmark_shares", FOLDER / "shares.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_blocks_alternate_and_a_clock_that_is_off_counts_nothing(shares: ModuleType) -> None:
    clock = shares.Switched(blocks=4, seconds=0.0)
    step = SimpleNamespace(copying=0.0, warmup=0.0)
    collective = SimpleNamespace(seconds=0.0, waited=0.0)
    counted = []
    with pytest.raises(shares.Over):
        for _ in clock.fed(iter([SimpleNamespace(updates=3)] * 99)):
            before = dict(clock._spent)
            with clock.training(step, collective), clock.spent_on("other"):
                pass
            counted.append(clock._spent != before)
    assert [on for on, _, _ in clock.blocks] == counted == [True, False, False, True, True, False]
    assert {steps for _, steps, _ in clock.blocks} == {3}


def test_the_ratio_is_that_of_neighbours(shares: ModuleType) -> None:
    blocks = [(True, 10, 1.1), (False, 10, 1.0), (False, 20, 4.0), (True, 20, 4.8)]
    found = shares.figures(blocks)
    assert (found["ratio"], found["pairs"], found["step_microseconds"]) == (1.15, 2, 155000.0)
    assert found["interval"] == [1.1, 1.2]
