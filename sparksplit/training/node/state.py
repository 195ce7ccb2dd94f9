"""A node's state: what a checkpoint keeps, how it is restored, and whether all nodes hold the same weights."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from sparksplit.base.errors import InputError, RunError
from sparksplit.model.optimizers import averages, calls
from sparksplit.strategies.state import constants
from sparksplit.strategies.syncs import Sync
from sparksplit.training import checkpoints
from sparksplit.training.node.process import Process
from sparksplit.training.node.saver import Saver
from sparksplit.training.progress_record import Progress, Resumed
from sparksplit.training.run_record import LossScale

if TYPE_CHECKING:
    from sparksplit.cluster import Member
    from sparksplit.training.node.compiled.step import Step

Arrays = Mapping[str, npt.NDArray[Any]]

_FEW = 8
_BEST, _RANDOM, _APART = "best", "r", "o"
"""Prefixes of names in a checkpoint: of the best weights, of a node's own random states, and of its own optimizer
state."""


class State:
    """Weights, optimizer, metrics and random state of `member`, a node of `process`.

    sync: the strategy's own sync.
    saver: writes the checkpoints.
    """

    def __init__(self, process: Process, member: Member, sync: Sync, step: Step, saver: Saver) -> None:
        self._process, self._member, self._sync, self._step = process, member, sync, step
        self._model, self._optimizer = process.model, process.optimizer
        self._best: Arrays = {}
        self._copies: dict[str, npt.NDArray[Any]] = {}
        self._saver = saver

    def begin(self) -> Progress:
        """Take the state that the run begins or goes on with. Return how far the run is."""
        for variable in self._process.random_states():
            # Each node has its own Dropout masks, reproducible from the seed.
            first, second = variable.numpy()
            variable.assign([(int(first) + 0x9E3779B9 * self._member.rank) % 2**32, second])
        payload = self._process.payload
        if payload.checkpoint is None:
            return Progress(payload.config_hash, self._member.size)
        with self._member.phase("checkpoint"):
            return self._restore(payload.checkpoint)

    def save(self, progress: Progress) -> None:
        """Begin to write a checkpoint of the present state, if the run keeps checkpoints. Every node must call this.

        The call waits until the last checkpoint is written. Raise the error of its writing, if it has failed.
        """
        payload, member, keep = self._process.payload, self._member, self._process.config.checkpoint.keep
        if payload.record_only:
            return
        metrics = self._step.metric_sums()
        self._saver.wait()
        own_state, state = self._copied(self._own()), dict(metrics)
        if member.rank == 0:
            state |= {**self._copied({**named("v", self._common()), **self._sync.state()}), **self._best}
        self._saver.begin(
            lambda gather: checkpoints.write(payload.fence, progress, state, own_state, member.rank, gather, keep)
        )

    def keep_best(self) -> None:
        """Take the weights that the run would end with here as the best so far."""
        ends = {id(variable): average for variable, average in self._averages()}
        present = [ends.get(id(variable), variable) for variable in self._shared()]
        # Copied, because training changes the memory that the arrays may share.
        self._best = {name: np.array(value) for name, value in named(_BEST, present).items()}

    def end(self) -> None:
        """Give the model the weights that the run ends with.

        These are the best weights, if any have been kept. Otherwise they are the moving averages, if the optimizer
        keeps some, as with Keras's `fit`.
        """
        if self._best:
            assign(_BEST, self._shared(), self._best, "the best weights")
            return
        for variable, average in self._averages():
            variable.assign(average.numpy())

    def agreed_digest(self, when: str) -> str:
        """Return the digest of the trained weights. Every node must call this.

        Raise RunError if trainable weights or constant weights do not have the same bits on all nodes.
        """
        digest = hashlib.sha256()
        for variable in self._model.trainable_variables:
            digest.update(variable.numpy().tobytes())
        trained = digest.hexdigest()[:16]
        # Frozen weights are never exchanged, so they must have been the same from the start.
        for variable in constants(self._model):
            digest.update(variable.numpy().tobytes())
        all_digests = self._member.gather(f"weights {when}", digest.hexdigest()[:16])
        if len(set(all_digests)) > 1:
            raise RunError(f"the nodes' weights differ {when}: {_by_rank(all_digests)}")
        return trained

    def loss_scale(self, progress: Progress, steps: int) -> LossScale | None:
        """Return the present factor of the loss; None if the loss is not scaled.

        progress: the run's. steps: the steps that this node has made itself.
        """
        scale = getattr(self._optimizer, "dynamic_scale", None)
        if scale is None:
            return None
        same = all(resumed.nodes_before == progress.nodes for resumed in progress.resumed)
        left_out = steps - calls(self._optimizer) if same else None
        return LossScale(float(scale.numpy()), left_out)

    def _copied(self, arrays: Arrays) -> Arrays:
        """Return copies, because training changes the memory that the arrays may share.

        Each copy reuses the memory of the last copy. New memory costs more at its first use than the copy.
        """
        for name, array in arrays.items():
            kept = self._copies.get(name)
            if kept is None or (kept.shape, kept.dtype) != (array.shape, array.dtype):
                kept = self._copies[name] = np.empty_like(array, order="C")
            np.copyto(kept, array)
        return {name: self._copies[name] for name in arrays}

    def _shared(self) -> list[Any]:
        """Return the model's weights and statistics, which are the same on all nodes once they have agreed."""
        random = {id(variable) for variable in self._process.random_states()}
        return [variable for variable in self._model.variables if id(variable) not in random]

    def _averages(self) -> list[tuple[Any, Any]]:
        return averages(self._optimizer, self._model.trainable_variables)

    def _common(self) -> list[Any]:
        """Return the variables that are the same on all nodes once they have agreed, the moving averages among them."""
        every_step, averaged = self._sync.every_step, [average for _, average in self._averages()]
        return [*self._shared(), *(self._optimizer.variables if every_step else averaged)]

    def _apart(self) -> list[Any]:
        """Return the optimizer's state that differs per node, if nodes apply their own gradients."""
        common = {id(variable) for variable in self._common()}
        return [variable for variable in self._optimizer.variables if id(variable) not in common]

    def _own(self) -> dict[str, npt.NDArray[Any]]:
        """Return the arrays that differ per node: random states, and the optimizer's own state."""
        return {**named(_RANDOM, self._process.random_states()), **named(_APART, self._apart())}

    def _restore(self, path: str) -> Progress:
        member = self._member
        checkpoint = checkpoints.read(path, member.rank)
        progress, own_state = checkpoint.progress, checkpoint.own
        assign("v", self._common(), checkpoint.state, path)
        self._sync.restore(checkpoint.state)
        self._best = {name: array for name, array in checkpoint.state.items() if name.startswith(_BEST)}
        # With another number of nodes, each node gets the whole optimizer state of one earlier node. Parts of the state
        # mean nothing alone: Adam corrects its averages by the number of updates. Random states are not passed on,
        # because several nodes may get the state of the same earlier node.
        assign(_APART, self._apart(), own_state, path)
        if progress.nodes == member.size:
            assign(_RANDOM, self._process.random_states(), own_state, path)
        self._step.restore_metrics(checkpoint.state)
        passed_on = not self._sync.every_step and progress.nodes != member.size
        resumed = Resumed(progress.update, progress.nodes, member.size, "passed on" if passed_on else None)
        return replace(progress, nodes=member.size, resumed=[*progress.resumed, resumed])


