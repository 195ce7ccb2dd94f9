"""Which runs a comparison has."""

import json
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.base.config import load, parse
from sparksplit.base.errors import ConfigError
from sparksplit.comparison.compare_config import CompareConfig, adds_seeds
from sparksplit.comparison.plan import epochs, label, plan
from sparksplit.strategies import STRATEGIES

PLAIN = {"strategy": "local", "sync": {"every": 8}}
LOCAL = {"strategy": "local", "sync": {"every": 8, "outer": "nesterov"}}


def planned(**keys):
    return [run for run in plan(parse(CompareConfig, {"data": "d", "output": "o", **keys})) if not run.reference]


def references(**keys):
    return [run for run in plan(parse(CompareConfig, {"data": "d", "output": "o", **keys})) if run.reference]


def test_strategies_times_nodes_times_seeds_with_the_same_seeds():
    runs = planned(strategies=["single", "batch", "epoch", PLAIN], nodes=[1, 2], seeds=3, seed=7, epochs=4)
    assert len({run.key for run in runs}) == len(runs) == 3 * (1 + 2 + 3)
    for strategy, nodes in (("single", 1), ("batch", 2), ("epoch", 2), ("local, H = 8", 2)):
        found = [run.config.seed for run in runs if (run.name, run.config.node_count) == (strategy, nodes)]
        assert found == [7, 8, 9]
    # Those of one node first, so that each number of processes needs one cluster.
    assert [run.processes for run in runs] == [1] * 9 + [2] * 9
    assert runs[0].key == "single-n1-s7" and runs[-1].key == "local-h-8-n2-s9"


def test_further_seeds_are_planned_and_belong_to_later_looks():
    runs = plan(parse(CompareConfig, {
        "data": "d", "output": "o", "strategies": ["batch", "epoch"], "nodes": [1, 2], "virtual": [4], "seeds": 2,
        "max_seeds": 5, "seed": 7,
    }))  # fmt: skip
    assert len(runs) == 4 * 5 + 1 + 2
    counts = [sum(run.is_within(7, seeds) for run in runs) for seeds in (2, 4, 5)]
    assert counts == [4 * 2 + 3, 4 * 4 + 3, 4 * 5 + 3]


def test_on_one_node_all_strategies_are_one_run():
    runs = planned(strategies=["batch", "epoch", "epoch-delayed", PLAIN], nodes=[1], seeds=2)
    assert [(run.name, run.config.strategy) for run in runs] == [("single", "single")] * 2


def test_a_strategy_with_keys_of_its_own_keeps_them_on_one_node():
    runs = planned(
        strategies=["single", {**PLAIN, "batch_size": 16}, {"strategy": "single", "batch_size": 8}], nodes=[1], seeds=1
    )
    assert [(run.name, run.config.batch_size) for run in runs] == [
        ("single", 64), ("single, batch_size = 16", 16), ("single, batch_size = 8", 8)
    ]  # fmt: skip


def test_runs_that_sum_by_another_collective_have_a_cluster_of_their_own():
    """A process has one collective: the second strategy's runs took the first one's."""
    others = [{"strategy": "batch", "collective": name} for name in ("a.py:mine", "tensorflow")]
    strategies = ["batch", *others, LOCAL]
    runs = planned(strategies=strategies, nodes=[1, 2], virtual=[3], seeds=2)
    assert [(run.cluster, run.name) for run in runs if not run.config.virtual] == [
        *[((1, None), strategy) for strategy in ("single", "local, H = 8, nesterov", "single, batch_size = 32")] * 2,
        *[((2, "auto"), "batch"), ((2, "auto"), "local, H = 8, nesterov")] * 2,
        *[((2, "tensorflow"), "batch, collective = tensorflow")] * 2,
        *[((2, "a.py:mine"), "batch, collective = a.py:mine")] * 2,
    ]
    assert {run.cluster for run in runs if run.config.virtual} == {(1, None)}


def test_virtual_batch_is_single_and_does_not_run():
    runs = planned(strategies=["single", "batch", "epoch"], nodes=[1, 2], virtual=[4], seeds=1)
    assert [run.key for run in runs if run.config.virtual] == ["epoch-n4-virtual-s1"]
    assert runs[-1].config.virtual and runs[-1].processes == 1


