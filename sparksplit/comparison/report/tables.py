"""The tables of the report: the texts of the cells, and the values that sort them."""

from __future__ import annotations

from urllib.parse import quote

from sparksplit.comparison.analysis.verdicts import BETTER, GOOD, UNDECIDED
from sparksplit.comparison.comparison_record import ComparedRun, DivergedRun
from sparksplit.comparison.content import Metric, Results
from sparksplit.comparison.content_costs import HandOffCheck
from sparksplit.comparison.content_table import OnHosts, Pair, Row, TimePair
from sparksplit.comparison.numbers import (
    MISSING,
    Quantity,
    bound,
    compact,
    count,
    duration,
    megabytes,
    node_time,
    part,
    percent,
    plain,
    signed,
)
from sparksplit.comparison.plan import SINGLE
from sparksplit.pages.tables import Cell, Table, number, text
from sparksplit.training.metric_facts import LOSS
from sparksplit.training.progress_record import Values

_EXPLAINED = {
    "own interval": "95 %, of this difference alone. Verdicts judge all differences together, so they are more careful",
    "at least": "a speed-up over single that is enough to recommend; in the same seconds, all hold together",
}
PREDICTED = "predicted by virtual nodes: the learning is computed, the time is not measured"


def called(item: OnHosts) -> str:
    """A strategy's name, with the number of its diverged runs if there are any."""
    return item.name + (f", {item.diverged} of {item.runs + item.diverged} diverged" if item.diverged else "")


def _verdict(pair: Pair | TimePair) -> str:
    """The verdict, and whether the difference is enough to recommend the row where the verdict leaves that open.

    Verdicts judge all differences together, and recommendations the row's own differences.
    """
    if pair.enough and pair.verdict == UNDECIDED:
        return f"{pair.verdict}, enough to recommend"
    promising = GOOD if pair.against == SINGLE else (BETTER,)
    is_asked = pair.against_nodes == 1 and not (isinstance(pair, Pair) and pair.virtual)
    if is_asked and not pair.enough and pair.verdict in ("faster", *promising):
        return f"{pair.verdict}, not enough to recommend"
    return pair.verdict


def pairs(results: Results) -> Table | None:
    """The paired differences."""
    pairs = results.pairs
    if not pairs:
        return None
    rows = []
    for pair in pairs:
        quantity = Quantity(pair.quantity)
        rows.append(
            [
                text(f"{pair.name}{' (virtual)' if pair.virtual else ''}, N = {pair.nodes}"),
                text(f"{pair.against}, N = {pair.against_nodes}"),
                text(quantity.label),
                number(pair.mean, quantity.difference(pair.mean)),
                number(pair.low, quantity.interval(pair.low, pair.high)),
                number(pair.seeds, part(pair.seeds, pair.of)),
                text(_verdict(pair)),
            ]
        )
    names = ("strategy", "against", "in", "difference", "own interval", "seeds", "verdict")
    caption = f"Differences between runs of the same seed, on the {results.metric.split} rows"
    known = {pair.rows_error is not None for pair in pairs if pair.low is not None}
    if known:
        caption += f". Interval: over the seeds {'and the rows' if True in known else 'alone, on these very rows'}"
        caption += ", where the runs tell of these" if len(known) > 1 else ""
    if any(pair.seeds < pair.of for pair in pairs):
        caption += ". Seeds: those with which both finished, where others diverged"
    return Table("differences", caption, [(name, _EXPLAINED.get(name, "")) for name in names], rows, filled_only=True)


def times(results: Results) -> Table | None:
    """The speed-ups between strategies."""
    if not results.times:
        return None
    rows = [
        [
            text(f"{pair.name}, N = {pair.nodes}"),
            text(f"{pair.against}, N = {pair.against_nodes}"),
            text(pair.what),
            number(pair.times, compact(pair.times)),
            number(pair.low, MISSING if pair.low is None else f"{compact(pair.low)} to {compact(pair.high)}"),
            number(pair.at_least, bound(pair.at_least)),
            number(pair.seeds, part(pair.seeds, pair.of)),
            text(_verdict(pair)),
        ]
        for pair in results.times
    ]
    names = ("strategy", "against", "time", "times as fast", "own interval", "at least", "seeds", "verdict")
    caption = "How many times as fast: seconds of runs of the same seed"
    return Table("times", caption, [(name, _EXPLAINED.get(name, "")) for name in names], rows, filled_only=True)


