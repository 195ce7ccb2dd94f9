"""Checks by name and first bytes whether a file holds lines of text, as it should.

Spark's readers unpack a file by its name. They would read the bytes of any other packed or binary file as columns.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath

from hdfs_io import filesystem
from sparksplit.base.errors import InputError

FIRST = 64
"""Number of first bytes that are checked."""
_FILES, _THREADS = 1000, 16
"""Largest number of files whose first bytes the driver reads, and how many it reads at a time."""
_SUFFIXES = {"gzip": ".gz", "bzip2": ".bz2"}
"""Packed formats that all of Spark's readers unpack, and the ending that the file's name must have."""
_CONTROLS = re.compile(rb"[\x00\x02-\x08\x0e-\x1f]")
"""Bytes that no text has."""
_UNPACK = "unpack it, or pack it with gzip"
_KINDS = (
    (b"\x1f\x8b", "gzip", ""),
    (b"BZh", "bzip2", ""),
    (b"PK\x03\x04", "a zip archive (or an Excel file)", "save it as text, or unpack it"),
    (b"\xfd7zXZ\x00", "an xz file", _UNPACK),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", _UNPACK),
    (b"Rar!\x1a\x07", "a RAR archive", _UNPACK),
    (b"\xd0\xcf\x11\xe0", "an Excel file", "save it as text"),
    (b"PAR1", "a Parquet file", "use input.format: parquet"),
    (b"ORC", "an ORC file", "use input.format: orc"),
    (b"Obj\x01", "an Avro file", "use input.format: avro"),
)
"""First bytes, the kind of file, and what the user should do."""


def problem(name: str, first: bytes, encoding: str = "UTF-8", ours: bool = False) -> str | None:
    """Return why a file with this name and these first bytes is not read as text, and what to do.

    Return None if the file is text, or is packed as its name says.

    encoding: of the text, as the user gave it.
    ours: our own tasks read the file. They unpack only gzip, by its content.
    """
    suffix = PurePosixPath(name).suffix
    known = _CONTROLS.search(first) is not None  # a text may begin with the letters ORC
    kind, cure = next(((kind, cure) for begin, kind, cure in _KINDS if known and first.startswith(begin)), ("", ""))
    if kind == "bzip2" and first[4:10] != b"1AY&SY":  # the mark of a block, because a text may begin with BZh
        kind = ""
    if ours and kind in _SUFFIXES:
        return None if kind == "gzip" else f"is packed with {kind}: {_UNPACK}"
    for packed, ending in () if ours else _SUFFIXES.items():
        if suffix == ending and kind != packed:
            return f"is named {ending}, but is not a {packed} file; rename it"
        if kind == packed:
            return None if suffix == ending else f"is packed with {packed}: rename it, so that it ends in {ending}"
    if kind:
        return f"is {kind}, not text: {cure}"
    if _utf16(first) and not encoding.lower().replace("_", "-").startswith("utf-16"):
        return "is UTF-16 text: convert it to UTF-8 (iconv -f UTF-16 -t UTF-8)"
    return None


def _utf16(first: bytes) -> bool:
    """Return whether text is UTF-16: it has a byte order mark, or every other byte is zero, as in English text."""
    if first.startswith((b"\xff\xfe", b"\xfe\xff")):
        return True
    even, odd = first[0::2], first[1::2]
    return len(first) >= 4 and any(not any(zero) and all(other) for zero, other in ((even, odd), (odd, even)))


def check(paths: Sequence[str], encoding: str = "UTF-8", ours: bool = False) -> None:
    """Raise InputError for the first file that is not read as text. Of many files, only the first 1,000 are checked.

    encoding, ours: as in `problem`
    """

    def found(path: str) -> str | None:
        with filesystem.open_input(path) as file:
            return problem(path, bytes(file.read(FIRST)), encoding, ours)

    with ThreadPoolExecutor(_THREADS) as pool:
        for path, said in zip(paths, pool.map(found, paths[:_FILES]), strict=False):
            if said is not None:
                raise InputError(f"{path}: {said}")
