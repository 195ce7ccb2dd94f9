"""Callbacks on the nodes: node 0 calls their hooks, and all nodes take over what they change.

A change takes effect between two rounds, so all nodes make it at the same update. The last call of a round comes before
the round's checkpoint, which keeps the changes and the callbacks' states.
"""

from __future__ import annotations

import json
import logging
import math
import traceback
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from sparksplit.base.errors import CallbackFailed
from sparksplit.training.callbacks.given import logs_of
from sparksplit.training.callbacks.own import BEGINS, ENDS, EPOCH_BEGINS, EPOCH_ENDS, STATES, keras_name
from sparksplit.training.callbacks.prints import Prints
from sparksplit.training.callbacks.sent import Sent
from sparksplit.training.progress_record import Changed, EpochRecord, Progress

if TYPE_CHECKING:
    from sparksplit.cluster import Member
    from sparksplit.collectives import Collective

log = logging.getLogger(__name__)

_WITHOUT_STATE = (
    "but it has no get_state() and set_state(state). With both, all nodes follow, and checkpoints keep the state"
)

_LONGEST = 10_000
"""Characters of a traceback that the driver shows, from its end."""


class Running:
    """The callbacks of a run, on one node. All nodes must make the same calls.

    model: the model, which node 0's callbacks see as `self.model`.
    optimizer: the model's optimizer.
    rate: the variable that holds the learning rate; None if the learning rate is a schedule.
    epochs: epochs of the run.
    """

    def __init__(
        self,
        sent: Sent,
        model: Any,
        optimizer: Any,
        rate: Any | None,
        member: Member,
        collective: Collective,
        epochs: int,
    ) -> None:
        self._sent, self._member, self._collective, self._epochs = sent, member, collective, epochs
        self._model, self._rate = model, rate
        self._seen = SeenOptimizer(optimizer, rate)
        self._variables = [each for each in (*model.variables, *optimizer.variables) if each is not rate]
        self._callbacks: list[Any] = []
        self._prints = Prints()
        self.changed: Changed | None = None
        """What the callbacks have changed so far; None if they only observe."""

    @property
    def has_stopped(self) -> bool:
        """Whether a callback has ended the run."""
        return self.changed is not None and self.changed.stopped is not None

    def begin(self, progress: Progress, is_resumed: bool, has_ended: bool) -> None:
        """Begin to train, or go on. progress: how far the run is.

        is_resumed: whether `progress` comes from a checkpoint. has_ended: whether the run has stopped early by then.
        """
        self.changed = progress.changed
        if self._member.rank == 0:
            with self._user_code():
                self._load()
                self._call(BEGINS, {})
                if self.changed is not None:
                    self._restore(self.changed)
                if not has_ended and progress.epochs < self._epochs:
                    # Before the checkpoint, the callbacks that change training have already begun this epoch.
                    self._call(EPOCH_BEGINS, progress.epochs, {}, only_observers=is_resumed)
        if self.changed is None:
            self._share(0)
        else:
            self._take(self.changed.rate)

    def epoch_done(self, record: EpochRecord, has_ended: bool) -> None:
        """Take in the end of a round, before its checkpoint. has_ended: whether the run stops early here."""
        stopper = 0
        if self._member.rank == 0:
            with self._user_code():
                stopper = self._call(EPOCH_ENDS, record.epoch - 1, logs_of(record))
                if not (stopper or has_ended) and record.epoch < self._epochs:
                    self._call(EPOCH_BEGINS, record.epoch, {})
        self._share(stopper)

    def end(self) -> None:
        """End the training. The model has the weights that the run ends with."""
        if self._member.rank == 0:
            with self._user_code():
                self._call(ENDS, {})
            del self._model.optimizer, self._model.stop_training

    @contextmanager
    def _user_code(self) -> Iterator[None]:
        """Call the user's code in the block. What it prints goes to the driver with the node's next report."""
        with self._member.phase("callbacks"):
            try:
                with self._prints.taken():
                    yield
            except CallbackFailed as error:
                # This node ends before its next heartbeat.
                self._member.announce(printed=self._prints.reported, traceback=(error.told or "")[-_LONGEST:])
                raise
        self._member.state(printed=self._prints.reported)

    def _load(self) -> None:
        self._callbacks = self._sent.load()
        self._model.optimizer, self._model.stop_training = self._seen, False
        for name, callback in zip(self._sent.names, self._callbacks, strict=True):
            _tried(name, "set_params", callback.set_params, {"verbose": 0, "epochs": self._epochs, "steps": None})
            _tried(name, "set_model", callback.set_model, self._model)

    def _call(self, hook: str, *arguments: Any, only_observers: bool = False) -> int:
        """Call a hook of all callbacks. Return 1 + the place of the callback that ends the run; 0 if none does.

        Raise CallbackFailed if a callback fails, or changes what it may not change.
        """
        stopper = 0
        before = self._digests() if any(keras_name(each) not in STATES for each in self._callbacks) else []
        for place, callback in enumerate(self._callbacks):
            if only_observers and self._sent.changing[place]:
                continue
            name = self._sent.names[place]
            rate, stopped = self._value(), bool(self._model.stop_training)
            _tried(name, hook, getattr(callback, hook), *arguments)
            after = before if keras_name(callback) in STATES else self._digests()
            if after != before:
                raise CallbackFailed(f"{name}: {hook} changes weights or the optimizer's state; only updates may")
            stops = bool(self._model.stop_training)
            for what, has in (("the learning rate", self._value() != rate), ("model.stop_training", stops != stopped)):
                if has and not self._sent.changing[place]:
                    raise CallbackFailed(f"{name}: {hook} changes {what}, {_WITHOUT_STATE}")
            if stops and not stopped and hook != EPOCH_ENDS:
                raise CallbackFailed(f"{name}: {hook} sets model.stop_training; only {EPOCH_ENDS} can end a run")
            # As in Keras, a later callback may take back the end.
            stopper = (stopper if stopped else place + 1) if stops else 0
        return stopper

    def _digests(self) -> list[int]:
        return [zlib.crc32(np.ascontiguousarray(each.numpy()).tobytes()) for each in self._variables]

    def _value(self) -> float | None:
        return None if self._rate is None else float(self._rate.numpy())

    def _share(self, stopper: int) -> None:
        """Let all nodes take over node 0's learning rate, and its end of the run. stopper: as `_call` returns it."""
        if not self._sent.change:
            return
        first = self._member.rank == 0
        own = np.array([self._value() or 0.0, stopper] if first else [0.0, 0.0], np.float64)
        (shared,) = self._collective.sum([own])  # zeros keep the bits of node 0's numbers
        rate, by = None if self._rate is None else float(shared[0]), int(shared[1])
        self._take(rate)
        states: list[str] = []
        if first:
            with self._user_code():
                states = self._states()
        self.changed = Changed(rate, self._sent.names[by - 1] if by else None, states)

    def _take(self, rate: float | None) -> None:
        if self._rate is not None and rate is not None:
            self._rate.assign(rate)

    def _states(self) -> list[str]:
        """Return the states of the callbacks that may change training, as JSON."""
        states = []
        for name, callback in self._changing():
            own = STATES.get(keras_name(callback) or "")
            if own is not None:
                state = {key: _plain(getattr(callback, key)) for key in own}
            else:
                state = _tried(name, "get_state", callback.get_state)
            states.append(_written(name, state))
        return states

    def _restore(self, changed: Changed) -> None:
        self._take(changed.rate)
        for (name, callback), text in zip(self._changing(), changed.states, strict=True):
            state = json.loads(text)
            if keras_name(callback) in STATES:
                vars(callback).update(state)
            else:
                _tried(name, "set_state", callback.set_state, state)

    def _changing(self) -> Sequence[tuple[str, Any]]:
        each = zip(self._sent.names, self._callbacks, self._sent.changing, strict=True)
        return [(name, callback) for name, callback, changes in each if changes]


