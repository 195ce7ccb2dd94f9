"""The configurations of `package`, `check` and `devices`."""

from __future__ import annotations

from typing import Annotated

import pydantic

from sparksplit.base.config import Config
from sparksplit.spark.waiting import START_SECONDS


class PackageConfig(Config):
    """What to package, and the output folder."""

    output: str
    """Local output folder for sparksplit.zip, the jobs and the configurations."""
    environment: bool = False
    """Also pack this Python environment, for clusters without the packages. The archive takes 0.8 GB and half a
    minute."""


class CheckConfig(Config):
    """What to check."""

    path: str | None = None
    """Folder to test, such as hdfs:///tmp. The driver and every executor write a small file there and read the file
    back. null: no folder is tested."""
    nodes: pydantic.PositiveInt | None = None
    """Number of nodes that a run needs. null: the number in the `train` configuration; without that file, the number of
    executors."""
    train: str | None = None
    """Configuration file of a `train` run that the cluster must be ready for. The check asks for the executors that the
    run needs. With `input_mode: spark`, the check also compares the size of the rows with the free space on the
    executors' local disks."""
    data: str | None = None
    """Prepared data set that replaces `data` of the configuration in `train`. null: the data set that the configuration
    names."""
    queue_timeout: pydantic.PositiveFloat = 120
    """Seconds to wait until the cluster has granted the executors."""
    start_timeout: pydantic.PositiveFloat = START_SECONDS
    """Seconds to wait until the granted executors have started. A host without a copy of the environment's archive
    needs minutes to fetch the archive."""


class DevicesConfig(Config):
    """What to measure, and the output file."""

    output: Annotated[str, pydantic.Field(min_length=1)] = "devices.json"
    """Output file. An earlier output file of `devices` is replaced."""
    train: str | None = None
    """Configuration file of `train`. The executors then also measure one update of its model. null: no model is
    measured."""
    data: str | None = None
    """Prepared data set that replaces `data` of the configuration in `train`. null: the data set that the configuration
    names."""
    nodes: pydantic.PositiveInt | None = None
    """Number of executors to measure, all at the same time. null: all executors."""
    queue_timeout: pydantic.PositiveFloat = 120
    """Seconds to wait until the cluster has granted the executors."""
    start_timeout: pydantic.PositiveFloat = START_SECONDS
    """Seconds to wait until the granted executors have started. A host without a copy of the environment's archive
    needs minutes to fetch the archive."""
    limit: pydantic.PositiveFloat = 120
    """Seconds that each process may take to measure its devices, and then as long again to measure an update of the
    model. At the limit, the command reports what it has measured so far."""

    @pydantic.model_validator(mode="after")
    def _data_is_used(self) -> DevicesConfig:
        if self.data is not None and self.train is None:
            raise ValueError("`data` needs `train`, the training configuration whose data set it replaces")
        return self