def test_virtual_runs_are_left_out_where_the_strategy_says_that_they_are_those_of_one_node(tmp_path):
    """Whatever its name: a user's own strategy with the same result on any nodes ran on virtual ones for nothing."""
    same, other = own_strategy(tmp_path, "same", more=", any_nodes=True"), own_strategy(tmp_path, "other")
    runs = planned(strategies=["single", same, other], nodes=[1, 2], virtual=[4], seeds=1)
    assert [run.config.strategy for run in runs if run.config.virtual] == [other]


@pytest.mark.parametrize(("strategies", "expected"), [(["batch", LOCAL], 10), (["batch", "epoch-delayed"], 12)])
def test_epochs_are_raised_where_nodes_share_epochs(strategies, expected):
    runs = planned(strategies=strategies, nodes=[1, 2, 3], virtual=[4], epochs=10)
    assert {run.config.epochs for run in runs} == {expected}


@given(st.integers(1, 500), st.lists(st.integers(1, 12), min_size=1, max_size=4))
def test_every_number_of_nodes_divides_the_epochs(asked, numbers):
    found = epochs(asked, numbers)
    assert all(found % number == 0 for number in numbers)
    assert asked <= found < asked + math.lcm(*numbers)


def test_numbers_of_nodes_that_would_make_too_many_epochs_are_refused_with_what_to_ask_for():
    with pytest.raises(ConfigError) as caught:
        planned(strategies=["batch", "epoch"], nodes=[1, 2, 3, 5, 7, 8], epochs=10)
    assert str(caught.value).startswith("nodes: all passes are equal only if every number of nodes divides the epochs")
    assert "10 would become 840: leave out 3, 7, 8 (then 10 are run), or ask for epochs: 840" in str(caught.value)
    assert {run.config.epochs for run in planned(strategies=["epoch"], nodes=[1, 2, 5], epochs=10)} == {10}
    whole = planned(strategies=["epoch"], nodes=[1, 2, 3, 5, 7, 8], epochs=840, seeds=1)
    assert {run.config.epochs for run in whole} == {840}
    # Where every node reads a part of each epoch, all numbers do.
    assert {run.config.epochs for run in planned(strategies=["batch", LOCAL], nodes=[3, 7, 8], epochs=10)} == {10}
    assert {run.config.epochs for run in planned(strategies=["epoch"], nodes=[1], virtual=[32], epochs=10)} == {32}


@given(st.integers(1, 60), st.lists(st.integers(1, 16), min_size=1, max_size=5, unique=True))
def test_what_a_refusal_asks_for_is_accepted(asked, numbers):
    try:
        assert {run.config.epochs for run in planned(strategies=["epoch"], nodes=numbers, epochs=asked, seeds=1)} == {
            epochs(asked, numbers)
        }
    except ConfigError as error:
        left, then, more = re.search(
            r"leave out ([\d, ]+) \(then (\d+) are run\), or ask for epochs: (\d+)", str(error)
        ).groups()
        kept = [number for number in numbers if str(number) not in left.split(", ")]
        runs = planned(strategies=["epoch"], nodes=kept, epochs=asked, seeds=1)
        assert {run.config.epochs for run in runs} == {int(then)}
        assert {
            run.config.epochs for run in planned(strategies=["epoch"], nodes=numbers, epochs=int(more), seeds=1)
        } == {int(more)}


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({"strategy": "batch"}, "batch"),
        ({"strategy": "local"}, "local, H = 32"),
        ({"strategy": "local", "sync": {"every": 4, "after": 9}}, "local, H = 4, after 9 updates"),
        ({"strategy": "mine.py:apart"}, "apart, H = 32"),
        ({"strategy": "epoch", "batch_size": 128}, "epoch, batch_size = 128"),
        ({"strategy": "folder/mine.py:majority_vote"}, "majority_vote"),
    ],
)  # fmt: skip
def test_a_strategy_is_called_by_what_it_says(values, name):
    mine = {"folder/mine.py:majority_vote": STRATEGIES["batch"], "mine.py:apart": STRATEGIES["local"]}
    assert label(values, (STRATEGIES | mine)[values["strategy"]]) == name


