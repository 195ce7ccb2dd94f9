"""Which runs tune a comparison's strategies, and which values its own runs then have."""

import re

import pytest

from sparksplit.base.config import load, parse
from sparksplit.base.errors import ConfigError
from sparksplit.comparison.compare_config import CompareConfig
from sparksplit.comparison.plan import plan
from sparksplit.comparison.tuning.tries import tries, tuned, with_values

OUTER = {"strategy": "local", "sync": {"every": 8, "outer": "nesterov"}}
RATE = "optimizer.learning_rate"


def planned(**keys):
    """(the comparison's runs, what is tried for them)"""
    given = {"data": "d", "output": "o", "batch_size": 64, "seeds": 2, "epochs": 4, "tune": 3}
    config = parse(CompareConfig, {**given, **keys})
    runs = plan(config)
    return runs, tries(config, runs)


def groups(found):
    return list(dict.fromkeys(one.group for one in found))


def test_each_strategy_is_tuned_on_each_number_of_nodes_and_so_are_the_controls():
    runs, found = planned(strategies=["batch", "epoch", OUTER], nodes=[1, 2, 4])
    outer = "local, H = 8, nesterov"
    assert groups(found) == [
        ("single", 1, False), (outer, 1, False), ("single, batch_size = 128, learning_rate = 0.002 to 0.2", 1, False),
        ("single, batch_size = 32", 1, False), ("single, batch_size = 256, learning_rate = 0.004 to 0.4", 1, False),
        ("single, batch_size = 16", 1, False),
        ("epoch", 2, False), (outer, 2, False), ("epoch", 4, False), (outer, 4, False),
    ]  # fmt: skip
    assert len(found) == 3 * 10 and len({run.key for one in found for run in one.runs}) == 30
    assert not {run.key for one in found for run in one.runs} & {run.key for run in runs}
    for one in found:
        (run,) = one.runs
        assert run.tried and not run.reference and run.config.optimizer.learning_rate == one.values[RATE]
        assert run.config.epochs == runs[0].config.epochs


def test_what_is_the_same_on_any_number_of_nodes_is_tuned_once_on_the_smallest():
    runs, found = planned(strategies=["batch"], nodes=[1, 2, 4])
    assert groups(found) == [("single", 1, False)]
    assert {run.tuned_as for run in runs} == {("single", 1, False)}
    assert groups(planned(strategies=["batch"], nodes=[2, 4])[1]) == [("batch", 2, False)]


def test_virtual_nodes_are_tuned_on_virtual_ones():
    _, found = planned(strategies=["batch", "epoch"], nodes=[1], virtual=[2, 4])
    assert groups(found) == [("single", 1, False), ("epoch", 2, True), ("epoch", 4, True)]
    assert {run.processes for one in found for run in one.runs} == {1}


def test_seeds_of_tries_are_nobodys_else():
    runs, found = planned(strategies=["batch", "epoch"], nodes=[1, 2], tune={"tries": 2, "seeds": 3}, seed=7)
    for one in found:
        assert [run.config.seed for run in one.runs] == [2_000_007, 2_000_008, 2_000_009]
    assert not {run.config.seed for run in runs} & {2_000_007, 2_000_008, 2_000_009}


def test_the_runs_have_the_values_of_their_strategy_and_the_target_those_of_single():
    runs, found = planned(strategies=["batch", "epoch"], nodes=[1, 2])
    best = {group: next(one.values for one in found if one.group == group) for group in groups(found)}
    best["single", 1, False] = {RATE: 0.03}
    del best["epoch", 2, False]  # all its tries diverged
    own = tuned(runs, best)
    assert {(run.name, run.config.nodes, run.reference): run.config.optimizer.learning_rate for run in own} == {
        ("single", 1, False): 0.03, ("single", 1, True): 0.03, ("batch", 2, False): 0.03,
        ("single, batch_size = 128, learning_rate = 0.002 to 0.2", 1, False): 0.02, ("epoch", 2, False): 0.01,
    }  # fmt: skip
    assert [(run.key, run.config.seed) for run in own] == [(run.key, run.config.seed) for run in runs]


