import pytest

from sparksplit.base.config import load, parse
from sparksplit.base.errors import ConfigError
from sparksplit.strategies import STRATEGIES
from sparksplit.training.train_config import TrainConfig

LEAST = {"data": "d", "output": "o"}


def test_the_defaults_are_one_node_and_an_mlp():
    config = parse(TrainConfig, LEAST)
    assert (config.strategy, config.nodes, config.model.build) == ("single", 1, "mlp")
    assert (config.checkpoint.seconds, config.checkpoint.every, config.checkpoint.keep) == (60, None, 3)


def test_every_strategy_of_the_table_is_a_value_of_the_key():
    for name in STRATEGIES:
        assert parse(TrainConfig, {**LEAST, "strategy": name}).strategy == name


def test_single_has_one_node_real_or_virtual():
    one = parse(TrainConfig, {**LEAST, "strategy": "single", "nodes": {"virtual": 1}})
    assert one.virtual and (one.node_count, one.processes) == (1, 1)
    with pytest.raises(ConfigError, match=r"nodes must be 1 with strategy: single \(is 2\)"):
        parse(TrainConfig, {**LEAST, "strategy": "single", "nodes": {"virtual": 2}})


def test_an_optimizers_own_arguments_are_kept():
    config = parse(TrainConfig, {**LEAST, "optimizer": {"name": "sgd", "momentum": 0.9, "nesterov": True}})
    assert config.optimizer.model_extra == {"momentum": 0.9, "nesterov": True}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "nodes: 2",
            "nodes must be 1 with strategy: single (is 2); strategy: batch uses several",
        ),
        ("nodes: 0", "nodes: must be above 0 (is 0)"),
        (
            "strategy: auto\nnodes: {virtual: 2}",
            "nodes must be a number with strategy: auto; on virtual nodes there is no time to measure",
        ),
        (
            "strategy: auto\nnodes: 2\nmin_nodes: 1",
            "min_nodes must be null with strategy: auto; strategy: batch goes on with fewer nodes",
        ),
        ("epochs: 1.5", "epochs: must be a whole number (is 1.5)"),
        ("batch_size: many", 'batch_size: must be a whole number (is "many")'),
        ("accumulate: 65", "accumulate: must be at most batch_size, 64 (is 65): each micro-batch needs rows"),
        ("strategy: bacth", "strategy: must be one of"),
        ("optimizer: {learning_rate: -0.1}", "optimizer.learning_rate: must be above 0"),
        ("optimizer: sgd", "must be a mapping of keys to values (is \"sgd\"); did you mean 'optimizer.name'?"),
        ("model: mlp", "model: must be a mapping of keys to values (is \"mlp\"); did you mean 'model.build'?"),
        ("checkpoint: {evry: 3}", "checkpoint.evry: unknown key; did you mean 'every'?"),
        ("checkpoint: {every: 0}", "checkpoint.every: must be"),
        ("sync: {outer_momentum: 0.5}", "sync: outer_momentum needs outer: momentum or nesterov (is none)"),
        ("sync: {outer: none, outer_learning_rate: 1}", "sync: outer_learning_rate needs outer: momentum or nesterov"),
        ("model: {build: 3}", "model.build: must be text (is 3)"),
        ("model: {build: mpl}", "(is 'mpl'); did you mean 'mlp'?"),
        ("model: {bild: a}", "model.bild: unknown key; did you mean 'build'?"),
        ("epocs: 3", "epocs: unknown key; did you mean 'epochs'?"),
        ("dtype: float16", "dtype: must be one of"),
        ("metrics: accuracy", 'metrics: must be a list (is "accuracy")'),
        ("stall_timeout: 0", "stall_timeout: must be above 0"),
        ("early_stop: {patience: 0}", "early_stop.patience: must be above 0 (is 0)"),
        ("early_stop: {min_delta: -1}", "early_stop.min_delta: must be at least 0 (is -1)"),
        ("early_stop: {mode: lower}", "early_stop.mode: must be one of"),
        ("early_stop: {pacience: 3}", "early_stop.pacience: unknown key; did you mean 'patience'?"),
        ("early_stop: 3", "early_stop: must be a mapping of keys to values (is 3)"),
        ("keep_best: 1", "keep_best: must be true or false (is 1)"),
    ],
)
def test_mistakes_are_named_with_line_and_key(tmp_path, line, message):
    file = tmp_path / "train.yaml"
    file.write_text(f"data: d\noutput: o\n{line}\n")
    with pytest.raises(ConfigError) as caught:
        load(TrainConfig, str(file))
    assert message in str(caught.value)
    # What contradicts another key has no line of its own.
    assert str(caught.value).startswith(str(file) if " with strategy: " in message else f"{file}:3: ")


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_weights_that_are_made_anew_at_each_step_are_not_averaged(strategy):
    """Ftrl's: of what a sync adds to them, 0.7 % is left after a step."""
    keys = {**LEAST, "strategy": strategy, "optimizer": {"name": "Ftrl"}}
    if STRATEGIES[strategy].sync.every_step:
        parse(TrainConfig, keys)
        return
    with pytest.raises(ConfigError, match=f"optimizer.name must not be ftrl with strategy: {strategy}: it"):
        parse(TrainConfig, keys)
