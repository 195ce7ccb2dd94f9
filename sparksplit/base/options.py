"""Command-line switches that never change a result."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Options:
    """Switches that are not in the configuration, because they never change a result."""

    overwrite: bool = False
    resume: bool = False
    restart: bool = False
    debug: bool = False
    dry_run: bool = False
    apply: bool = False
