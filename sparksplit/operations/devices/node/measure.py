"""Measures the devices of this process with TensorFlow."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from functools import cache, partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from sparksplit.base.records import JsonObject
from sparksplit.operations.devices import sizes
from sparksplit.operations.devices.devices_record import Copy, Powers, Product, Products, SmallProducts, TensorFlow

PRODUCT_BUDGET, COPY_BUDGET, POWER_BUDGET = 0.15, 0.05, 0.5
"""Seconds to spend on one size of products, on one size of copies, and on one A^n + B^n on one device."""
GROWING_SECONDS = 6.0
"""After this many seconds on products, or on copies, larger sizes are left out.

This happens on a slow or busy device.
"""
CPU_BYTES = 256 << 20
"""Bytes of memory to use at most on a CPU. An executor's container has at least this much beside TensorFlow."""
SMALL_PRODUCTS, SMALL_SIZE = 1000, 100
ROUNDS = 4
"""Number of times that two measurements are taken in turn for a comparison. The first time also makes their graphs."""

Doing = Callable[[str], None]


def measure(threads: int, gpu_bytes: float, cores: int, cpu: JsonObject, doing: Doing) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a ProcessRecord by name, each once it is measured.

    gpu_bytes: free bytes on each GPU. cores: number of cores of `cpu` that compute at once.
    """
    doing("asking TensorFlow for its devices")
    gpus = _configure(threads)
    yield "tensorflow", asdict(_tensorflow(gpus))
    devices = [device.name for device in tf.config.list_logical_devices("GPU" if gpus else "CPU")]
    if not gpus:
        yield "notes", "no GPU was found, so two logical CPUs of this process were measured. They share its cores"
    best, free = 0.0, gpu_bytes if gpus else CPU_BYTES
    for place, device in enumerate(devices if gpus else devices[:1]):
        doing(f"products on {_short(device)}")
        if gpus:
            peak, how = None, "unknown, because a GPU does not report it; shares are of the best measurement"
        else:
            peak, how = sizes.cpu_peak(list(cpu["instructions"]), cores, cpu["gigahertz"])  # type: ignore[arg-type]
        products = _products(device, free, peak, how)
        best = products.best if place == 0 else best
        yield "products", asdict(products)
    doing("copies")
    yield "copies", [asdict(copy) for copy in _copies(devices, free)]
    doing(f"{SMALL_PRODUCTS:,} small products")
    yield "small_products", asdict(_small_products(devices[0]))
    if len(devices) < 2:
        yield "notes", "A^n + B^n on two devices: this process has one GPU"
        return
    doing("A^n + B^n")
    yield "powers", asdict(_powers(devices[:2], best, free, logical=not gpus))


def _configure(threads: int) -> list[Any]:
    """Set TensorFlow's threads and memory, and return the physical GPUs. Without a GPU, make two logical CPUs."""
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    # Two threads, so that operations on two devices can run at once.
    tf.config.threading.set_inter_op_parallelism_threads(2)
    gpus: list[Any] = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    if not gpus:
        (cpu, *_) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration() for _ in range(2)])
    return gpus


def _tensorflow(gpus: Sequence[Any]) -> TensorFlow:
    built = tf.sysconfig.get_build_info()
    names = []
    for gpu in gpus:
        details = tf.config.experimental.get_device_details(gpu)
        capability = ".".join(map(str, details.get("compute_capability") or ("not known",)))
        names.append(f"{details.get('device_name', gpu.name)}, compute capability {capability}")
    return TensorFlow(
        version=tf.__version__,
        keras=keras.__version__,
        devices=[device.name.removeprefix("/physical_device:") for device in tf.config.list_physical_devices()],
        gpus=names,
        visible=os.environ.get("CUDA_VISIBLE_DEVICES"),
        cuda=built.get("cuda_version"),
        cudnn=built.get("cudnn_version"),
        tensor_float_32=tf.config.experimental.tensor_float_32_execution_enabled(),
    )


def _products(device: str, free: float, peak: float | None, how: str) -> Products:
    began = time.perf_counter()
    measured: list[tuple[int, float]] = []
    n: int | None = sizes.FIRST_SIZE
    while n is not None:
        left, right = _matrix(device, n, 1), _matrix(device, n, 2)
        with tf.device(device):
            seconds = _timed(partial(tf.linalg.matmul, left, right), PRODUCT_BUDGET)
        measured.append((n, seconds))
        n = None if _is_late(began) else sizes.next_size(n, seconds, free)
    rates = [sizes.product_gflops(size, seconds) for size, seconds in measured]
    best = max(rates)
    products = [
        Product(n=size, milliseconds=_figures(seconds * 1e3), gflops=_figures(rate), of_best=round(rate / best, 4))
        for (size, seconds), rate in zip(measured, rates, strict=True)
    ]
    share = None if peak is None else round(best / peak, 4)
    return Products(
        device=_short(device),
        sizes=products,
        best=_figures(best),
        peak=None if peak is None else _figures(peak),
        peak_is=how,
        of_peak=share,
    )