def _by_rank(digests: Sequence[str]) -> str:
    """Return which ranks have which digest, the rarest digest first. At most `_FEW` digests, and ranks of each, are
    listed."""
    by_digest: dict[str, list[str]] = {}
    for rank, digest in enumerate(digests):
        by_digest.setdefault(digest, []).append(str(rank))
    parts = [
        f"{digest} on {', '.join(ranks[:_FEW])}{f' and {len(ranks) - _FEW} more' if len(ranks) > _FEW else ''}"
        for digest, ranks in sorted(by_digest.items(), key=lambda item: len(item[1]))
    ]
    return "; ".join(parts[:_FEW]) + (f" and {len(parts) - _FEW} others" if len(parts) > _FEW else "")


def named(prefix: str, variables: Sequence[Any]) -> dict[str, npt.NDArray[Any]]:
    """Return Keras variables as arrays, named by `prefix` and position."""
    return {name: np.asarray(variable.numpy()) for name, variable in _names(prefix, variables)}


def assign(prefix: str, variables: Sequence[Any], arrays: Arrays, source: str) -> None:
    """Undo `named`. Raise InputError if names or shapes differ, because they belong to another model or optimizer."""
    for name, variable in _names(prefix, variables):
        if name not in arrays or tuple(arrays[name].shape) != tuple(variable.shape):
            raise InputError(
                f"{source}: does not fit this model and optimizer ({name} is missing or has another shape)"
            )
        array = arrays[name]
        # NumPy's files store bfloat16 only as a type of two bytes.
        variable.assign(array.view(variable.numpy().dtype) if array.dtype.kind == "V" else array)


def _names(prefix: str, variables: Sequence[Any]) -> list[tuple[str, Any]]:
    # By position, because Keras numbers names by how many layers the process has made.
    return [(f"{prefix}{place:04d}", variable) for place, variable in enumerate(variables)]
