"""`--apply`: write recommended settings into the user's own configuration file."""

from __future__ import annotations

import difflib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from hdfs_io.errors import using
from sparksplit.base.config import Config, Key, Origin
from sparksplit.base.errors import ConfigError, InputError
from sparksplit.base.keys import keys_of
from sparksplit.base.records import Json
from sparksplit.base.yaml_edits import CannotEdit, as_yaml, with_value
from sparksplit.spark.session import known_settings


@dataclass(frozen=True)
class Applied:
    """The result of `--apply`, in words. changed: each line of the file that changed, is new or is gone. left: each
    setting that was not written, with the reason."""

    changed: list[str]
    left: list[str]


class ConfigFile:
    """A configuration file that can be written, with its content from before the measurements."""

    def __init__(self, origin: Origin, model: type[Config]) -> None:
        """model: the class that the file is read as. Its safe keys may be written.

        Raise ConfigError if the file is missing or cannot be written: better now than after minutes of measuring.
        """
        self.origin, self._safe = origin, keys_of(model, lambda mark: mark.safe)
        if origin.file is None:
            raise ConfigError("--apply: needs --config FILE: there is no file to write the settings into")
        self.file = origin.file
        # A link stays a link: the file that it leads to is written.
        self._path = Path(os.path.realpath(self.file))
        if not self._path.is_file():
            raise ConfigError(f"--apply: {self.file}: is not a file that can be written")
        # The root user can write every file. So the mode counts too.
        may_write = os.access(self._path, os.W_OK) and self._path.stat().st_mode & 0o222
        if not may_write or not os.access(self._path.parent, os.W_OK):
            what = "its folder" if may_write else "it"
            raise ConfigError(f"--apply: {self.file}: {what} is read-only")
        if known_settings().get("spark.submit.deployMode") == "cluster":
            raise ConfigError(
                "--apply: the driver has only a copy of the file where spark.submit.deployMode is cluster; "
                "diagnose in client mode, or write the settings by hand"
            )
        with using(self.file):
            self._content = self._path.read_bytes()

    def write(self, settings: Mapping[str, Json]) -> Applied:
        """Write `settings` (values by dotted key) into the file. Everything else in the file stays as it is.

        Raise InputError if the file has changed meanwhile, or can no longer be written.
        """
        before = after = self._content.decode()
        left = []
        for dotted, value in settings.items():
            key = (*self.origin.prefix, *dotted.split("."))
            setting = f"{dotted}: {as_yaml(value)}"
            if dotted.partition(".")[0] not in self._safe:
                left.append(f"{setting} is not written: it may change the result")
            elif override := _override(self.origin, tuple(dotted.split("."))):
                left.append(f"{setting} is not written: {override} goes before the file; change it there")
            else:
                try:
                    after = with_value(after, key, value)
                except CannotEdit:
                    left.append(f"{setting} is not written: the file would change elsewhere too; write it by hand")
        changed = list(_differences(self.file, before, after))
        if changed:
            self._replace(after.encode(), ", ".join(f"{key}: {as_yaml(value)}" for key, value in settings.items()))
        return Applied(changed, left)

    def _replace(self, content: bytes, settings: str) -> None:
        with using(self.file, f"{settings} cannot be written"):
            if self._path.read_bytes() != self._content:
                raise InputError(f"{self.file}: has changed since it was read; write by hand: {settings}")
            status = self._path.stat()
            descriptor, name = tempfile.mkstemp(prefix=f".{self._path.name}.", dir=self._path.parent)
            temporary = Path(name)
            try:
                with os.fdopen(descriptor, "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                with suppress(PermissionError):  # the file is another user's, in a folder that both may write to
                    os.chown(temporary, status.st_uid, status.st_gid)
                shutil.copymode(self._path, temporary)
                temporary.replace(self._path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise


def _override(origin: Origin, key: Key) -> str:
    """Return the --set on the command line that gave `key` its value; '' if there is none."""
    place = origin.place(key)
    name = place.removeprefix("--set ").partition("=")[0].split(".")
    # A --set of another key in the same section does not override `key`.
    full_key = [*origin.prefix, *key]
    return place if place.startswith("--set ") and full_key[: len(name)] == name else ""


def _differences(file: str, before: str, after: str) -> Iterator[str]:
    """`FILE:LINE: old -> new` for each line that differs, or `FILE:LINE: new line: ...`."""
    old, new = before.splitlines(), after.splitlines()
    for kind, first, last, start, end in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        for number, (was, now) in enumerate(zip_longest(old[first:last], new[start:end]), start + 1):
            if now is None:
                yield f"{file}: gone: {was.strip()}"
            elif was is None:
                yield f"{file}:{number}: new line: {now.strip()}"
            else:
                yield f"{file}:{number}: {was.strip()} -> {now.strip()}"