def _copies(devices: Sequence[str], free: float) -> Iterator[Copy]:
    began, first = time.perf_counter(), devices[0]
    for size in sizes.copy_sizes(free):
        if _is_late(began):
            return
        array = np.ones(size // 4, np.float32)
        with tf.device(first):
            tensor = tf.constant(array)
            yield _copy("host", first, size, partial(tf.constant, array))
            yield _copy(first, "host", size, tensor.numpy)
        if len(devices) > 1:
            with tf.device(devices[1]):
                yield _copy(first, devices[1], size, partial(tf.identity, tensor))


def _copy(source: str, target: str, size: int, copy: Callable[[], Any]) -> Copy:
    seconds = _timed(copy, COPY_BUDGET)
    return Copy(
        source=_short(source),
        target=_short(target),
        bytes=size,
        microseconds=_figures(seconds * 1e6),
        gigabytes_per_second=None if "CPU" in source and "CPU" in target else _figures(size / seconds / 1e9),
    )


def _small_products(device: str) -> SmallProducts:
    left, right = _matrix(device, SMALL_SIZE, 1), _matrix(device, SMALL_SIZE, 2)
    with tf.device(device):
        add_norm = tf.function(lambda total: total + tf.norm(tf.linalg.matmul(left, right)), autograph=False)

        def fetched_each() -> float:
            total = tf.zeros(())
            for _ in range(SMALL_PRODUCTS):
                total = add_norm(total)
                total.numpy()
            return float(total.numpy())

        def fetched_once() -> float:
            total = tf.zeros(())
            for _ in range(SMALL_PRODUCTS):
                total = add_norm(total)
            return float(total.numpy())

        each, once = _in_turn(fetched_each, fetched_once)
    return SmallProducts(
        device=_short(device),
        products=SMALL_PRODUCTS,
        n=SMALL_SIZE,
        fetched_each=_figures(each),
        fetched_once=_figures(once),
        ratio=round(each / once, 3),
    )


def _powers(devices: Sequence[str], gflops: float, free: float, logical: bool) -> Powers:
    n = sizes.power_size(gflops, POWER_BUDGET, free)
    one, other = devices
    here = _matrix(one, n, 1), _matrix(one, n, 2)
    apart = here[0], _matrix(other, n, 2)

    def power(matrix: Any) -> Any:
        product = matrix
        for _ in range(sizes.EXPONENT - 1):
            product = tf.linalg.matmul(product, matrix)
        return product

    def on_one(a: Any, b: Any) -> Any:
        with tf.device(one):
            first = power(a)
            # Compute the two powers one after the other, even if the device could compute both at once.
            with tf.control_dependencies([first]):
                return tf.reduce_sum(first + power(tf.identity(b)))

    def on_two(a: Any, b: Any) -> Any:
        with tf.device(one):
            first = power(a)
        with tf.device(other):
            second = power(b)
        with tf.device(one):
            return tf.reduce_sum(first + second)

    compiled = [tf.function(each, autograph=False) for each in (on_one, on_two)]
    alone, both = _in_turn(lambda: float(compiled[0](*here).numpy()), lambda: float(compiled[1](*apart).numpy()))
    return Powers(
        n=n,
        exponent=sizes.EXPONENT,
        devices=[_short(device) for device in devices],
        logical=logical,
        one_device=_figures(alone),
        two_devices=_figures(both),
        ratio=round(alone / both, 3),
    )


def _matrix(device: str, n: int, seed: int) -> Any:
    """Return a matrix of random numbers whose powers neither grow nor vanish soon."""
    with tf.device(device):
        return tf.random.stateless_normal((n, n), (seed, n)) / np.float32(n**0.5)


def _timed(call: Callable[[], Any], budget: float) -> float:
    """Return the seconds of the fastest call, out of as many calls as fit into the budget.

    Other work on the host can only make a call slower.
    """
    _done(call)
    once = _done(call)
    return min(once, *(_done(call) for _ in range(sizes.repeats(once, budget))))


def _in_turn(one: Callable[[], Any], other: Callable[[], Any]) -> tuple[float, float]:
    """Return the seconds of the fastest call of each function.

    The calls alternate, so that other work on the host affects both.
    """
    times = [(_done(one), _done(other)) for _ in range(ROUNDS)]
    return min(first for first, _ in times), min(second for _, second in times)


def _is_late(began: float) -> bool:
    return time.perf_counter() - began > GROWING_SECONDS


def _done(call: Callable[[], Any]) -> float:
    wait = _has_gpu()
    begin = time.perf_counter()
    result = call()
    if wait:
        tf.test.experimental.sync_devices()
    del result
    return time.perf_counter() - begin


@cache
def _has_gpu() -> bool:
    return bool(tf.config.list_logical_devices("GPU"))


def _figures(value: float) -> float:
    """Round to four significant digits, because no measurement here is more precise."""
    return float(f"{value:.4g}")


def _short(device: str) -> str:
    return device.rpartition("device:")[2] or device