def strategies(results: Results, virtual: bool) -> Table | None:
    """The results of each strategy on each number of nodes, for real or for virtual nodes."""
    lines = [row for row in results.table if row.virtual == virtual]
    if not lines:
        return None
    metric = results.metric
    quantity = Quantity(metric.name)
    columns = [
        ("strategy", "how the nodes share the work"),
        ("N", "nodes"),
        ("runs", "one for each seed; those that finished, where others diverged"),
        ("passes", "readings of the whole training set, summed over the nodes"),
        ("updates", "changes of the weights that all nodes share"),
        ("syncs", "times that the nodes agreed"),
        ("MB per node", "sent by each node in all its synchronisations"),
        ("seconds", "of training, with waiting for rows and exchanges; without start, compiling and validation"),
        (
            "hand-off",
            "seconds until Spark had handed over the rows, once for all runs on so many nodes; not in seconds",
        ),
        ("rows/s", "trained, by all nodes together"),
        ("efficiency", "speed-up over one node, divided by N"),
        (f"{metric.split} {quantity.label}", "mean over the runs that finished"),
        ("interval", "of the mean, over the seeds, on these very rows"),
        (
            "time to target",
            "of training until the validation rows are seen to reach the target; only if they do in every run",
        ),
        ("passes to target", "until the validation rows are seen to reach the target: median over all runs"),
        ("reached", "runs that reached the target, of all"),
        ("node time", "to the target, of all nodes together"),
    ]
    rows = [_strategy(row, quantity) for row in lines]
    left_out = (
        {"seconds", "hand-off", "rows/s", "efficiency", "time to target", "node time"}
        if virtual
        else {"passes to target"}
    )
    if not results.target:
        left_out |= {"time to target", "passes to target", "reached", "node time"}
    kept = [index for index, (name, _) in enumerate(columns) if name not in left_out]
    caption = (
        PREDICTED[0].upper() + PREDICTED[1:]
        if virtual
        else "Measured on the nodes at hand: means over the seeds (of times: geometric)"
    )
    return Table(
        "virtual" if virtual else "measured",
        f"{caption}. Choose a column's name to sort by it.",
        [columns[index] for index in kept],
        [[row[index] for index in kept] for row in rows],
        sortable=True,
        filled_only=True,
    )


def _strategy(row: Row, quantity: Quantity) -> list[Cell]:
    metric, to = row.metric, row.to_target
    seconds, passes = (None, None) if to is None else (to.seconds, to.passes)
    hours = None if seconds is None else seconds * row.nodes / 3600
    reached = count(None) if to is None else f"{to.reached} of {to.of}"
    return [
        text(row.name),
        number(row.nodes, count(row.nodes)),
        number(row.runs, part(row.runs, row.runs + row.diverged)),
        *(number(value, count(value)) for value in (row.passes, row.updates, row.syncs)),
        number(row.bytes_per_node, megabytes(row.bytes_per_node)),
        number(row.seconds, plain(row.seconds, 3)),
        number(row.handoff, plain(row.handoff, 3)),
        number(row.rows_per_second, count(row.rows_per_second)),
        number(row.efficiency, percent(row.efficiency)),
        number(metric.mean, quantity.value(metric.mean)),
        number(metric.low, quantity.interval(metric.low, metric.high)),
        number(seconds, duration(seconds)),
        number(passes, compact(passes)),
        number(None if to is None else to.reached, reached),
        number(hours, node_time(hours)),
    ]


