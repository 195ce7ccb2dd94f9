"""What is wrong with a preparation, from made-up stages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.diagnosis.preprocess.files import files_of
from sparksplit.diagnosis.preprocess.parts import parts_of
from sparksplit.diagnosis.preprocess.preprocess_record import Files, Trouble
from sparksplit.diagnosis.preprocess.stages import Stage, Task
from sparksplit.diagnosis.preprocess.verdict import Setup, limit_of, notes_of, troubles_of
from sparksplit.prepare.preprocess_config import InputConfig, PreprocessConfig
from tests.diagnosis.preprocess.tables import after, stage

FILES = Files(files=8, bytes=8 << 20, largest="/raw/large.csv.gz", largest_bytes=1 << 20, whole=8)


CONFIG = PreprocessConfig.model_validate({"input": {"format": "csv", "path": "/raw"}, "output": "set"})
SETUP = Setup(slots=4, config=CONFIG, prepared_bytes=1 << 30, files=FILES)
SMALL = CONFIG.model_copy(update={"file_size": 1 << 20})
EVEN = [5.0] * 4


def found(stages: Sequence[Stage], setup: Setup = SETUP, driver: float = 0.5) -> list[Trouble]:
    began, ended = stages[0].submitted - driver / 2, stages[-1].completed + driver / 2
    return troubles_of(stages, parts_of(stages, began, ended, setup.slots), setup)


def even(seconds: float = 5.0, noise: Sequence[float] = (0, 0, 0, 0)) -> list[Stage]:
    own = [seconds * (1 + share) for share in noise]
    return after(("parse", own, None), ("count", [one / 5 for one in own], None), ("write", own, None))


def skewed(times: float, seconds: float = 2.0, tasks: int = 6) -> list[Stage]:
    """One task has `times` as many rows as each of the others, and takes as many times as long."""
    rows = [round(1000 * times), *[1000] * (tasks - 1)]
    took = [seconds * row / 1000 for row in rows]
    return after(("parse", took, rows), ("count", [one / 4 for one in took], rows), ("write", EVEN, None))


@given(st.lists(st.floats(-0.2, 0.2), min_size=4, max_size=4), st.floats(1, 100))
def test_even_work_has_no_trouble(noise: list[float], seconds: float) -> None:
    stages = even(seconds, noise)
    troubles = found(stages)
    assert [one.kind for one in troubles] == []
    parts = parts_of(stages, 99.9, stages[-1].completed + 0.1, 4)
    limit = limit_of(troubles, parts)
    assert (limit.name, limit.alone) == ("work", True) and limit.costs[0].gain is None


@given(st.floats(6, 60), st.integers(3, 20), st.floats(1, 60))
def test_skew_is_named_however_strong(times: float, tasks: int, seconds: float) -> None:
    stages = skewed(times, seconds, tasks)
    lost = sum(one.completed - one.submitted - max(one.busy / 4, one.busy / tasks) for one in stages[:2])
    whole = stages[-1].completed - stages[0].submitted + 0.5
    troubles = found(stages)
    if lost > max(0.3, whole * 0.1) * 1.01:
        assert limit_of(troubles, []).name == "skew"
        assert troubles[0].seconds == pytest.approx(lost)
        assert troubles[0].parts == ["parse", "count"]
        assert "/raw/large.csv.gz" in troubles[0].help[0]


def test_a_limit_says_what_it_costs() -> None:
    stages = skewed(20.0)
    troubles = found(stages)
    parts = parts_of(stages, 99.75, stages[-1].completed + 0.25, 4)
    limit = limit_of(troubles, parts)
    assert (limit.name, limit.places, limit.alone) == ("skew", ["parse", "count"], False)
    (cost,) = limit.costs
    assert cost.share == pytest.approx(34.4 / 55.7, rel=1e-2) and cost.gain is not None
    assert (cost.gain.mean, cost.gain.low) == (pytest.approx(55.7 / (55.7 - 34.4), rel=1e-2), None)
    assert "the slowest of 6 tasks took 40.0 s, the median of the other 5 2.0 s, with 4.8 times" in troubles[0].why


def test_without_a_trouble_the_longest_part_with_tasks_is_named() -> None:
    stages = after(("parse", EVEN, None), ("write", [3.0] * 4, None))
    parts = parts_of(stages, 94.5, stages[-1].completed + 0.1, 4)
    assert max(parts, key=lambda part: part.seconds).name == "open"
    limit = limit_of([], parts)
    assert (limit.name, limit.places) == ("work", ["parse"])
    assert limit.costs[0].share == pytest.approx(0.36, abs=0.01)


def test_what_helps_against_skew() -> None:
    (trouble,) = found(skewed(20.0))
    assert (trouble.kind, trouble.settings) == ("skew", {})
    assert trouble.help[0] == (
        "write the rows into 4 files of about 2.10 MB, such as by Spark's repartition(4): /raw/large.csv.gz (1.05 MB "
        "of 8.39 MB) is one task's work, however many slots there are"
    )
    # Each slot gets as many files as any other, of a size that Spark likes.
    for size, count in ((4 * 128 << 20, 4), ((4 * 128 << 20) + 1, 8), (10 << 30, 80)):
        (trouble,) = found(skewed(20.0), replace(SETUP, files=replace(FILES, bytes=size)))
        assert trouble.help[0].startswith(f"write the rows into {count} files")
    (trouble,) = found(skewed(20.0), replace(SETUP, files=None))
    assert trouble.help == ["more partitions of about equal size where the rows come from"]
    (trouble,) = found(skewed(20.0), replace(SETUP, files=replace(FILES, whole=0)))
    assert trouble.settings == {"spark.sql.files.maxPartitionBytes": 1 << 20}
    windows = CONFIG.model_copy(update={"input": CONFIG.input.model_copy(update={"windows": "some"})})
    (trouble,) = found(skewed(20.0), replace(SETUP, config=windows))
    assert trouble.help[0].startswith("input.windows.by")


@pytest.mark.parametrize("name", ["idx", "text"])
def test_our_own_tasks_cut_plain_files(name: str) -> None:
    """IDX has four files with fixed names, and a text's files have an order."""
    own = CONFIG.model_copy(update={"input": CONFIG.input.model_copy(update={"format": name})})
    (trouble,) = found(skewed(20.0), replace(SETUP, config=own))
    assert trouble.help == ["unpack the .gz files: each is one task's work, however many slots there are"]
    (trouble,) = found(skewed(20.0), replace(SETUP, config=own, files=replace(FILES, whole=0)))
    assert trouble.help == ["more rows: a task reads 67.1 MB of a plain file, so a small set has few tasks"]


