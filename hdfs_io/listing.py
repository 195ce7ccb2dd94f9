"""The files that a path of the input names: a file, a folder with its sub-folders, or a pattern; none is opened.

What is left out is what Spark leaves out: names that begin with `.`, or with `_` (a partition column's folder may),
and files that are still being copied. So are empty files.
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
    """What paths name. roots: the files and folders themselves, as Spark's readers take them. files: (path, facts) of
    every file with content. columns: those that the names of the innermost folders of every file give, the outer ones
    first (`day=1/hour=2/file`); "" for a folder that gives none."""

    roots: list[str]
    files: list[tuple[str, FileFacts]]
    columns: tuple[str, ...] = ()


def find(paths: Sequence[str]) -> Found:
    """What `paths` name: local ones, or ones on HDFS.

    Raises InputError where one of them matches nothing, where there are no rows in any of them, where two name the
    same file, and where some files lie in folders of partition columns and others do not.
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
        if found := files_in(root):
            columns.append((root, folder_columns(root, [name for name, _ in found])))
        files += found
        origins += [(name, root) for name, _ in found]
    if not files:
        raise InputError(
            f"{paths[0]}: {'the folder holds no rows' if filesystem.is_folder(roots[0]) else 'it holds no rows'}"
        )
    check_once(origins)
    return Found([filesystem.for_spark(root) for root in roots], files, alike(columns))


def check_once(files: Iterable[tuple[str, str]]) -> None:
    """Raise InputError for a file that is named twice: its rows would be read twice. files: (path, what named it)"""
    origins: dict[str, str] = {}
    for file, origin in files:
        if (before := origins.setdefault(file, origin)) != origin:
            raise InputError(f"{file}: is listed twice, by {before} and by {origin}; remove one of them")


def expand(path: str) -> list[str]:
    """`path`, made absolute; if nothing has that very name and it is a pattern (`*`, `?`, `[ab]`, `[^a]`, `{a,b}`),
    what matches it, by name. Local paths, and ones on HDFS."""
    whole = filesystem.absolute(path)
    if not _WILD.search(whole) or filesystem.exists(whole):
        return [whole]
    authority = whole[: whole.index("/", len("hdfs://"))] if whole.startswith("hdfs://") else ""
    found: set[str] = set()
    for one in alternatives(whole[len(authority) :]):
        found.update(_matches(authority + "/", one.strip("/").split("/")))
    return sorted(found)


def alternatives(pattern: str) -> Iterator[str]:
    """The patterns without braces that `{a,b}` stands for."""
    braces = _BRACES.search(pattern)
    if braces is None:
        yield pattern
        return
    for choice in braces[1].split(","):
        yield from alternatives(pattern[: braces.start()] + choice + pattern[braces.end() :])


def _matches(folder: str, parts: Sequence[str]) -> Iterator[str]:
    """What matches the pattern of which `parts` are left, below `folder`."""
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
        if (is_hidden(name) and name[0] != part[0]) or not fnmatch.fnmatchcase(name, pattern):
            continue
        if not rest:
            yield filesystem.join(folder, name)
        elif facts is None:
            yield from _matches(filesystem.join(folder, name), rest)


def files_in(path: str) -> list[tuple[str, FileFacts]]:
    """(path, facts) of the file `path`, or of every file in that folder and its sub-folders, by name; hidden and empty
    ones left out. Raises InputError where there is nothing at `path`."""
    if not filesystem.is_folder(path):
        return [(path, facts)] if (facts := filesystem.facts(path)).bytes else []
    return [
        (filesystem.join(path, name), facts)
        for name, facts in filesystem.tree(path).items()
        if facts.bytes and not any(map(is_hidden, name.split("/")))
    ]


def choices(path: str) -> list[list[str]]:
    """The patterns without braces that `path` stands for, those that begin alike together: `{mon,tue}/*.{csv,tsv}` has
    two for `mon` and two for `tue`. The beginning ends before the first other wildcard."""
    found: dict[str, list[str]] = {}
    for one in [path] if filesystem.exists(path) else alternatives(path):
        wild = _WILD.search(one)
        found.setdefault(one[: wild.start()] if wild else one, []).append(one)
    return list(found.values())


def above(pattern: str) -> str:
    """The folder that `pattern` looks into: what it names before its first wildcard; itself without one."""
    wild = _WILD.search(pattern)
    return pattern[: wild.start()].rpartition("/")[0] or "." if wild else pattern


def is_hidden(name: str) -> bool:
    """Whether Spark's readers leave out a file or folder of this name."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name) or name.endswith("._COPYING_")


def folder_columns(root: str, files: Sequence[str]) -> tuple[str, ...]:
    """The columns that the sub-folders of the folder `root` give by their names. files: paths of all its files.

    Raises InputError where some files lie in folders of partition columns, and others do not, or of other columns:
    their rows would lack values.
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
    """The columns that folders give, by path; raises InputError where they differ."""
    for path, columns in found:
        if columns != found[0][1]:
            raise InputError(f"{found[0][0]} and {path} have different partition columns in their folder names")
    return found[0][1] if found else ()


def with_outer(found: Found, asked: Collection[str]) -> Found:
    """`found` with the columns `asked` for that folders in the paths themselves give (`day` of `clients/day=1`): those
    just above the folders that give columns anyway, without a folder of another kind between.

    Raises InputError where the paths differ in these.
    """
    columns: list[tuple[str, tuple[str, ...]]] = []
    for folder in dict.fromkeys(path.rpartition("/")[0] for path, _ in found.files):
        parts = folder.split("/")
        above = takewhile(lambda part: "=" in part, reversed(parts[: len(parts) - len(found.columns)]))
        names = [unquote(part.partition("=")[0]) for part in above]
        own = [name if name in asked and name not in found.columns else "" for name in names]
        while own and not own[-1]:
            own.pop()
        columns.append((folder, tuple(reversed(own))))
    return replace(found, columns=(*alike(columns), *found.columns))


NO_VALUE = ("", "__HIVE_DEFAULT_PARTITION__")
"""What a folder's value is where it is missing."""


def folder_values(found: Found) -> dict[str, set[str]]:
    """By column that folders give: its values, without a missing one. A value is the text behind the folder's `=`, with
    its percent-encoded bytes as UTF-8.

    Raises InputError for a folder whose encoded bytes are no UTF-8.
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
    return {name: own - {*NO_VALUE} for name, own in values.items()}
