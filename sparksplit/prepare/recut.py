"""An input's rows in files of about equal size, so that tasks have about as much to read: lines, or the records of
TFRecord files, as they are and in their order. Of IDX files, which four names are given, the same ones unpacked.

    python -m sparksplit.prepare.recut --config FILE [--set KEY=VALUE ...] --files N --into FOLDER

does that for the training rows of a configuration of `preprocess`, whose `input.path` is to be FOLDER then; what is
prepared stays the same. The new files are compressed where one of the old ones is.
"""

from __future__ import annotations

import argparse
import codecs
import gzip
import struct
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any

from hdfs_io import filesystem
from hdfs_io.listing import find
from sparksplit.base.config import load
from sparksplit.base.errors import InputError, SparksplitError, exit_status
from sparksplit.base.reading import read_exactly
from sparksplit.prepare.config import InputConfig, PreprocessConfig
from sparksplit.prepare.formats import Format, format_of
from sparksplit.prepare.sources.base import GZIP_ERRORS, GZIP_MAGIC, RANGE_BYTES, gzip_problem
from sparksplit.prepare.sources.idx import open_idx

_LINE_BYTES = 64 * 2**20
"""A line that is longer is none."""
_BLOCK_BYTES = 1024 * 1024
_BLANK = bytes(range(0x21))
"""What Java takes for white space: a line of nothing else is no row, and no header."""
_BOM = codecs.BOM_UTF8
_PACKED = (".gz", ".snappy", ".zst", ".deflate", ".lz4", ".bz2", ".xz")
_RECORD = struct.Struct("<QI")
_FAST = 1
"""The level of compression: higher ones save a tenth of the room, and take several times as long."""


@dataclass(frozen=True)
class Recut:
    """What was written: so many files with so many bytes, the largest one with `largest`."""

    files: int
    bytes: int
    largest: int


def training_files(config: InputConfig) -> list[tuple[str, int]]:
    """(path, bytes) of the files of `input.path`, in the order of their rows. They must be `listed`."""
    used = format_of(config.format)
    paths = config.paths_of("path")
    found = find(paths).files if used.patterns else used.load().facts(paths[0], config)
    return [(path, facts.bytes) for path, facts in found]


def why_not(config: InputConfig, files: Sequence[tuple[str, int]]) -> str | None:
    """Why `recut` cannot do these files; None where it can. files: of `training_files`"""
    used = format_of(config.format)
    if not used.made_of:
        return f"files of {config.format} have no lines that could be put into other files"
    if used.made_of == "values":
        packed = [open_idx(path) for path, _ in files if path.endswith(".gz")]
        small = all(file.length <= RANGE_BYTES for file in packed)
        return f"up to {RANGE_BYTES >> 20} MiB of values are one task's, packed or not" if small else None
    problem: str | None = None
    roots = {filesystem.absolute(path) for path in config.paths_of("path")}
    if config.multiline:
        problem = "with input.multiline a line's end need not be a row's"
    elif "encoding" in used.keys and not _has_line_ends(config.encoding):
        problem = f"in {config.encoding} line ends are other bytes"
    elif other := next((path for path, _ in files if path.endswith(_PACKED) and not path.endswith(".gz")), None):
        problem = f"{other} is compressed, and not by gzip"
    elif inside := next((path for path, _ in files if _in_partition(path, roots)), None):
        problem = f"the names of folders give columns, as for {inside}"
    return problem


