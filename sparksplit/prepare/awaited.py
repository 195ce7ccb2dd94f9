"""Input that is still to come: waiting until there is something at every path."""

from __future__ import annotations

import time

from hdfs_io import filesystem
from hdfs_io.listing import expand
from hdfs_io.marks import SUCCESS
from sparksplit.base.errors import InputError
from sparksplit.base.progress import say
from sparksplit.prepare.config import InputConfig
from sparksplit.prepare.formats import PATHS, format_of

LOOK_SECONDS, LINE_SECONDS = 10.0, 600.0
_UNFINISHED = "_temporary"
"""What the committers of Spark and Hadoop have in a folder until all of it is there."""


def await_input(config: InputConfig, output: str, overwrite: bool) -> None:
    """Return when there is something at every path; at once where `config` does not wait, and where `output` is
    complete and not to be made anew: what it was made from may be gone.

    Raises InputError when the time is over; ConfigError where the paths cannot be looked at without Spark.
    """
    if config.wait is None or (not overwrite and filesystem.exists(filesystem.join(output, SUCCESS))):
        return
    if not config.listed:
        raise config.error("wait", "is for local paths and those on HDFS")
    end, said = time.monotonic() + config.wait, -LINE_SECONDS
    while missing := [path for key in PATHS for path in config.paths_of(key) if not _is_there(path, config)]:
        left = end - time.monotonic()
        if left <= 0:
            raise InputError(f"{missing[0]}: is not there after {config.wait:g} s (input.wait)")
        if time.monotonic() - said >= LINE_SECONDS:
            said = time.monotonic()
            say(f"{missing[0]}: is not there yet; waiting for {left / 60:.0f} min more at most (input.wait)")
        time.sleep(min(LOOK_SECONDS, left))


def _is_there(path: str, config: InputConfig) -> bool:
    found = expand(path) if format_of(config.format).patterns else [path]
    return bool(found) and all(filesystem.exists(one) and not _is_filled(one) for one in found)


def _is_filled(path: str) -> bool:
    """Whether Spark or Hadoop is writing into the folder `path`. HDFS does not answer what is below a file."""
    return filesystem.is_folder(path) and filesystem.exists(filesystem.join(path, _UNFINISHED))
