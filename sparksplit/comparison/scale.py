"""Scale-up against scale-out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sparksplit.comparison.content_costs import CostModel
from sparksplit.comparison.content_table import OnHosts, Row
from sparksplit.comparison.costs import ethernet

LINK_GBIT = 0.1
"""Bandwidth of the slow link between several hosts, in Gbit/s: 100 Mbit/s."""


def scale(table: Sequence[Row], model: CostModel | None) -> list[OnHosts]:
    """Return the `scale` of results.json: each strategy on the hosts at hand, and on as many hosts as nodes with a slow
    link.

    The times on the hosts at hand are measured. The prediction replaces the measured time of exchanges with the slow
    link's time.
    """
    rows: list[OnHosts] = []
    link = ethernet(LINK_GBIT)
    for row in table:
        if row.virtual or not row.runs:
            continue
        here = OnHosts(
            name=row.name,
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
    return rows
