"""Measures an update of the user's model on this process's devices: its time, and where its operations run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from sparksplit.base.config import Origin, parse
from sparksplit.base.records import JsonObject
from sparksplit.collectives import Alone
from sparksplit.dataset.joined import open_joined
from sparksplit.model.description import data_description
from sparksplit.operations.devices import summary
from sparksplit.operations.devices.devices_record import TrainingStep
from sparksplit.operations.devices.summary import Event, Kernel, Node
from sparksplit.rows.assembler import Chunk
from sparksplit.rows.ledger import Entry
from sparksplit.strategies import STRATEGIES
from sparksplit.training.node.main import configure
from sparksplit.training.train_config import TrainConfig

UPDATES = 10
"""Updates in one call, as in a run, if the rows for this many updates fit into CHUNK_BYTES."""
PROFILED = 3
"""Number of calls that are profiled."""
CHUNK_BYTES = 64 << 20
SECONDS, CALLS = 1.0, 5
"""Shortest time of the measurement in seconds, and the smallest number of measured calls."""


def look(training: JsonObject, threads: int, doing: Callable[[str], None]) -> TrainingStep:
    """Measure a training step of the user's model. Raise ConfigError for mistakes in the model and its training.

    training: a mapping of `config`, `places` and `sources`.
    """
    config = parse(TrainConfig, training["config"], Origin.from_json(training["places"]))  # type: ignore[arg-type]
    doing("a training step: making the model")
    configure(config, config.threads or threads)
    step, signature = _step(config, training["sources"])  # type: ignore[arg-type]
    doing("a training step: reading rows")
    chunk = _chunk(config, signature)
    doing("a training step: making its graph")
    nodes = list(_nodes(lambda: step.train(chunk)))
    doing("a training step: profiling it")
    step.train(chunk)
    # Profile early. After about ninety runs of a cheap operation, TensorFlow's profiler leaves the operation out.
    shares = summary.shares(_profile(lambda: [step.train(chunk) for _ in range(PROFILED)]), PROFILED * chunk.updates)
    doing("a training step: measuring it")
    times: list[float] = []
    while len(times) < CALLS or (sum(times) < SECONDS and len(times) < 1000):
        begin = time.perf_counter()
        step.train(chunk)
        times.append(time.perf_counter() - begin)
    milliseconds = min(times) / chunk.updates * 1e3
    return TrainingStep(
        model=config.model.build,
        rows=int(chunk.rows[0]),
        milliseconds=float(f"{milliseconds:.4g}"),
        placed=summary.placed(nodes),
        between_devices=sum(node.operation in summary.CROSSING for node in nodes),
        on_cpu=_on_cpu(nodes),
        matrix_products=shares.matrix_products,
        convolutions=shares.convolutions,
        busy=round(shares.seconds * 1e-9 / milliseconds, 3),
        operations=shares.operations,
    )


def _step(config: TrainConfig, sources: dict[str, str]) -> tuple[Any, Sequence[Any]]:
    """Return (the compiled update of a node that runs alone, the signature of the columns that the update takes)."""
    from sparksplit.model import build
    from sparksplit.model.graphs import class_weights
    from sparksplit.model.graphs.inputs import Inputs
    from sparksplit.model.graphs.weights import Weights
    from sparksplit.training.node.compiled.step import Step

    manifest = open_joined(config.data, verify=False).manifest
    inputs, collective = Inputs(manifest.description), Alone()
    described = data_description(manifest.description, manifest.splits["train"].rows)
    model = build.build_model(config, sources.get("model.build"), described, inputs)
    made = Step(
        model,
        build.build_optimizer(config),
        build.build_loss(config, described, model, inputs),
        build.build_metrics(config, described, model, inputs),
        inputs,
        STRATEGIES["single"].sync(collective, config.sync),
        collective,
        Weights(manifest.description, class_weights.of(config, manifest), config.reduction, config.metric_weights),
        accumulate=config.accumulate,
        jit=config.jit_compile,
    )
    return made, inputs.signature()


def _chunk(config: TrainConfig, signature: Sequence[Any]) -> Chunk:
    """Return mini-batches of the data set's own stored rows. They repeat the rows of one block."""
    rows = open_joined(config.data, verify=False).split("train")
    lane = int(np.argmax(rows.lane_rows))
    with rows.reader() as reader:
        block = reader.read(lane, 0)
    columns = [block.tensors[spec.name] for spec in rows.tensors]
    columns += [] if block.label is None else [block.label]
    size = config.batch_size
    each = size * max(1, sum(column[:1].nbytes for column in columns))
    updates = max(1, min(UPDATES, CHUNK_BYTES // each))
    index = np.resize(np.arange(len(block.row_ids)), size * updates)
    taken = [np.ascontiguousarray(column[index]) for column in columns]
    return Chunk(
        first=0,
        tensors=taken[: len(rows.tensors)],
        label=taken[-1] if len(taken) > len(rows.tensors) else None,
        offsets=np.arange(updates + 1, dtype=np.int64) * size,
        rows=np.full(updates, size, np.int64),
        seen=Entry(size * updates),
        share=size,
    )


def _nodes(run: Callable[[], Any]) -> Iterator[Node]:
    """Yield the nodes of the executed graphs that TensorFlow makes in `run`, with their devices."""
    from tensorflow.python.eager import context  # no public function returns the partitioned graphs

    current = context.context()
    current.enable_run_metadata()
    try:
        run()
        made = current.export_run_metadata()
    finally:
        current.disable_run_metadata()
    for graph in made.partition_graphs:
        for node in graph.node:
            types = {name: _type_name(value.type) for name, value in node.attr.items() if value.type}
            yield Node(node.device, node.op, types)


def _on_cpu(nodes: Sequence[Node]) -> list[Any]:
    """Return the operations that run on the CPU although there is a GPU."""
    import tensorflow as tf

    if not tf.config.list_logical_devices("GPU"):
        return []
    return summary.fallen_back(nodes, {name: kernels_of(name) for name in {node.operation for node in nodes}})


def kernels_of(operation: str) -> list[Kernel]:
    """Return TensorFlow's implementations of an operation for all devices."""
    from tensorflow.python.framework import kernels  # no public function returns the kernels

    return [
        Kernel(
            one.device_type,
            {each.name: frozenset(map(_type_name, each.allowed_values.list.type)) for each in one.constraint},
            bool(one.host_memory_arg),
        )
        for one in kernels.get_registered_kernels_for_op(operation).kernel
    ]


def _type_name(number: int) -> str:
    import tensorflow as tf

    return str(tf.as_dtype(number).name)


def _profile(run: Callable[[], Any]) -> Iterator[tuple[str, float]]:
    """Yield (event, its own time in picoseconds) of TensorFlow's work in `run`, measured by TensorFlow's profiler.

    With a GPU, only the GPU's streams count. The threads that launch the GPU's work do not count.
    """
    import tensorflow as tf
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    with TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        try:
            run()
        finally:
            tf.profiler.experimental.stop()
        space = xplane_pb2.XSpace()
        for file in Path(folder).rglob("*.xplane.pb"):
            space.MergeFromString(file.read_bytes())
    on_gpus = [plane for plane in space.planes if plane.name.startswith("/device:GPU")]
    for plane in on_gpus or [plane for plane in space.planes if plane.name == "/host:CPU"]:
        for line in plane.lines:
            if on_gpus and not line.name.startswith("Stream"):
                continue
            yield from summary.self_times(list(_events(plane, line)))


def _events(plane: Any, line: Any) -> Iterator[Event]:
    """Yield the events of a line.

    An event of a GPU's stream gets the name of its graph node, if the event has this name.
    """
    for event in line.events:
        name = plane.event_metadata[event.metadata_id].name
        for stat in event.stats:
            if plane.stat_metadata[stat.metadata_id].name == "tf_op":
                name = stat.str_value or plane.stat_metadata[stat.ref_value].name
        yield Event(name, event.offset_ps, event.offset_ps + event.duration_ps)
