"""report.html: one page that says which strategy to use, with the evidence.

The page is self-contained: style, script and pictures are inline, and nothing is fetched. So it can be mailed, kept and
opened from a disk. Every number comes from the results. If a part is missing, its section says so.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import yaml

from sparksplit.comparison.answer.words import words
from sparksplit.comparison.content import Results
from sparksplit.comparison.numbers import Quantity, count, percent, size, steps
from sparksplit.comparison.report import charts, charts_cost, charts_nodes, overview, tables, terms, tuned
from sparksplit.comparison.report.certainty import how_sure
from sparksplit.comparison.tuning import said
from sparksplit.pages import rendered, sentence
from sparksplit.strategies import STRATEGIES


def render(results: Results) -> str:
    """The page. The same results give the same bytes."""
    return rendered(
        "sparksplit.comparison.report",
        "report.html.jinja",
        title=f"How to train {results.model}",
        subtitle=list(_subtitle(results)),
        said=words(results, "under Details"),
        overview=overview.overview(results),
        first=overview.first_rows(results),
        how_sure=list(how_sure(results)),
        notes=list(_notes(results)),
        pairs=tables.pairs(results),
        times=tables.times(results),
        forest=charts.forest(results),
        strategies=list(_strategies(results)),
        measured=tables.strategies(results, virtual=False),
        virtual=tables.strategies(results, virtual=True),
        tuned=tuned.chosen(results),
        tries=tuned.tries(results),
        tuning_cost="" if results.tuning is None else said.cost(results.tuning, results.all_finished),
        pictures=_pictures(results),
        costs=_costs(results),
        cost_text=results.cost_model.text if results.cost_model else "",
        handoffs=tables.handoffs(results),
        terms=terms.terms(results),
        hosts=tables.hosts(results),
        command=f"sparksplit {results.command} --config FILE",
        config=yaml.safe_dump(_plain(results.config), sort_keys=False, allow_unicode=True),
        facts=list(_facts(results)),
        runs=tables.runs(results),
    )


def _pictures(results: Results) -> list[Any]:
    draw = (charts_nodes.scaling, charts_nodes.times, charts_nodes.exchange, charts_nodes.spread)
    return [*charts.learning(results), *(picture(results) for picture in draw)]


def _costs(results: Results) -> list[Any]:
    return [*charts_cost.predictions(results), charts_cost.checks(results), charts_cost.sweep(results)]


def _subtitle(results: Results) -> Iterator[str]:
    yield f"data {results.data.path}"
    yield f"made {datetime.fromisoformat(results.created):%Y-%m-%d %H:%M %Z}"
    yield f"sparksplit {results.sparksplit}"


def _notes(results: Results) -> Iterator[str]:
    """Yield what a reader needs before the numbers, besides the notes of the answer."""
    epochs = results.epochs
    if results.tuning is not None:
        yield from said.kept(results.tuning)
    if epochs.run != epochs.asked:
        reason = f": {epochs.reason}" if epochs.reason else ""
        yield f"Of {count(epochs.asked)} epochs asked for, {count(epochs.run)} were run{reason}."
    if results.target:
        yield f"The target is {results.target_in_words}, {overview.set_by(results)}."
        if results.grid:
            yield f"Runs are looked at after the same passes: {steps(results.grid)}."
    else:
        yield "No run measured the metric on validation rows, so there is no time to a target."
    if elsewhere := [run.key for run in results.runs if not run.is_timed_in(results.place)]:
        yield (
            f"Times that do not count, because they were not measured where most were, which is {results.place}: "
            f"{', '.join(elsewhere)}."
        )
    if results.diverged:
        yield "Runs that diverged are left out of all means."
    wrong = sum(not run.ledger.exact for run in results.runs + results.virtual)
    if wrong:
        yield f"Runs whose ledger is NOT exact, and whose numbers are not to be trusted: {count(wrong)}."


def _strategies(results: Results) -> Iterator[tuple[str, str]]:
    """Yield (name, sentence) of each compared strategy, except the user's own strategies."""
    compared = {row.strategy for row in results.table}
    return ((name, sentence(strategy.told)) for name, strategy in STRATEGIES.items() if name in compared)


def _facts(results: Results) -> Iterator[tuple[str, str]]:
    """Yield (name, value) of the facts that the numbers depend on."""
    machine, data, metric = results.machine, results.data, results.metric
    quantity = Quantity(metric.name)
    margin = quantity.difference(metric.margin).lstrip("+")
    better = "higher" if metric.higher_is_better else "lower"
    yield "model", results.model
    yield "data", data.path
    yield "data's digest", data.digest
    yield "rows", ", ".join(f"{count(rows)} {name}" for name, rows in data.rows.items())
    yield "metric", f"{quantity.label} of the {metric.split} rows; {better} is better; no difference within {margin}"
    if metric.range is not None:
        ends = f"{quantity.value(metric.range.untrained)} untrained, {quantity.value(metric.range.trained)} trained"
        yield "margin", f"{percent(metric.share, 2)} of the metric's range ({ends}, by {metric.range.by}): {margin}"
    yield "nodes", ", ".join(str(nodes) for nodes in results.nodes)
    yield "seeds", ", ".join(str(seed) for seed in results.seeds)
    yield "config's hash", results.config_hash
    if results.place is not None:
        yield "times", f"measured on {results.place}"
    yield "machine", f"{count(machine.cores)} cores, {size(machine.memory_bytes)} memory, {machine.processor}"
    yield "GPUs", ", ".join(str(gpu) for gpu in machine.gpus) or "none"
    yield "system", f"{machine.system}, Python {machine.python}"
    yield "versions", ", ".join(f"{name} {version}" for name, version in results.versions.items())


def _plain(value: Any) -> Any:
    """`value` as plain dictionaries and lists, which YAML writes without tags."""
    return json.loads(json.dumps(value))
