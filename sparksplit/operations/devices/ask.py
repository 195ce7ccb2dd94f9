"""Starts a fresh interpreter that measures within a time limit, and cleans up afterwards. Runs on the driver and in
executors.

Spark's Python worker must not import TensorFlow. A fork of the worker would hold the threads of Arrow and gRPC.
"""

from __future__ import annotations

import collections
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO, Any

from sparksplit.base.orphans import python_path
from sparksplit.base.own_folders import own_folder, temporary_folder
from sparksplit.base.reading import short_lines
from sparksplit.base.records import JsonObject
from sparksplit.operations.devices import host

MODULE = "sparksplit.operations.devices.node.process"
"""The module that the interpreter runs."""

PREFIX = "sparksplit-devices-"
_NO_GPU = re.compile(
    r"(Could not find cuda drivers[^.]*|Cannot dlopen some GPU libraries[^.]*|failed call to cuInit.*)"
)
"""TensorFlow's messages if it sees no GPU."""
_LOG_LINES = 200


@dataclass(frozen=True)
class Order:
    """The order for the interpreter.

    parent: id of the process that asks. threads: TensorFlow's threads per operation. gpu_mebibytes: free memory on each
    GPU in MiB. cores: number of cores that compute at once. cpu: the host's processors. training: the argument of
    `node.step.look`; None: measure the devices.
    """

    parent: int
    threads: int
    gpu_mebibytes: float
    cores: int
    cpu: JsonObject
    training: JsonObject | None = None


@dataclass
class Answer:
    """The answer of the interpreter.

    parts: the measurements, by name. problem: why measurements are missing. usage: whether the user caused the problem.
    log: the last lines that the interpreter wrote.
    """

    parts: dict[str, Any] = field(default_factory=dict)
    problem: str | None = None
    usage: bool = False
    log: list[str] = field(default_factory=list)


def look(
    who: str,
    threads: int,
    given: Sequence[str],
    seconds: float,
    training: JsonObject | None,
    skip: str | None = None,
) -> JsonObject:
    """Return a process's ProcessRecord as JSON. The extra key `usage` holds the user's mistake, or None.

    given: GPUs that Spark has assigned. seconds: time limit of each interpreter. training: also measure a step of this
    model. skip: the reason to measure nothing here.
    """
    cpu = host.cpu()
    total, free = host.memory()
    cores = max(1, min(threads, cpu.cores, int(cpu.quota or cpu.cores)))
    smi = host.nvidia_smi()
    left = [gpu.mebibytes - (gpu.used_mebibytes or 0) for gpu in smi.gpus if gpu.mebibytes is not None]
    order = Order(os.getpid(), threads, min(left, default=1024), cores, asdict(cpu))
    visible = ",".join(given) if given else None
    # The step comes first: a user's mistake ends the command, whatever the devices can do.
    orders = [order] if training is None else [replace(order, training=training), order]
    answers: list[Answer] = []
    for each in [] if skip else orders:
        answers.append(_ask(each, visible, seconds))
        if answers[-1].usage:
            break
    parts = {name: value for answer in answers for name, value in answer.parts.items()}
    tensorflow = parts.get("tensorflow")
    if tensorflow is not None and not tensorflow["gpus"]:
        tensorflow["no_gpu"] = _why_no_gpu(answers[-1].log)
    notes = [*([skip] if skip else []), *parts.get("notes", [])]
    usage = next((answer.problem for answer in answers if answer.usage), None)
    return {
        "who": who,
        "host": socket.gethostname(),
        "threads": threads,
        "cpu": asdict(cpu),
        "memory_mebibytes": total,
        "free_mebibytes": free,
        "given": list(given),
        "nvidia_smi": asdict(smi),
        "tensorflow": tensorflow,
        "products": parts.get("products", []),
        "copies": parts.get("copies", []),
        "small_products": parts.get("small_products"),
        "powers": parts.get("powers"),
        "step": parts.get("step"),
        "notes": notes,
        "problems": [answer.problem for answer in answers if answer.problem],
        "usage": usage,
    }


def _ask(order: Order, visible: str | None, seconds: float) -> Answer:
    """Start the interpreter, and collect its parts until its end or the time limit.

    visible: GPUs that the interpreter sees.
    """
    answer = Answer()
    lines: collections.deque[str] = collections.deque(maxlen=_LOG_LINES)
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "0", "PYTHONPATH": python_path()}
    if visible is not None:
        environment["CUDA_VISIBLE_DEVICES"] = visible
    with own_folder(_local_folder(), PREFIX) as scratch:
        process = subprocess.Popen(
            # -P: import nothing from the working directory, which holds the files that users ship with their
            # application.
            [sys.executable, "-P", "-u", "-m", MODULE],
            env={**environment, "TMPDIR": str(scratch)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            _listen(process, order, seconds, answer, lines)
        finally:
            process.kill()
            process.wait()
    answer.log = list(lines)
    return answer


def _listen(
    process: subprocess.Popen[bytes], order: Order, seconds: float, answer: Answer, lines: collections.deque[str]
) -> None:
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    readers = [
        threading.Thread(target=_take_parts, args=(process.stdout, answer.parts), daemon=True),
        threading.Thread(target=_take_lines, args=(process.stderr, lines), daemon=True),
    ]
    for reader in readers:
        reader.start()
    with suppress(BrokenPipeError), process.stdin as stdin:
        stdin.write(json.dumps(asdict(order)).encode() + b"\n")
    late = False
    try:
        status = process.wait(seconds)
    except subprocess.TimeoutExpired:
        late = True
        process.kill()
        status = process.wait()
    for reader in readers:
        reader.join(1)  # a process that the model started may hold the pipe open
    doing = answer.parts.pop("doing", "starting TensorFlow")
    usage, failed = answer.parts.pop("usage", None), answer.parts.pop("failed", None)
    if late:
        answer.problem = f"{doing}: stopped, because it took longer than {seconds:g} s"
    elif usage is not None:
        answer.problem, answer.usage = usage, True
    elif failed is not None:
        answer.problem = f"{doing}: {failed}"
    elif status < 0:
        answer.problem = f"{doing}: ended by {signal.Signals(-status).name}{_memory_hint(status)}"
    elif status:
        last = lines[-1] if lines else "without a word"
        answer.problem = f"{doing}: ended with status {status}: {last}"


def _memory_hint(status: int) -> str:
    return " (its container's memory may be too small)" if status == -signal.SIGKILL else ""


def _take_parts(source: IO[bytes], parts: dict[str, Any]) -> None:
    with source:
        for line in source:
            with suppress(ValueError):
                name, value = json.loads(line)
                if name in ("products", "notes"):
                    parts.setdefault(name, []).append(value)
                else:
                    parts[name] = value


def _take_lines(source: IO[bytes], lines: collections.deque[str]) -> None:
    with source:
        lines.extend(short_lines(source))


def _why_no_gpu(log: Sequence[str]) -> str:
    reasons = [match[1] for line in log if (match := _NO_GPU.search(line))]
    return reasons[-1].strip() if reasons else "TensorFlow lists none"


def _local_folder() -> Path:
    """Return a folder on Spark's local disks, which Spark removes with the application.

    On the driver, return the system's temporary folder.
    """
    return Path((os.environ.get("SPARK_LOCAL_DIRS") or str(temporary_folder())).split(",")[0])
