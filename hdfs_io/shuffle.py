"""The one shuffle of the rows: what the tasks that parse them send, and what those that write a file make of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hdfs_io import labels, plan, row_ids
from hdfs_io.chunks import FILE, FileRows, Packing, Part
from hdfs_io.cut import Cut
from hdfs_io.lane_files import LABEL, FileFacts, LaneFile, Layout
from hdfs_io.plan import Plan
from hdfs_io.sources.base import Source
from hdfs_io.sources.identify import Identified, Identify
from hdfs_io.sources.parse import keep_names, tensor_names


@dataclass(frozen=True, eq=False)
class Place:
    """Packs rows, in the task that parses them, for the file that each goes to; see `Stage`.

    columns: what the columns of a file are called where they come from. partitions: by file, an int that Spark puts
    into the file's partition.
    """

    identify: Identify
    cut: Cut
    plan: Plan
    packing: Packing
    columns: Sequence[str]
    partitions: npt.NDArray[np.int32]

    @classmethod
    def of(cls, source: Source, identify: Identify, cut: Cut, where: Plan, layout: Layout, batch_rows: int) -> Place:
        """batch_rows: of Spark's record batches"""
        label = [] if source.label_kind is None else [LABEL]
        columns = [*tensor_names(len(source.tensors)), *label, *keep_names(len(source.keep))]
        packing = Packing.of(layout, where.files, batch_rows)
        return cls(identify, cut, where, packing, columns, plan.partition_keys(where.files))

    @property
    def schema(self) -> pa.Schema:
        """That of chunks."""
        return self.packing.schema

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        layout = self.packing.layout
        classes = labels.known_values(layout.label)
        pending: list[tuple[npt.NDArray[np.int64], list[pa.Array]]] = []
        size = 0
        for found in self.identify(batches):
            columns = [pa.array(row_ids.signed(found.ids)), *(found.rows.column(name) for name in self.columns)]
            if classes is not None:
                assert layout.label is not None
                place = 1 + len(layout.tensors)
                columns[place] = labels.indices(columns[place], classes, layout.label.unknown)
            pending.append((self.files(found), columns))
            size += sum(column.nbytes for column in columns)
            if size >= self.packing.enough:
                yield self._packed(pending)
                pending, size = [], 0
        if pending:
            yield self._packed(pending)

    def files(self, found: Identified) -> npt.NDArray[np.int64]:
        """The file of each row."""
        return self.plan.file(found.splits(self.cut), row_ids.lane_of(found.ids, self.plan.lanes), found.ids)

    def _packed(self, pending: Sequence[tuple[npt.NDArray[np.int64], list[pa.Array]]]) -> pa.RecordBatch:
        files, pieces = zip(*pending, strict=True)
        columns = [pa.concat_arrays(column) for column in zip(*pieces, strict=True)]
        return self.packing.pack(np.concatenate(files), columns, self.partitions)


@dataclass(frozen=True, eq=False)
class Writing:
    """Where and how tasks write the rows that they get. offsets: by file, rows of its first lane that are in earlier
    files."""

    folder: str
    place: Place
    offsets: npt.NDArray[np.int64]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[FileFacts]:
        """What a task does with the chunks of its partition."""
        from pyspark import TaskContext

        context = TaskContext.get()
        return self.write(batches, 0 if context is None else context.taskAttemptId())

    def write(self, batches: Iterable[pa.RecordBatch], attempt: int) -> Iterator[FileFacts]:
        """Write the files that the chunks belong to, under the attempt's names, and give the facts of each.

        Holds all of these rows in memory: a file's.
        """
        packing, numbers = self.place.packing, {key: file for file, key in enumerate(self.place.partitions.tolist())}
        parts: dict[int, list[Part]] = {}
        for batch in batches:
            keys = batch.column(FILE).unique().to_pylist()
            for key in keys:  # one, as Spark deals them
                own = batch if len(keys) == 1 else batch.filter(pc.equal(batch.column(FILE), key))
                parts.setdefault(numbers[key], []).append(packing.unpack(own))
        for file in sorted(parts):
            writer = self._file(file, attempt)
            try:
                for lane, rows in FileRows(packing, parts.pop(file), self.place.plan.lanes).sorted():
                    writer.write(lane, rows)
                facts = writer.close()
            except BaseException:
                writer.abort()
                raise
            yield facts

    def _file(self, number: int, attempt: int) -> LaneFile:
        """A file, under the attempt's name."""
        where = self.place.plan
        path = _attempt_name(where.path(number), attempt)
        split, first = where.split_of(number), where.first_lane(number)
        facts = FileFacts(split, first, path, offset=int(self.offsets[number]))
        return LaneFile(self.folder, facts, self.place.packing.layout)


def _attempt_name(path: str, attempt: int) -> str:
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.{attempt}"


def final_name(path: str) -> str:
    """The name of a file without its attempt's."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/{name[1:].rpartition('.')[0]}"
