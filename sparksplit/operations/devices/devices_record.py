"""devices.json: what was found on the driver and on each executor."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from sparksplit.base.records import Record

DEVICES = "devices.json"
COMMAND = "devices"


@dataclass(frozen=True, kw_only=True)
class Cpu:
    """The processors of a host."""

    model: str
    """The maker's name for the processor."""
    logical: int
    """Logical CPUs of the host: the threads of all cores."""
    usable: int
    """Logical CPUs that this process may use."""
    cores: int
    """Physical cores that this process may use."""
    quota: float | None
    """How many logical CPUs the container may keep busy at a time; None without a limit."""
    instructions: list[str]
    """The instruction sets that matter for arithmetic."""
    gigahertz: float | None
    """The clock rate in GHz; None if unknown."""
    clock: str
    """Where the clock rate is from."""


@dataclass(frozen=True, kw_only=True)
class SmiGpu:
    """A GPU, as nvidia-smi lists it."""

    index: int
    """The GPU's number."""
    name: str
    """The GPU's name."""
    uuid: str
    """The GPU's UUID."""
    mebibytes: float | None
    """The GPU's memory in MiB; None where nvidia-smi does not say."""
    used_mebibytes: float | None
    """The used memory in MiB; None where nvidia-smi does not say."""


@dataclass(frozen=True, kw_only=True)
class Smi:
    """The answer of nvidia-smi."""

    driver: str | None = None
    """The version of NVIDIA's driver; None without an answer."""
    gpus: list[SmiGpu] = field(default_factory=list)
    """All GPUs of the host or container."""
    problem: str | None = None
    """Why nvidia-smi lists no GPU; None where it lists GPUs."""


@dataclass(frozen=True, kw_only=True)
class TensorFlow:
    """TensorFlow and the devices that it sees."""

    version: str
    """The version of TensorFlow."""
    keras: str
    """The version of Keras."""
    devices: list[str]
    """The names of the physical devices."""
    gpus: list[str]
    """The name and the compute capability of each GPU, in the order of `devices`."""
    visible: str | None
    """The environment variable CUDA_VISIBLE_DEVICES; None if unset."""
    cuda: str | None
    """The version of CUDA that TensorFlow was built for; None for a build without CUDA."""
    cudnn: str | None
    """The version of cuDNN that TensorFlow was built for; None for a build without cuDNN."""
    tensor_float_32: bool
    """Whether products of float32 may use the shorter type TensorFloat-32, on GPUs that have it."""
    no_gpu: str | None = None
    """Why TensorFlow sees no GPU, in TensorFlow's own words."""


@dataclass(frozen=True, kw_only=True)
class Product:
    """A measurement of the product of two float32 matrices of n x n."""

    n: int
    """The number of rows of each matrix."""
    milliseconds: float
    """The time of a product in milliseconds."""
    gflops: float
    """The throughput in GFLOP/s."""
    of_best: float
    """The throughput as a share of the device's best throughput."""


@dataclass(frozen=True, kw_only=True)
class Products:
    """Measurements of products of matrices on one device."""

    device: str
    """The device's name."""
    sizes: list[Product]
    """The measurements, by size."""
    best: float
    """The best throughput, in GFLOP/s."""
    peak: float | None
    """The device's peak throughput in GFLOP/s, as `peak_is` explains; None if unknown."""
    peak_is: str
    """How the peak was computed, or why it is unknown."""
    of_peak: float | None
    """The best throughput as a share of the peak; None if the peak is unknown."""


@dataclass(frozen=True, kw_only=True)
class Copy:
    """A measurement of a copy between two devices, or between a device and a NumPy array (`host`)."""

    source: str
    """The name of the device that is copied from, or `host`."""
    target: str
    """The name of the device that is copied to, or `host`."""
    bytes: int
    """Bytes that are copied."""
    microseconds: float
    """The time of a copy in microseconds."""
    gigabytes_per_second: float | None
    """The throughput in GB/s; None between logical CPUs, which hand the memory over without a copy."""


@dataclass(frozen=True, kw_only=True)
class SmallProducts:
    """Many small products with the norm of each, with two ways to fetch the norms from the device."""

    device: str
    """The device's name."""
    products: int
    """The number of products."""
    n: int
    """The number of rows of each matrix."""
    fetched_each: float
    """Seconds for all products, if the sum of the norms is fetched after each product."""
    fetched_once: float
    """Seconds for all products, if the norms are summed on the device and the sum is fetched once."""
    ratio: float
    """`fetched_each` divided by `fetched_once`."""


