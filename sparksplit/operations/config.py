"""The configurations of `package`, `check` and `devices`."""

from __future__ import annotations

from typing import Annotated

import pydantic

from sparksplit.base.config import Config


class PackageConfig(Config):
    """What to package, and where to."""

    output: str
    """The local folder for sparksplit.zip, the jobs and the configurations."""
    environment: bool = False
    """Also pack this Python environment (0.8 GB, in half a minute), for clusters without the packages."""


class CheckConfig(Config):
    """What to check."""

    path: str | None = None
    """A folder, such as hdfs:///tmp: a small file is written there and read back, by the driver and every executor."""
    nodes: pydantic.PositiveInt | None = None
    """How many nodes a run is to have; null: as many as `train` says, or else as there are executors."""
    train: str | None = None
    """A configuration of `train`: its nodes are asked for, and what they spool with input_mode: spark is compared with
    what is free on the executors' local disks."""
    data: str | None = None
    """The data set of that run, if not the configuration's own."""
    timeout: pydantic.PositiveFloat = 120
    """Seconds to wait for executors to be granted."""


class DevicesConfig(Config):
    """What to measure, and where to leave it."""

    output: Annotated[str, pydantic.Field(min_length=1)] = "devices.json"
    """The file to leave; an earlier one of this command is replaced."""
    train: str | None = None
    """A configuration file of `train`: executors also look at an update of its model; null: they do not."""
    data: str | None = None
    """A prepared data set that replaces the one which that file names; null: the file's."""
    nodes: pydantic.PositiveInt | None = None
    """How many executors to measure, all at once; null: all that there are."""
    timeout: pydantic.PositiveFloat = 120
    """Seconds to wait for executors to be granted."""
    limit: pydantic.PositiveFloat = 120
    """Seconds that the devices of one process may take to be measured, and an update of the model again; what has been
    found by then is kept."""

    @pydantic.model_validator(mode="after")
    def _data_is_used(self) -> DevicesConfig:
        if self.data is not None and self.train is None:
            raise ValueError("data needs train, a configuration of which it replaces the data")
        return self
