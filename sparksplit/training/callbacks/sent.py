"""A run's callbacks on their way to node 0."""

from __future__ import annotations

import base64
import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sparksplit.base import pickles
from sparksplit.base.errors import ConfigError, UsageError
from sparksplit.training.callbacks.own import OF_FIT


@dataclass(frozen=True)
class Sent:
    """The callbacks that node 0 runs, in the user's order. They travel over the driver's own channel to the nodes."""

    names: list[str]
    """Their names in messages, such as `callbacks[0] (Mine)`."""
    changing: list[bool]
    """Which of them may change training."""
    pickled: str
    """The list of them, by cloudpickle, in base64."""

    @classmethod
    def of(cls, callbacks: Sequence[tuple[str, Any]], changing: Sequence[bool]) -> Sent:
        """Return the callbacks for sending, each with its name. Raise ConfigError for a callback that cannot be
        sent."""
        copies = [_alone(callback) for _, callback in callbacks]
        for (name, _), each in zip(callbacks, copies, strict=True):
            try:
                pickles.pickled(each)
            except Exception as error:  # the user's object may raise any error
                text = " ".join(f"{type(error).__name__}: {error}".split())
                raise ConfigError(f"{name}: cannot be sent to a node ({text}); make it in {_HOOK}") from error
        return cls([name for name, _ in callbacks], list(changing), base64.b64encode(pickles.pickled(copies)).decode())

    def load(self) -> list[Any]:
        """Return the callbacks. Raise UsageError if the node lacks something that they need."""
        try:
            loaded: list[Any] = pickles.unpickled(base64.b64decode(self.pickled))
        except Exception as error:  # unpickling runs the user's code
            text = " ".join(f"{type(error).__name__}: {error}".split())
            raise UsageError(f"callbacks: cannot be loaded on the node: {text}") from error
        return loaded

    @property
    def change(self) -> bool:
        """Whether any of them may change training."""
        return any(self.changing)


_HOOK = "on_train_begin, or keep it out of the callback"


def _alone(callback: Any) -> Any:
    """Return a copy of the callback without the model that it may have seen in an earlier `fit`."""
    alone = copy.copy(callback)
    for name in OF_FIT:
        if name in vars(alone):
            setattr(alone, name, None)
    return alone