def own_strategy(folder, name, function="vote", split="BatchSplit()", more=""):
    """The name of a strategy in a file of its own."""
    file = folder / name / "vote.py"
    file.parent.mkdir()
    file.write_text(
        "from sparksplit.strategies import Strategy\n"
        "from sparksplit.strategies.splits import BatchSplit, EpochSplit, LaneSplit\n"
        f"from sparksplit.strategies.syncs import StepSync\n\n"
        f"def {function}():\n    return Strategy({split}, StepSync{more})\n"
    )
    return f"{file}:{function}"


def test_strategies_of_ones_own_with_the_same_function_name_are_two(tmp_path):
    one, other = own_strategy(tmp_path, "one"), own_strategy(tmp_path, "other")
    runs = planned(strategies=[one, other, {"strategy": one, "batch_size": 16}], nodes=[2], seeds=1)
    assert [run.config.strategy for run in runs] == [one, other, one]
    assert [run.name for run in runs] == [one, other, f"{one}, batch_size = 16"]
    assert len({run.key for run in runs}) == 3
    (run,) = planned(strategies=[one], nodes=[2], seeds=1)
    assert (run.name, run.key) == ("vote", "vote-n2-s1")


def test_names_that_differ_in_case_only_have_a_record_each(tmp_path):
    strategies = [{"strategy": "batch", "model": {"params": {"activation": name}}} for name in ("relu", "ReLU")]
    runs = planned(strategies=strategies, nodes=[2], seeds=1)
    assert len({run.key.lower() for run in runs}) == len({run.name for run in runs}) == 2


def test_a_strategy_of_ones_own_is_never_taken_for_the_products(tmp_path):
    mine = own_strategy(tmp_path, "mine", "batch")
    runs = planned(strategies=["batch", mine], nodes=[2], seeds=1)
    assert [(run.name, run.config.strategy) for run in runs] == [("batch", "batch"), (mine, mine)]


def test_epochs_are_raised_for_a_strategy_of_ones_own_that_splits_them(tmp_path):
    runs = planned(strategies=[own_strategy(tmp_path, "mine", split="EpochSplit()")], nodes=[1, 3], epochs=10, seeds=1)
    assert {run.config.epochs for run in runs} == {12}


def test_a_strategy_of_ones_own_for_one_node_runs_there_only(tmp_path):
    runs = planned(strategies=["single", own_strategy(tmp_path, "mine", more=", alone=True")], nodes=[1, 2], seeds=1)
    assert [(run.name, run.config.node_count) for run in runs] == [("single", 1), ("vote", 1)]


def test_nodes_with_mini_batches_of_their_own_lanes_cannot_agree_at_every_step(tmp_path):
    """They have other numbers of steps, and each divides by the rows of its own: was a sum without the other node."""
    told = r"strategies.0.strategy: .* with split.dealt_apart, sync.every_step must be False"
    with pytest.raises(ConfigError, match=told):
        planned(strategies=[own_strategy(tmp_path, "mine", split="LaneSplit()")], nodes=[1, 2], seeds=1)


def test_what_says_the_same_is_one_run_by_the_shorter_name():
    runs = planned(strategies=[{"strategy": "batch", "batch_size": 64}, "single"], nodes=[1, 2], seeds=2, batch_size=64)
    assert [(run.name, run.config.node_count) for run in runs] == [("single", 1)] * 2 + [
        ("batch, batch_size = 64", 2)
    ] * 2


def test_one_node_with_the_comparisons_own_keys_is_what_all_are_compared_with_however_it_is_said():
    """Whichever strategies are beside it: `single` need not be named."""
    for strategies in (
        [{"strategy": "batch", "batch_size": 64}],
        [{"strategy": "local", "batch_size": 64}],
        [{"strategy": "single", "batch_size": 64}, LOCAL],
        [{"strategy": "local", "optimizer": {"learning_rate": 0.01}}],
    ):
        runs = planned(strategies=strategies, nodes=[1, 2], seeds=1)
        on_one = [run for run in runs if run.config.node_count == 1]
        assert [run.key for run in on_one if run.name == "single"] == ["single-n1-s1"]


def test_an_outer_optimiser_makes_a_strategy_on_one_node_more_than_single():
    """Was: `single`, whatever the sync, so that nobody could tell momentum from splitting."""
    runs = planned(strategies=[LOCAL], nodes=[1, 2], seeds=2)
    assert [(run.name, run.config.node_count) for run in runs] == [
        *[("local, H = 8, nesterov", 1), ("single", 1), ("single, batch_size = 32", 1)] * 2,
        *[("local, H = 8, nesterov", 2)] * 2,
    ]  # fmt: skip
    assert runs[0].config.sync.outer == "nesterov" and runs[0].key == "local-h-8-nesterov-n1-s1"


