"""List the files of an input path: a file, a folder with its sub-folders, or a pattern. No file is opened.

Leave out the names that Spark leaves out: names with `.` or `_` at the beginning (except folders of partition columns),
and files that are still being copied. Leave out empty files too.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from urllib.parse import unquote

from hdfs_io import filesystem
from hdfs_io.errors import InputError
from hdfs_io.filesystem import FileFacts

_WILD = re.compile(r"[*?\[{]")
_BRACES = re.compile(r"\{([^{}]*)\}")
_ESCAPED = re.compile(r"\\(.)")


@dataclass(frozen=True)
class Found:
    """Files and folders that the input paths name.

    roots: the files and folders themselves, in the form for Spark's readers.
    files: (path, facts) of every file with content.
    columns: partition columns from the innermost folder names of every file, outer folders first (`day=1/hour=2/file`);
        "" for a folder without a column.
    """

    roots: list[str]
    files: list[tuple[str, FileFacts]]
    columns: tuple[str, ...] = ()


def find(paths: Sequence[str]) -> Found:
    """Find the files that `paths` name, locally or on HDFS.

    Raise InputError if a path matches nothing, if no path has rows, or if two paths name one file. Also raise
    InputError if only some files lie in folders of partition columns.
    """
    roots: list[str] = []
    for path in paths:
        matches = expand(path)
        if not matches:
            raise InputError(f"{path}: no file or folder matches this pattern")
        roots += [match for match in matches if match not in roots]
    files: list[tuple[str, FileFacts]] = []
    origins: list[tuple[str, str]] = []
    columns = []
    for root in roots:
        if in_root := files_in(root):
            columns.append((root, folder_columns(root, [name for name, _ in in_root])))
        files += in_root
        origins += [(name, root) for name, _ in in_root]
    if not files:
        raise InputError(
            f"{paths[0]}: {'the folder holds no rows' if filesystem.is_folder(roots[0]) else 'it holds no rows'}"
        )
    check_once(origins)
    return Found([filesystem.for_spark(root) for root in roots], files, alike(columns))


def check_once(files: Iterable[tuple[str, str]]) -> None:
    """Raise InputError for a file that two paths name, because its rows would be read twice. files: (file, path that
    names it)
    """
    origins: dict[str, str] = {}
    for file, origin in files:
        if (before := origins.setdefault(file, origin)) != origin:
            raise InputError(f"{file}: is listed twice, by {before} and by {origin}; remove one of them")


def expand(path: str) -> list[str]:
    """Return the absolute `path`. If no such file exists and `path` is a pattern, return the sorted matches instead.

    Patterns: `*`, `?`, `[ab]`, `[^a]`, `{a,b}`. Local paths and HDFS.
    """
    whole = filesystem.absolute(path)
    if not _WILD.search(whole) or filesystem.exists(whole):
        return [whole]
    authority = whole[: whole.index("/", len("hdfs://"))] if whole.startswith("hdfs://") else ""
    matches: set[str] = set()
    for one in alternatives(whole[len(authority) :]):
        matches.update(_matches(authority + "/", one.strip("/").split("/")))
    return sorted(matches)


def alternatives(pattern: str) -> Iterator[str]:
    """Yield the patterns without braces that `{a,b}` stands for."""
    braces = _BRACES.search(pattern)
    if braces is None:
        yield pattern
        return
    for choice in braces[1].split(","):
        yield from alternatives(pattern[: braces.start()] + choice + pattern[braces.end() :])


def _matches(folder: str, parts: Sequence[str]) -> Iterator[str]:
    """Yield the paths below `folder` that match the pattern's remaining `parts`."""
    part, rest = parts[0], parts[1:]
    if not _WILD.search(part):
        place = filesystem.join(folder, _ESCAPED.sub(r"\1", part))
        if rest:
            yield from _matches(place, rest)
        elif filesystem.exists(place):
            yield place
        return
    if not filesystem.is_folder(folder):
        return
    pattern = _ESCAPED.sub(r"[\1]", part.replace("[^", "[!"))
    for name, facts in filesystem.entries(folder).items():
        # `_*` finds names that begin with _. No pattern finds a file that is still being copied.
        if is_hidden(name) and (name[0] != part[0] or name[0] not in "._"):
            continue
        if not fnmatch.fnmatchcase(name, pattern):
            continue
        if not rest:
            yield filesystem.join(folder, name)
        elif facts is None:
            yield from _matches(filesystem.join(folder, name), rest)


