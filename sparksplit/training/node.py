"""What one node does, from its start to its result."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from hdfs_io import filesystem
from hdfs_io.functions import FunctionError
from sparksplit.base.config import Source, parse
from sparksplit.cluster import Member
from sparksplit.collectives import Collective, join
from sparksplit.training.config import TrainConfig
from sparksplit.training.process import Process
from sparksplit.training.worker import Worker

if TYPE_CHECKING:
    from hdfs_io.publish import Output


def work(member: Member) -> dict[str, Any]:
    """Train as one node of the run that `member.payload` describes; the result, for the driver.

    payload: config (of TrainConfig), source (its places), run (the folder to fill), output (what it is to become),
    owner (of that), sources (users' files by key), config_hash, checkpoint (a path or None), seconds_before (of the
    run's earlier attempts), threads.
    """
    began = time.perf_counter()
    with member.phase("start"):
        payload = member.payload
        config = parse(TrainConfig, payload["config"], Source.from_json(payload["source"]))
        configure(config, payload["threads"])
        collective = connect(member, config, payload["sources"])
    try:
        return train_once(member, config, collective, began)
    finally:
        collective.close()


def train_once(member: Member, config: TrainConfig, collective: Collective, began: float) -> dict[str, Any]:
    """One training run of an already configured process, whose counters begin at zero; `work`'s result.

    collective: between the real nodes. began: when the run did (time.perf_counter).
    """
    with member.phase("start"):
        process = Process(member, config)
        try:
            if config.virtual:
                from sparksplit.training.virtual import play

                return play(process, began)
            process.build()
            worker = Worker(process, member, collective)
            worker.begin()
            in_order = config.order == "exact" or worker.goes_on
        except BaseException:
            process.close()
            raise
    try:
        return worker.train(process.await_rows() if in_order else None, {}, began)
    finally:
        process.close()


def configure(config: TrainConfig, threads: int) -> None:
    """Settings that must come before anything else in TensorFlow: threads, determinism, float type, seed."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    import keras
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    for device in tf.config.list_physical_devices("GPU"):
        tf.config.experimental.set_memory_growth(device, True)
    tf.config.experimental.enable_op_determinism()
    keras.config.set_floatx(config.dtype)
    keras.utils.set_random_seed(config.seed)


def connect(member: Member, config: TrainConfig, sources: Mapping[str, str]) -> Collective:
    """The collective between the real nodes; to be made before Keras is imported, as TensorFlow's must be.

    sources: users' files by key. Raises ConfigError where one of the user's own is none.
    """
    try:
        return join(config.collective, sources.get("collective"), member)
    except FunctionError as error:
        raise config.error("collective", str(error)) from error


def payload(
    config: TrainConfig, source: Source, output: Output, sources: dict[str, str], config_hash: str, threads: int
) -> dict[str, Any]:
    """What `work` needs, JSON-able; the checkpoint is added per attempt."""
    return {
        "config": {**config.model_dump(mode="json"), "data": filesystem.absolute(config.data)},
        "source": source.to_json(),
        "run": output.folder,
        "output": output.path,
        "owner": output.owner,
        "sources": sources,
        "config_hash": config_hash,
        "threads": threads,
        "checkpoint": None,
        "seconds_before": 0.0,
    }
