"""Measurements that nobody made, with times that are easy to add up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sparksplit.comparison.comparison_record import SweepPoint
from sparksplit.planning.measured import Exchanged, Measured, StepTimes

PER_STEP, PER_ROW = 1e-3, 1e-4
"""Seconds of a step, and of each of its rows."""
LATENCY, PER_BYTE = 1e-4, 1e-9
"""Seconds of a message and of a byte of the measured network."""
CALL = 2e-3
"""Seconds of an exchange of gradients beside the network's."""


def step(rows: float) -> float:
    return PER_STEP + PER_ROW * rows


def measured(rounds: int = 3, **changes: Any) -> Measured:
    """The measurements, with other parts."""
    sent = 400_000
    on_link = 2 * LATENCY + sent * PER_BYTE
    made = Measured(
        hosts=["one", "two"],
        devices=["CPU"],
        alone=[StepTimes(rows, [step(rows)] * rounds) for rows in (64.0, 32.0, 8.0, 1.0)],
        beside=[],
        varying=[],
        exchanges={
            "gradients": Exchanged(sent, 1, [CALL + on_link] * rounds),
            "own gradients": Exchanged(2 * sent, 1, [CALL + on_link + sent * PER_BYTE] * rounds),
            "weights": Exchanged(sent, 1, [5 * CALL + on_link] * rounds),
            "weights, outer optimiser": Exchanged(sent, 1, [6 * CALL + on_link] * rounds),
        },
        sweep=[SweepPoint(2, size, 2 * LATENCY + size * PER_BYTE) for size in (1 << 10, 1 << 15, 1 << 20, 1 << 25)],
        reading=None,
        reading_steps=None,
        first_reading=None,
        begin_reading=0.0,
        begin_pass=0.0,
        rows=6400,
        window_bytes=0,
        held_out_bytes=0,
        row_bytes=100,
        memory_bytes=500_000_000,
        model_bytes=400_000,
        seconds=20.0,
    )
    return replace(made, **changes)
