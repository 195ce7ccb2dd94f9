"""An HDFS in memory, as hdfs-native's client shows it. It can go away, and it can stop answering."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from hdfs_io import hdfs, hdfs_client

AWAY = RuntimeError('IOError("Connection refused (os error 111)")')


class NameNode:
    """files: content by path; None for a folder. asked: the calls so far, as (name, path).

    away: raised by each call, if set. silent: each call waits until this event is set, if it is given.
    """

    def __init__(self, *folders: str) -> None:
        self.files: dict[str, bytes | None] = dict.fromkeys(("/", *folders))
        self.asked: list[tuple[str, str]] = []
        self.away: Exception | None = None
        self.silent: threading.Event | None = None
        self.inner = self

    def _answer(self, name: str, path: str) -> None:
        self.asked.append((name, path))
        if self.silent is not None:
            self.silent.wait()
        if self.away is not None:
            raise self.away

    def _below(self, path: str) -> list[str]:
        return [each for each in self.files if each == path or each.startswith(f"{path}/")]

    def _facts(self, path: str) -> SimpleNamespace:
        content = self.files[path]
        return SimpleNamespace(path=path, isdir=content is None, length=len(content or b""), modification_time=0)

    def get_file_info(self, path: str) -> SimpleNamespace:
        self._answer("get_file_info", path)
        if path not in self.files:
            raise FileNotFoundError(path)
        return self._facts(path)

    def list_status(self, path: str, recursive: bool) -> Iterator[SimpleNamespace]:
        self._answer("list_status", path)
        if path not in self.files:
            raise FileNotFoundError(path)
        inner = [each for each in self._below(path) if each != path]
        return iter([self._facts(each) for each in inner if recursive or "/" not in each[len(path) + 1 :]])

    def mkdirs(self, path: str, permission: int, create_parent: bool) -> None:
        self._answer("mkdirs", path)
        for end in (place for place, letter in enumerate(f"{path}/") if letter == "/" and place):
            self.files.setdefault(path[:end], None)

    def delete(self, path: str, recursive: bool = True) -> None:
        self._answer("delete", path)
        for each in self._below(path):
            del self.files[each]

    def rename(self, old: str, new: str, overwrite: bool) -> None:
        self._answer("rename", new)
        if old not in self.files:
            raise FileNotFoundError(old)
        if new in self.files and not overwrite:
            text = f"rename destination {new} already exists"
            raise RuntimeError(f'RPCError("org.apache.hadoop.fs.FileAlreadyExistsException", "{text}")')
        for each in self._below(old):
            self.files[new + each[len(old) :]] = self.files.pop(each)

    def create(self, path: str, options: object) -> _Writer:
        self._answer("create", path)
        return _Writer(lambda content: self.files.update({path: content}))

    def read(self, path: str) -> _Content:
        self._answer("read", path)
        if path not in self.files:
            raise FileNotFoundError(path)
        return _Content(self.files[path] or b"")


class _Writer:
    def __init__(self, keep: Callable[[bytes], None]) -> None:
        self._keep, self._content = keep, b""

    def write(self, piece: bytes) -> None:
        self._content += piece

    def close(self) -> None:
        self._keep(self._content)


class _Content(bytes):
    def read_range(self, start: int, count: int) -> bytes:
        return self[start : start + count]


def use(namenode: Any, patched: pytest.MonkeyPatch) -> None:
    """Make `namenode` the NameNode of every hdfs:// path, and each pause and each look short."""
    for module in (hdfs, hdfs_client):
        patched.setattr(module, "client", lambda authority: namenode)
    patched.setattr(hdfs_client, "_PAUSE", 0.01)
    patched.setattr(hdfs_client, "_LOOK_SECONDS", 0.01)
