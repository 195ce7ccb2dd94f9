"""What the nodes of a comparison do: their list of runs, one after the other, and the measurements around them."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from hdfs_io import filesystem
from hdfs_io.publish import check_owner
from sparksplit.base.config import Source, parse
from sparksplit.cluster import Member
from sparksplit.collectives import Alone, Collective
from sparksplit.rows.feed import Feed
from sparksplit.rows.ledger import Entry
from sparksplit.training import report
from sparksplit.training.config import TrainConfig
from sparksplit.training.node import configure, connect, train_once

SWEEP = [1 << power for power in range(10, 27)]
"""Bytes of the measured sums: 1 kB to 64 MB."""
_PROBE_SECONDS = 2.0
_SWEEP_BYTES = 1 << 26  # summed at each size, so that small sums are repeated and large ones take no time


class RunMember(Member):
    """A node's `Member` in one of its runs: the run's payload, and rendezvous of its own."""

    def __init__(self, member: Member, payload: dict[str, Any]) -> None:
        self.rank, self.size, self.payload = member.rank, member.size, payload
        self.host, self.secret, self.local_dir = member.host, member.secret, member.local_dir
        self.tf_config, self.stopping = member.tf_config, member.stopping
        self._member, self._prefix = member, payload["key"]

    def state(self, **fields: Any) -> None:
        self._member.state(**fields)

    def announce(self, **fields: Any) -> None:
        self._member.announce(**fields)

    def heard(self, name: str) -> Any:
        return self._member.heard(name)

    def await_news(self, seconds: float) -> None:
        self._member.await_news(seconds)

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """As Member.phase."""
        with self._member.phase(name):
            yield

    def gather(self, name: str, value: Any) -> list[Any]:
        """As Member.gather."""
        return self._member.gather(f"{self._prefix} {name}", value)


def work(member: Member) -> dict[str, Any]:
    """Do the runs of the payload; rank 0 leaves the record of each in the comparison's folder.

    payload: runs (the payload of each for training.node, its key and way, with record: a path), owner (of the output),
    output, threads, probe and sweep (whether to measure).
    """
    collective: Collective | None = None
    measured: dict[str, Any] = {}
    for number, run in enumerate(member.payload["runs"]):
        began = time.perf_counter()
        own = RunMember(member, run)
        config = parse(TrainConfig, run["config"], Source.from_json(run["source"]))
        with member.phase("start"):
            if collective is None:
                configure(config, member.payload["threads"])
                collective = connect(member, config, run["sources"])
                measured = _measure(member, own, config, collective)
                member.announce(measured=measured)
            else:
                _forget(config)
        member.announce(run=number, update=0, steps=0)
        result = train_once(own, config, collective, began)
        results = own.gather("result", result)
        if member.rank == 0:
            _record(member, run, config, results, began)
    if collective is not None:
        collective.close()
    return measured


def _forget(config: TrainConfig) -> None:
    """Begin anew in a process that has trained already."""
    import keras

    keras.backend.clear_session()
    gc.collect()
    keras.config.set_floatx(config.dtype)
    keras.utils.set_random_seed(config.seed)


def _record(member: Member, run: dict[str, Any], config: TrainConfig, results: list[Any], began: float) -> None:
    from hdfs_io.prepared import PreparedDataSet
    from sparksplit.strategies import find

    payload = member.payload
    data = PreparedDataSet.open(config.data, verify=False)
    split = data.manifest.splits["train"]
    way = find(config.strategy, run["sources"].get("strategy"))
    around = report.Circumstances(
        run_id=f"{run['config_hash']}-{run['key']}",
        config_hash=run["config_hash"],
        restarts=run["restarts"],
        application_id=payload["application_id"],
        start=results[0]["start_seconds"],
        total=round(time.perf_counter() - began, 3),
    )
    record = report.record(config, way, data, results, Entry(split.rows, split.checksum), around)
    more = {"key": run["key"], "way": run["way"], "seed": config.seed}
    more["history"] = report.learning_curve(results[0]["history"])
    check_owner(payload["output"], payload["owner"])
    filesystem.write_json(run["record"], {**more, **record.to_json()})


# Measurements.


def _measure(member: Member, own: RunMember, config: TrainConfig, collective: Collective) -> dict[str, Any]:
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    names = [tf.config.experimental.get_device_details(gpu).get("device_name", gpu.name) for gpu in gpus]
    found: dict[str, Any] = {"gpus": names}
    if member.payload["probe"]:
        found["probe"] = probe(own, config)
        _forget(config)
    if member.payload["sweep"] and member.size > 1:
        found["sweep"] = sweep(collective)
    return found


def probe(member: RunMember, config: TrainConfig) -> dict[str, float]:
    """rows_per_second and seconds of training alone for a moment, with the configured mini-batches."""
    from sparksplit.strategies.syncs import StepSync
    from sparksplit.training.process import Process

    alone = Alone()
    process = Process(member, _alone(config))
    process.build()
    step = process.step(StepSync(alone, config.sync), alone)
    rows = process.prepared_rows()
    feed = Feed(rows, np.arange(process.data.manifest.lanes), batch_size=config.batch_size, seed=config.seed)
    feed.max_updates = 4
    done, since, spent = 0, time.perf_counter(), 0.0
    for chunk in feed.epoch(0):
        step.train(chunk)
        done, spent = done + chunk.seen.rows, time.perf_counter() - since - step.warmup
        if spent > _PROBE_SECONDS:
            break
    feed.close()
    process.close()
    return {"rows_per_second": round(done / spent, 1), "seconds": round(spent, 3)}


def _alone(config: TrainConfig) -> TrainConfig:
    return config.model_copy(update={"strategy": "single", "nodes": 1})


def sweep(collective: Collective) -> list[dict[str, Any]]:
    """Seconds of a sum over the nodes, by bytes: the median of several."""
    found = []
    for size in SWEEP:
        values = np.zeros(size // 4, np.float32)
        repeats = max(3, min(50, _SWEEP_BYTES // size))
        seconds = []
        for _ in range(repeats + 1):
            began = time.perf_counter()
            collective.sum([values])
            seconds.append(time.perf_counter() - began)
        # Without the first: the nodes do not come to it at the same time.
        found.append({"nodes": collective.size, "bytes": size, "seconds": float(np.median(seconds[1:]))})
    return found