def test_a_run_with_tuned_values_is_that_of_who_gives_them():
    """Equal configurations have one hash and give the same bits."""
    runs, _ = planned(strategies=[OUTER], nodes=[2])
    given, _ = planned(strategies=[{"strategy": "local", "sync": {"every": 16, "outer": "nesterov"}}], nodes=[2],
                       optimizer={"learning_rate": 0.05}, tune=0)  # fmt: skip
    own = with_values(runs[0].config, {RATE: 0.05, "sync.every": 16})
    assert own.model_dump() == given[0].config.model_dump()


def test_untuned_nothing_is_tried():
    runs, found = planned(strategies=["batch", "epoch"], nodes=[1, 2], tune=0)
    assert found == [] and {run.tuned_as for run in runs} == {None} and tuned(runs, {}) == runs


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("tune: 1", ":4: tune: must be 0 or at least 2 (is 1): with one there is nothing to choose from"),
        (
            "tune:\n  tries: 4\n  keys:\n    sync.evry: [1, 2]",
            ":7: tune.keys.sync.evry: cannot be tuned: only sync.every, sync.outer_learning_rate, sync.outer_momentum, "
            "sync.after and the numbers of `optimizer` can; did you mean 'sync.every'?",
        ),
        ("tune:\n  tries: 4\n  keys:\n    batch_size: [1, 2]", ":7: tune.keys.batch_size: cannot be tuned: only "),
        (
            "tune:\n  tries: 4\n  keys:\n    sync.every: [8, 2]",
            ":7: tune.keys.sync.every: must go from a lower number to a higher one (is 8 to 2)",
        ),
        ("tune: {tries: 4, keys: {sync.every: [0, 2]}}", ":4: tune.keys.sync.every: must be above 0 (is 0)"),
        ("tune: {tries: 4, keys: {optimizer.momentum.x: [0.1, 2]}}", "momentum.x: cannot be tuned: only sync.every, "),
        ("tune: {tries: 4, keys: {optimizer..momentum: [0.1, 2]}}", "optimizer..momentum: cannot be tuned: only sync"),
        ("tune: {tries: 4, keys: {optimizer: [0.1, 2]}}", "tune.keys.optimizer: cannot be tuned: only sync.every, "),
        (
            "tune: {tries: 4, keys: {optimizer.ema_overwrite_frequency: [2.5, 8]}}\noptimizer: {use_ema: true}",
            ":4: tune.keys.optimizer.ema_overwrite_frequency: must be a whole number (is 2.5)",
        ),
        (
            "tune: {tries: 4, keys: {optimizer.learning_rate.decay_steps: [1, 3]}}\n"
            "optimizer: {learning_rate: {name: CosineDecay, initial_learning_rate: 1, decay_steps: 2}}",
            ":4: tune.tries: must be at most 3 (is 4): optimizer.learning_rate.decay_steps: 1 to 3 has no more values",
        ),
        (
            "tune: {tries: 4, keys: {sync.every: [2, 8]}}",
            ":4: tune.keys.sync.every: no strategy of single, epoch has it",
        ),
        (
            "tune: {tries: 4, keys: {sync.every: [0.1, 4]}}\nstrategies: [local]",
            ":4: tune.keys.sync.every: must be a whole number (is 0.1)",
        ),
        (
            "tune: {tries: 4, keys: {sync.every: [2, 7.5]}}\nstrategies: [local]",
            ":4: tune.keys.sync.every: must be a whole number (is 7.5)",
        ),
        (
            "tune:\n  tries: 4\n  keys:\n    optimizer.learning_rate: [0.1, 1]\n    optimizer.momentum: [0.5, 2]",
            ":8: tune.keys.optimizer.momentum: must be at most 1 (is 2)",
        ),
        (
            "tune: {tries: 4, keys: {optimizer.nesterov: [0, 1]}}\noptimizer: {nesterov: true}",
            ":4: tune.keys.optimizer.nesterov: cannot be tuned: it is true or false",
        ),
        (
            "tune: {tries: 4, keys: {optimizer.momentum: [0.5, 0.9], optimizer.ema_momentum: [0.5, 1.5]}}\n"
            "optimizer: {use_ema: true}",
            ":4: tune.keys.optimizer.ema_momentum: must be at most 1 (is 1.5)",
        ),
        (
            "tune: {tries: 4, keys: {optimizer.learning_rate.staircase: [0.5, 2]}}\noptimizer: {learning_rate: "
            "{name: ExponentialDecay, initial_learning_rate: 1, decay_steps: 2, decay_rate: 0.5}}",
            ":4: tune.keys.optimizer.learning_rate.staircase: cannot be tuned: it is true or false",
        ),
        (
            "tune: {tries: 4, keys: {optimizer.learning_rate.name: [0.5, 2]}}",
            "optimizer.learning_rate.name: cannot be tuned",
        ),
        (
            "tune: {tries: 4, keys: {sync.outer_momentum: [0.5, 2]}}\n"
            "strategies: [{strategy: local, sync: {outer: momentum}}]",
            ":4: tune.keys.sync.outer_momentum: must be below 1 (is 2)",
        ),
        (
            "tune: 4\noptimizer: {learning_rate: {name: CosineDecay, initial_learning_rate: 1, decay_steps: 2}}",
            ":4: tune: single: optimizer.learning_rate is a schedule: give the range of one of its",
        ),
        (
            "tune: {tries: 4, keys: {sync.every: [2, 8]}}\n"
            "strategies: [{strategy: local, sync: {every: 2}}, {strategy: local, sync: {every: 4}}]",
            ":5: strategies: several are local, H = 2 to 8, but for what is tuned: leave one of them",
        ),
    ],
)
def test_a_mistake_is_one_line_with_its_place(tmp_path, text, problem):
    file = tmp_path / "compare.yaml"
    own = "" if "strategies" in text else "strategies: [batch, epoch]\n"
    file.write_text(f"data: d\noutput: o\nnodes: [1, 2]\n{text}\n{own}")
    with pytest.raises(ConfigError, match=re.escape(problem)) as caught:
        config = load(CompareConfig, str(file))
        tries(config, plan(config))
    assert "\n" not in str(caught.value) and str(file) in str(caught.value)


