"""blocks/SPLIT.parquet of a prepared data set: the files, the rows in each file, and the checksums of the blocks.

The table is not in the manifest, because there may be millions of blocks. A reader of blocks reads only the part of the
table that it needs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from hdfs_io import filesystem
from hdfs_io.errors import errno_of, file_error, using
from sparksplit.base.errors import InputError
from sparksplit.dataset.lane_files import FileFacts, values_of

FOLDER = "blocks"
_SCHEMA = pa.schema(
    [
        ("path", pa.string()),
        ("bytes", pa.int64()),
        ("lane", pa.int32()),
        ("first_row_group", pa.int32()),
        ("offset", pa.int64()),
        ("rows", pa.int64()),
        ("crc32", pa.list_(pa.uint32())),
    ]
)
_GROUP = 256
"""Number of segments that are read together."""


@dataclass(frozen=True, eq=False)
class Segment:
    """The rows of one lane in one file: consecutive row groups. A row group is a block, or a part of a block if the
    lane continues in another file.

    path: relative to the data set, such as train/lanes-000-047.parquet.
    offset: rows of the lane in earlier files.
    crc32: by row group, uint32: CRC-32 of the value buffers of row_id, the tensors in order, and the label.
    """

    path: str
    first_row_group: int
    offset: int
    rows: int
    crc32: npt.NDArray[np.uint32]


def path_of(folder: str, split: str) -> str:
    """Return the path of a split's table."""
    return filesystem.join(folder, FOLDER, f"{split}.parquet")


def write(folder: str, split: str, files: Iterable[FileFacts]) -> None:
    """Write the table of a split into `folder`. Do nothing if the split has no files."""
    rows = sorted(
        ((lane, file.offset, count, group, file) for file in files for lane, count, group in file.lanes),
        key=lambda row: row[:2],
    )
    if not rows:
        return
    values = []
    for lane, offset, count, group, file in rows:
        end = min(end for end in (*(first for _, _, first in file.lanes), len(file.crc32)) if end > group)
        values.append((file.path, file.bytes, lane, group, offset, count, file.crc32[group:end]))
    columns = zip(*values, strict=True)
    arrays = [pa.array(column, type=field.type) for column, field in zip(columns, _SCHEMA, strict=True)]
    filesystem.make_folder(filesystem.join(folder, FOLDER))
    path = path_of(folder, split)
    target, inner = filesystem.resolve(path)
    with using(path, "cannot be written"):
        pq.write_table(pa.Table.from_arrays(arrays, schema=_SCHEMA), inner, filesystem=target, row_group_size=_GROUP)


def sizes(folder: str, split: str) -> dict[str, int]:
    """Return the bytes of each file of a split, by its path within the data set. Raise InputError like `segments`."""
    table = _read(folder, split, ["path", "bytes"])
    return dict(zip(table.column("path").to_pylist(), table.column("bytes").to_pylist(), strict=True))


def segments(folder: str, split: str, lanes: range | None = None) -> dict[int, list[Segment]]:
    """Return the segments of each lane of a split, in the order of the rows. lanes: only these lanes; None: all.

    Raise InputError if the table is missing or damaged.
    """
    columns = [name for name in _SCHEMA.names if name != "bytes"]
    table = _read(folder, split, columns, lanes)
    by_lane: dict[int, list[Segment]] = {}
    if not table.num_rows:
        return by_lane
    # Not by `to_numpy`, which imports pandas. A node's first reading would wait for the import.
    crc32 = table.column("crc32")
    values = values_of(pc.list_flatten(crc32), np.dtype(np.uint32))
    ends = np.cumsum(values_of(pc.list_value_length(crc32), np.dtype(np.int32)), dtype=np.int64)
    rows = zip(*(table.column(name).to_pylist() for name in columns[:-1]), ends.tolist(), strict=True)
    start = 0
    for path, lane, group, offset, count, end in rows:
        by_lane.setdefault(lane, []).append(Segment(path, group, offset, count, values[start:end]))
        start = end
    return by_lane


def _read(folder: str, split: str, columns: list[str], lanes: range | None = None) -> pa.Table:
    path = path_of(folder, split)
    target, inner = filesystem.resolve(path)
    try:
        # Not pq.read_table, which imports pandas, too.
        with target.open_input_file(inner) as source, pq.ParquetFile(source, pre_buffer=False) as file:
            if lanes is None:
                return file.read(columns, use_threads=False).select(columns)
            groups = [group for group in range(file.num_row_groups) if _may_hold(file.metadata.row_group(group), lanes)]
            table = file.read_row_groups(groups, columns, use_threads=False).select(columns)
            lane = table.column("lane")
            return table.filter(pc.and_(pc.greater_equal(lane, lanes.start), pc.less(lane, lanes.stop)))
    except (OSError, pa.ArrowException, KeyError) as error:
        if errno_of(error) is not None or isinstance(error, FileNotFoundError):
            raise file_error(path, "cannot be read", error) from None
        raise damaged(path, " ".join(str(error).split())[:200]) from None


def _may_hold(group: pq.RowGroupMetaData, lanes: range) -> bool:
    """Return whether a row group may have segments of `lanes`."""
    bounds = group.column(_SCHEMA.get_field_index("lane")).statistics
    return bounds is None or (bounds.min < lanes.stop and bounds.max >= lanes.start)


def damaged(place: str, reason: str) -> InputError:
    """Return the error for a damaged file of a data set. place: the file, and where in the file."""
    return InputError(
        f"{place}: is damaged: {reason}. Copy the data set again if it is a copy; otherwise prepare it again"
    )
