"""What a callback is: Keras's own or the user's, which hooks it has, and whether it may change training.

Classes are told by their names and modules, so that nothing here imports Keras.
"""

from __future__ import annotations

from typing import Any

from sparksplit.base.code_identity import identity_of
from sparksplit.base.errors import ConfigError

BEGINS, ENDS, EPOCH_BEGINS, EPOCH_ENDS = "on_train_begin", "on_train_end", "on_epoch_begin", "on_epoch_end"
"""The hooks that node 0 calls."""

_OTHERS = (
    *("on_batch_begin", "on_batch_end", "on_train_batch_begin", "on_train_batch_end"),
    *("on_test_begin", "on_test_end", "on_test_batch_begin", "on_test_batch_end"),
    *("on_predict_begin", "on_predict_end", "on_predict_batch_begin", "on_predict_batch_end"),
)

STATES = {"ReduceLROnPlateau": ("best", "wait", "cooldown_counter"), "LearningRateScheduler": ()}
"""Keras's own callbacks that change the learning rate on node 0, to the attributes that are their state."""

KEYS = {
    "ReduceLROnPlateau": ("monitor", "factor", "patience", "mode", "min_delta", "cooldown", "min_lr"),
    "LearningRateScheduler": ("schedule",),
}
"""The attributes that decide what each of these callbacks does."""

OF_FIT = ("_model", "params")
"""Attributes that Keras's `fit` sets on a callback."""


def named(place: int, callback: object) -> str:
    """Return the callback's name in messages, such as `callbacks[0] (EarlyStopping)`. place: in the user's list."""
    return f"callbacks[{place}] ({type(callback).__name__})"


def keras_name(callback: object) -> str | None:
    """Return the name of the callback's class if it is Keras's own; None for a class of the user's, also for a subclass
    of Keras's."""
    kind = type(callback)
    return kind.__name__ if kind.__module__.partition(".")[0] == "keras" else None


def is_changing(callback: object) -> bool:
    """Return whether the callback may change training."""
    return keras_name(callback) in STATES or callable(getattr(callback, "get_state", None))


def identity(callback: object) -> str:
    """Return the digest of what the callback does: its class and its attributes. It is the same for the same call in
    another process. Raise ValueError if an attribute, or a value that a method uses, cannot be part of it."""
    own = keras_name(callback)
    keys = KEYS[own] if own in KEYS else [key for key in vars(callback) if key not in OF_FIT]
    return identity_of(type(callback), **{key: getattr(callback, key) for key in keys})


def check(name: str, callback: object) -> None:
    """Raise ConfigError if the callback `name` cannot run on node 0."""
    base = next((kind for kind in type(callback).__mro__ if _is_base(kind)), None)
    if base is None:
        what = f"the class {callback.__name__}: write {callback.__name__}(...)" if isinstance(callback, type) else None
        raise ConfigError(f"{name}: must be a keras.callbacks.Callback (is {what or type(callback).__name__})")
    if other := next((hook for hook in _OTHERS if _overrides(callback, base, hook)), None):
        raise ConfigError(
            f"{name}: has {other}, which a run does not call; it calls {BEGINS}, {EPOCH_BEGINS}, {EPOCH_ENDS} and "
            f"{ENDS}. Remove {other}"
        )
    has = [hook for hook in ("get_state", "set_state") if callable(getattr(callback, hook, None))]
    if len(has) == 1:
        missing = "set_state(state)" if has == ["get_state"] else "get_state()"
        raise ConfigError(f"{name}: has {has[0]} but no {missing}; a callback that changes training needs both")


def _is_base(kind: type) -> bool:
    return kind.__name__ == "Callback" and kind.__module__.partition(".")[0] == "keras"


def _overrides(callback: Any, base: type, hook: str) -> bool:
    """Return whether the callback has a `hook` of its own. Keras's LambdaCallback keeps hooks as attributes."""
    defined = next((kind for kind in type(callback).__mro__ if hook in vars(kind)), base)
    return hook in vars(callback) or defined is not base
