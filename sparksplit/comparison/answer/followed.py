"""The answer of a finished comparison as the configuration of a run with `strategy: auto`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hdfs_io import filesystem
from hdfs_io.differences import content, differences, said
from hdfs_io.marks import SUCCESS
from sparksplit.base.config import merged, nested, parse
from sparksplit.base.errors import InputError
from sparksplit.base.keys import unhashed
from sparksplit.base.progress import say
from sparksplit.comparison.answer.words import called, headline
from sparksplit.comparison.content import Results, record_hash
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.strategies import STRATEGIES
from sparksplit.training.inputs import RunInputs, open_data
from sparksplit.training.train_config import TrainConfig, Training

_FREE = ("seed", "metrics")
"""Keys in which a run may differ from the comparison: no answer depends on them."""


def followed(config: TrainConfig, has_frame: bool = False) -> TrainConfig:
    """Return `config` with the strategy, the number of nodes and the other keys that its `comparison` recommends. Say
    the recommendation in a line. Without the key `comparison`, return `config`.

    has_frame: whether a DataFrame replaces the training rows. Raise ConfigError if the comparison has no answer, or if
    its answer is not about this run.
    """
    if config.comparison is None:
        return config
    strategy, path = STRATEGIES.get(config.strategy), filesystem.absolute(config.comparison)
    if strategy is None or not strategy.chooses:
        raise config.error("comparison", f"needs strategy: auto (is {config.strategy})")
    if has_frame:
        raise config.error("comparison", "is about the rows of the data set, not about those of a DataFrame")
    try:
        if not filesystem.exists(filesystem.join(path, SUCCESS)):
            raise InputError(f"{path}: not a complete comparison: no {SUCCESS} file")
        results = Results.read(path)
    except InputError as error:
        raise config.error("comparison", str(error)) from error
    data = open_data(config)
    then = {**_shared(results.config), "data": content(results.data.digest)}
    now = {**_shared(config.model_dump(mode="json")), "data": content(data.digest)}
    if found := differences(then, {key: now[key] for key in then}):
        raise config.error("comparison", f"{path} is not about this run{said(found)}")
    answer = results.answer
    if answer.choice is None or answer.decision not in ("use", "stay"):
        raise config.error("comparison", f"{path} has decided nothing: {headline(answer)}")
    if answer.choice.nodes > config.node_count:
        needs = f"{path} recommends {called(answer.choice)}"
        raise config.error("nodes", f"must be at least {answer.choice.nodes} (is {config.node_count}): {needs}")
    values = merged(config.model_dump(mode="json", exclude_unset=True), nested(answer.choice.settings))
    run = parse(TrainConfig, values, config.origin)
    if not _was_compared(run, data, results):
        others = "other files of functions, other initial weights (init), or another version of sparksplit"
        raise config.error("comparison", f"{path} is not about this run: its runs had {others}")
    say(f"auto, by {path}: {headline(answer)}")
    return run


def _shared(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of the keys that all runs of a comparison share, and that can change what is learnt."""
    keys = [key for key in Training.model_fields if key not in {*unhashed(Training), *_FREE}]
    return {key: values[key] for key in keys if key in values}


def _was_compared(run: TrainConfig, data: PreparedDataSet, results: Results) -> bool:
    """Whether the runs of the chosen row had the keys of `run`, its files of functions and its initial weights."""
    choice = results.answer.choice
    assert choice is not None
    row = (choice.name, choice.nodes)
    record = next((each for each in results.runs if (each.name, each.nodes) == row), None)
    if record is None:
        return False
    then = parse(TrainConfig, record.config)
    # No run of a comparison has the last two keys: runs are compared by their last weights.
    free = {**{key: getattr(then, key) for key in _FREE}, "early_stop": None, "keep_best": None}
    alike = RunInputs.of(run.model_copy(update=free), data)
    return record_hash(alike.hash(), then.timing) == record.config_hash
