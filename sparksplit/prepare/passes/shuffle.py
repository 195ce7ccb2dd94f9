"""The one shuffle of the rows: tasks pack rows into chunks and send them, and other tasks write each chunk's file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparksplit.dataset import labels, plan, row_ids
from sparksplit.dataset.lane_files import LABEL, FileFacts, LaneFile, Layout
from sparksplit.dataset.plan import Plan
from sparksplit.features.encoder import Encoder
from sparksplit.prepare.passes.codec import Codec, Part, chunk_bytes, joined
from sparksplit.prepare.passes.cut import Cut
from sparksplit.prepare.passes.identify import Identified, Identify
from sparksplit.prepare.passes.parse import keep_names, tensor_names, text_names
from sparksplit.prepare.source import Source
from sparksplit.spark.batches import BATCH_BYTES, task_ids

FILE, ROWS = "file", "rows"
"""Columns of a chunk in the shuffle, besides text columns: the partition to send it to, and its records."""


@dataclass(frozen=True, eq=False)
class Place:
    """Packs rows into chunks for the file of each row; see `Stage`.

    encoder: makes the stored tensors.
    tensors, texts, rest: names in the parsed rows of the encoder's columns, and of a file's other columns.
    partitions: for each file, an int that Spark puts into the file's partition.
    batch_rows: rows in one of Spark's record batches.
    """

    identify: Identify
    cut: Cut
    plan: Plan
    layout: Layout
    encoder: Encoder
    tensors: Sequence[str]
    texts: Sequence[str]
    rest: Sequence[str]
    partitions: npt.NDArray[np.int32]
    batch_rows: int

    @classmethod
    def of(
        cls,
        source: Source,
        identify: Identify,
        cut: Cut,
        where: Plan,
        layout: Layout,
        encoder: Encoder,
        batch_rows: int,
    ) -> Place:
        """Return the stage; see the class."""
        tensors, texts = tensor_names(len(source.tensors)), text_names(source)
        rest = [*([] if source.label_kind is None else [LABEL]), *keep_names(len(source.keep))]
        keys = plan.partition_keys(where.files)
        return cls(identify, cut, where, layout, encoder, tensors, texts, rest, keys, batch_rows)

    @property
    def codec(self) -> Codec:
        """The codec of a file's columns."""
        return file_codec(self.layout)

    @property
    def schema(self) -> pa.Schema:
        """The schema of chunks."""
        return pa.schema([(FILE, pa.int32()), (ROWS, pa.binary()), *((name, pa.binary()) for name in self._texts)])

    @property
    def _texts(self) -> list[str]:
        # Not the user's names, which may differ only in case.
        return [f"text_{place}" for place in range(len(self.layout.keep))]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        layout = self.layout
        classes = labels.known_values(layout.label)
        # With many files, the rows of a single batch would give chunks of one or two rows.
        enough = min(BATCH_BYTES, self.plan.files * chunk_bytes(self.batch_rows))
        pending: list[tuple[npt.NDArray[np.int64], list[pa.Array]]] = []
        size = 0
        for batch in self.identify(batches):
            tensors, texts, rest = (
                [batch.rows.column(name) for name in names] for names in (self.tensors, self.texts, self.rest)
            )
            columns = [pa.array(row_ids.signed(batch.ids)), *self.encoder(tensors, texts), *rest]
            place = 1 + len(layout.tensors)
            if classes is not None:
                assert layout.label is not None
                columns[place] = labels.indices(columns[place], classes, layout.label.unknown)
            elif layout.label is not None and layout.label.kind == "number":
                columns[place] = labels.stored_numbers(columns[place], layout.label)
            pending.append((self.files(batch), columns))
            size += sum(column.nbytes for column in columns)
            if size >= enough:
                yield self._packed(pending)
                pending, size = [], 0
        if pending:
            yield self._packed(pending)

    def files(self, found: Identified) -> npt.NDArray[np.int64]:
        """Return the file of each row."""
        return self.plan.file(found.splits(self.cut), row_ids.lane_of(found.ids, self.plan.lanes), found.ids)

    def _packed(self, pending: Sequence[tuple[npt.NDArray[np.int64], list[pa.Array]]]) -> pa.RecordBatch:
        files, pieces = zip(*pending, strict=True)
        file = np.concatenate(files)
        rows, chunks = self.codec.pack(joined(pieces), chunk_bytes(self.batch_rows), file)
        return pa.RecordBatch.from_arrays([pa.array(self.partitions[file[rows]]), *chunks], schema=self.schema)


