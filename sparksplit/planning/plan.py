"""The driver's part of a plan: start one or two nodes, and predict all runs from their measurements."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from statistics import fmean
from typing import TYPE_CHECKING, Any

from sparksplit.base.errors import Cancelled, SparksplitError
from sparksplit.base.progress import say
from sparksplit.base.version import __version__
from sparksplit.cluster.requirements import explained
from sparksplit.comparison.calibration import fit_network
from sparksplit.comparison.costs import FRAMES, Network, ethernet
from sparksplit.comparison.numbers import duration
from sparksplit.planning.decide import Planner, planned
from sparksplit.planning.fitting import works
from sparksplit.planning.measured import Measured
from sparksplit.planning.messages import SECONDS, PlanPayload
from sparksplit.planning.plan_config import PlanConfig, candidates, on_nodes
from sparksplit.planning.plan_record import FORMAT, Plan
from sparksplit.planning.predicted import Predictor
from sparksplit.planning.useful import useful
from sparksplit.planning.workload import step_sizes
from sparksplit.spark.application import called
from sparksplit.spark.session import spark_session
from sparksplit.training.inputs import RunInputs, open_data
from sparksplit.training.messages import settled
from sparksplit.training.own_models import with_compiled
from sparksplit.training.place import threads

if TYPE_CHECKING:
    from sparksplit.training.train_config import TrainConfig

COMMAND = "plan"
ASSUMED = "10Gbit"
"""The network between hosts, where it is neither given nor measured."""
_LATE = 1.2
"""How many times as long as it should measuring may take without a word."""
_NODES = 2
"""The nodes of the measurement: one measures steps, and two measure exchanges."""


def plan(config: PlanConfig) -> Plan:
    """Measure steps and exchanges for about half a minute, and predict the runs on up to `most_nodes` nodes. Train
    for `branch_seconds`, to find the useful mini-batch. Nothing is written.

    Raise UsageError for the user's mistakes, before Spark starts if they can be known by then. Raise RunError or a
    subclass if a node fails.
    """
    began = time.monotonic()
    config, _own = with_compiled(config)
    wanted = candidates(config)
    measuring = on_nodes(config, {"strategy": "batch", "collective": "ring"}, _NODES)
    single = on_nodes(config, {"strategy": "single"}, 1)
    data = open_data(single)
    if data.manifest.lanes < _NODES:
        raise config.error(
            "data", f"{data.path}: has one lane, so it cannot be trained on several nodes; prepare it with more"
        )
    lane_rows = data.split("train").lane_rows
    most = min(config.most_nodes, data.manifest.lanes)
    if most < config.most_nodes:
        say(f"planning for at most {most} nodes: the data set has {most} lanes, and a node needs a lane")
    fitting = [(candidate, works(candidate, lane_rows, most)) for candidate in wanted]
    fitting = [(candidate, by_number) for candidate, by_number in fitting if by_number or most == 1]
    measured = measure(measuring, step_sizes(config, most), config.branch_seconds)
    link, source = _link(config, measured)
    rows, worth, answer = planned(Planner(Predictor(measured, link), single, lane_rows), fitting, most)
    return Plan(
        format=FORMAT,
        version=__version__,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        seconds=round(time.monotonic() - began, 1),
        config=config.model_dump(mode="json"),
        link=config.link or (ASSUMED if source == "assumed" else _written(measured)),
        link_source=source,
        answer=answer,
        worth=worth,
        rows=rows,
        useful=useful(found) if (found := measured.branched) is not None and found.repeats else None,
        measured=measured,
    )


def measure(config: TrainConfig, sizes: list[int], branch_seconds: float = 0.0) -> Measured:
    """Measure steps with `sizes` rows on one node, and exchanges between two nodes. branch_seconds: train for so long
    with larger mini-batches."""
    from sparksplit.cluster import NodeCluster

    data = open_data(config)
    inputs = RunInputs.of(config, data)
    with spark_session(called(COMMAND, config.output), config.processes) as spark:
        payload = PlanPayload(
            config=settled(config, data, inputs.initial),
            places=config.origin.to_json(),
            sources=inputs.sent(None),
            threads=threads(config, spark),
            init=None if inputs.initial is None else inputs.initial.digest,
            sizes=sizes,
            branch_seconds=branch_seconds,
        )
        since, states = time.time(), dict[int, dict[str, Any]]()
        ended: str | None = None
        say(f"measuring steps and exchanges, for about {SECONDS:.0f} s, or longer if steps are slow")
        try:
            with NodeCluster(
                spark,
                config.processes,
                "sparksplit.planning.node:work",
                payload.to_json(),
                limits=config.limits,
                network=config.network,
                on_state=states.__setitem__,
            ) as cluster:
                found = cluster.run()[0]
        except SparksplitError as error:
            why, so_far = explained(error, spark, since), states.get(0, {}).get("measured")
            if so_far is None or isinstance(error, Cancelled):
                raise why from error
            say(f"the useful mini-batch was not found: {why}")
            found, ended = so_far, str(why)
    measured = Measured.from_json(found, "what the nodes have measured")
    if measured.branched is not None and ended is not None:
        measured = replace(measured, branched=replace(measured.branched, why=ended))
    if measured.seconds > _LATE * SECONDS:
        first = measured.alone[0]
        steps = f"a step of {first.rows:.0f} rows takes {duration(fmean(first.seconds))}"
        say(f"measuring took {measured.seconds:.0f} s: steps are slow, or the machine is busy ({steps})")
    return measured


def _link(config: PlanConfig, measured: Measured) -> tuple[Network | None, Any]:
    """Return the network between the nodes, and where it comes from. None: the measured network."""
    if config.planned_link is not None:
        return config.planned_link, "given"
    if len({*measured.hosts}) > 1:
        return None, "measured"
    return ethernet(float(ASSUMED.removesuffix("Gbit"))), "assumed"


def _written(measured: Measured) -> str:
    """Return the bandwidth at which both hosts sum, such as 9.4Gbit, as `link` takes it."""
    per_byte = fit_network(measured.sweep).per_byte
    if not per_byte:
        return "unlimited"
    mbit = max(1, round(FRAMES * 8e-6 / per_byte))
    return f"{mbit}Mbit" if mbit < 1000 else f"{mbit / 1000:.1f}Gbit"
