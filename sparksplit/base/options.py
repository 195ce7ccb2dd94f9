"""The switches of a command line that never change a result."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """The switches that are not part of the configuration, because they never change a result."""

    overwrite: bool = False
    resume: bool = False
    restart: bool = False
    debug: bool = False
    dry_run: bool = False
    apply: bool = False
