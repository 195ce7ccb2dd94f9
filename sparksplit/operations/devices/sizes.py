"""What to measure, and what figures mean: sizes that fit a device, and the arithmetic of its speed. Pure."""

from __future__ import annotations

from collections.abc import Sequence

FIRST_SIZE = 64
LARGEST_SIZE = 16384
PRODUCT_SECONDS = 0.1
"""No larger product is tried once one has taken this long."""
EXPONENT = 10
LARGEST_POWER = 10_000
"""The matrices of A^n + B^n in the chapter on devices."""

_FLOPS_PER_CYCLE = (
    ("avx512f", 64, "AVX-512 with two units"),
    ("fma", 32, "AVX2 and FMA with two units"),
    ("avx", 16, "AVX"),
    ("sse2", 8, "SSE"),
    ("asimd", 16, "NEON with two units"),
)
"""An instruction set to a core's float32 operations in a cycle, the widest first."""


def next_size(n: int, seconds: float, free_bytes: float) -> int | None:
    """The size to try after products of n x n that took `seconds` each; None where that was the last.

    Sizes double. free_bytes: of the device; three matrices take at most a quarter of it.
    """
    larger = 2 * n
    if seconds > PRODUCT_SECONDS or larger > LARGEST_SIZE or 3 * 4 * larger**2 > free_bytes / 4:
        return None
    return larger


def repeats(seconds: float, budget: float, least: int = 2, most: int = 200) -> int:
    """How often to measure what takes `seconds`, to fill about `budget` seconds."""
    return max(least, min(most, int(budget / max(seconds, 1e-9))))


def product_gflops(n: int, seconds: float) -> float:
    """GFLOP/s of a product of two n x n matrices."""
    return 2 * n**3 / seconds / 1e9


def power_size(gflops: float, seconds: float, free_bytes: float) -> int:
    """The largest n, a multiple of 50, for which A^10 + B^10 take `seconds` on a device of so many GFLOP/s.

    At most the chapter's 10,000, and at most a quarter of the free memory for eight matrices.
    """
    operations = gflops * 1e9 * seconds / (2 * (EXPONENT - 1))
    by_time = (operations / 2) ** (1 / 3)
    by_memory = (free_bytes / 4 / (8 * 4)) ** 0.5
    return max(50, int(min(by_time, by_memory, LARGEST_POWER)) // 50 * 50)


def copy_sizes(free_bytes: float, most: int = 64 << 20) -> list[int]:
    """Bytes to copy: 4 KiB, 64 KiB, 1 MiB, 16 MiB, `most`; none above an eighth of the free memory."""
    return [size for size in (4 << 10, 64 << 10, 1 << 20, 16 << 20, most) if size <= max(4 << 10, free_bytes / 8)]


def cpu_peak(instructions: Sequence[str], cores: int, gigahertz: float | None) -> tuple[float | None, str]:
    """(float32 GFLOP/s of so many cores by their instruction set and clock, how that was computed).

    What a set allows at most: some processors have one unit instead of two, and clocks change under load.
    """
    if gigahertz is None:
        return None, "unknown: the system does not report the clock rate"
    for name, flops, words in _FLOPS_PER_CYCLE:
        if name in instructions:
            how = f"computed: {cores} core{'' if cores == 1 else 's'} x {gigahertz:.2f} GHz x {flops} a cycle ({words})"
            return cores * gigahertz * flops, how
    return None, "unknown: the operations per cycle are not known for this core's instruction sets"


def median(values: Sequence[float]) -> float:
    """The middle value; of an even number of them the upper middle."""
    return sorted(values)[len(values) // 2]
