"""How much local disk space a run's nodes need: the rows that Spark hands over stay there while the run lasts."""

from __future__ import annotations

from collections.abc import Sequence

from sparksplit.dataset.description import Description
from sparksplit.strategies.splits import BatchSplit, Split, owned_by_rank
from sparksplit.training.inputs import RunInputs, open_data
from sparksplit.training.train_config import TrainConfig

_OFFSET = 4  # bytes for each value of a binary column, in Arrow's files


def spooled(config: TrainConfig) -> list[int]:
    """Return the bytes that each node spools, by rank; [] with input_mode: tensorflow.

    Raise UsageError if the configuration names something that does not exist.
    """
    if config.input_mode != "spark":
        return []
    inputs = RunInputs.of(config, open_data(config))
    split = BatchSplit() if config.virtual else inputs.strategy.split
    lane_rows = inputs.data.manifest.splits["train"].lane_rows
    return spool_bytes(inputs.data.description, lane_rows, split, config.processes)


def spool_bytes(description: Description, lane_rows: Sequence[int], split: Split, nodes: int) -> list[int]:
    """Return the bytes that each of `nodes` nodes spools, by rank. lane_rows: rows of each lane."""
    row = 8 + sum(_OFFSET + tensor.row_bytes for tensor in description.tensors)
    if description.label is not None:
        row += description.label.row_bytes + (_OFFSET if description.label.shape else 0)
    return [row * sum(lane_rows[lane] for lane in lanes) for lanes in owned_by_rank(split, len(lane_rows), nodes)]
