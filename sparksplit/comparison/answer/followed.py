"""The answer of a finished comparison as the choice of a run with `strategy: auto`."""

from __future__ import annotations

from dataclasses import replace

from hdfs_io import filesystem
from hdfs_io.differences import content, differences, said
from hdfs_io.marks import SUCCESS
from sparksplit.base.config import parse
from sparksplit.base.errors import ConfigError, InputError, UsageError
from sparksplit.base.keys import keys_of, unhashed
from sparksplit.base.progress import say
from sparksplit.comparison.answer.words import headline
from sparksplit.comparison.content import Results, record_hash
from sparksplit.training.choice import Choice
from sparksplit.training.inputs import RunInputs
from sparksplit.training.report import versions
from sparksplit.training.train_config import TrainConfig

_FREE = ("seed", "metrics")
"""Keys in which a run may differ from the comparison: no answer depends on them."""


def followed(inputs: RunInputs) -> Choice:
    """Return what the comparison of a run recommends. Say the recommendation in a line, with what differs.

    Raise ConfigError if the comparison has no answer, or if its answer is not about this run.
    """
    config = inputs.config
    assert config.comparison is not None
    path = filesystem.absolute(config.comparison)
    if not inputs.strategy.chooses:
        raise config.error("comparison", f"needs strategy: auto (is {config.strategy})")
    if inputs.has_frame:
        raise config.error("comparison", "is about the rows of the data set, not about those of a DataFrame")
    try:
        if not filesystem.exists(filesystem.join(path, SUCCESS)):
            raise InputError(f"{path}: not a complete comparison: no {SUCCESS} file")
        results = Results.read(path)
    except InputError as error:
        raise config.error("comparison", str(error)) from error
    option = results.answer.choice
    if option is None or results.answer.decision not in ("use", "stay"):
        raise config.error("comparison", f"{path} has decided nothing: {headline(results)}")
    choice = Choice(option.nodes, {}, option.settings)
    try:
        run = RunInputs.of(choice.taken(config), inputs.data)
    except UsageError as error:
        raise config.error(
            "comparison", f"{path} recommends {results.named(option.name, option.nodes)}: {error}"
        ) from error
    before = _compared(results, run, path)
    asked, then, now = (each.model_dump(mode="json") for each in (config, before, run.config))
    # The answer may replace a value of the comparison itself, but no other value that the user has set.
    free = {"nodes", *unhashed(TrainConfig)}
    replaced = [key for key in asked if key in results.config and key not in free and asked[key] != now[key]]
    if found := differences(*({key: each[key] for key in replaced} for each in (results.config, asked))):
        raise config.error("comparison", f"{path} is not about this run{said(found)}")
    timed = keys_of(TrainConfig, lambda mark: mark.timed)
    told = {
        "It changes": differences(asked, {**now, "strategy": asked["strategy"], "nodes": asked["nodes"]}),
        "Its times are with other keys": differences(*({key: each[key] for key in timed} for each in (then, now))),
        "It was made with other versions": differences(results.versions, versions()),
    }
    sentences = (f" {what}: {'; '.join(found)}." for what, found in told.items() if found)
    say(f"auto, by {path}: {headline(results)}{''.join(sentences)}")
    return choice


def _compared(results: Results, run: RunInputs, path: str) -> TrainConfig:
    """Return the configuration of the runs of the chosen row. Raise ConfigError if `run` does not learn as they did."""
    option, config = results.answer.choice, run.config
    assert option is not None
    row = (option.name, option.nodes)
    record = next((each for each in results.runs if (each.name, each.nodes) == row), None)
    if record is None:
        raise config.error(
            "comparison", f"{path} has no run of {results.named(option.name, option.nodes)}, which it recommends"
        )
    try:
        then = parse(TrainConfig, record.config)
    except ConfigError as error:
        raise config.error("comparison", f"{path} was made by another version of sparksplit: {error}") from error
    # No run of a comparison has the last two keys: runs are compared by their last weights.
    free = {**{key: getattr(then, key) for key in _FREE}, "early_stop": None, "keep_best": None}
    alike = replace(run, config=config.model_copy(update=free))
    if record_hash(alike.hash(), then.timing) != record.config_hash:
        before = {**replace(alike, config=then).keys, "data": content(results.data.digest)}
        others = ": its runs had other files of functions or initial weights, or another version of sparksplit"
        found = said(differences(before, alike.keys)) or others
        raise config.error("comparison", f"{path} is not about this run{found}")
    return then