def handoffs(results: Results) -> Table | None:
    """Spark's hand-off to each cluster, beside the prediction."""
    handoffs = results.cost_model.handoffs if results.cost_model else []
    if not handoffs:
        return None
    rows = [
        [
            number(item.nodes, count(item.nodes)),
            number(item.rows, count(item.rows)),
            text("yes" if item.first else ""),
            number(item.measured, duration(item.measured)),
            number(item.predicted, duration(item.predicted)),
            number(item.error, count(None) if item.error is None else signed(percent(abs(item.error)), item.error)),
            text(_fitted_to(item)),
        ]
        for item in handoffs
    ]
    names = ("N", "rows sent", "first", "measured", "predicted", "error", "fitted to")
    return Table("handoffs", "Spark's hand-off, once for all runs of a cluster", [(name, "") for name in names], rows)


def _fitted_to(check: HandOffCheck) -> str:
    if check.predicted is None:
        return count(None)
    return "other numbers of nodes" if check.left_out else "these clusters, too"


def hosts(results: Results) -> Table | None:
    """Scale-up against scale-out: the same nodes on one host and on several."""
    scale = results.scale
    if not scale:
        return None
    rows = [
        [
            text(called(row)),
            number(row.nodes, count(row.nodes)),
            number(row.hosts, count(row.hosts)),
            text(row.link),
            number(row.seconds, compact(row.seconds)),
            text("measured" if row.measured else "predicted"),
        ]
        for row in scale
    ]
    names = ("strategy", "N", "hosts", "link", "seconds", "")
    return Table("hosts", "The same nodes on one host, and on several", [(name, "") for name in names], rows)


def runs(results: Results) -> Table | None:
    """Every run."""
    runs = [*results.runs, *results.virtual]
    if not runs and not results.diverged:
        return None
    metric = results.metric
    measured = dict.fromkeys(name for run in runs for name in _values(run, metric) if name != LOSS)
    names = [metric.name, *(name for name in measured if name != metric.name)]
    quantities = [Quantity(name) for name in names]
    rows = []
    for run in runs:
        values, seconds = _values(run, metric), run.history[-1].seconds if run.history else None
        rows.append(
            [
                _name_of(run),
                _nodes(run),
                number(run.seed, str(run.seed)),
                text("exact" if run.ledger.exact else "NOT exact"),
                text(run.weights),
                number(seconds, plain(seconds, 3)),
                number(handed := run.handoff.seconds if run.handoff else None, plain(handed, 3)),
                *(
                    number(values.get(name), quantity.value(values.get(name)))
                    for name, quantity in zip(names, quantities, strict=True)
                ),
            ]
        )
    for gone in results.diverged:
        nothing = number(None, count(None))
        cells = [_name_of(gone), _nodes(gone), number(gone.seed, str(gone.seed))]
        rows.append([*cells, text("diverged"), text(count(None)), nothing, nothing, *[nothing for _ in names]])
    columns = [
        (
            "strategy",
            "leads to the record of the run, in the folder runs beside this page: to nothing where only that was moved",
        ),
        ("N", "nodes"),
        ("seed", ""),
        ("ledger", "exact: every row once in each pass; diverged: the loss or the metric was no longer a number"),
        ("weights", "digest of the weights at the end"),
        ("seconds", "of training, as above; those of virtual nodes say nothing about real ones"),
        ("hand-off", "seconds until Spark had handed over the rows, once for all runs of a cluster; not in seconds"),
        *((f"{metric.split} {quantity.label}", "") for quantity in quantities),
    ]
    return Table(
        "runs", "Every run. Choose a column's name to sort by it.", columns, rows, sortable=True, filled_only=True
    )


def _name_of(run: ComparedRun | DivergedRun) -> Cell:
    return text(run.name, f"runs/{quote(run.key)}.json")


def _nodes(run: ComparedRun | DivergedRun) -> Cell:
    return number(run.nodes, f"{run.nodes} virtual" if run.virtual else count(run.nodes))


def _values(run: ComparedRun, metric: Metric) -> Values:
    """The run's values at its end, on the rows that decide."""
    if metric.split == "test":
        return run.metrics.test
    return {name: values[-1] for name, values in (run.metrics.validation or {}).items() if values}
