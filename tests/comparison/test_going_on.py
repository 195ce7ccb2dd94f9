"""When a comparison tries a run again, without Spark."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest

from sparksplit.base.config import digest
from sparksplit.base.errors import ConfigError, Diverged, NodeFailed, NotStarted, Passing
from sparksplit.comparison import compare as compare_module
from sparksplit.comparison.checks import check
from sparksplit.comparison.compare import _Comparison
from sparksplit.comparison.compare_config import CompareConfig
from sparksplit.comparison.comparison_record import Measured
from sparksplit.comparison.content import FORMAT_VERSION
from sparksplit.comparison.plan import plan
from sparksplit.comparison.work import Search, Work
from sparksplit.dataset.joined import open_joined
from sparksplit.training.recovery import restarts
from sparksplit.training.recovery.restarts import Restarts
from tests.replaced import replaced

LOST = NodeFailed("node 1 on host7 was killed (SIGKILL)", 1)
LATE = "0 of 2 nodes have registered within 120 s"
AWAY = Passing("hdfs://n/runs: HDFS has failed for 120 s")


def tried(tmp_path, monkeypatch, failures, looks=()):
    """(how often one run's nodes were started, the pauses), where the starts fail with `failures` and then do not, and
    looks for its record with `looks`."""
    pauses, started, failures, looks = [], [], list(failures), list(looks)
    config = SimpleNamespace(max_restarts=3)
    one = SimpleNamespace(key="a", cluster=2, config=config, processes=2)

    def cluster(self, spark, work, display):
        started.append(work)
        if failures:
            raise failures.pop(0)
        self.records["a"] = "record"

    def exists(path):
        if looks and (error := looks.pop(0)) is not None:
            raise error
        return False

    for module in (compare_module, restarts):
        replaced(monkeypatch, module, "time", sleep=pauses.append)
    monkeypatch.setattr(compare_module.filesystem, "exists", exists)
    monkeypatch.setattr(compare_module.Measured, "read", lambda _: Measured())
    monkeypatch.setattr(
        compare_module, "ComparisonDisplay", lambda *_: nullcontext(SimpleNamespace(begin=lambda _: None))
    )
    monkeypatch.setattr(_Comparison, "_cluster", cluster)
    data = SimpleNamespace(manifest=SimpleNamespace(splits={"train": SimpleNamespace(rows=1)}))
    output = SimpleNamespace(folder=str(tmp_path), path=str(tmp_path), extending=False)
    comparison = _Comparison(None, data, output, [Work(one, None, "hash", Restarts(3))])
    comparison.run(None)
    return len(started), pauses


def test_a_file_system_that_is_away_for_the_driver_too_is_waited_for(tmp_path, monkeypatch):
    assert tried(tmp_path, monkeypatch, [AWAY], [None, None, AWAY, AWAY]) == (2, [0, 5, 0])
    with pytest.raises(Passing, match="HDFS has failed"):
        tried(tmp_path, monkeypatch, [AWAY], [None, None, *[AWAY] * 4])


def test_nodes_that_do_not_start_may_do_so_later_once_others_have_been_lost(tmp_path, monkeypatch):
    assert tried(tmp_path, monkeypatch, [LOST, NotStarted(LATE)]) == (3, [0, 5])
    with pytest.raises(NotStarted):
        tried(tmp_path, monkeypatch, [NotStarted(LATE)])


def test_a_loss_that_is_no_number_ends_a_run_and_its_words_in_another_error_do_not(tmp_path, monkeypatch):
    """A run that diverged has a record, and is not tried again."""
    written = []
    monkeypatch.setattr(compare_module.Measured, "read", lambda _: Measured())
    monkeypatch.setattr(
        compare_module, "DivergedRun", lambda **known: SimpleNamespace(to_json=lambda: known["diverged"])
    )
    words = "node 1 on host7: epoch 1, step 3: the loss is nan"
    for error, recorded in ((Diverged(words, 1), [words]), (NodeFailed(words, 1), [])):
        output = SimpleNamespace(
            folder=str(tmp_path), path="", fence=SimpleNamespace(write_json=lambda _, own: written.append(own))
        )
        config = SimpleNamespace(node_count=2, virtual=False, seed=1, model_dump=lambda mode: {"nodes": 2})
        one = SimpleNamespace(key="a", name="batch", config=config)
        comparison = _Comparison(None, None, output, [Work(one, None, "hash", Restarts(3))])
        comparison._failed(comparison.work[0], error)
        assert written == recorded
        written.clear()


def looked(monkeypatch, seeds, most, undecided, virtual=(), recorded=()):
    """(the numbers of seeds that were run, the executors of each session that was started), where so many differences
    are undecided after each look, and runs with these endings have a record."""
    left, ran, sessions = list(undecided), [], []

    def session(name, executors):
        sessions.append(executors)
        return nullcontext(SimpleNamespace(sparkContext=SimpleNamespace(applicationId="app")))

    config = CompareConfig(data="d", output="o", seeds=seeds, max_seeds=most, nodes=[1, 2], virtual=list(virtual),
                           strategies=["batch", "epoch"] if virtual else ["batch"])  # fmt: skip
    output = SimpleNamespace(
        path="o", folder="o", lease=SimpleNamespace(tell=lambda _: None), complete=lambda: None,
        fence=SimpleNamespace(write_json=lambda *_: None, write_bytes=lambda *_: None),
    )  # fmt: skip
    monkeypatch.setattr(compare_module.Measured, "read", lambda _: Measured())
    endings = tuple(f"{ending}.json" for ending in recorded)
    monkeypatch.setattr(compare_module.filesystem, "exists", lambda path: path.endswith(endings))
    monkeypatch.setattr(compare_module, "read_run", lambda *_: "record")
    monkeypatch.setattr(compare_module, "spark_session", session)
    monkeypatch.setattr(compare_module, "render", lambda *_: "")
    monkeypatch.setattr(compare_module, "undecided", lambda _: left.pop(0))
    monkeypatch.setattr(
        _Comparison, "run", lambda self, _: ran.append(sorted({one.run.config.seed for one in self.pending()}))
    )
    monkeypatch.setattr(
        _Comparison, "results", lambda _: SimpleNamespace(runs=[], virtual=[], references=[], to_json=dict)
    )
    work = [Work(one, None, "hash", Restarts(3)) for one in plan(config)]
    compare_module._fill(_Comparison(config, None, output, work), Search())
    return [len([seed for seed in own if seed < 1000]) for own in ran], sessions


def test_without_validation_rows_nothing_is_tuned_and_it_says_what_to_do():
    splits = {name: SimpleNamespace(rows=rows) for name, rows in (("train", 9), ("validation", 0), ("test", 9))}
    data = SimpleNamespace(path="here", manifest=SimpleNamespace(lanes=96, splits=splits))
    config = CompareConfig(data="d", output="o", tune=2, strategies=["batch"])
    with pytest.raises(ConfigError, match=r"tune: here: has no validation rows, .* prepare it with validation: 0.1"):
        check(config, plan(config), data)


def test_runs_on_rows_that_depend_on_each_other_tell_nothing_of_them():
    config = CompareConfig(data="d", output="o", nodes=[1, 2], strategies=["batch"])
    for dependent, wanted in ((None, {False, True}), ("windows", {False}), ("key", {False})):
        manifest = SimpleNamespace(dependent=dependent)
        assert {compare_module._samples_rows(one, manifest) for one in plan(config)} == wanted


def test_seeds_are_added_until_all_is_decided_or_there_are_as_many_as_allowed(monkeypatch):
    assert looked(monkeypatch, 2, 9, [3, 1, 0]) == ([2, 4, 8], [2])
    assert looked(monkeypatch, 2, 9, [3, 1, 1, 1]) == ([2, 4, 8, 9], [2])
    assert looked(monkeypatch, 2, None, [3]) == ([2], [2])


def test_after_a_resume_the_session_is_large_enough_for_later_looks(monkeypatch):
    """Was started for the virtual runs alone that the first look still lacked: one executor, and the next needs two."""
    real = ["-n1-s1", "-n1-s2", "-n2-s1", "-n2-s2", *(f"reference-n1-s{1_000_000 + seed}" for seed in (1, 2, 3))]
    ran, sessions = looked(monkeypatch, 2, 4, [1, 0], virtual=[4], recorded=real)
    assert (ran, sessions) == ([1, 3], [2])  # the virtual runs' seed, and then two more
    assert looked(monkeypatch, 2, None, [0], virtual=[4], recorded=real)[1] == [1]


@pytest.mark.parametrize(
    "changed",
    [{"readers": 4}, {"cache_mb": 0}, {"tls": True}, {"bind": "10.1.0.0/16"}, {"input_mode": "spark"}],
)
def test_a_run_is_made_again_if_a_key_that_changes_its_times_has_changed(digits, changed):
    """Was: records of one node stayed, beside runs on two nodes with more readers. References, tries and virtual nodes
    have no times that count, and stay."""
    data = open_joined(str(digits))

    def hashes(**keys):
        """(the hashes of the runs whose times count, the other hashes), by key."""
        config = CompareConfig(data=str(digits), output="o", nodes=[1, 2], virtual=[4], seeds=1, tune=2,
                               strategies=["batch", "epoch"], **keys)  # fmt: skip
        runs = plan(config)
        work = [*(Work.of(run, data) for run in runs), *Search.of(config, runs, data).work]
        by_key = {one.run.key: one for one in work}
        untimed = {key for key, one in by_key.items() if one.run.reference or one.run.tried or one.run.config.virtual}
        return {key: by_key[key].hash for key in by_key.keys() - untimed}, {key: by_key[key].hash for key in untimed}

    (timed, others), (again, same) = hashes(), hashes(**changed)
    assert timed.keys() == again.keys() and all(timed[key] != again[key] for key in timed)
    assert others == same and len(others) > 3


def test_a_run_from_before_a_key_that_changes_times_keeps_its_hash(digits):
    """Where the key has its default value."""
    (run, *_) = plan(CompareConfig(data=str(digits), output="o", strategies=["batch"], nodes=[1], seeds=1))
    work = Work.of(run, open_joined(str(digits)))
    assert work.hash == digest({"run": work.inputs.hash(), "format_version": FORMAT_VERSION})
    other = replace(run, config=run.config.model_copy(update={"readers": 0}))
    assert (run.timing, other.timing) == ({}, {"readers": 0})
