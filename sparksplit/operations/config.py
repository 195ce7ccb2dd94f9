"""The configurations of `package` and `check`."""

from __future__ import annotations

import pydantic

from sparksplit.base.config import Config


class PackageConfig(Config):
    """What to package, and where to."""

    output: str
    """The local folder for sparksplit.zip, the jobs and the configurations."""
    environment: bool = False
    """Also pack this Python environment (3 GB become 1.3 GB, in about a minute), for clusters without the packages."""


class CheckConfig(Config):
    """What to check."""

    path: str | None = None
    """A folder, such as hdfs:///tmp: a small file is written there and read back, by the driver and every executor."""
    nodes: pydantic.PositiveInt | None = None
    """How many nodes a run is to have; null: as many as there are executors."""
    timeout: pydantic.PositiveFloat = 120
    """Seconds to wait for executors to be granted."""