def test_too_few_files_to_write() -> None:
    stages = after(("parse", EVEN, None), ("write", [20.0], None))
    (trouble,) = found(stages, replace(SETUP, prepared_bytes=100 << 20))
    assert (trouble.kind, trouble.parts, trouble.seconds) == ("few", ["write"], 15.0)
    assert trouble.settings == {"file_size": 25 << 20}
    # Already as small as they may be.
    (trouble,) = found(stages, replace(SETUP, prepared_bytes=10 << 20, config=SMALL))
    assert trouble.settings == {}


def test_too_many_tasks() -> None:
    small = stage("write", [0.1] * 400, begin=0.08, shuffled=True)
    (trouble,) = found([small], replace(SETUP, config=SMALL))
    assert (trouble.kind, trouble.seconds) == ("many", pytest.approx(8.0))
    assert trouble.settings == {"file_size": 64 << 20}


def test_garbage_and_spills() -> None:
    full = stage("parse", EVEN, gc=0.4, spilled=1 << 30)
    collects, spills = found([full])
    assert (collects.kind, spills.kind) == ("gc", "spill")
    assert collects.seconds == pytest.approx(0.4 * 5, abs=0.01)
    assert spills.seconds is None
    parts = parts_of([full], full.submitted, full.completed, 4)
    assert limit_of([collects, spills], parts).name == "gc"
    # What nobody can put a figure to is no limit.
    assert limit_of([spills], parts).name == "work"
    assert notes_of([collects, spills]) == [*collects.help, *spills.help]


def test_the_part_that_spilled_most_is_described() -> None:
    stages = [stage("parse", EVEN, spilled=100 * 10**9), stage("write", EVEN, start=5, shuffled=True, spilled=1000)]
    (spills,) = found(stages)
    assert (spills.kind, spills.parts) == ("spill", ["parse", "write"])
    assert spills.why.startswith("in parse, 100 GB of rows")


def test_attempts_that_failed_are_counted_over_all_stages() -> None:
    stages = []
    for part, count, start in (("parse", 4, 0), ("count", 2, 10), ("write", 1, 20)):
        one = stage(part, EVEN, start=start + 5)
        lost = [Task(place, start, start + 5, failed=True) for place in range(count)]
        stages.append(replace(one, submitted=start, tasks=[*lost, *one.tasks], shuffles=part == "write"))
    (failed,) = [one for one in found(stages) if one.kind == "failed"]
    assert (failed.seconds, failed.parts) == (7 * 5 / 4, ["parse", "count", "write"])
    assert failed.why == "attempts at tasks that failed: 7"


def test_failed_tasks_and_a_slow_one() -> None:
    one = stage("parse", [20.0, 5.0, 5.0, 5.0])
    (slow,) = found([one])
    assert (slow.kind, slow.settings) == ("slow", {})
    lost = Task(index=0, launched=0, ended=20, failed=True)
    failed = Stage("parse", 0, 25, [lost, *stage("parse", EVEN, start=20).tasks])
    assert "failed" in [each.kind for each in found([failed])]


def test_a_small_set_is_the_drivers() -> None:
    stages = after(("parse", [0.2] * 4, None), ("write", [0.2] * 4, None))
    (trouble,) = found(stages, driver=4.0)
    assert (trouble.kind, trouble.parts) == ("driver", ["open", "driver", "publish"])


def test_the_files_are_looked_at_without_spark(tmp_path: Path) -> None:
    for name, size in (("a.csv.gz", 500), ("b.csv", 100), ("_c.csv", 900)):
        (tmp_path / name).write_bytes(b"x" * size)
    found = files_of(InputConfig(format="csv", path=str(tmp_path)))
    largest = str(tmp_path / "a.csv.gz")
    assert found == Files(files=2, bytes=600, largest=largest, largest_bytes=500, whole=1)
    assert files_of(InputConfig(format="table", table="a.b")) is None