def files_in(path: str) -> list[tuple[str, FileFacts]]:
    """Return (path, facts) of the file `path`, or of every file in the folder `path` and its sub-folders, sorted by
    name. Leave out hidden and empty files. Raise InputError if nothing exists at `path`.
    """
    if not filesystem.is_folder(path):
        return [(path, facts)] if (facts := filesystem.facts(path)).bytes else []
    return [
        (filesystem.join(path, name), facts)
        for name, facts in filesystem.tree(path).items()
        if facts.bytes and not any(map(is_hidden, name.split("/")))
    ]


def choices(path: str) -> list[list[str]]:
    """Return the patterns without braces that `path` stands for, grouped by their beginning before the first other
    wildcard.

    `{mon,tue}/*.{csv,tsv}` gives two patterns for `mon` and two for `tue`.
    """
    by_start: dict[str, list[str]] = {}
    for one in [path] if filesystem.exists(path) else alternatives(path):
        wild = _WILD.search(one)
        by_start.setdefault(one[: wild.start()] if wild else one, []).append(one)
    return list(by_start.values())


def above(pattern: str) -> str:
    """Return the folder that `pattern` searches: the path before its first wildcard. Without a wildcard, return
    `pattern`.
    """
    wild = _WILD.search(pattern)
    return pattern[: wild.start()].rpartition("/")[0] or "." if wild else pattern


def is_hidden(name: str) -> bool:
    """Whether Spark's readers leave out a file or folder with this name."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def folder_columns(root: str, files: Sequence[str]) -> tuple[str, ...]:
    """Return the partition columns in the names of `root`'s sub-folders. files: the paths of all files in `root`.

    Raise InputError if the files' folders have different partition columns, or if only some have any: rows would lack
    values.
    """
    kinds: dict[tuple[str, ...], str] = {}
    for file in files:
        folders = file.removeprefix(root).strip("/").split("/")[:-1]
        kinds.setdefault(tuple(name.partition("=")[0] if "=" in name else "" for name in folders), file)
    columns = [kind for kind in kinds if any(kind)]
    if not columns:
        return ()
    if len(kinds) > 1 or "" in columns[0]:
        one, other = kinds[columns[0]], next((kinds[kind] for kind in kinds if kind != columns[0]), root)
        raise InputError(f"{root}: {one} and {other} have different partition columns in their folder names")
    return tuple(map(unquote, columns[0]))


def alike(found: Sequence[tuple[str, tuple[str, ...]]]) -> tuple[str, ...]:
    """Return the partition columns of the folders in `found`. Raise InputError if the folders differ."""
    for path, columns in found:
        if columns != found[0][1]:
            raise InputError(f"{found[0][0]} and {path} have different partition columns in their folder names")
    return found[0][1] if found else ()


def with_outer(found: Found, asked: Collection[str]) -> Found:
    """Return `found` with the columns in `asked` that folders in the input paths give (`day` of `clients/day=1`). Only
    folders directly above the known partition folders count, without another kind of folder in between.

    Raise InputError if the paths differ in these columns.
    """
    columns: list[tuple[str, tuple[str, ...]]] = []
    for folder in dict.fromkeys(path.rpartition("/")[0] for path, _ in found.files):
        parts = folder.split("/")
        above = takewhile(lambda part: "=" in part, reversed(parts[: len(parts) - len(found.columns)]))
        names = [unquote(part.partition("=")[0]) for part in above]
        kept = [name if name in asked and name not in found.columns else "" for name in names]
        while kept and not kept[-1]:
            kept.pop()
        columns.append((folder, tuple(reversed(kept))))
    return replace(found, columns=(*alike(columns), *found.columns))


NO_VALUE = ("", "__HIVE_DEFAULT_PARTITION__")
"""Texts of a missing value in a folder name."""


def folder_values(found: Found) -> dict[str, set[str]]:
    """Return the values of each partition column, without missing values. A value is the text after the folder's `=`,
    with percent-encoded bytes decoded as UTF-8.

    Raise InputError for a folder whose encoded bytes are not UTF-8.
    """
    values: dict[str, set[str]] = {name: set() for name in found.columns if name}
    for folder in dict.fromkeys(path.rpartition("/")[0] for path, _ in found.files):
        for name, part in zip(reversed(found.columns), reversed(folder.split("/")), strict=False):
            if not name:
                continue
            try:
                values[name].add(unquote(part.partition("=")[2], errors="strict"))
            except UnicodeDecodeError:
                raise InputError(
                    f"{folder}: the percent-encoded bytes in {part!r} are not UTF-8; rename the folder"
                ) from None
    return {name: texts - {*NO_VALUE} for name, texts in values.items()}
