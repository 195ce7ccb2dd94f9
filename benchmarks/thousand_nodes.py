"""What grows with the nodes, and takes no node to measure: dealing, the line of progress, the tables of the hand-off.

    python benchmarks/thousand_nodes.py [--nodes 1000] [--lanes 12000] [--rows 1000000000] [--partitions 1000]

Prints one JSON line last: seconds of a core, and MB. `control_plane.py` has the traffic between nodes and driver.
"""

from __future__ import annotations

import argparse
import json
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

from sparksplit.dataset import plan
from sparksplit.handoff.job import Fed
from sparksplit.handoff.sender import PackedPartition, Partition, Sent
from sparksplit.rows import order
from sparksplit.spark.task_facts import decode, encode
from sparksplit.training.display import RunDisplay

ROW_BYTES = 100
BEATS = 5


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("nodes", 1000), ("lanes", 12_000), ("rows", 10**9), ("partitions", 1000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    given = parser.parse_args()
    lane_rows = np.random.default_rng(1).multinomial(given.rows, np.full(given.lanes, 1 / given.lanes))
    found = {**vars(given)}
    for name, work in (
        ("dealing_a_pass", lambda: dealing(lane_rows, given.nodes)),
        ("lines_of_two_seconds", lambda: line(given.nodes)),
        ("tables_of_partitions", lambda: tables(given.partitions, given.nodes, given.lanes)),
    ):
        found[f"{name}_seconds"], found[f"{name}_mb"] = measured(work)
    print(json.dumps(found))


def measured(work: Callable[[], float]) -> tuple[float, float]:
    """(seconds of a core, which `work` counts itself; the most MB that it held, in a second run)."""
    seconds = work()
    tracemalloc.start()
    work()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return round(seconds, 3), round(most / 1e6, 1)


def dealing(lane_rows: np.ndarray[Any, Any], nodes: int) -> float:
    """One node's dealing of a whole pass."""
    lanes, depths = len(lane_rows), int(lane_rows.max())
    block_bytes = plan.block_bytes(lanes, 512 * 1024)
    window = plan.block_rows(ROW_BYTES, block_bytes) * plan.window_for(lanes, block_bytes)
    own = order.owned_lanes(lanes, 0, nodes)
    began = time.process_time()
    for first in range(0, depths, window):
        order.deal(lane_rows, own, first, min(first + window, depths))
        order.rows_above(lane_rows, np.array([min(first + window, depths)]))
    return time.process_time() - began


def line(nodes: int) -> float:
    """What the line of progress takes of a driver while each node beats once, which takes two seconds."""
    with RunDisplay(nodes) as display:
        began = time.process_time()
        for beat in range(BEATS):
            for rank in range(nodes):
                display.state(rank, {"steps": 10**6, "update": beat, "epochs": 4, "rows": 1000 * beat, "epoch": 0})
        return (time.process_time() - began) / BEATS


def tables(partitions: int, nodes: int, lanes: int) -> float:
    """What the driver takes for what tasks tell it of their partitions, and to tell a tenth of the nodes."""
    generator = np.random.default_rng(1)
    owned = [order.owned_lanes(lanes, rank, nodes).tolist() for rank in range(nodes)]
    texts = []
    for number in range(partitions):
        rows = generator.integers(50, 100, lanes)
        sent = [Sent(int(rows[own].sum()), int(generator.integers(0, 2**63))) for own in owned]
        texts.append(encode(Partition(number, sent, rows.tolist(), 5).packed()))
    began = time.process_time()
    fed = Fed.of([decode(PackedPartition, text) for text in texts], owned, lanes)
    for rank in range(0, nodes, 10):
        json.dumps(fed.to_node(rank, owned[rank]))
    return time.process_time() - began


if __name__ == "__main__":
    main()
