"""A plan in words: at most six lines, a table, and at most three lines on mini-batches."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rich.table import Table

from sparksplit.base.records import JsonObject
from sparksplit.base.yaml_edits import set_words
from sparksplit.comparison.named import named
from sparksplit.comparison.numbers import compact, duration, megabytes, node_time, size
from sparksplit.planning.measured import Branched
from sparksplit.planning.plan_record import Branch, Plan, PlanRow, Useful
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
        told = f"Use {called(choice)}{_apart(plan)}: {compact(choice.speed_up)} times as fast as 1 node"
        return f"{told}, same result (except with BatchNorm or Dropout). {beyond}"
    return "Stay on 1 node: " + (
        "more were not planned for." if most == 1 else f"with `batch`, a second node {_SAVES}."
    )


def _apart(plan: Plan) -> str:
    """Where the nodes must be, if those that were measured share a host."""
    return f", each on a {_place(plan)} of its own" if len({*plan.measured.hosts}) == 1 else ""


def _place(plan: Plan) -> str:
    return "host" if plan.measured.devices == ["CPU"] else "GPU"


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
        "measured": "the rate of sums that was measured between two hosts",
        "assumed": "assumed; --link 1Gbit plans for another network",
    }
    beyond = "" if len(plan.measured.hosts) < 2 else " Rows marked ~ go beyond the measured nodes or rows of a step."
    return f"Network between hosts: {plan.link}, {source[plan.link_source]}.{beyond}"


def _next(plan: Plan) -> str:
    unfit: JsonObject = {"sync": {}, "local_batch_size": None, "min_nodes": None, "comparison": None}
    set_there = {key: value for key, value in unfit.items() if plan.config.get(key) not in (None, {}, _NO_SYNC)}
    keys = set_words({**plan.answer.settings, **set_there})
    nodes = plan.answer.choice.nodes
    where = f" on {nodes} {_place(plan)}s" if nodes > 1 and _apart(plan) else ""
    return f"Next{where}: sparksplit train, with the same configuration and {keys}"


def mini_batches(plan: Plan) -> list[str]:
    """Return what is known of the useful mini-batch, in at most three lines. Empty if it was not looked for."""
    branched, useful = plan.measured.branched, plan.useful
    if branched is None:
        return []
    if useful is None:
        return [f"Useful mini-batch: not known. {_problem(branched)}"]
    size, told = branched.batch_sizes[0], ", ".join(map(_branch, useful.branches))
    return [
        f"Useful mini-batch: {_size(useful, size)}",
        f"From the same rows, compared with mini-batches of {size}: {told}. Measured after {branched.rows:,} rows.",
        f"Gradient noise scale: {_noise(useful.noise_scale)}",
    ]


def _size(useful: Useful, configured: int) -> str:
    size = useful.batch_size
    if size is None:
        return f"not known. The loss does not surely fall with {configured} rows."
    rate = next((branch.rate_factor for branch in useful.branches if branch.batch_size == size), None)
    told = f"{size} rows" + ("" if rate is None else f", with {rate:.3g} times the learning rate")
    following = next((branch for branch in useful.branches if branch.batch_size > size), None)
    if following is None:
        return f"{told}. Larger ones were not tried."
    if following.learns == "less":
        return f"{told}. {following.batch_size} rows learn less."
    return f"at least {told}. It is undecided whether {following.batch_size} rows learn as much."


def _branch(branch: Branch) -> str:
    share = branch.share
    if share is None:
        return f"{branch.batch_size} {'are undecided' if branch.learns == 'undecided' else f'learn {branch.learns}'}"
    if share.mean < 0:
        return f"{branch.batch_size} raise the loss"
    between = "" if share.low is None or share.high is None else f" ({100 * share.low:.0f} to {100 * share.high:.0f} %)"
    return f"{branch.batch_size} learn {100 * share.mean:.0f} %{between}"


def _noise(scale: Interval | None) -> str:
    if scale is None:
        return "not known, because the gradients differ too much."
    between = "" if scale.low is None or scale.high is None else f" ({scale.low:,.0f} to {scale.high:,.0f})"
    return f"{scale.mean:,.0f} rows{between}. It rests on stronger assumptions: see docs/plan.md."


def _problem(branched: Branched) -> str:
    if branched.problem == "seconds":
        return f"Branches need more time: --set branch_seconds={math.ceil(1.2 * (branched.needed or 0.0))}"
    return {
        "rows": f"The sample of {branched.sampled:,} rows has too few mini-batches, or the run is too short.",
        "loss": "The loss is not finite with the configured learning rate.",
        "node": f"A node ended meanwhile: {(branched.why or 'not known why').partition(chr(10))[0]}",
        "order": "The data set has `order: given`, and a sample of its rows comes in another order.",
        "memory": f"There is too little memory for {branched.batch_sizes[-1]} rows.",
    }[branched.problem or "rows"]


def table(plan: Plan) -> Table:
    """Return the table of all runs."""
    made = Table(box=None, pad_edge=False)
    columns = ["strategy", "nodes", "time", "95 % interval", "speed-up", "cost", "sends, MB", "memory"]
    # Strategies that share epochs may round them up.
    has_passes = len({row.passes for row in plan.rows}) > 1
    for place, name in enumerate([*columns, *(["passes"] if has_passes else [])]):
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
            *([str(row.passes)] if has_passes else []),
        )
    return made


def _time(seconds: Interval) -> str:
    between = _interval(seconds)
    return duration(seconds.mean) + (f" ({between})" if between else "")


def _interval(seconds: Interval) -> str:
    if seconds.low is None or seconds.high is None:
        return ""
    return f"{duration(max(0.0, seconds.low))} to {duration(seconds.high)}"
