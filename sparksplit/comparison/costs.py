"""The cost model: seconds per row, per step and per synchronised byte, and what they predict elsewhere.

Its parts are calibrated on the measured runs and the all-reduce sweep. A node's computing is linear in its rows and
steps. An exchange costs 2 (N - 1) messages of fixed latency and 2 (N - 1) / N times its bytes at the network's rate, as
a ring does (Patarasuk and Yuan 2009; the alpha-beta model of Hockney 1994), and a fixed amount: to come together, and
to leave and enter the compiled step. Nodes that share this host's cores compute more slowly by a factor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize

from sparksplit.comparison.content import Check, CostModel, Prediction, Row
from sparksplit.comparison.record import ComparedRun, Measured, SweepPoint

GBITS = (1.0, 10.0, 100.0)
_FACTORS = 121
ETHERNET_LATENCY = 50e-6
"""Seconds of one message between two hosts over Ethernet, assumed: two to three times half a switched round trip."""


@dataclass(frozen=True)
class Network:
    """latency: seconds per message. per_byte: seconds per byte. per_sync: the fixed seconds of an exchange."""

    latency: float
    per_byte: float
    per_sync: float = 0.0

    def seconds(self, nodes: int, syncs: int, sent: float) -> float:
        """The seconds of `syncs` sums over `nodes` nodes, in which each node sends `sent` bytes."""
        if nodes < 2:
            return 0.0
        return syncs * (2 * (nodes - 1) * self.latency + self.per_sync) + sent * self.per_byte


@dataclass(frozen=True)
class Compute:
    """Seconds per row and per step (a node's own mini-batch, or its part of a shared one) on one node.

    contention: the factor by which nodes that share a host are slower.
    """

    per_row: float
    per_step: float
    contention: float = 1.0

    def seconds(self, rows: float, steps: float) -> float:
        """The seconds of a node that trains on that many rows in that many steps."""
        return rows * self.per_row + steps * self.per_step


def work_of(record: ComparedRun) -> tuple[float, float]:
    """(rows, steps) of one node of the run; `local` has more steps than updates that the nodes share."""
    return record.passes * record.rows / record.nodes, record.steps


def fit_compute(records: Sequence[ComparedRun]) -> Compute:
    """Fit by non-negative least squares on relative errors, over the runs' seconds of computing."""
    work = np.array([work_of(record) for record in records], float)
    seconds = np.array([max(1e-9, computing(record)) for record in records])
    nodes = np.array([record.nodes for record in records])
    best, found = np.inf, Compute(0.0, 0.0)
    for factor in np.linspace(1, 2 * nodes.max(), _FACTORS) if (nodes == 1).any() and (nodes > 1).any() else [1.0]:
        slower = np.where(nodes > 1, factor, 1.0) / seconds
        solution, error = optimize.nnls(work * slower[:, None], np.ones(len(records)))
        if error < best:
            best, found = error, Compute(float(solution[0]), float(solution[1]), float(factor))
    return found


def computing(record: ComparedRun) -> float:
    """Seconds of training, without exchanges."""
    seconds: float = record.seconds.train - record.seconds.sync
    return seconds


def fit_network(sweep: Sequence[SweepPoint]) -> Network:
    """Fit by non-negative least squares on relative errors, over the sweep's sums."""
    nodes = np.array([point.nodes for point in sweep], float)
    sizes = np.array([point.bytes for point in sweep], float)
    seconds = np.array([point.seconds for point in sweep], float)
    terms = np.stack([2 * (nodes - 1), 2 * (nodes - 1) / nodes * sizes], axis=1)
    solution, _ = optimize.nnls(terms / seconds[:, None], np.ones(len(sweep)))
    return Network(float(solution[0]), float(solution[1]))


def fit_exchanges(network: Network, records: Sequence[ComparedRun]) -> Network:
    """`network`, plus the fixed cost of an exchange that the runs on several nodes had beyond what the sweep says."""
    together = [record for record in records if record.nodes > 1]
    beside = sum(
        record.seconds.sync - network.seconds(record.nodes, record.syncs, record.sync_bytes_per_node)
        for record in together
    )
    syncs = sum(record.syncs for record in together)
    return Network(network.latency, network.per_byte, max(0.0, beside / syncs)) if syncs else network


def ethernet(gbit_per_s: float, per_sync: float = 0.0) -> Network:
    """A network with that rate."""
    return Network(ETHERNET_LATENCY, 8e-9 / gbit_per_s, per_sync)


def predicted(record: ComparedRun, compute: Compute, network: Network, *, shared: bool = False) -> float:
    """Seconds of training of a run like `record`, virtual or not. shared: its nodes share a host, as measured."""
    rows, steps = work_of(record)
    exchanges = max(record.syncs, 1) if record.nodes > 1 else 0
    factor = compute.contention if shared and record.nodes > 1 else 1.0
    return factor * compute.seconds(rows, steps) + network.seconds(record.nodes, exchanges, record.sync_bytes_per_node)


def cost_model(
    table: Sequence[Row], real: Sequence[ComparedRun], virtual: Sequence[ComparedRun], measured: Measured
) -> CostModel | None:
    """The `cost_model` of results.json; None if nothing was run."""
    if not real:
        return None
    sweep = [point for sizes in (measured.sweeps or {}).values() for point in sizes]
    compute = fit_compute(real)
    network = fit_exchanges(fit_network(sweep) if sweep else Network(0.0, 0.0), real)
    rows = [row for row in table if row.timed]
    first = {(record.way, record.nodes): record for record in real}
    checks = []
    for row in rows:
        times = row.time or {}
        guess = predicted(first[row.way, row.nodes], compute, network, shared=True)
        mean = sum(times[name] for name in ("compute", "waiting", "synchronising"))
        checks.append(Check(row.way, row.nodes, mean, guess, guess / mean - 1 if mean else 0.0))
    return CostModel(
        seconds_per_row=compute.per_row,
        seconds_per_step=compute.per_step,
        sweep=sweep,
        latency_seconds=network.latency,
        seconds_per_byte=network.per_byte,
        seconds_per_exchange=network.per_sync,
        contention=compute.contention,
        text=(
            "Computing is linear in a node's rows and steps, fitted to the measured runs; an exchange costs "
            "2 (N - 1) messages and 2 (N - 1) / N times its bytes, fitted to the all-reduce sweep, and "
            f"a fixed {network.per_sync * 1e6:.0f} microseconds, fitted to the runs; nodes that share the host compute "
            f"{compute.contention:.2g} times as slowly as one alone. Beyond the nodes at hand a message is assumed to "
            f"take {ETHERNET_LATENCY * 1e6:.0f} microseconds, and each node to have a device of its own."
        ),
        checks=checks,
        predictions=_predictions(table, [*real, *virtual], compute, network.per_sync),
    )


def _predictions(
    table: Sequence[Row], records: Sequence[ComparedRun], compute: Compute, per_sync: float
) -> list[Prediction]:
    """Time to the target at each rate of the network, from the passes that each way took to reach it.

    None if not every run reached it: a way that often fails has no time that it could be given.
    """
    found: list[Prediction] = []
    first = {(record.way, record.nodes, record.virtual): record for record in records}
    for row in table:
        to = row.to_target
        record = first.get((row.way, row.nodes, row.virtual))
        if to is None or record is None:
            continue
        every = to.reached == to.of
        passes = to.passes if every else None
        for gbit in GBITS:
            whole = predicted(record, compute, ethernet(gbit, per_sync))
            seconds = None if passes is None else whole * passes / record.passes
            found.append(Prediction(row.way, row.nodes, passes, to.reached, to.of, gbit, seconds, measured=False))
        if not row.virtual and every and to.seconds is not None:
            found.append(Prediction(row.way, row.nodes, passes, to.reached, to.of, None, to.seconds, measured=True))
    return found
