"""Callbacks of `fit` that cannot do their work there, with what to do in Keras's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sparksplit.base.errors import ConfigError
from sparksplit.training.callbacks.own import keras_name, named

_REFUSED = {
    "CSVLogger": "remove it; the History that fit returns has the values of each epoch, and "
    "pandas.DataFrame(history.history).to_csv(FILE) writes them",
}
_NEED_OUTPUT = {
    "ModelCheckpoint": "remove it; after the call, the model has the last weights, or the best ones with "
    "EarlyStopping(restore_best_weights=True) or keep_best=True. Then model.save(FILE) writes them",
    "BackupAndRestore": "remove it, and give `output`: the same call then goes on from its last checkpoint",
    "OrbaxCheckpoint": "remove it, and give `output`: the run then keeps its checkpoints there",
    "TensorBoard": "remove it, or give `output`, and OUTPUT/tensorboard as log_dir",
}
"""Callbacks that work with files in the run's folder."""
_WATCHING = ("EarlyStopping", "ModelCheckpoint", "ReduceLROnPlateau")


def check_callbacks(
    callbacks: Sequence[Any], keys: Mapping[str, Any], *, output: str | None, has_validation: bool
) -> None:
    """Raise ConfigError for a callback or a key that cannot work in this call of `fit`.

    keys: the keys of `train`. output: None where the run's folder is temporary. has_validation: whether the call gives
    validation rows.
    """
    for place, callback in enumerate(callbacks):
        name, kind = named(place, callback), keras_name(callback) or ""
        problem = _REFUSED.get(kind) or (_NEED_OUTPUT.get(kind) if output is None else None)
        if problem is not None:
            raise ConfigError(f"{name}: {problem}")
        watches = kind in _WATCHING and getattr(callback, "save_best_only", True)
        if watches and not has_validation and str(callback.monitor).startswith("val_"):
            raise ConfigError(f"{name}: watches {callback.monitor}, so give validation_split or validation_data")
    for key in ("early_stop", "keep_best"):
        if keys.get(key) not in (None, False) and not has_validation:
            raise ConfigError(f"{key}: needs validation rows, so give validation_split or validation_data")
