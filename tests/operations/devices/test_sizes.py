"""What is measured and what the figures mean: pure arithmetic."""

from __future__ import annotations

import hypothesis
import pytest
from hypothesis import strategies as st

from sparksplit.operations.devices import sizes

GIB = 2.0**30


def test_sizes_double_until_time_or_memory_is_up():
    assert sizes.next_size(64, 1e-5, 16 * GIB) == 128
    assert sizes.next_size(2048, sizes.PRODUCT_SECONDS * 1.01, 16 * GIB) is None
    assert sizes.next_size(sizes.LARGEST_SIZE, 1e-5, 1024 * GIB) is None
    # Three matrices of 2,048 x 2,048 float32 are 48 MiB, a quarter of 192.
    assert sizes.next_size(1024, 1e-5, 192 * 2**20) == 2048
    assert sizes.next_size(1024, 1e-5, 191 * 2**20) is None


def test_repeats_fill_the_budget_within_bounds():
    assert sizes.repeats(0.01, 0.15) == 15
    assert sizes.repeats(5.0, 0.15) == 2
    assert sizes.repeats(0.0, 0.15) == 200


def test_gflops_of_a_product():
    assert sizes.product_gflops(1000, 0.02) == pytest.approx(100)


@hypothesis.given(st.floats(0.1, 1e6), st.floats(0.05, 10), st.floats(1e6, 1e12))
def test_powers_fit_time_and_memory(gflops, seconds, free):
    n = sizes.power_size(gflops, seconds, free)
    assert n % 50 == 0 and 50 <= n <= sizes.LARGEST_POWER
    if n > 50:
        assert 2 * (sizes.EXPONENT - 1) * 2 * n**3 / (gflops * 1e9) <= seconds * 1.000001
        assert 8 * 4 * n**2 <= free / 4 * 1.000001


def test_a_fast_device_gets_the_chapters_size():
    assert sizes.power_size(50_000, 2.0, 80 * GIB) == 10_000


def test_copies_stay_within_the_memory():
    assert sizes.copy_sizes(16 * GIB) == [4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20]
    assert sizes.copy_sizes(10 << 20) == [4 << 10, 64 << 10, 1 << 20]
    assert sizes.copy_sizes(0) == [4 << 10]


@pytest.mark.parametrize(
    ("instructions", "flops", "words"),
    [
        (["sse2", "avx", "fma", "avx2", "avx512f", "amx_bf16"], 64, "AVX-512"),
        (["sse2", "avx", "fma", "avx2"], 32, "FMA"),
        (["sse2", "avx"], 16, "AVX"),
        (["sse2"], 8, "SSE"),
        (["asimd", "asimdhp"], 16, "NEON"),
    ],
)
def test_peak_by_instruction_set_cores_and_clock(instructions, flops, words):
    peak, how = sizes.cpu_peak(instructions, 4, 2.5)
    assert peak == 4 * 2.5 * flops
    assert how.startswith(f"computed: 4 cores x 2.50 GHz x {flops} a cycle") and words in how


def test_a_peak_that_cannot_be_known_is_said_to_be_so():
    assert sizes.cpu_peak(["avx2", "fma"], 4, None) == (None, "unknown: the system does not report the clock rate")
    assert sizes.cpu_peak(["rv64"], 4, 2.0)[0] is None


def test_the_middle_of_values():
    assert sizes.median([3.0, 1.0, 2.0]) == 2.0 and sizes.median([1.0, 2.0]) == 2.0
