"""Prints the record as tables for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table

from sparksplit.base.shown import OUT
from sparksplit.operations.devices.devices_record import Copy, DevicesRecord, ProcessRecord

WIDTH = 140
"""Width in columns without a terminal."""
OPERATIONS = 4
"""Number of operation types that a row names."""


def show(record: DevicesRecord) -> None:
    """Print the tables on standard output."""
    console = Console(file=OUT, width=None if OUT.isatty() else WIDTH, highlight=False)
    everyone = record.processes
    title = f"devices: {record.master}"
    _print(console, title, ["process", "host", "device", "memory", "versions"], map(_device, everyone))
    _print(console, "products of n x n, float32", *_products(everyone))
    _print(console, "copies, GB/s (time of one)", *_copies(everyone))
    names = ["process", "1,000 small products, each norm fetched", "fetched once", "ratio"]
    _print(console, "what fetching costs", names, _small(everyone))
    names = ["process", "A^10 + B^10", "one device", "two devices", "ratio"]
    _print(console, "one device against two", names, _powers(everyone))
    names = ["process", "model", "an update", "matrix products", "most time in", "where operations are"]
    _print(console, "a training step", names, _steps(everyone))
    said: dict[str, list[str]] = {}
    for one in everyone:
        for text in dict.fromkeys([*_words(one), *one.notes, *one.problems]):
            said.setdefault(text, []).append(one.who)
    for text, who in said.items():
        whose = "all" if len(who) == len(everyone) else ", ".join(who[:3]) + (" and others" if len(who) > 3 else "")
        console.print(f"{whose}: {text}", markup=False, soft_wrap=True)


def _print(console: Console, title: str, names: Sequence[str], rows: Iterator[list[str]] | map[list[str]]) -> None:
    """Print a table, unless it has no rows."""
    table = Table(title=title)
    for name in names:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*row)
    if table.row_count:
        console.print(table)


def _device(one: ProcessRecord) -> list[str]:
    cpu, smi, tensorflow = one.cpu, one.nvidia_smi, one.tensorflow
    widest = [name for name in ("amx_bf16", "avx512f", "avx2", "avx", "asimd", "sse2") if name in cpu.instructions]
    clock = "" if cpu.gigahertz is None else f", {cpu.gigahertz:.2f} GHz"
    quota = "" if cpu.quota is None else f", at most {cpu.quota:g} at a time"
    devices = [f"CPU: {cpu.model}{clock}, {cpu.usable} of {cpu.logical} threads{quota}, {', '.join(widest[:2])}"]
    devices += [f"GPU: {name}" for name in (tensorflow.gpus if tensorflow else ())]
    devices += [f"nvidia-smi: {gpu.index} {gpu.name}" for gpu in smi.gpus]
    sizes = [f"{one.memory_mebibytes:,} MiB, {one.free_mebibytes:,} free"]
    sizes += [f"GPU {gpu.index}: {gpu.mebibytes:,.0f} MiB" for gpu in smi.gpus if gpu.mebibytes is not None]
    versions = [] if tensorflow is None else [f"TensorFlow {tensorflow.version}"]
    if tensorflow is not None and tensorflow.cuda is not None:
        versions.append(f"built for CUDA {tensorflow.cuda}, cuDNN {tensorflow.cudnn}")
    versions.append(f"driver {smi.driver}" if smi.driver else "no NVIDIA driver")
    return [one.who, one.host, "\n".join(devices), "\n".join(sizes), "\n".join(versions)]


def _products(everyone: Sequence[ProcessRecord]) -> tuple[list[str], Iterator[list[str]]]:
    sizes = sorted({each.n for one in everyone for products in one.products for each in products.sizes})[-6:]

    def rows() -> Iterator[list[str]]:
        for one in everyone:
            for products in one.products:
                by_size = {each.n: each for each in products.sizes}
                cells = [f"{by_size[n].gflops:,.4g} ({by_size[n].of_best:.0%})" if n in by_size else "" for n in sizes]
                known = products.of_peak is not None and products.peak is not None
                peak = f"{products.of_peak:.0%} of {products.peak:,.4g}" if known else "not known"
                yield [f"{one.who}, {products.device}", *cells, f"{products.best:,.4g}", peak]

    return ["GFLOP/s (of the best)", *(f"n = {n:,}" for n in sizes), "best", "of the computed peak"], rows()


def _copies(everyone: Sequence[ProcessRecord]) -> tuple[list[str], Iterator[list[str]]]:
    sizes = sorted({each.bytes for one in everyone for each in one.copies})

    def rows() -> Iterator[list[str]]:
        for one in everyone:
            for way in dict.fromkeys((each.source, each.target) for each in one.copies):
                by_bytes = {each.bytes: each for each in one.copies if (each.source, each.target) == way}
                yield [one.who, " to ".join(way), *(_copy(by_bytes.get(size)) for size in sizes)]

    return ["process", "from, to", *map(_bytes, sizes)], rows()


def _copy(copy: Copy | None) -> str:
    if copy is None:
        return ""
    rate = "same memory" if copy.gigabytes_per_second is None else f"{copy.gigabytes_per_second:.3g}"
    return f"{rate} ({_time(copy.microseconds / 1e6)})"


def _small(everyone: Sequence[ProcessRecord]) -> Iterator[list[str]]:
    for one in everyone:
        if (small := one.small_products) is not None:
            who = f"{one.who}, {small.device}"
            yield [who, _time(small.fetched_each), _time(small.fetched_once), f"{small.ratio:.2f}"]


def _powers(everyone: Sequence[ProcessRecord]) -> Iterator[list[str]]:
    for one in everyone:
        if (powers := one.powers) is not None:
            what = f"n = {powers.n:,}, on {' and '.join(powers.devices)}{' (logical)' if powers.logical else ''}"
            yield [one.who, what, _time(powers.one_device), _time(powers.two_devices), f"{powers.ratio:.2f}"]


def _steps(everyone: Sequence[ProcessRecord]) -> Iterator[list[str]]:
    for one in everyone:
        if (step := one.step) is not None:
            most = ", ".join(f"{each.operation} {each.share:.0%}" for each in step.operations[:OPERATIONS])
            where = "\n".join(f"{device}: {sum(counts.values())}" for device, counts in step.placed.items())
            update = f"{_time(step.milliseconds / 1e3)}, {step.rows} rows"
            yield [one.who, step.model, update, f"{step.matrix_products:.0%}", most, where]


def _words(one: ProcessRecord) -> Iterator[str]:
    """Yield the facts that the tables do not hold."""
    if one.nvidia_smi.problem is not None:
        yield f"nvidia-smi finds no GPU: {one.nvidia_smi.problem}"
    if one.tensorflow is not None and one.tensorflow.no_gpu is not None:
        yield f"TensorFlow finds no GPU: {one.tensorflow.no_gpu}"
    for products in one.products:
        yield f"{products.device}'s peak is {products.peak_is}"
    if one.step is not None and one.step.on_cpu:
        for each in one.step.on_cpu[:OPERATIONS]:
            yield f"on the CPU: {each.count} x {each.operation}: {each.why}"
    if one.step is not None and one.step.between_devices:
        yield f"a training step copies {one.step.between_devices} tensors between devices"


def _time(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.3g} s"
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.3g} us"


def _bytes(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"
