"""Gathers the measurements of the driver's and the executors' devices, and writes devices.json."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from hdfs_io import filesystem
from sparksplit.base.config import load
from sparksplit.base.errors import InputError, RunError, UsageError
from sparksplit.base.progress import say
from sparksplit.base.records import JsonObject
from sparksplit.base.version import __version__
from sparksplit.cluster import requirements
from sparksplit.operations.answers import answers
from sparksplit.operations.devices.ask import look
from sparksplit.operations.devices.devices_record import COMMAND, DEVICES, DevicesRecord
from sparksplit.operations.devices.host import cpu
from sparksplit.operations.operations_config import DevicesConfig
from sparksplit.spark.executors import slots_of
from sparksplit.spark.reasons import spark_reason
from sparksplit.spark.session import spark_session
from sparksplit.spark.settings.requirements import TENSORFLOW_MEBIBYTES, granted_cores, mebibytes, most_executors
from sparksplit.spark.waiting import Patience
from sparksplit.training.inputs import RunInputs, open_data
from sparksplit.training.messages import settled
from sparksplit.training.own_models import with_compiled
from sparksplit.training.train_config import TrainConfig

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_EXECUTORS = 2
"""Executors of the local cluster. It starts if neither a master nor a number of nodes is given."""
SPARK_SECONDS = 60.0
"""Extra seconds for an executor to answer, beyond the time limits of its interpreters."""


@dataclass(frozen=True)
class _Ask:
    """The arguments of `ask.look` for every executor."""

    threads: int
    seconds: float
    training: JsonObject | None

    def __call__(self, _: Iterable[Any]) -> Iterator[str]:
        """Run one task of a barrier stage, and yield a ProcessRecord as JSON."""
        from pyspark import BarrierTaskContext

        context = BarrierTaskContext.get()
        gpu = context.resources().get("gpu")
        # Measure on all executors at the same time, because the nodes of a run also compute at the same time.
        context.barrier()
        given = list(gpu.addresses) if gpu is not None else []
        yield json.dumps(look(f"executor {context.partitionId()}", self.threads, given, self.seconds, self.training))


def devices(config: DevicesConfig) -> DevicesRecord:
    """Measure the devices within the configuration's time limits.

    Raise UsageError for mistakes, before Spark starts if possible. Raise RunError if executors do not come or do not
    answer.
    """
    _check_output(config)
    training = None if config.train is None else _training(config, config.train)
    with spark_session("sparksplit devices", config.nodes or LOCAL_EXECUTORS) as spark:
        settings = dict(spark.sparkContext.getConf().getAll())
        count = _await_executors(spark, config, settings)
        began = time.monotonic()
        say(f"measuring the devices of {count} executor{'' if count == 1 else 's'}")
        found = _executors(spark, count, _Ask(_threads(settings), config.limit, training))
        for answer in found:
            if (mistake := answer.pop("usage")) is not None:
                raise UsageError(str(mistake))
        say("measuring the driver's devices")
        driver = look("driver", cpu().usable, [], config.limit, None, _too_small(settings))
        del driver["usage"]  # only a model has mistakes of the user
        seconds = round(time.monotonic() - began, 1)
        master, application = spark.sparkContext.master, spark.sparkContext.applicationId
    record: JsonObject = {
        "command": COMMAND,
        "format": 1,
        "version": __version__,
        "made": datetime.now(UTC).isoformat(timespec="seconds"),
        "master": master,
        "application_id": application,
        "train": config.train,
        "seconds": seconds,
        "processes": [driver, *found],
    }
    return DevicesRecord.from_json(record, "what the processes answered")


def leave(record: DevicesRecord, output: str) -> str:
    """Write the record to `output` by rename, and return the absolute path."""
    path = filesystem.absolute(output)
    filesystem.write_json(path, record.to_json())
    return path


def _check_output(config: DevicesConfig) -> None:
    """Raise ConfigError if the output is a folder, or a file that `devices` did not write."""
    path = filesystem.absolute(config.output)
    if filesystem.is_folder(path):
        raise config.error("output", f"{path} is a folder; name a file in it, such as {filesystem.join(path, DEVICES)}")
    if filesystem.is_file(path):
        try:
            DevicesRecord.parse(filesystem.read_bytes(path), path)
        except InputError as error:
            raise config.error("output", f"{error}; choose another file") from None


def _training(config: DevicesConfig, file: str) -> JsonObject:
    """Return the argument of `node.step.look`. Raise UsageError for mistakes in the file and in its data."""
    overrides = [] if config.data is None else [f"data={json.dumps(config.data)}"]
    wanted, _own = with_compiled(load(TrainConfig, file, overrides))
    data = open_data(wanted)
    sources = RunInputs.of(wanted, data).sent(None)
    return {"config": settled(wanted, data, None), "places": wanted.origin.to_json(), "sources": {**sources}}


def _await_executors(spark: SparkSession, config: DevicesConfig, settings: dict[str, str]) -> int:
    """Wait for the executors. Return the number of executors to measure."""
    sc = spark.sparkContext
    wanted = config.nodes or most_executors(settings) or 1
    requirements.check_settings(settings, wanted)
    requirements.await_executors(sc, wanted, Patience(config.queue_timeout, config.start_timeout))
    return config.nodes or slots_of(sc)


def _executors(spark: SparkSession, count: int, ask: _Ask) -> list[JsonObject]:
    """Return the answers of `count` executors. Raise RunError if they do not answer."""
    seconds = ask.seconds * (1 if ask.training is None else 2) + SPARK_SECONDS
    try:
        return [json.loads(text) for text in answers(spark.sparkContext, count, ask, "devices", seconds)]
    except TimeoutError as error:
        raise RunError(f"the executors {error}") from None
    except Exception as error:
        raise RunError(f"executors: {spark_reason(str(error))}") from error


def _threads(settings: dict[str, str]) -> int:
    """Return TensorFlow's threads per operation in an executor: the cores that a node would have in a run.

    In a run, spark.task.cpus is the number of all cores. Here spark.task.cpus may be smaller.
    """
    local = re.match(r"local-cluster\[\s*\d+\s*,\s*(\d+)", settings.get("spark.master", ""))
    return max(granted_cores(settings), int(local[1]) if local else int(settings.get("spark.executor.cores", "1")))


def _too_small(settings: dict[str, str]) -> str | None:
    """Return why the driver's devices are not measured: YARN would kill the driver's container. None: measure them."""
    if settings.get("spark.master") != "yarn" or settings.get("spark.submit.deployMode") != "cluster":
        return None
    given = settings.get("spark.driver.memoryOverhead")
    overhead = 384 if given is None else mebibytes(given, "spark.driver.memoryOverhead")
    if overhead >= TENSORFLOW_MEBIBYTES:
        return None
    return (
        f"not measured: TensorFlow needs a spark.driver.memoryOverhead of {TENSORFLOW_MEBIBYTES}m or more in the"
        f" driver's container (is {overhead}m)"
    )