def test_an_argument_that_the_optimizer_does_not_have_is_told_at_its_range(tmp_path):
    file = tmp_path / "compare.yaml"
    file.write_text(
        "data: d\noutput: o\nstrategies: [batch]\ntune: {tries: 4, keys: {optimizer.momntum: [0.5, 0.9]}}\n"
    )
    config = load(CompareConfig, str(file))
    with pytest.raises(ConfigError, match="momntum: SGD has no such argument; did you mean 'momentum'") as caught:
        tries(config, plan(config))
    assert str(caught.value).startswith(f"{file}:4: tune.keys.optimizer.momntum: ")


def test_what_is_wrong_without_a_range_is_not_told_of_it(tmp_path):
    keys = {"data": "d", "output": "o", "transform": f"{tmp_path}/none.py:f", "strategies": ["batch"]}
    config = parse(CompareConfig, {**keys, "tune": {"tries": 2, "keys": {"optimizer.momentum": [0.5, 0.9]}}})
    with pytest.raises(ConfigError, match=r"^transform: "):
        tries(config, plan(config))


def test_what_is_wrong_is_told_where_it_was_given(tmp_path):
    """Also of what turns out only when the runs' names are looked up, with or without a range."""
    file = tmp_path / "compare.yaml"
    strategy = "strategies:\n- batch\n- strategy: epoch\n  optimizer: {momntum: 0.5}\n"
    file.write_text(f"data: d\noutput: o\noptimizer: {{name: sgd}}\ntune: 2\n{strategy}")
    config = load(CompareConfig, str(file), ["optimizer.name=sgdd"])
    with pytest.raises(ConfigError, match="Keras has no 'sgdd'") as caught:
        tries(config, plan(config))
    assert str(caught.value).startswith("--set optimizer.name=sgdd: optimizer.name: ")
    config = load(CompareConfig, str(file))
    with pytest.raises(ConfigError, match="SGD has no such argument") as caught:
        tries(config, plan(config))
    assert str(caught.value).startswith(f"{file}:8: optimizer.momntum: ")
