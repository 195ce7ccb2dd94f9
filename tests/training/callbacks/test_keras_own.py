"""Each of Keras's own callbacks becomes the keys that do the same, or is refused by a line that names what to do."""

from __future__ import annotations

import inspect
import re

import keras
import pytest

from sparksplit.base.errors import ConfigError
from sparksplit.training.callbacks.keras_own import mapped
from sparksplit.training.callbacks.own import STATES

callbacks = keras.callbacks


@pytest.mark.parametrize(
    ("callback", "keys"),
    [
        (
            callbacks.EarlyStopping(),
            {"early_stop": {"metric": "loss", "patience": 1, "min_delta": 0.0}, "keep_best": False},
        ),
        (
            callbacks.EarlyStopping("val_auc", min_delta=0.01, patience=4, mode="max"),
            {"early_stop": {"metric": "auc", "patience": 4, "min_delta": 0.01, "mode": "max"}, "keep_best": False},
        ),
        (
            callbacks.EarlyStopping(patience=2, restore_best_weights=True, verbose=1),
            {"early_stop": {"metric": "loss", "patience": 2, "min_delta": 0.0}, "keep_best": True},
        ),
        (callbacks.ModelCheckpoint("out/model.keras", save_best_only=True), {"keep_best": True}),
        (callbacks.ModelCheckpoint("./out/model.keras", save_best_only=True, mode="min"), {"keep_best": True}),
        (callbacks.TensorBoard("out/tensorboard"), {}),
        (callbacks.TerminateOnNaN(), {}),
    ],
)
def test_what_a_run_does_by_its_keys(callback, keys):
    found = mapped([callback], {}, "out")
    assert found.keys == keys and found.runs == [] == found.histories


@pytest.mark.parametrize(
    ("callback", "message"),
    [
        (callbacks.EarlyStopping("loss"), "(EarlyStopping): monitor must be val_loss (is 'loss'): early_stop.metric"),
        (callbacks.EarlyStopping(baseline=0.5), "baseline must be None (is 0.5)"),
        (callbacks.EarlyStopping(start_from_epoch=3), "start_from_epoch must be 0 (is 3)"),
        (callbacks.EarlyStopping(min_delta=0.1, restore_best_weights=True), "min_delta must be 0 with restore_best"),
        (callbacks.ModelCheckpoint("a.keras"), "(ModelCheckpoint): remove it; every run keeps checkpoints in out/chec"),
        (callbacks.ModelCheckpoint("a.keras", save_best_only=True), "set restore_best_weights=True in EarlyStopping"),
        (
            callbacks.ModelCheckpoint("out/model.keras", "val_auc", save_best_only=True),
            "monitor must be val_loss (is 'val_auc'): keep_best follows early_stop.metric",
        ),
        (
            callbacks.ModelCheckpoint("out/model.keras", save_best_only=True, mode="max"),
            "mode is 'max', but a lower loss is better",
        ),
        (callbacks.ModelCheckpoint("out/model.keras", save_best_only=True, save_freq=9), "save_freq must be 'epoch'"),
        (
            callbacks.ModelCheckpoint("out/model.keras", save_best_only=True, initial_value_threshold=1.0),
            "initial_value_threshold must be None (is 1.0)",
        ),
        (callbacks.TensorBoard(), "(TensorBoard): log_dir must be out/tensorboard, where every run writes"),
        (callbacks.TensorBoard("out/tensorboard", histogram_freq=1), "histogram_freq must be 0 (is 1)"),
        (callbacks.TensorBoard("out/tensorboard", profile_batch=2), "profile_batch must be 0"),
        (callbacks.CSVLogger("a.csv"), "(CSVLogger): remove it; every run writes out/metrics.jsonl"),
        (callbacks.BackupAndRestore("backup"), "checkpoint.every), and the same call goes on from the last one"),
        (callbacks.ProgbarLogger(), "(ProgbarLogger): remove it"),
        (callbacks.SwapEMAWeights(), "(SwapEMAWeights): remove it; with optimizer.use_ema"),
    ],
)
def test_what_has_no_exact_counterpart_is_refused(callback, message):
    with pytest.raises(ConfigError, match=rf"^callbacks\[0\] .*{re.escape(message)}"):
        mapped([callback], {}, "out")