def file_codec(layout: Layout) -> Codec:
    """Return the codec of a file's columns."""
    sizes = {tensor.name: tensor.row_bytes for tensor in layout.tensors}
    if layout.label is not None:
        sizes[LABEL] = layout.label.row_bytes
    kinds = [pa.binary(sizes[field.name]) if field.type == pa.binary() else field.type for field in layout.schema]
    return Codec(pa.schema([(name, kind) for name, kind in zip(layout.schema.names, kinds, strict=True)]))


@dataclass(frozen=True, eq=False)
class Writing:
    """Writes the rows that a task gets. offsets: for each file, the rows of its first lane that are in earlier files"""

    folder: str
    place: Place
    offsets: npt.NDArray[np.int64]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[FileFacts]:
        """Write the chunks of a task's partition."""
        return self.write(batches, task_ids()[1])

    def write(self, batches: Iterable[pa.RecordBatch], attempt: int) -> Iterator[FileFacts]:
        """Write the files of the chunks, under the attempt's names. Yield the facts of each file.

        Holds all rows of the chunks in memory, which are the rows of one file.
        """
        codec, numbers = self.place.codec, {key: file for file, key in enumerate(self.place.partitions.tolist())}
        parts: dict[int, list[Part]] = {}
        for batch in batches:
            keys = batch.column(FILE).unique().to_pylist()
            for key in keys:  # usually one, because Spark gives each file its own partition
                of_file = batch if len(keys) == 1 else batch.filter(pc.equal(batch.column(FILE), key))
                parts.setdefault(numbers[key], []).append(codec.unpack(of_file.columns[1:]))
        for file in sorted(parts):
            writer = self._file(file, attempt)
            try:
                for lane, rows in in_order(self.place.layout, codec, parts.pop(file), self.place.plan.lanes):
                    writer.write(lane, rows)
                facts = writer.close()
            except BaseException:
                writer.abort()
                raise
            yield facts

    def _file(self, number: int, attempt: int) -> LaneFile:
        """Return the writer of a file, under the attempt's name."""
        where = self.place.plan
        path = _attempt_name(where.path(number), attempt)
        split, first = where.split_of(number), where.first_lane(number)
        facts = FileFacts(split, first, path, offset=int(self.offsets[number]))
        return LaneFile(self.folder, facts, self.place.layout)


def _attempt_name(path: str, attempt: int) -> str:
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.{attempt}"


def final_name(path: str) -> str:
    """Return the name of a file without its attempt."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/{name[1:].rpartition('.')[0]}"


def in_order(layout: Layout, codec: Codec, parts: Sequence[Part], lanes: int) -> Iterator[tuple[int, pa.Table]]:
    """Yield (lane, its next rows: at most a block) for all rows of a file, by lane and row_id as an unsigned number.

    parts: the rows in any order. They are not copied whole
    """
    starts = np.cumsum([0, *(len(part.records) for part in parts)])
    ids = np.concatenate([part.records["f0"] for part in parts]).view(np.uint64)  # a file's first column is row_id
    by_id = np.argsort(ids)
    # In few bits, because NumPy sorts up to 16 bits in linear time (radix sort).
    lane = row_ids.lane_of(ids, lanes)[by_id].astype(np.min_scalar_type(lanes))
    by_lane = np.argsort(lane, kind="stable")
    order, lane = by_id[by_lane], lane[by_lane]
    cuts = [*np.flatnonzero(np.diff(lane, prepend=-1)).tolist(), len(lane)]
    for start, stop in pairwise(cuts):
        for first in range(start, stop, layout.block_rows):
            rows = codec.taken(parts, starts, order[first : min(first + layout.block_rows, stop)])
            yield int(lane[start]), pa.table(codec.columns(rows), schema=layout.schema)