def test_the_target_has_runs_of_single_on_seeds_that_nothing_is_compared_on():
    found = references(strategies=["batch", "epoch"], nodes=[1, 2], seeds=5, seed=7, virtual=[4])
    assert [run.config.seed for run in found] == [1_000_007, 1_000_008, 1_000_009]
    assert {(run.config.strategy, run.config.nodes) for run in found} == {("single", 1)}
    assert len(references(strategies=["batch"], nodes=[1, 2], seeds=1)) == 1
    # Nothing is compared with `single` there.
    assert references(strategies=["batch"], nodes=[2], seeds=5) == []
    assert references(strategies=[{"strategy": "batch", "batch_size": 8}], nodes=[1, 2], seeds=5) == []


def test_what_all_runs_share_and_what_a_strategy_says():
    runs = planned(
        strategies=["batch", {**LOCAL, "optimizer": {"momentum": 0.5}}], nodes=[2], seeds=1,
        optimizer={"name": "sgd", "learning_rate": 0.1}, metrics=["accuracy"],
    )  # fmt: skip
    batch, local = (run.config for run in runs)
    assert batch.optimizer.model_dump() == {"name": "sgd", "learning_rate": 0.1}
    assert local.optimizer.model_dump() == {"name": "sgd", "learning_rate": 0.1, "momentum": 0.5}
    assert (local.sync.every, local.metrics) == (8, ["accuracy"])


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "strategies: [bacth]",
            "strategies.0: strategy: must be one of single, batch, epoch, epoch-delayed, local, or a function that "
            "returns a strategy (is 'bacth'); did you mean 'batch'?",
        ),
        ("strategies:\n  - batch\n  - {strategy: local, sync: {evry: 3}}", ":5: strategies.1: sync.evry: unknown key"),
        ("strategies: [{split: batch}]", ":3: strategies.0: must name its strategy: one of"),
        ("strategies: [{sync: {every: 3}}]", "strategies.0: must name its strategy"),
        ("strategies: [auto]", "strategies.0: must not be auto, which chooses its nodes by itself: write single and"),
        ("strategies: [{strategy: batch, nodes: 3}]", "strategies.0.nodes: is the same for all strategies"),
        ("strategies: [{strategy: batch, device: cpu}]", "strategies.0.device: is the same for all strategies"),
        (
            "strategies: [{strategy: batch, deterministic: false}]",
            "strategies.0.deterministic: is the same for all strategies",
        ),
        ("strategies: [{strategy: batch, threads: 3}]", "strategies.0.threads: is the same for all strategies"),
        ("early_stop: {patience: 3}", ":3: early_stop: is for train: runs are compared at equal passes, by their last"),
        ("keep_best: true", ":3: keep_best: is for train: runs are compared at equal passes, by their last weights"),
        ("strategies: [{strategy: batch, early_stop: {}}]", ":3: strategies.0.early_stop: is for train: runs are"),
        (
            "strategies:\n  - single\n  - strategy: local\n    tls: true",
            ":6: strategies.1.tls: is the same for all strategies; give it beside `strategies`",
        ),
        (
            "strategies: [{strategy: batch, min_nodes: 1}]",
            ":3: strategies.0.min_nodes: is for train: a run of a comparison always has all of its nodes",
        ),
        (
            "strategies: [{strategy: local, checkpoint: {seconds: 5}}]",
            ":3: strategies.0.checkpoint: is for train: a run of a comparison writes no checkpoints",
        ),
        ("checkpoint: {seconds: 5}", ":3: checkpoint: is for train: a run of a comparison writes no checkpoints"),
        ("strategies: [{strategy: batch, sync: {every: 3}}]", "sync needs strategy: local"),
        ("strategies: [batch, none.py:vote]", ":3: strategies.1.strategy: none.py"),
        ("strategies: [single]\nnodes: [2]", ":4: nodes: no strategy of single runs on so many: add 1"),
        ("nodes: [2, 2]", ":3: nodes: has a number twice (is [2, 2])"),
        ("virtual: [4, 4]", ":3: virtual: has a number twice (is [4, 4])"),
        ("virtual: [1, 4]", ":3: virtual: must be numbers from 2 on (is [1, 4]): give 1 in `nodes`"),
        ("seeds: 0", "seeds: must be"),
        ("margin: 1", "margin: must be below 1"),
        ("seeds: 5\nmax_seeds: 4", ":4: max_seeds: must be at least seeds, 5 (is 4)"),
        ("comparison: other", ":3: comparison: is for train: a comparison decides by its own runs"),
        ("collective: auto", ":3: collective: belongs to one strategy: give it within `strategies`"),
        ("input_mode: flight", ":3: input_mode: must be"),
        (
            "strategies: [{strategy: batch, input_mode: spark}]",
            "strategies.0.input_mode: is the same for all strategies",
        ),
    ],
)
def test_a_mistake_is_one_line_with_its_place(tmp_path, text, problem):
    file = tmp_path / "compare.yaml"
    file.write_text(f"data: d\noutput: o\n{text}\n")
    with pytest.raises(ConfigError) as caught:
        plan(load(CompareConfig, str(file)))
    assert str(file) in str(caught.value) and problem in str(caught.value), str(caught.value)
    assert "\n" not in str(caught.value)