@pytest.mark.parametrize(
    ("callback", "given", "message"),
    [
        (callbacks.EarlyStopping(), {"early_stop": {}}, "the key early_stop is given too; give only one of them"),
        (callbacks.EarlyStopping(), {"keep_best": True}, "means keep_best=False, but keep_best is True"),
        (
            callbacks.ModelCheckpoint("o/model.keras", save_best_only=True),
            {"keep_best": False},
            "but keep_best is False",
        ),
        (
            callbacks.ModelCheckpoint("o/model.keras", save_best_only=True),
            {"early_stop": {"metric": "auc"}},
            "monitor must be val_auc (is 'val_loss')",
        ),
    ],
)
def test_a_callback_and_a_key_that_contradict_each_other_are_refused(callback, given, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        mapped([callback], given, "o")


def test_two_early_stoppings_are_refused():
    with pytest.raises(ConfigError, match=r"callbacks\[1\] .*another EarlyStopping is given too"):
        mapped([callbacks.EarlyStopping(), callbacks.EarlyStopping("val_auc")], {}, "out")


def test_a_model_checkpoint_keeps_the_best_by_the_metric_of_early_stopping_wherever_it_is_in_the_list():
    best = callbacks.ModelCheckpoint("out/model.keras", "val_auc", save_best_only=True)
    found = mapped([best, callbacks.EarlyStopping("val_auc")], {}, "out")
    assert found.keys["keep_best"] and found.keys["early_stop"]["metric"] == "auc"
    assert mapped([best], {"early_stop": {"metric": "auc"}}, "out").keys == {"keep_best": True}


def test_every_callback_of_keras_is_mapped_run_or_refused():
    """A Keras with more callbacks needs a decision about each: by default, it runs like a user's."""
    arguments = {
        "BackupAndRestore": ["backup"], "CSVLogger": ["a.csv"], "LearningRateScheduler": [lambda epoch: 0.1],
        "ModelCheckpoint": ["a.keras"], "OrbaxCheckpoint": None, "Callback": None, "CallbackList": None,
    }  # fmt: skip
    kinds = {name: kind for name, kind in vars(callbacks).items() if inspect.isclass(kind)}
    runs, refused, mapped_away = set(), set(), set()
    for name, kind in kinds.items():
        if (given := arguments.get(name, [])) is None:
            continue
        try:
            (runs if mapped([kind(*given)], {}, "out").runs else mapped_away).add(name)
        except ConfigError:
            refused.add(name)
    assert runs == {*STATES, "LambdaCallback", "RemoteMonitor"}
    assert mapped_away == {"EarlyStopping", "History", "TerminateOnNaN"}
    by_default = {"ModelCheckpoint", "TensorBoard"}
    assert refused == {"BackupAndRestore", "CSVLogger", "ProgbarLogger", "SwapEMAWeights", *by_default}


class Own(callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        """Nothing."""


class Batches(Own):
    def on_batch_end(self, batch, logs=None):
        """Nothing."""


class HalfState(Own):
    def get_state(self):
        return 0


@pytest.mark.parametrize(
    ("callback", "message"),
    [
        (Batches(), "(Batches): has on_batch_end, which a run does not call; it calls on_train_begin, on_epoch_begin,"),
        (callbacks.LambdaCallback(on_train_batch_end=print), "(LambdaCallback): has on_train_batch_end, which"),
        (HalfState(), "(HalfState): has get_state but no set_state(state)"),
        (Own, "(type): must be a keras.callbacks.Callback (is the class Own: write Own(...))"),
        (print, "must be a keras.callbacks.Callback (is builtin_function_or_method)"),
    ],
)
def test_what_node_0_cannot_run_is_refused_by_name(callback, message):
    with pytest.raises(ConfigError, match=re.escape(f"callbacks[0] {message}" if message[0] == "(" else message)):
        mapped([callback], {}, "out")


def test_own_callbacks_run_in_the_order_of_the_list_and_keep_their_numbers():
    printing = callbacks.LambdaCallback(on_epoch_end=print)
    found = mapped([callbacks.EarlyStopping(), own := Own(), history := callbacks.History(), printing], {}, "out")
    assert found.runs == [("callbacks[1] (Own)", own), ("callbacks[3] (LambdaCallback)", printing)]
    assert found.histories == [history]
