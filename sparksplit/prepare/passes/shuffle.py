"""The one shuffle of the rows: what the tasks that parse them send, and what those that write a file make of it."""

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
from sparksplit.prepare.passes.chunks import Codec, Part, chunk_bytes, joined
from sparksplit.prepare.passes.cut import Cut
from sparksplit.prepare.passes.identify import Identified, Identify
from sparksplit.prepare.passes.parse import keep_names, tensor_names, text_names
from sparksplit.prepare.source import Source
from sparksplit.spark.batches import BATCH_BYTES

FILE, ROWS = "file", "rows"
"""The columns of chunks in the shuffle, beside those of texts: which partition they go to, and their records."""


@dataclass(frozen=True, eq=False)
class Place:
    """Packs rows, in the task that parses them, for the file that each goes to; see `Stage`.

    encoder: makes the stored tensors. tensors, texts, rest: what its columns, and the others of a file, are called
    where they come from. partitions: by file, an int that Spark puts
    into the file's partition. batch_rows: of Spark's record batches.
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
        """See the class."""
        tensors, texts = tensor_names(len(source.tensors)), text_names(source)
        rest = [*([] if source.label_kind is None else [LABEL]), *keep_names(len(source.keep))]
        keys = plan.partition_keys(where.files)
        return cls(identify, cut, where, layout, encoder, tensors, texts, rest, keys, batch_rows)

    @property
    def codec(self) -> Codec:
        """Packs the columns of a file."""
        return file_codec(self.layout)

    @property
    def schema(self) -> pa.Schema:
        """That of chunks."""
        return pa.schema([(FILE, pa.int32()), (ROWS, pa.binary()), *((name, pa.binary()) for name in self._texts)])

    @property
    def _texts(self) -> list[str]:
        # Not by the user's names, which may differ in case alone.
        return [f"text_{place}" for place in range(len(self.layout.keep))]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        layout = self.layout
        classes = labels.known_values(layout.label)
        # With many files, the rows of a single batch would make chunks of a row or two.
        enough = min(BATCH_BYTES, self.plan.files * chunk_bytes(self.batch_rows))
        pending: list[tuple[npt.NDArray[np.int64], list[pa.Array]]] = []
        size = 0
        for found in self.identify(batches):
            tensors, texts, rest = (
                [found.rows.column(name) for name in names] for names in (self.tensors, self.texts, self.rest)
            )
            columns = [pa.array(row_ids.signed(found.ids)), *self.encoder(tensors, texts), *rest]
            place = 1 + len(layout.tensors)
            if classes is not None:
                assert layout.label is not None
                columns[place] = labels.indices(columns[place], classes, layout.label.unknown)
            elif layout.label is not None and layout.label.kind == "number":
                columns[place] = labels.stored_numbers(columns[place], layout.label)
            pending.append((self.files(found), columns))
            size += sum(column.nbytes for column in columns)
            if size >= enough:
                yield self._packed(pending)
                pending, size = [], 0
        if pending:
            yield self._packed(pending)

    def files(self, found: Identified) -> npt.NDArray[np.int64]:
        """The file of each row."""
        return self.plan.file(found.splits(self.cut), row_ids.lane_of(found.ids, self.plan.lanes), found.ids)

    def _packed(self, pending: Sequence[tuple[npt.NDArray[np.int64], list[pa.Array]]]) -> pa.RecordBatch:
        files, pieces = zip(*pending, strict=True)
        file = np.concatenate(files)
        rows, chunks = self.codec.pack(joined(pieces), chunk_bytes(self.batch_rows), file)
        return pa.RecordBatch.from_arrays([pa.array(self.partitions[file[rows]]), *chunks], schema=self.schema)


def file_codec(layout: Layout) -> Codec:
    """Packs the columns of a file."""
    sizes = {tensor.name: tensor.row_bytes for tensor in layout.tensors}
    if layout.label is not None:
        sizes[LABEL] = layout.label.row_bytes
    kinds = [pa.binary(sizes[field.name]) if field.type == pa.binary() else field.type for field in layout.schema]
    return Codec(pa.schema([(name, kind) for name, kind in zip(layout.schema.names, kinds, strict=True)]))


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
        codec, numbers = self.place.codec, {key: file for file, key in enumerate(self.place.partitions.tolist())}
        parts: dict[int, list[Part]] = {}
        for batch in batches:
            keys = batch.column(FILE).unique().to_pylist()
            for key in keys:  # one, as Spark deals them
                own = batch if len(keys) == 1 else batch.filter(pc.equal(batch.column(FILE), key))
                parts.setdefault(numbers[key], []).append(codec.unpack(own.columns[1:]))
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
        """A file, under the attempt's name."""
        where = self.place.plan
        path = _attempt_name(where.path(number), attempt)
        split, first = where.split_of(number), where.first_lane(number)
        facts = FileFacts(split, first, path, offset=int(self.offsets[number]))
        return LaneFile(self.folder, facts, self.place.layout)


def _attempt_name(path: str, attempt: int) -> str:
    folder, _, name = path.rpartition("/")
    return f"{folder}/.{name}.{attempt}"


def final_name(path: str) -> str:
    """The name of a file without its attempt's."""
    folder, _, name = path.rpartition("/")
    return f"{folder}/{name[1:].rpartition('.')[0]}"


def in_order(layout: Layout, codec: Codec, parts: Sequence[Part], lanes: int) -> Iterator[tuple[int, pa.Table]]:
    """(lane, its next rows: at most a block) of all rows of a file, by lane and row_id as unsigned number.

    parts: as they have come; they are not copied whole
    """
    starts = np.cumsum([0, *(len(part.records) for part in parts)])
    ids = np.concatenate([part.records["f0"] for part in parts]).view(np.uint64)  # a file's first column is row_id
    by_id = np.argsort(ids)
    # Few bits are sorted in the time that it takes to count them.
    lane = row_ids.lane_of(ids, lanes)[by_id].astype(np.min_scalar_type(lanes))
    by_lane = np.argsort(lane, kind="stable")
    order, lane = by_id[by_lane], lane[by_lane]
    cuts = [*np.flatnonzero(np.diff(lane, prepend=-1)).tolist(), len(lane)]
    for start, stop in pairwise(cuts):
        for first in range(start, stop, layout.block_rows):
            rows = codec.taken(parts, starts, order[first : min(first + layout.block_rows, stop)])
            yield int(lane[start]), pa.table(codec.columns(rows), schema=layout.schema)
