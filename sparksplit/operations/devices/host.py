"""A host's processors, memory and GPUs, as the system reports them, without TensorFlow."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from sparksplit.operations.devices.devices_record import Cpu, Smi, SmiGpu

SMI_SECONDS = 20.0
"""Seconds that nvidia-smi may take, so that a hanging GPU driver does not block the command."""
_SMI_FIELDS = ("index", "name", "uuid", "memory.total", "memory.used", "driver_version")
_INSTRUCTIONS = re.compile(r"sse4_[12]|sse2|avx\w*|fma|f16c|amx_\w+|neon|asimd\w*|sve\w*|bf16|i8mm")


def cpu() -> Cpu:
    """Return this host's processors, and how many of them this process may use."""
    usable = sorted(os.sched_getaffinity(0))
    highest = _read("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
    quota = _read("/sys/fs/cgroup/cpu.max")
    return parse_cpu(_read("/proc/cpuinfo"), usable, highest, quota)


def parse_cpu(text: str, usable: list[int], highest: str = "", quota: str = "") -> Cpu:
    """Parse the content of /proc/cpuinfo.

    usable: numbers of the usable processors. highest: cpuinfo_max_freq in kHz. quota: cpu.max of the control group.
    """
    processors = [_pairs(part) for part in text.split("\n\n") if part.strip()]
    numbered = {int(one["processor"]): one for one in processors if one.get("processor", "").isdecimal()}
    known = [numbered[number] for number in usable if number in numbered]
    # Without core numbers (ARM), each processor counts as a core.
    cores = {(one.get("physical id"), one.get("core id", one["processor"])) for one in known}
    first = known[0] if known else {}
    words = (first.get("flags") or first.get("Features") or "").split()
    gigahertz, clock = None, "not known"
    if highest.strip().isdecimal():
        gigahertz, clock = int(highest) / 1e6, "the highest that the system allows"
    elif "cpu MHz" in first:
        gigahertz, clock = float(first["cpu MHz"]) / 1e3, "as the system gives it now"
    return Cpu(
        model=first.get("model name", platform.machine()),
        logical=len(numbered) or len(usable),
        usable=len(usable),
        cores=len(cores) or len(usable),
        quota=_parse_quota(quota),
        instructions=[word for word in words if _INSTRUCTIONS.fullmatch(word)],
        gigahertz=None if gigahertz is None else round(gigahertz, 3),
        clock=clock,
    )


def memory() -> tuple[int, int]:
    """Return (the host's memory in MiB, its free memory in MiB)."""
    pairs = _pairs(_read("/proc/meminfo"))
    total, free = (int(pairs.get(name, "0").split()[0]) // 1024 for name in ("MemTotal", "MemAvailable"))
    return total, free


def nvidia_smi() -> Smi:
    """Return the answer of nvidia-smi. The call has a time limit."""
    command = ["nvidia-smi", f"--query-gpu={','.join(_SMI_FIELDS)}", "--format=csv,noheader,nounits"]
    try:
        ran = subprocess.run(command, capture_output=True, text=True, timeout=SMI_SECONDS, check=False)
    except FileNotFoundError:
        return Smi(problem="nvidia-smi not found")
    except subprocess.TimeoutExpired:
        return Smi(problem=f"nvidia-smi did not answer within {SMI_SECONDS:g} s")
    except OSError as error:
        return Smi(problem=f"nvidia-smi could not be started: {error.strerror}")
    if ran.returncode:
        words = " ".join((ran.stdout + ran.stderr).split())
        return Smi(problem=f"nvidia-smi: {words[:300] or f'exit status {ran.returncode}'}")
    return parse_smi(ran.stdout)


def parse_smi(text: str) -> Smi:
    """Parse nvidia-smi's lines of values."""
    gpus, driver = [], None
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != len(_SMI_FIELDS) or not cells[0].isdecimal():
            continue
        index, name, uuid, total, used, driver = cells
        gpus.append(
            SmiGpu(index=int(index), name=name, uuid=uuid, mebibytes=_number(total), used_mebibytes=_number(used))
        )
    return Smi(driver=driver, gpus=gpus, problem=None if gpus else "nvidia-smi lists no GPU")


def _parse_quota(text: str) -> float | None:
    """Return the number of processors that a quota such as "200000 100000" allows.

    None: no limit, or an unknown format.
    """
    with suppress(ValueError, ZeroDivisionError):
        quota, period = text.split()
        return round(int(quota) / int(period), 2)
    return None


def _number(text: str) -> float | None:
    """Return the number; None for "[N/A]"."""
    with suppress(ValueError):
        return float(text)
    return None


def _pairs(text: str) -> Mapping[str, str]:
    lines = (line.partition(":") for line in text.splitlines())
    return {name.strip(): value.strip() for name, colon, value in lines if colon}


def _read(path: str) -> str:
    """Return the content of a system file; "" if the file cannot be read."""
    with suppress(OSError):
        return Path(path).read_text(encoding="utf-8", errors="replace")
    return ""
