"""The nodes' part of a comparison: measure the cluster, then train one run after the other."""

from __future__ import annotations

import gc
import time
from typing import Any

import numpy as np

from sparksplit.base.records import JsonObject
from sparksplit.cluster.member import Member, MemberWithin
from sparksplit.collectives import Alone, Collective
from sparksplit.comparison.comparison_record import (
    ClusterPayload,
    ComparedRun,
    HandOff,
    NodeMeasured,
    Place,
    Probe,
    RunPayload,
    SweepPoint,
)
from sparksplit.comparison.machine import kind_of_host
from sparksplit.dataset.plan import window_for
from sparksplit.rows.feed import Feed, RowSource
from sparksplit.rows.ledger import Entry
from sparksplit.training import report
from sparksplit.training.messages import NodeResult
from sparksplit.training.node.main import begin_anew, configure, connect, train_once
from sparksplit.training.node.process import Process
from sparksplit.training.train_config import TrainConfig

SWEEP = [1 << power for power in range(10, 27)]
"""Bytes of the measured sums: 1 kB to 64 MB."""
_PROBE_SECONDS = 2.0
_SWEEP_BYTES = 1 << 26  # bytes to sum at each size: small sums repeat often, large sums stay short


class RunMember(MemberWithin):
    """A node's `Member` in one of its runs. Its `gather` calls carry the run's key, so they never meet the calls of
    another run."""

    def __init__(self, member: Member, key: str) -> None:
        super().__init__(member)
        self._prefix = key

    def gather(self, name: str, value: Any, *, beside: bool = False) -> list[Any]:
        """Like Member.gather."""
        return self._member.gather(f"{self._prefix} {name}", value, beside=beside)


def work(member: Member) -> JsonObject:
    """Do the runs of the ClusterPayload. Rank 0 writes a record of each run into the comparison's folder."""
    payload = ClusterPayload.from_json(member.payload, "what the driver gave")
    collective: Collective | None = None
    rows: RowSource | None = None
    handoff: HandOff | None = None
    place: Place | None = None
    for number, run in enumerate(payload.runs):
        run_member = RunMember(member, run.key)
        config = run.train_config()
        with member.phase("start"):
            if collective is None:
                configure(config, payload.threads)
                collective = connect(member, config, run.sources)
                place = _place(payload, run_member, config)
                if config.input_mode == "spark":
                    rows, handoff = _handed_over(payload, run_member, config)
                with member.phase("measuring"):
                    measured = _measure(payload, place, run_member, config, collective, rows)
                    member.announce(measured=measured.to_json())
            else:
                _forget(config)
        began = time.perf_counter()  # work that is done once per cluster is no part of its first run
        member.announce(run=number, update=0, reached=None, steps=0)
        result = train_once(run_member, run, config, collective, began, rows)
        briefs = run_member.gather("result", result.in_brief().to_json())
        if member.rank == 0:
            results = [result, *(NodeResult.from_json(each, "a node's result") for each in briefs[1:])]
            _record(payload, run, config, results, place, handoff, began)
    if collective is not None:
        collective.close()
    return {}


def _place(payload: ClusterPayload, member: RunMember, config: TrainConfig) -> Place:
    """Return where the cluster's times are measured. It is the same on all nodes."""
    hosts = member.gather("host", kind_of_host(_gpus()))
    known = report.versions()
    versions = tuple(f"{name} {known[name]}" for name in ("sparksplit", "tensorflow"))
    return Place(payload.cluster, tuple(sorted(set(hosts))), payload.threads, config.input_mode, versions)


def _handed_over(payload: ClusterPayload, member: RunMember, config: TrainConfig) -> tuple[RowSource, HandOff]:
    """Wait for Spark's hand-off. Return the rows that the runs read on this node, and the hand-off's measurements."""
    began = time.perf_counter()
    process = Process(member, payload.runs[0], config)
    try:
        rows = process.await_rows()
    finally:
        process.close()
    received = process.receiver.rows if process.receiver else 0
    told = member.gather("handed over", [time.perf_counter() - began, received])
    seconds, handed = zip(*told, strict=True)
    return rows, HandOff(round(max(seconds), 3), handed, len(payload.runs), not payload.handed)


