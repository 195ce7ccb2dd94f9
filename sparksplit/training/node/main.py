"""The work of one node, from its start to its result."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

from sparksplit.base.memory import keep_freed
from sparksplit.base.records import JsonObject
from sparksplit.base.user_functions import FunctionError
from sparksplit.cluster import Member
from sparksplit.collectives import Collective, join
from sparksplit.model.tensorflow import import_tensorflow
from sparksplit.rows.feed import RowSource
from sparksplit.training.messages import NodeResult, Payload
from sparksplit.training.node import choosing
from sparksplit.training.node.kernels import naming_keys
from sparksplit.training.node.process import Process
from sparksplit.training.node.tally import Clock
from sparksplit.training.node.worker import Worker
from sparksplit.training.train_config import TrainConfig


def work(member: Member) -> JsonObject:
    """Train as one node of the run whose Payload the driver has given. Return the NodeResult for the driver."""
    began = time.perf_counter()
    with member.phase("start"):
        payload = Payload.from_json(member.payload, "what the driver gave")
        config = payload.train_config()
        configure(config, payload.threads)
        collective = connect(member, config, payload.sources)
    try:
        return train_once(member, payload, config, collective, began).in_brief().to_json()
    finally:
        collective.close()


def train_once(
    member: Member,
    payload: Payload,
    config: TrainConfig,
    collective: Collective,
    began: float,
    rows: RowSource | None = None,
) -> NodeResult:
    """Do one training run in an already configured process. Its counters begin at zero.

    collective: the collective between the real nodes.
    began: when the run began (time.perf_counter).
    rows: as for Process.
    """
    clock = Clock(began)
    with member.phase("start"):
        process = Process(member, payload, config, rows)
    try:
        with naming_keys(config):
            return _trained(process, collective, clock)
    finally:
        process.close()


def _trained(process: Process, collective: Collective, clock: Clock) -> NodeResult:
    config, member = process.config, process.member
    if config.virtual:
        from sparksplit.training.node.virtual import play

        return play(process, clock)
    with member.phase("start"):
        process.build()
        worker = Worker(process, member, collective)
        worker.begin()
    if process.payload.chooses:
        choosing.choose(process, member, collective, worker.step)
    with worker.saver.finishing():
        with clock.spent_on("handoff"):
            rows = process.await_rows()
        return worker.train(rows, {}, clock)


def configure(config: TrainConfig, threads: int) -> None:
    """Make the settings that must come before anything else in TensorFlow: device, threads, determinism, float type,
    seed.

    Also configure the process's memory.
    """
    keep_freed()
    if config.device == "cpu":
        # Set this before TensorFlow is imported. A question for its GPUs already begins to use them.
        os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    tf = import_tensorflow()
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    if config.device == "cpu":
        tf.config.set_visible_devices([], "GPU")  # GPUs of other makers, or if TensorFlow was already imported
    for device in tf.config.get_visible_devices("GPU"):
        tf.config.experimental.set_memory_growth(device, True)
    if config.deterministic:
        tf.config.experimental.enable_op_determinism()
    begin_anew(config)


def begin_anew(config: TrainConfig) -> None:
    """Make the settings that each run of a process has of its own: float types, seed."""
    import keras

    from sparksplit.model.floats import set_floats

    set_floats(config.dtype)
    keras.utils.set_random_seed(config.seed)


def connect(member: Member, config: TrainConfig, sources: Mapping[str, str]) -> Collective:
    """Return the collective between the real nodes. TensorFlow's must be made before Keras is imported, so call this
    before.

    sources: the text of the user's files, by key.
    Raise ConfigError if a user's own function returns no collective.
    """
    try:
        return join(config.collective, sources.get("collective"), member)
    except FunctionError as error:
        raise config.error("collective", str(error)) from error
