"""Scale-up against scale-out, and the six figures that the question began with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sparksplit.comparison.content import OnHosts, Original, Ours, Row, Scale
from sparksplit.comparison.content_costs import CostModel
from sparksplit.comparison.costs import ETHERNET_LATENCY, Network

LINK_GBIT = 0.1
"""The rate of the slow link for which the times on several hosts are predicted: 100 Mbit/s."""

ORIGINAL = (
    ("Keras, GPUs of one machine", 1, 150.0),
    ("Keras, GPUs of one machine", 2, 127.0),
    ("Keras, GPUs of one machine", 4, 82.0),
    ("Horovod, machines", 1, 166.0),
    ("Horovod, machines", 2, 143.0),
    ("Horovod, machines", 4, 89.0),
)
"""(who, nodes, seconds): K80 GPUs, an LSTM, 200 epochs that were split over the nodes."""


def scale(table: Sequence[Row], model: CostModel | None) -> Scale:
    """The `scale` of results.json: each way on the hosts at hand as measured, and on as many hosts as nodes with a slow
    link, predicted by replacing the measured time of exchanges by the link's."""
    rows: list[OnHosts] = []
    link = Network(ETHERNET_LATENCY, 8e-9 / LINK_GBIT)
    for row in table:
        if row.virtual or not row.runs:
            continue
        here = OnHosts(
            way=row.way,
            nodes=row.nodes,
            runs=row.runs,
            diverged=row.diverged,
            hosts=row.hosts,
            link="loopback" if row.hosts == 1 else "this cluster's",
            seconds=row.seconds,
            measured=True,
        )
        rows.append(here)
        if row.nodes > 1 and model is not None and row.seconds is not None and row.time is not None:
            exchanges = link.seconds(row.nodes, row.syncs or 0, row.bytes_per_node or 0.0)
            seconds = row.seconds - row.time["synchronising"] + exchanges
            rows.append(replace(here, hosts=row.nodes, link="100 Mbit/s", seconds=seconds, measured=False))
    alone = {who: seconds for who, nodes, seconds in ORIGINAL if nodes == 1}
    original = [Original(who, nodes, seconds, alone[who] / (nodes * seconds)) for who, nodes, seconds in ORIGINAL]
    ours = [
        Ours(row.way, row.nodes, row.runs, row.diverged, row.seconds, row.efficiency)
        for row in table
        if not row.virtual and row.efficiency is not None
    ]
    return Scale(rows, original, ours)
