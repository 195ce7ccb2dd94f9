"""Small outputs, as the commands make them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hdfs_io.fence import Fence
from hdfs_io.publish import Output


def output(path: object, config_hash: str = "a", command: str = "train", **inputs: str) -> Output:
    return Output(str(path), config_hash, command, inputs)


@contextmanager
def begun(folder: object) -> Iterator[Output]:
    """The output `folder`, made where it is missing, of a command that fills it for the moment."""
    one = output(folder)
    Path(one.folder).mkdir(parents=True, exist_ok=True)
    one.lease.acquire()
    try:
        one.enclose()
        yield one
        one.fence.open()
    finally:
        one.lease.release()


@contextmanager
def fenced(folder: object) -> Iterator[Fence]:
    """The fence around it."""
    with begun(folder) as one:
        yield one.fence


def stage(one: Output, content: str = "x", overwrite: bool = True) -> None:
    """What preprocess and predict do."""
    with one.claimed(overwrite), one.staging() as folder:
        Path(folder, "metrics.json" if one.command == "predict" else "run.json").write_text(content)


def fill(one: Output, content: str = "x", complete: bool = True, **options: Any) -> None:
    """What train and compare do."""
    with one.claimed(**options) as decision:
        if decision == "resume":
            one.go_on()
        else:
            one.begin()
        Path(one.folder, "run.json").write_text(content)
        if complete:
            one.complete()


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())