def recut(config: InputConfig, folder: str, count: int) -> Recut:
    """Write the training rows of `config` into about `count` files in the new folder `folder`, of about equal size.

    Ask `why_not` first. Raises InputError where a file is damaged or has no lines, RunError where one cannot be
    written; what has been written by then stays.
    """
    files = training_files(config)
    used = format_of(config.format)
    if used.made_of == "values":
        return _unpacked(files, folder)
    whole = sum(size for _, size in files)
    packed = any(_is_packed(path) for path, _ in files)
    block_bytes = max(4096, min(_BLOCK_BYTES, whole // (32 * count)))
    done, ended = 0, 0
    with _Pieces(folder, f"{_kind(config)}{'.gz' if packed else ''}", packed) as pieces:
        for path, size in files:
            with _opened(path, block_bytes) as (stream, position):
                for block in _blocks(config, used, path, stream, block_bytes, pieces):
                    pieces.write(block)
                    # Bytes as they are stored: what is read of them takes about as long wherever they are.
                    shares = min((done + position()) * count // whole, count - 1)
                    if shares > ended:
                        ended = shares
                        pieces.end()
            done += size
            if used.tokens:  # a text's words end where its files do
                pieces.end()
        pieces.end()
    return pieces.written


def _has_line_ends(encoding: str) -> bool:
    try:
        return "\n".encode(encoding) == b"\n"
    except LookupError:
        return False


def _in_partition(path: str, roots: set[str]) -> bool:
    """Whether a folder within one of the roots that holds `path` is called COLUMN=VALUE."""
    folder = filesystem.parent(path)
    while folder not in roots and filesystem.parent(folder) != folder:
        if "=" in filesystem.name(folder):
            return True
        folder = filesystem.parent(folder)
    return "=" in filesystem.name(folder)


def _kind(config: InputConfig) -> str:
    return f".{'txt' if config.format in ('text', 'hive-text') else config.format}"


def _is_packed(path: str) -> bool:
    with filesystem.open_input(path) as file:
        return bytes(file.read(2)) == GZIP_MAGIC


@contextmanager
def _opened(path: str, block_bytes: int) -> Iterator[tuple[Any, Any]]:
    """(the file's content as a stream, what gives how many of its stored bytes have been read)"""
    packed = _is_packed(path)
    with filesystem.open_input(path) as file:
        stored = _Measured(file, block_bytes)
        try:
            yield (gzip.GzipFile(fileobj=stored) if packed else stored), lambda: stored.position  # type: ignore[call-overload]
        except GZIP_ERRORS as error:
            raise InputError(f"{path}: {gzip_problem(error)}") from None


class _Measured:
    """A file that is read in small pieces, and says how far it has been."""

    def __init__(self, file: Any, most: int) -> None:
        self._file, self._most, self.position = file, most, 0

    def read(self, count: int) -> bytes:
        """At most `count` bytes; none at the end."""
        content = bytes(self._file.read(min(count, self._most)))
        self.position += len(content)
        return content


def _blocks(config: InputConfig, used: Format, path: str, stream: Any, size: int, pieces: _Pieces) -> Iterator[bytes]:
    """The rows of a file, many at a time; its header goes to `pieces`."""
    if used.made_of == "records":
        yield from _records(path, stream, size)
        return
    comment = config.comment.encode() if config.comment is not None else None
    first, header = True, "header" in used.keys and config.header
    for lines in _lines(path, stream, size):
        rows, first = lines.removeprefix(_BOM) if first else lines, False
        if header:
            found, rows = _header(path, rows, comment)
            if found is not None:
                header, pieces.header = False, found
        if rows:
            # Behind a last line without an end, the next file's first one is to be a line of its own.
            yield rows if used.tokens or rows.endswith(b"\n") else rows + b"\n"


def _lines(path: str, stream: Any, size: int) -> Iterator[bytes]:
    """The content in blocks of whole lines."""
    rest: list[bytes] = []
    while block := stream.read(size):
        end = block.rfind(b"\n") + 1
        if end:
            yield b"".join([*rest, block[:end]])
            rest = []
        rest.append(block[end:])
        if sum(map(len, rest)) > _LINE_BYTES:
            raise InputError(f"{path}: has no line end within {_LINE_BYTES >> 20} MiB")
    if last := b"".join(rest):
        yield last


def _header(path: str, block: bytes, comment: bytes | None) -> tuple[bytes | None, bytes]:
    """(the header, if it is in this block of lines, and what comes after it)"""
    start = 0
    while start < len(block):
        end = block.find(b"\n", start) + 1 or len(block)
        line = block[start:end]
        if line.strip(_BLANK) and not (comment is not None and line.startswith(comment)):
            if b"\r" in line.rstrip(b"\r\n"):
                raise InputError(f"{path}: its lines end in carriage returns alone")
            return line.rstrip(b"\r\n") + b"\n", block[end:]
        start = end
    return None, b""


def _records(path: str, stream: Any, size: int) -> Iterator[bytes]:
    """Whole records of a TFRecord file: a length and its checksum, so many bytes, and theirs."""
    held, length = [], 0
    while head := read_exactly(stream.read, _RECORD.size):
        wanted = _RECORD.unpack(head)[0] + 4 if len(head) == _RECORD.size else 1
        body = read_exactly(stream.read, wanted)
        if len(body) < wanted:
            raise InputError(f"{path}: is truncated")
        held += [head, body]
        length += len(head) + len(body)
        if length >= size:
            yield b"".join(held)
            held, length = [], 0
    if held:
        yield b"".join(held)


class _Pieces:
    """The new files, one after the other. A context manager: of a file that is not ended nothing appears."""

    def __init__(self, folder: str, suffix: str, packed: bool) -> None:
        self.header = b""
        """What each of them begins with."""
        self.number = 0
        """How many have been ended."""
        self._folder, self._suffix, self._packed = folder, suffix, packed
        self._open = ExitStack()
        self._file: Any = None
        self._pack: Any = None
        self._sizes = [0]

    def __enter__(self) -> _Pieces:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.__exit__(kind, error, trace)

    @property
    def written(self) -> Recut:
        """The files that have been ended."""
        return Recut(self.number, sum(self._sizes), max(self._sizes))

    def write(self, content: bytes) -> None:
        """Append rows to the file that has been begun, or to a new one."""
        if self._file is None:
            path = filesystem.join(self._folder, f"part-{self.number:05}{self._suffix}")
            self._file = self._open.enter_context(filesystem.writing(path))
            self._pack = zlib.compressobj(_FAST, zlib.DEFLATED, 16 + zlib.MAX_WBITS) if self._packed else None
            content = self.header + content
        self._append(self._pack.compress(content) if self._pack else content)

    def end(self) -> None:
        """The next rows are for another file."""
        if self._file is not None:
            if self._pack:
                self._append(self._pack.flush())
            self._open.close()
            self._file = self._pack = None
            self.number += 1
            self._sizes.append(0)

    def _append(self, content: bytes) -> None:
        self._file.write(content)
        self._sizes[-1] += len(content)


def _unpacked(files: Sequence[tuple[str, int]], folder: str) -> Recut:
    """The same files without gzip, under their names without .gz."""
    sizes = []
    for path, _ in files:
        target = filesystem.join(folder, filesystem.name(path).removesuffix(".gz"))
        with _opened(path, _BLOCK_BYTES) as (stream, _), filesystem.writing(target) as file:
            size = 0
            while content := stream.read(_BLOCK_BYTES):
                file.write(content)
                size += len(content)
        sizes.append(size)
    return Recut(len(sizes), sum(sizes), max(sizes))


def main(argv: Sequence[str] | None = None) -> int:
    """See the module's text; the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m sparksplit.prepare.recut",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--config", help="the configuration of preprocess")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override one key")
    parser.add_argument("--files", type=int, required=True, help="about how many to write")
    parser.add_argument("--into", required=True, help="a folder that is not there yet")
    arguments = parser.parse_args(argv)
    try:
        config = load(PreprocessConfig, arguments.config, arguments.set).input
        if arguments.files < 1:
            raise InputError(f"--files: must be at least 1 (is {arguments.files})")
        if not config.listed:
            raise InputError("input.path: is not where files can be seen without Spark")
        if filesystem.exists(arguments.into):
            raise InputError(f"{arguments.into}: is there already")
        if reason := why_not(config, training_files(config)):
            raise InputError(f"{config.place}: {reason}")
        written = recut(config, arguments.into, arguments.files)
    except SparksplitError as error:
        print(f"sparksplit.prepare.recut: {error}", file=sys.stderr)
        return exit_status(error)
    print(f"{arguments.into}: {written.files} files, {written.bytes:,} bytes, the largest has {written.largest:,}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
