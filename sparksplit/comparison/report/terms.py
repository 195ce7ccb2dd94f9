"""The cost model's terms, each with a sentence that explains it."""

from __future__ import annotations

from sparksplit.comparison.content import Results
from sparksplit.comparison.content_costs import CostModel
from sparksplit.comparison.numbers import duration, percent, plain
from sparksplit.pages.tables import Cell, Table, number, text

_SECONDS = {
    "seconds_to_begin": "Before the first row of a run arrives, its nodes wait so long.",
    "seconds_per_row_read": "For each row that it trains on, a node waits so long for it to be read.",
    "seconds_per_row": "For each row, a node computes so long.",
    "seconds_per_step": "For each mini-batch, a node computes so long whatever its rows.",
    "seconds_per_exchange_in_graph": "An exchange at a step costs a node so long before anything is sent.",
    "seconds_per_exchange_between": "An exchange for which a node leaves its compiled step costs it so long.",
    "latency_seconds": "A message between two nodes takes so long, however short; a sum over N of them is 2 (N - 1).",
    "seconds_per_byte": "Each byte that a node sends takes so long.",
    "seconds_per_meeting": "At each exchange, nodes wait so long until all have come to it.",
    "seconds_to_begin_first_handoff": "The first hand-off of an application takes so long, however few rows it sends.",
    "seconds_to_begin_handoff": "Each later hand-off takes so long, however few rows it sends.",
    "seconds_per_row_handed": "Each row that Spark sends to a node takes so long, once for all runs of a cluster.",
}
_SHARES = {
    "contention": "Each other node that computes on the same host makes a node slower by this share.",
    "uneven": "At exchanges, nodes wait for the slowest: this share of what they compute.",
}


def terms(results: Results) -> Table | None:
    """Return the table of the cost model's terms; None without a cost model."""
    model = results.cost_model
    if model is None:
        return None
    columns = [("term", ""), ("value", ""), ("which says", "")]
    caption = "What the cost model adds up. A term of 0 did not show in these runs"
    told = {name: said for name, said in (_SECONDS | _SHARES).items() if getattr(model, name) is not None}
    return Table("terms", caption, columns, [_line(model, name, said) for name, said in told.items()])


def _line(model: CostModel, name: str, said: str) -> list[Cell]:
    value = getattr(model, name)
    written = percent(value, 1) if name in _SHARES else _seconds(value)
    return [
        text(name.removeprefix("seconds_").replace("_", " ").removesuffix(" seconds")),
        number(value, written),
        text(said),
    ]


def _seconds(value: float) -> str:
    """Write seconds. Times below a microsecond, such as a byte's, are in ns."""
    return f"{plain(value * 1e9, 3)} ns" if 0 < value < 1e-6 else "0" if value == 0 else duration(value)
