"""The model of benchmarks/chaos.py; the process that builds it notes from then on how far it is, moment by moment.

Nodes run this file as their user's. Each appends lines to a file of its own in the folder that the environment names:
the time, its rank, and what it has just told its beat: `update N` (steps done), `fed N` (rows) or `phase NAME`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import keras

from sparksplit import DataDescription
from sparksplit.cluster.member import NodeMember

FOLDER = "SPARKSPLIT_CHAOS"
"""The variable that names the folder, for every process of a run."""


def build(data: DataDescription, dense: int = 64) -> keras.Model:
    """Images to classes, with a convolution so that it computes for a while, and Dropout so that masks count too."""
    if folder := os.environ.get(FOLDER):
        _follow(folder)
    return keras.Sequential(
        [
            keras.layers.Input(data.input_shape),
            keras.layers.Reshape((*data.input_shape, 1)),
            keras.layers.Conv2D(16, 5, activation="relu"),
            keras.layers.MaxPooling2D(2),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.MaxPooling2D(2),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.3),
            keras.layers.Dense(dense, activation="relu"),
            keras.layers.Dropout(0.3),
            keras.layers.Dense(data.outputs, data.activation),
        ]
    )


def _follow(folder: str) -> None:
    rank = sys.argv[-1].partition("=")[2]
    file = os.open(f"{folder}/{rank}-{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    told: dict[str, Any] = {}

    def note(what: str, value: Any) -> None:
        if told.get(what) != value:
            told[what] = value
            os.write(file, f"{time.time():.4f} {rank} {what} {value}\n".encode())

    state, phase = NodeMember.state, NodeMember.phase

    def noted_state(self: NodeMember, **fields: Any) -> None:
        state(self, **fields)
        for what in ("update", "fed"):
            if what in fields:
                note(what, int(fields[what]))

    @contextmanager
    def noted_phase(self: NodeMember, name: str) -> Iterator[None]:
        note("phase", name)
        try:
            with phase(self, name):
                yield
        finally:
            note("phase", "-")

    NodeMember.state, NodeMember.phase = noted_state, noted_phase  # type: ignore[method-assign]
    note("phase", "build")
