"""devices.json: what was found on the driver and on each executor."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from sparksplit.base.records import Record

DEVICES = "devices.json"
COMMAND = "devices"


@dataclass(frozen=True, kw_only=True)
class Cpu:
    """One host's processors. model: the maker's name. logical: threads of all its cores; usable: those that this
    process may use, `quota` of them at a time where its container limits it; cores: physical ones among the usable.
    instructions: the sets that matter for arithmetic. gigahertz: the clock, and clock: where that figure is from.
    """

    model: str
    logical: int
    usable: int
    cores: int
    quota: float | None
    instructions: list[str]
    gigahertz: float | None
    clock: str


@dataclass(frozen=True, kw_only=True)
class SmiGpu:
    """A GPU as nvidia-smi lists it."""

    index: int
    name: str
    uuid: str
    mebibytes: float | None
    used_mebibytes: float | None


@dataclass(frozen=True, kw_only=True)
class Smi:
    """nvidia-smi's word: its driver's version and all GPUs of the host or container; or why it says nothing."""

    driver: str | None = None
    gpus: list[SmiGpu] = field(default_factory=list)
    problem: str | None = None


@dataclass(frozen=True, kw_only=True)
class TensorFlow:
    """TensorFlow's word. devices: the names of its physical devices. gpus: name and compute capability of each GPU, in
    that order. visible: CUDA_VISIBLE_DEVICES; cuda, cudnn: what it was built for. tensor_float_32: whether products of
    float32 may use that shorter type, where a GPU has it. no_gpu: why it sees no GPU, in its own words.
    """

    version: str
    keras: str
    devices: list[str]
    gpus: list[str]
    visible: str | None
    cuda: str | None
    cudnn: str | None
    tensor_float_32: bool
    no_gpu: str | None = None


@dataclass(frozen=True, kw_only=True)
class Product:
    """A product of two float32 matrices of n x n. of_best: its GFLOP/s as a share of the device's best."""

    n: int
    milliseconds: float
    gflops: float
    of_best: float


@dataclass(frozen=True, kw_only=True)
class Products:
    """Products by size on one device. best: of these, in GFLOP/s; peak: what `peak_is` says, None where that cannot be
    known; of_peak: best / peak.
    """

    device: str
    sizes: list[Product]
    best: float
    peak: float | None
    peak_is: str
    of_peak: float | None


@dataclass(frozen=True, kw_only=True)
class Copy:
    """What it takes to copy `bytes` from `source` to `target`; `host` is a NumPy array. gigabytes_per_second: None
    where the memory is handed over, between logical CPUs.
    """

    source: str
    target: str
    bytes: int
    microseconds: float
    gigabytes_per_second: float | None


@dataclass(frozen=True, kw_only=True)
class SmallProducts:
    """`products` products of `n` x `n` with the norm of each, in seconds: fetched each time, and summed on the device
    and fetched once. ratio: the first by the second.
    """

    device: str
    products: int
    n: int
    fetched_each: float
    fetched_once: float
    ratio: float


@dataclass(frozen=True, kw_only=True)
class Powers:
    """A^exponent + B^exponent of n x n matrices, in seconds: one after the other on one device, and A's on one and B's
    on another at once. ratio: the first by the second. logical: whether the two share one processor.
    """

    n: int
    exponent: int
    devices: list[str]
    logical: bool
    one_device: float
    two_devices: float
    ratio: float


@dataclass(frozen=True, kw_only=True)
class OnCpu:
    """Operations of a training step that were placed on the CPU although there is a GPU, and why."""

    operation: str
    count: int
    why: str


@dataclass(frozen=True, kw_only=True)
class OperationTime:
    """Operations of one kind in a training step: calls for an update, and their share of the time of all operations."""

    operation: str
    calls: float
    share: float


@dataclass(frozen=True, kw_only=True)
class TrainingStep:
    """An update of the user's model. milliseconds: of one update, without the profiler. placed: device to operation to
    count, in the graph that TensorFlow ran, after its own rewriting. between_devices: how many of its tensors cross
    from one device to another. matrix_products, convolutions: shares of the time of all operations, by TensorFlow's
    profiler; busy: that time as a share of the update's, which is above 1 where operations ran side by side.
    """

    model: str
    rows: int
    milliseconds: float
    placed: dict[str, dict[str, int]]
    between_devices: int
    on_cpu: list[OnCpu]
    matrix_products: float
    convolutions: float
    busy: float
    operations: list[OperationTime]


@dataclass(frozen=True, kw_only=True)
class ProcessRecord:
    """One process. who: `driver`, or `executor N`. threads: TensorFlow's per operation. given: the GPUs that Spark has
    assigned to it. What was not measured is null or empty: `notes` says what there is not to measure, `problems` what
    failed.
    """

    who: str
    host: str
    threads: int
    cpu: Cpu
    memory_mebibytes: int
    free_mebibytes: int
    given: list[str]
    nvidia_smi: Smi
    tensorflow: TensorFlow | None
    products: list[Products]
    copies: list[Copy]
    small_products: SmallProducts | None
    powers: Powers | None
    step: TrainingStep | None
    notes: list[str]
    problems: list[str]


@dataclass(frozen=True, kw_only=True)
class DevicesRecord(Record):
    """devices.json. made: when, ISO 8601 in UTC. seconds: what the measurements took, without Spark's start."""

    WHAT: ClassVar[str] = "a record of `sparksplit devices`"

    command: str
    format: int
    version: str
    made: str
    master: str
    application_id: str
    train: str | None
    seconds: float
    processes: list[ProcessRecord]
