"""Keras's own callbacks: the configuration's keys that do the same, or the error that names these keys.

A parameter without an exact counterpart is refused. Nothing here imports Keras.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hdfs_io import filesystem
from sparksplit.base.errors import ConfigError
from sparksplit.training.callbacks.own import STATES, check, keras_name, named
from sparksplit.training.metric_facts import LOSS, higher_is_better

_ALWAYS = ("TerminateOnNaN",)
"""What every run does: a loss that is not a finite number ends the run."""

_REFUSED = {
    "CSVLogger": "remove it; every run writes {output}/metrics.jsonl, and the result's `history` is a pandas frame",
    "BackupAndRestore": "remove it; every run keeps checkpoints in {output}/checkpoints (keys checkpoint.seconds and "
    "checkpoint.every), and the same call goes on from the last one",
    "ProgbarLogger": "remove it; every run writes its progress to stderr",
    "SwapEMAWeights": "remove it; with optimizer.use_ema, validation and the exported model use the averages",
    "OrbaxCheckpoint": "remove it; every run keeps checkpoints in {output}/checkpoints (keys checkpoint.seconds and "
    "checkpoint.every)",
}


@dataclass
class Mapped:
    """What a list of callbacks becomes.

    keys: values of the configuration's keys.
    runs: the callbacks that node 0 runs, each with its name in messages.
    histories: Keras's History objects, which are filled after the run.
    """

    keys: dict[str, Any] = field(default_factory=dict)
    runs: list[tuple[str, Any]] = field(default_factory=list)
    histories: list[Any] = field(default_factory=list)


def mapped(callbacks: Sequence[Any], given: Mapping[str, Any], output: str) -> Mapped:
    """Return what `callbacks` become. given: the user's own values, by the configuration's top keys. output: the run's
    folder.

    Raise ConfigError for a callback that a run cannot do exactly, and for one that contradicts `given`.
    """
    found = Mapped()
    # ModelCheckpoint keeps the best by the metric of EarlyStopping, wherever the two are in the list.
    in_order = sorted(enumerate(callbacks), key=lambda each: keras_name(each[1]) == "ModelCheckpoint")
    for place, callback in in_order:
        name, kind = named(place, callback), keras_name(callback)
        if kind in _MAPPING:
            _MAPPING[kind](name, callback, found.keys, given, output)
        elif kind == "History":
            found.histories.append(callback)
        elif kind in _REFUSED:
            raise ConfigError(f"{name}: {_REFUSED[kind].format(output=output)}")
        elif kind not in _ALWAYS:
            if kind not in STATES:
                check(name, callback)
            found.runs.append((name, callback))
    return found


def _early_stopping(name: str, it: Any, keys: dict[str, Any], given: Mapping[str, Any], output: str) -> None:
    if given.get("early_stop") is not None or "early_stop" in keys:
        other = "the key early_stop" if "early_stop" in given else "another EarlyStopping"
        raise ConfigError(f"{name}: {other} is given too; give only one of them")
    stop = {"metric": _of_validation(name, it.monitor, "early_stop.metric"), "patience": max(1, int(it.patience))}
    stop["min_delta"] = abs(float(it.min_delta))
    if it.mode != "auto":
        stop["mode"] = it.mode
    _only(name, "baseline", getattr(it, "baseline", None), None, "early_stop has no such key")
    _only(name, "start_from_epoch", getattr(it, "start_from_epoch", 0), 0, "early_stop has no such key")
    if it.restore_best_weights and stop["min_delta"]:
        raise ConfigError(
            f"{name}: min_delta must be 0 with restore_best_weights (is {it.min_delta:g}): keep_best keeps the best "
            "value, however small the improvement. Give the keys early_stop and keep_best instead, if this is right"
        )
    _agree(name, "keep_best", bool(it.restore_best_weights), given)
    keys["early_stop"], keys["keep_best"] = stop, bool(it.restore_best_weights)


def _model_checkpoint(name: str, it: Any, keys: dict[str, Any], given: Mapping[str, Any], output: str) -> None:
    model = filesystem.join(output, "model.keras")
    if not it.save_best_only:
        raise ConfigError(
            f"{name}: remove it; every run keeps checkpoints in {output}/checkpoints (keys checkpoint.every and "
            f"checkpoint.keep), and writes its last weights to {model}"
        )
    if filesystem.absolute(str(it.filepath)) != filesystem.absolute(model):
        raise ConfigError(
            f"{name}: filepath must be {model}, where the run writes its model (is {str(it.filepath)!r}); "
            "or remove it, and set restore_best_weights=True in EarlyStopping (without EarlyStopping: keep_best=True)"
        )
    _only(name, "save_weights_only", it.save_weights_only, False, "the run writes the whole model")
    _only(name, "save_freq", it.save_freq, "epoch", "the run validates at the end of each epoch")
    _only(name, "initial_value_threshold", it.best, None, "keep_best has no such key")
    stop = keys.get("early_stop") or given.get("early_stop") or {}
    metric, watched = _of_validation(name, it.monitor, "keep_best"), stop.get("metric", LOSS)
    if metric != watched:
        raise ConfigError(
            f"{name}: monitor must be val_{watched} (is {it.monitor!r}): keep_best follows early_stop.metric, and "
            "without early_stop the loss"
        )
    higher = stop.get("mode") == "max" if stop.get("mode") else higher_is_better(metric)
    if it.mode != "auto" and higher is not None and higher != (it.mode == "max"):
        raise ConfigError(f"{name}: mode is {it.mode!r}, but a {'higher' if higher else 'lower'} {metric} is better")
    _agree(name, "keep_best", True, given)
    keys["keep_best"] = True


def _tensorboard(name: str, it: Any, keys: dict[str, Any], given: Mapping[str, Any], output: str) -> None:
    events = filesystem.join(output, "tensorboard")
    if filesystem.absolute(str(it.log_dir)) != filesystem.absolute(events):
        raise ConfigError(
            f"{name}: log_dir must be {events}, where every run writes its events (is {it.log_dir!r}); or remove the "
            "callback"
        )
    for key, value in {
        **{"histogram_freq": 0, "write_images": False, "write_steps_per_second": False},
        **{"update_freq": "epoch", "embeddings_freq": 0},
    }.items():
        _only(name, key, getattr(it, key), value, "the run writes the loss and the metrics of each epoch")
    if getattr(it, "_should_trace", False) or getattr(it, "_start_batch", 0) > 0:
        raise ConfigError(f"{name}: profile_batch must be 0; `sparksplit diagnose` says what a step spends its time on")


_Map = Callable[[str, Any, dict[str, Any], Mapping[str, Any], str], None]
_MAPPING: dict[str | None, _Map] = {
    "EarlyStopping": _early_stopping,
    "ModelCheckpoint": _model_checkpoint,
    "TensorBoard": _tensorboard,
}


def _of_validation(name: str, monitor: str, key: str) -> str:
    """Return the metric of the validation rows that `monitor` names."""
    if not monitor.startswith("val_"):
        raise ConfigError(f"{name}: monitor must be val_{monitor} (is {monitor!r}): {key} watches the validation rows")
    return monitor.removeprefix("val_")


def _only(name: str, parameter: str, value: object, only: object, why: str) -> None:
    if value != only:
        raise ConfigError(f"{name}: {parameter} must be {only!r} (is {value!r}): {why}")


def _agree(name: str, key: str, value: object, given: Mapping[str, Any]) -> None:
    """Raise ConfigError if the user has set `key` to another value."""
    if given.get(key) not in (None, value):
        raise ConfigError(f"{name}: means {key}={value}, but {key} is {given[key]}; give only one of them")