class SeenOptimizer:
    """The optimizer as callbacks see it. They may set `learning_rate`; all else is the optimizer's own.

    rate: the variable that holds the learning rate. It is the learning rate of the configuration, which strategy
    `epoch` multiplies. None if the learning rate is a schedule.
    """

    def __init__(self, optimizer: Any, rate: Any | None) -> None:
        vars(self).update(_optimizer=optimizer, _rate=rate)

    @property
    def learning_rate(self) -> Any:
        """The learning rate: a Keras variable, or the present value of a schedule."""
        return self._optimizer.learning_rate if self._rate is None else self._rate

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        if self._rate is None:
            raise TypeError("optimizer.learning_rate is a schedule, so a callback cannot set it")
        self._rate.assign(float(value))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._optimizer, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "learning_rate":
            raise AttributeError(f"optimizer.{name} cannot be set by a callback; only the learning rate can")
        super().__setattr__(name, value)


def _tried(name: str, hook: str, function: Callable[..., Any], *arguments: Any) -> Any:
    """Return what the user's function returns. Raise CallbackFailed with its error, and where it was raised.

    The traceback in the user's code goes to the node's log and, with the error, to the driver.
    """
    try:
        return function(*arguments)
    except Exception as error:  # the user's code may raise any error
        frames = traceback.extract_tb(error.__traceback__)[1:]
        where = f" ({frames[-1].filename}:{frames[-1].lineno})" if frames else ""
        told = "".join(["Traceback (most recent call last):\n", *traceback.format_list(frames)])
        told += "".join(traceback.format_exception_only(error))
        log.error("%s: %s failed\n%s", name, hook, told)
        # Without the error as its cause: a callback's broken connection is not that of another node.
        raise CallbackFailed(f"{name}: {hook} failed{where}: {type(error).__name__}: {error}", told) from None


def _plain(value: Any) -> Any:
    """Return a NumPy scalar or a tensor of one number as Python's own number."""
    return value if value is None or isinstance(value, int | float) else float(value)


def _written(name: str, state: Any) -> str:
    """Return a state as JSON. Raise CallbackFailed if JSON would change it."""
    try:
        text = json.dumps(state)
        if _same(json.loads(text), state):
            return text
        found = "JSON has no tuples, and only texts as keys"
    except (TypeError, ValueError) as error:
        found = str(error)
    raise CallbackFailed(f"{name}: get_state must return numbers, texts, lists and dicts with texts as keys ({found})")


def _same(read: Any, state: Any) -> bool:
    """Return whether a state that was read back from JSON is what was written."""
    if isinstance(read, dict):
        return isinstance(state, dict) and all(key in state and _same(read[key], state[key]) for key in read)
    if isinstance(read, list):
        return isinstance(state, list) and all(map(_same, read, state))
    return bool(read == state) or (isinstance(read, float) and math.isnan(read))