def _forget(config: TrainConfig) -> None:
    """Reset the process after earlier training."""
    import keras

    keras.backend.clear_session()
    gc.collect()
    begin_anew(config)


def _record(
    payload: ClusterPayload,
    run: RunPayload,
    config: TrainConfig,
    results: list[NodeResult],
    place: Place | None,
    handoff: HandOff | None,
    began: float,
) -> None:
    from sparksplit.dataset.joined import open_joined
    from sparksplit.strategies import find

    data = open_joined(config.data, verify=False)
    split = data.manifest.splits["train"]
    strategy = find(config.strategy, run.sources.get("strategy"))
    around = report.Circumstances(
        run_id=f"{run.config_hash}-{run.key}",
        config_hash=run.config_hash,
        restarts=run.restarts,
        application_id=payload.application_id,
        total=round(time.perf_counter() - began, 3),
    )
    record = report.record(config, strategy, data, results, Entry(split.rows, split.checksum), around)
    curve = report.learning_curve(results[0].progress.history)
    compared = ComparedRun(
        **vars(record),
        key=run.key,
        name=run.name,
        seed=config.seed,
        history=curve,
        place=place,
        untrained=results[0].untrained,
        jackknife=results[0].jackknife,
        handoff=handoff,
    )
    run.fence.write_json(run.record, compared.to_json())


# Measurements.


def _measure(
    payload: ClusterPayload,
    place: Place,
    member: RunMember,
    config: TrainConfig,
    collective: Collective,
    rows: RowSource | None,
) -> NodeMeasured:
    """Measure training alone on one node, or sums over several, unless that was measured in this place before."""
    probed: Probe | None = None
    swept: list[SweepPoint] | None = None
    if not any((one.place, one.nodes) == (place, member.size) for one in payload.measured):
        if member.size > 1:
            swept = sweep(collective)
        else:
            probed = probe(member, payload.runs[0], config, rows)
            _forget(config)
    return NodeMeasured(place, member.size, _gpus(), probed, swept)


def _gpus() -> list[str]:
    """The names of this node's GPUs."""
    import tensorflow as tf

    gpus = tf.config.get_visible_devices("GPU")
    return [tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name) for gpu in gpus]


def probe(member: RunMember, run: RunPayload, config: TrainConfig, rows: RowSource | None) -> Probe:
    """Measure training alone for up to about two seconds, with the configured mini-batches. rows: as for Process."""
    from sparksplit.strategies.syncs import StepSync

    alone = Alone()
    process = Process(member, run, _alone(config), rows)
    process.build()
    step = process.step(StepSync(alone, config.sync), alone)
    source = process.await_rows()
    manifest = process.data.manifest
    window = config.window or window_for(manifest.lanes, manifest.block_bytes)
    feed = Feed(
        source,
        np.arange(manifest.lanes),
        batch_size=config.batch_size,
        seed=config.seed,
        window=window,
        shuffled=manifest.order == "hash",
    )
    feed.max_updates = 4
    done, since, spent = 0, time.perf_counter(), 0.0
    for chunk in feed.epoch(0):
        step.train(chunk)
        done, spent = done + chunk.seen.rows, time.perf_counter() - since - step.warmup
        if spent > _PROBE_SECONDS:
            break
    feed.close()
    process.close()
    return Probe(round(done / spent, 1), round(spent, 3))


def _alone(config: TrainConfig) -> TrainConfig:
    return config.model_copy(update={"strategy": "single", "nodes": 1})


def sweep(collective: Collective) -> list[SweepPoint]:
    """Measure the seconds of a sum over the nodes, for each size in SWEEP: the median of several sums."""
    points = []
    for size in SWEEP:
        values = np.zeros(size // 4, np.float32)
        repeats = max(3, min(50, _SWEEP_BYTES // size))
        seconds = []
        for _ in range(repeats + 1):
            began = time.perf_counter()
            collective.sum([values])
            seconds.append(time.perf_counter() - began)
        # Without the first sum, which the nodes do not start at the same time.
        points.append(SweepPoint(collective.size, size, float(np.median(seconds[1:]))))
    return points
