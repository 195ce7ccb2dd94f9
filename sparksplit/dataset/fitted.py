"""The fitted preprocessing of an earlier data set or run, to be applied to other rows unchanged."""

from __future__ import annotations

from dataclasses import dataclass

from hdfs_io import filesystem
from hdfs_io.marks import SUCCESS
from sparksplit.base.config import digest
from sparksplit.base.errors import InputError
from sparksplit.dataset.description import NAMES, Description
from sparksplit.dataset.manifest import FILE, Manifest


@dataclass(frozen=True)
class Fitted:
    """The fitted preprocessing of a data set or run.

    path: of the data set or the run. lanes, block_rows: of the data set; None for a run.
    """

    path: str
    description: Description
    lanes: int | None = None
    block_rows: int | None = None

    @property
    def digest(self) -> str:
        """A hash of the content that is applied, independent of its path."""
        return digest([self.description.model_dump(exclude=NAMES), self.lanes, self.block_rows])


def read_fitted(path: str) -> Fitted:
    """Return the fitted preprocessing of the data set or run in the folder `path`. Raise InputError if it is not
    complete.
    """
    path = filesystem.absolute(path)
    if not filesystem.exists(filesystem.join(path, SUCCESS)):
        raise InputError(f"{path}: not a complete data set or run: no {SUCCESS} file")
    description = Description.read(path)
    if not filesystem.exists(filesystem.join(path, FILE)):
        return Fitted(path, description)
    manifest = Manifest.read(path)
    return Fitted(path, description, manifest.lanes, manifest.block_rows)
