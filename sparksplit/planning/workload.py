"""The work of a run, counted from its configuration: steps, rows and exchanges. Pure functions of integers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from sparksplit.collectives import Alone
from sparksplit.rows.order import even_share
from sparksplit.rows.shares import largest_share
from sparksplit.strategies import Strategy
from sparksplit.strategies.splits import Split
from sparksplit.training.node.schedule import Schedule, Stretch
from sparksplit.training.train_config import TrainConfig

Kind = Literal["gradients", "own gradients", "weights", "weights, outer optimiser"]
"""What the nodes exchange: gradients of a mini-batch that they share or of their own mini-batches, or weights."""


@dataclass(frozen=True)
class Stage:
    """The rounds of a run with one strategy, on the node with the most steps.

    step_rows: the mean number of rows of a step on this node. If nodes share a mini-batch, they wait for the node with
    the most rows of it, so its rows count. steps: the node's steps, in all rounds. kind: of its exchanges. exchanges:
    in all rounds; 0 on one node. rounds: passes of this node. even: the share of the steps in which a node always has
    as many rows. These have a faster graph.
    """

    step_rows: float
    steps: int
    kind: Kind
    exchanges: int
    rounds: int
    even: float


@dataclass(frozen=True)
class Workload:
    """The work of a whole run. passes: over all rows, summed over the nodes. pass_rows: the rows of the node with the
    most rows, in one of its epochs."""

    nodes: int
    stages: tuple[Stage, ...]
    passes: int
    pass_rows: int

    @property
    def exchanges(self) -> int:
        """Exchanges in the whole run."""
        return sum(stage.exchanges for stage in self.stages)


def workload(config: TrainConfig, strategy: Strategy, lane_rows: Sequence[int]) -> Workload:
    """Return the work of a run with `config`. lane_rows: the rows of each lane of the training split."""
    nodes, lanes = config.node_count, len(lane_rows)
    after = config.sync.after if strategy.settings else 0
    schedule = Schedule(
        strategy.split, nodes, lanes, lane_rows, config.epochs, config.batch_size, config.local_batch_size, after
    )
    stages, passes, pass_rows = [], 0, 0
    for stretch in schedule.stretches():
        epochs = schedule.rounds(stretch, stretch.begins).epochs
        rounds = len(epochs[0])
        stages.append(_stage(config, strategy, stretch, rounds, lane_rows))
        passes += rounds * (nodes if stretch.split.every_row else 1)
        pass_rows = max(pass_rows, _most_rows(stretch, nodes, lane_rows))
    return Workload(nodes, tuple(stages), passes, pass_rows)


def _stage(config: TrainConfig, strategy: Strategy, stretch: Stretch, rounds: int, lane_rows: Sequence[int]) -> Stage:
    nodes, split = config.node_count, stretch.split
    sync = strategy.sync(Alone(), config.sync)
    each_step = sync.every_step or not stretch.own
    if split.shared:
        batch = split.batch_size(config.batch_size, nodes)
        step_rows = _largest_share(stretch, batch, nodes, lane_rows)
    else:
        step_rows = _most_rows(stretch, nodes, lane_rows) / max(1, stretch.steps)
    every = stretch.steps if sync.every is None else sync.every
    exchanges = stretch.steps if each_step else math.ceil(stretch.steps / every)
    return Stage(
        step_rows=step_rows,
        steps=rounds * stretch.steps,
        kind=_kind(config, split, each_step),
        exchanges=rounds * exchanges if nodes > 1 else 0,
        rounds=rounds,
        even=_even(config, stretch, lane_rows),
    )


def _kind(config: TrainConfig, split: Split, each_step: bool) -> Kind:
    if each_step:
        return "gradients" if split.shared else "own gradients"
    return "weights" if config.sync.outer == "none" else "weights, outer optimiser"


def _even(config: TrainConfig, stretch: Stretch, lane_rows: Sequence[int]) -> float:
    """Return the share of the steps of the first node in which it has equally many rows, as its feed finds them."""
    split, nodes = stretch.split, config.node_count
    own = split.lanes(len(lane_rows), 0, nodes)
    rows = np.array(lane_rows, np.int64)
    if split.dealt_apart:
        rows[np.setdiff1d(np.arange(len(rows)), own)] = 0
    batch = split.batch_size(config.batch_size, nodes)
    if split.dealt_apart and config.local_batch_size:
        batch = config.local_batch_size
    return min(1.0, even_share(rows, own, batch)[0] / max(1, stretch.steps))


def _largest_share(stretch: Stretch, batch: int, nodes: int, lane_rows: Sequence[int]) -> float:
    owner = np.zeros(len(lane_rows), np.int64)
    for rank in range(nodes):
        owner[stretch.split.lanes(len(lane_rows), rank, nodes)] = rank
    return largest_share(np.array(lane_rows, np.int64), owner, batch)


def _most_rows(stretch: Stretch, nodes: int, lane_rows: Sequence[int]) -> int:
    """Return the rows of the node with the most rows, in one epoch."""
    rows = np.array(lane_rows, np.int64)
    return max(int(rows[stretch.split.lanes(len(lane_rows), rank, nodes)].sum()) for rank in range(nodes))


def numbers(most: int) -> list[int]:
    """Return the numbers of nodes that a plan shows: 1, 2, 3, 4, 6, 8, 12, ... up to `most`, and `most` itself."""
    powers = (1 << power for power in range(most.bit_length()))
    shown = {number for power in powers for number in (power, power + power // 2) if number <= most}
    return sorted(shown | {most})


def step_sizes(config: TrainConfig, most: int) -> list[int]:
    """Return the rows of a step to measure, the most useful first: the mini-batch, its smallest part, its other halves,
    and own mini-batches.

    The first two are always measured. They are as far apart as steps can be, so a step's fixed cost shows.
    """
    batch = config.batch_size
    halves = [max(1, batch >> power) for power in range(most.bit_length())]
    spread = [halves[0], halves[-1], halves[1 % len(halves)], *halves[3::3], *halves]
    return list(dict.fromkeys([*spread, *([config.local_batch_size] if config.local_batch_size else [])]))


def sampled_sizes(sizes: Sequence[int], rows: int) -> list[int]:
    """Return `sizes` for steps on a sample of `rows` rows. Steps with more rows would all be the same step.

    A single size gets its half beside it.
    """
    found = list(dict.fromkeys(min(size, rows) for size in sizes))
    return found if len(found) > 1 or found[0] < 2 else [found[0], found[0] // 2]
