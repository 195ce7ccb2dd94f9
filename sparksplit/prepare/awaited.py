"""Waits for input until every path has rows."""

from __future__ import annotations

import re
import time

from hdfs_io import filesystem
from hdfs_io.errors import Missing
from hdfs_io.listing import above, choices, expand, files_in
from hdfs_io.marks import SUCCESS
from sparksplit.base.errors import InputError
from sparksplit.base.progress import say
from sparksplit.prepare.formats import PATHS, format_of
from sparksplit.prepare.preprocess_config import InputConfig

LOOK_SECONDS, LINE_SECONDS = 10.0, 600.0
_UNFINISHED = re.compile(r"_temporary|.*\._COPYING_")
"""Names in a folder that is still being written: `_temporary` by Spark's and Hadoop's committers, `._COPYING_` by `hdfs
dfs -put`."""


def await_input(config: InputConfig, output: str, overwrite: bool) -> None:
    """Wait until every path has rows. Return at once if `config` does not wait.

    Also return at once if `output` is complete and `overwrite` is false, because its input may be gone.

    Raise InputError if the time is over. Raise ConfigError if only Spark can list the paths.
    """
    if config.wait is None or (not overwrite and filesystem.exists(filesystem.join(output, SUCCESS))):
        return
    if not config.listed:
        raise config.error("wait", "is only for local paths and paths on HDFS")
    end, said = time.monotonic() + config.wait, -LINE_SECONDS
    while missing := [each for key in PATHS for path in config.paths_of(key) for each in _missing(path, config)]:
        left = end - time.monotonic()
        if left <= 0:
            raise InputError(f"{missing[0]}: no rows there after {config.wait:g} s (input.wait)")
        if time.monotonic() - said >= LINE_SECONDS:
            said = time.monotonic()
            say(f"{missing[0]}: no rows there yet; waiting for {left / 60:.0f} min more at most (input.wait)")
        time.sleep(min(LOOK_SECONDS, left))


def _missing(path: str, config: InputConfig) -> list[str]:
    """Return the paths or patterns in `path` that have no complete rows. `{mon,tue}` counts as two patterns."""
    if not format_of(config.format).patterns:
        return [] if _are_there([path]) else [path]
    return [each[0] for each in choices(path) if not _is_whole(each)]


def _is_whole(patterns: list[str]) -> bool:
    """Return whether these patterns match rows, and nobody is writing into the folders that they search."""
    if any(map(_holds_unfinished, map(above, patterns))):
        return False
    return _are_there([one for pattern in patterns for one in expand(pattern)])


def _are_there(paths: list[str]) -> bool:
    """Return whether these files and folders have rows, and nobody is writing into one of them."""
    there = [path for path in paths if filesystem.exists(path)]
    try:
        return not any(map(_is_filled, there)) and any(map(files_in, there))
    except Missing:  # removed in the meantime: somebody is writing it again
        return False


def _is_filled(path: str) -> bool:
    """Return whether somebody is writing into the folder `path` or below it.

    Return False for a file, because HDFS does not list what is below a file.
    """
    if not filesystem.is_folder(path):
        return False
    below = {part for name in filesystem.tree(path) for part in name.split("/")}
    return _holds_unfinished(path) or any(map(_UNFINISHED.fullmatch, below))


def _holds_unfinished(folder: str) -> bool:
    return filesystem.is_folder(folder) and any(map(_UNFINISHED.fullmatch, filesystem.listing(folder)))