CLUSTER = {
    "tls": True, "ports": "40000-40100", "bind": "10.1.0.0/16", "queue_timeout": 601.0, "start_timeout": 602.0,
    "stall_timeout": 603.0, "phase_timeout": 604.0,
}  # fmt: skip
"""Keys of a cluster, which the runs of several strategies share, with values that are no defaults."""


@pytest.mark.parametrize("key", CLUSTER)
def test_a_key_of_the_cluster_is_not_a_strategys_own(key):
    """Was accepted and ignored: a cluster has the keys of its first run."""
    with pytest.raises(ConfigError) as caught:
        planned(strategies=["batch", {"strategy": "local", key: CLUSTER[key]}], nodes=[2])
    assert str(caught.value) == f"strategies.1.{key}: is the same for all strategies; give it beside `strategies`"


def test_the_keys_of_the_cluster_beside_the_strategies_are_those_of_all_runs():
    runs = planned(strategies=["batch", "local"], nodes=[1, 2], seeds=1, **CLUSTER)
    assert {run.name for run in runs} == {"single", "single, batch_size = 32", "batch", "local, H = 32"}
    assert all({key: getattr(run.config, key) for key in CLUSTER} == CLUSTER for run in runs)


def test_neither_the_folder_nor_time_limits_make_another_comparison_but_other_times_do() -> None:
    keys = CompareConfig(data="d", output="o").keys
    assert not keys.keys() & {"data", "output", "ports", "max_restarts", "start_timeout", "stall_timeout"}
    assert {"readers", "cache_mb", "bind", "tls", "input_mode", "seed", "strategies", "nodes", "seeds"} <= keys.keys()


@pytest.mark.parametrize(
    ("then", "now", "adds"),
    [
        ({"seeds": 1}, {"seeds": 5}, True),
        ({"seeds": 5}, {"seeds": 1}, False),
        ({"seeds": 5}, {"seeds": 5}, False),
        ({"seeds": 5}, {"seeds": 5, "max_seeds": 20}, True),
        ({"seeds": 5, "max_seeds": 20}, {"seeds": 10}, False),
        ({"seeds": 5, "max_seeds": 20}, {"seeds": 10, "max_seeds": 20}, True),
        ({"seeds": 8}, {"seeds": 2, "max_seeds": 8}, False),
        ({"seeds": 8}, {"seeds": 2, "max_seeds": 16}, False),
        ({"seeds": 5}, {"seeds": 6, "margin": 0.01}, False),
        ({"seeds": 5}, {"seeds": 6, "nodes": [1, 2, 4]}, False),
        ({"seeds": 5}, {"seeds": 6, "readers": 4}, False),
        ({"seeds": 5, "tls": True}, {"seeds": 6}, False),
    ],
)
def test_a_comparison_adds_seeds_to_another(then, now, adds):
    before, after = (CompareConfig(data="d", output="o", **keys).keys for keys in (then, now))
    assert adds_seeds(json.loads(json.dumps(before)), after) == adds
    assert not adds_seeds({}, after)
