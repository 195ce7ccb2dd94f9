"""Small outputs, as the commands make them."""

from __future__ import annotations

from pathlib import Path

from hdfs_io.publish import Output


def output(path: object, config_hash: str = "a", command: str = "train", **inputs: str) -> Output:
    return Output(str(path), config_hash, command, inputs)


def stage(one: Output, content: str = "x", overwrite: bool = True) -> None:
    """What preprocess and predict do."""
    with one.claimed(overwrite), one.staging() as folder:
        Path(folder, "data").write_text(content)


def fill(one: Output, content: str = "x", complete: bool = True, **options: bool) -> None:
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
