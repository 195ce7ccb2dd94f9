"""What the system says of processors and GPUs, by its own texts."""

from __future__ import annotations

import os

import pytest

from sparksplit.operations.devices import host

INTEL = """processor\t: {n}
vendor_id\t: GenuineIntel
model name\t: Intel(R) Xeon(R) Processor
cpu MHz\t\t: 2599.998
physical id\t: {socket}
core id\t\t: {core}
flags\t\t: fpu sse sse2 ssse3 fma sse4_1 sse4_2 avx f16c rdrand avx2 erms avx512f avx512_bf16 amx_tile amx_bf16

"""
ARM = """processor\t: {n}
BogoMIPS\t: 243.75
Features\t: fp asimd evtstrm aes sha1 asimdhp sve bf16 i8mm
CPU implementer\t: 0x41

"""
SMI = """0, NVIDIA H100 80GB HBM3, GPU-5f1c, 81559, 1, 550.54.15
1, Tesla K80, GPU-77, [N/A], [N/A], 550.54.15
"""


def test_threads_cores_and_instruction_sets():
    # Two sockets, two cores each, two threads a core.
    text = "".join(INTEL.format(n=n, socket=n % 4 // 2, core=n % 2) for n in range(8))
    found = host.parse_cpu(text, list(range(8)))
    assert (found.logical, found.usable, found.cores, found.quota) == (8, 8, 4, None)
    assert found.model == "Intel(R) Xeon(R) Processor"
    assert found.gigahertz == 2.6 and found.clock == "as the system gives it now"
    sets = "sse2 fma sse4_1 sse4_2 avx f16c avx2 avx512f avx512_bf16 amx_tile amx_bf16"
    assert " ".join(found.instructions) == sets


def test_what_a_container_may_use():
    text = "".join(INTEL.format(n=n, socket=0, core=n // 2) for n in range(8))
    found = host.parse_cpu(text, [4, 5, 6], highest="3500000\n", quota="150000 100000\n")
    assert (found.logical, found.usable, found.cores, found.quota) == (8, 3, 2, 1.5)
    assert (found.gigahertz, found.clock) == (3.5, "the highest that the system allows")
    assert host.parse_cpu(text, [0], quota="max 100000").quota is None


def test_arm_tells_neither_cores_nor_clock():
    found = host.parse_cpu("".join(ARM.format(n=n) for n in range(4)), [0, 1, 2, 3])
    assert (found.logical, found.cores, found.gigahertz, found.clock) == (4, 4, None, "not known")
    assert found.instructions == ["asimd", "asimdhp", "sve", "bf16", "i8mm"]


def test_nothing_is_known_of_processors():
    found = host.parse_cpu("", [0, 1])
    assert (found.logical, found.usable, found.cores, found.instructions) == (2, 2, 2, [])


def test_this_host():
    found = host.cpu()
    assert found.usable == len(os.sched_getaffinity(0)) and found.logical >= found.usable >= found.cores >= 1
    total, free = host.memory()
    assert total >= free > 0


def test_nvidia_smi_lists_gpus():
    found = host.parse_smi(SMI)
    assert found.driver == "550.54.15" and found.problem is None
    assert [(gpu.index, gpu.name, gpu.mebibytes) for gpu in found.gpus] == [
        (0, "NVIDIA H100 80GB HBM3", 81559.0),
        (1, "Tesla K80", None),
    ]
    assert host.parse_smi("").problem == "nvidia-smi lists no GPU"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'No devices were found'; exit 6", "nvidia-smi: No devices were found"),
        ("exit 9", "nvidia-smi: exit status 9"),
        ("exec sleep 60", "nvidia-smi did not answer within 0.5 s"),
        (None, "nvidia-smi not found"),
    ],
)
def test_nvidia_smi_fails(tmp_path, monkeypatch, script, said):
    monkeypatch.setattr(host, "SMI_SECONDS", 0.5 if script and "sleep" in script else 20)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin" if script else str(tmp_path))
    if script:
        (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "nvidia-smi").chmod(0o755)
    assert host.nvidia_smi().problem == said
