"""A plan in words: at most six lines, and a table."""

from __future__ import annotations

from collections.abc import Iterator

from rich.table import Table

from sparksplit.base.records import JsonObject
from sparksplit.base.yaml_edits import set_words
from sparksplit.comparison.answer.words import named
from sparksplit.comparison.numbers import compact, duration, megabytes, node_time, size
from sparksplit.planning.plan_record import Plan, PlanRow
from sparksplit.planning.predicted import Interval
from sparksplit.strategies.sync_config import SyncConfig

_SAVES = "saves less than 5 %"
_NO_SYNC = SyncConfig().model_dump(mode="json")


def words(plan: Plan) -> list[str]:
    """Return the answer of a plan in at most six lines of text."""
    return [_headline(plan), *_figures(plan), *_others(plan), _network(plan), _next(plan)]


def _headline(plan: Plan) -> str:
    choice, most = plan.answer.choice, max(row.nodes for row in plan.rows)
    if plan.answer.decision == "use":
        beyond = "More nodes were not planned for." if choice.nodes == most else f"A further node {_SAVES}."
        return f"Use {called(choice)}: {compact(choice.speed_up)} times as fast as 1 node, same result. {beyond}"
    return "Stay on 1 node: " + (
        "more were not planned for." if most == 1 else f"with `batch`, a second node {_SAVES}."
    )


def called(row: PlanRow) -> str:
    """A row in words, such as `2 nodes with local, sync every 32 steps`."""
    return "1 node" if row.name == "single" else named(row.name, row.nodes)


def _figures(plan: Plan) -> Iterator[str]:
    single, choice = plan.rows[0], plan.answer.choice
    shown = [single, choice] if choice.nodes > 1 else [single, *_on_two(plan)]
    told = "; ".join(f"{called(row)} {_time(row.seconds)} ({node_time(row.node_hours)})" for row in shown)
    yield f"Training time for {single.passes} epochs: {told}."
    yield f"Memory of a node: {size(choice.memory_bytes)}. Each node sends {size(choice.sent_bytes)} in all."


def _on_two(plan: Plan) -> list[PlanRow]:
    """The row of `batch` on two nodes."""
    return [row for row in plan.rows if row.name == "batch" and row.nodes == 2]


def _others(plan: Plan) -> Iterator[str]:
    if plan.answer.others:
        told = ", ".join(f"{called(row)} {duration(row.seconds.mean)}" for row in plan.answer.others[:2])
        yield f"Faster, but the model learns differently: {told}. `sparksplit compare` shows how well."


def _network(plan: Plan) -> str:
    source = {
        "given": "as given",
        "measured": "measured between two hosts",
        "assumed": "assumed; --link 1Gbit plans for another network",
    }
    beyond = "" if len(plan.measured.hosts) < 2 else " Rows marked ~ go beyond the measured nodes."
    return f"Network between hosts: {plan.link}, {source[plan.link_source]}.{beyond}"


def _next(plan: Plan) -> str:
    unfit: JsonObject = {"sync": {}, "local_batch_size": None, "min_nodes": None}
    set_there = {key: value for key, value in unfit.items() if plan.config.get(key) not in (None, {}, _NO_SYNC)}
    keys = set_words({**plan.answer.settings, **set_there})
    return f"Next: sparksplit train, with the same configuration and {keys}"


def table(plan: Plan) -> Table:
    """Return the table of all runs."""
    made = Table(box=None, pad_edge=False)
    for place, name in enumerate(
        ("strategy", "nodes", "time", "95 % interval", "speed-up", "cost", "sends, MB", "memory")
    ):
        made.add_column(name, justify="right" if place else "left", no_wrap=True)
    for row in plan.rows:
        made.add_row(
            row.name,
            f"{'~ ' if row.extrapolated else ''}{row.nodes}",
            duration(row.seconds.mean),
            _interval(row.seconds),
            compact(row.speed_up),
            node_time(row.node_hours),
            megabytes(row.sent_bytes),
            size(row.memory_bytes),
        )
    return made


def _time(seconds: Interval) -> str:
    between = _interval(seconds)
    return duration(seconds.mean) + (f" ({between})" if between else "")


def _interval(seconds: Interval) -> str:
    if seconds.low is None or seconds.high is None:
        return ""
    return f"{duration(max(0.0, seconds.low))} to {duration(seconds.high)}"