@dataclass(frozen=True, kw_only=True)
class Powers:
    """A measurement of A^exponent + B^exponent on one device and on two devices. A and B are matrices of n x n."""

    n: int
    """The number of rows of each matrix."""
    exponent: int
    """The exponent."""
    devices: list[str]
    """The names of the two devices."""
    logical: bool
    """Whether the two devices are logical CPUs, which share a processor."""
    one_device: float
    """Seconds on one device, which computes the two powers one after the other."""
    two_devices: float
    """Seconds on two devices, which compute one power each at the same time."""
    ratio: float
    """The speed-up: `one_device` divided by `two_devices`."""


@dataclass(frozen=True, kw_only=True)
class OnCpu:
    """Operations of a training step that run on the CPU although there is a GPU."""

    operation: str
    """The operation's type."""
    count: int
    """The number of operations."""
    why: str
    """Why the operations are on the CPU."""


@dataclass(frozen=True, kw_only=True)
class OperationTime:
    """The time of the operations of one type in a training step."""

    operation: str
    """The operation's type."""
    calls: float
    """Calls for an update."""
    share: float
    """The share of the time of all operations."""


@dataclass(frozen=True, kw_only=True)
class TrainingStep:
    """A measurement of an update of the user's model."""

    model: str
    """The model's builder."""
    rows: int
    """Rows of the mini-batch."""
    milliseconds: float
    """The time of an update in milliseconds, without the profiler."""
    placed: dict[str, dict[str, int]]
    """The number of operations by device and type, in the graph as TensorFlow ran it after its own rewriting."""
    between_devices: int
    """The number of tensors of that graph that cross from one device to another."""
    on_cpu: list[OnCpu]
    """The operations that run on the CPU although there is a GPU."""
    matrix_products: float
    """The share of matrix products in the time of all operations, by TensorFlow's profiler."""
    convolutions: float
    """The share of convolutions in the time of all operations, by TensorFlow's profiler."""
    busy: float
    """The time of all operations, divided by the time of the update. Above 1: operations ran side by side."""
    operations: list[OperationTime]
    """The types of operations that took the most time."""


@dataclass(frozen=True, kw_only=True)
class ProcessRecord:
    """The devices of one process. A field without a measurement is None or empty; `notes` or `problems` say why."""

    who: str
    """`driver`, or `executor N`."""
    host: str
    """The name of the host."""
    threads: int
    """TensorFlow's threads per operation."""
    cpu: Cpu
    """The host's processors."""
    memory_mebibytes: int
    """The host's memory in MiB."""
    free_mebibytes: int
    """The free memory in MiB."""
    given: list[str]
    """The GPUs that Spark has assigned to the process."""
    nvidia_smi: Smi
    """The answer of nvidia-smi."""
    tensorflow: TensorFlow | None
    """TensorFlow and the devices that it sees."""
    products: list[Products]
    """Products of matrices on each device."""
    copies: list[Copy]
    """Copies between devices, and between a device and the host."""
    small_products: SmallProducts | None
    """Many small products."""
    powers: Powers | None
    """Powers of matrices on one device and on two devices."""
    step: TrainingStep | None
    """An update of the user's model."""
    notes: list[str]
    """Measurements that do not apply to the process, with the reasons."""
    problems: list[str]
    """Measurements that failed, with the errors."""


@dataclass(frozen=True, kw_only=True)
class DevicesRecord(Record):
    """devices.json."""

    WHAT: ClassVar[str] = "a record of `sparksplit devices`"

    command: str
    """The command that wrote the record: devices."""
    format: int
    """The version of the format."""
    version: str
    """The version of sparksplit."""
    made: str
    """The time at which the record was made, in UTC (ISO 8601)."""
    master: str
    """Spark's master."""
    application_id: str
    """The id of the Spark application."""
    train: str | None
    """The configuration file of the training whose update was measured; None without a training."""
    seconds: float
    """Seconds of the measurements, without Spark's start."""
    processes: list[ProcessRecord]
    """The driver and the executors."""
