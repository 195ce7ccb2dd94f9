"""The user's own model: a `keras.Model`, a function of the user's session, or a `.keras` file.

The driver turns it into bytes. They reach the nodes as a file in the run's folder, or in the driver's message where a
command writes no folder. The message holds the file's digest, so a node runs only code that its own driver has sent.
"""

from __future__ import annotations

import base64
import hashlib
import inspect
import io
import json
import os
import re
import stat
import sys
import threading
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal
from weakref import WeakValueDictionary

from hdfs_io import filesystem
from hdfs_io.fence import Fence
from sparksplit.base import code_identity
from sparksplit.base.errors import InputError, RunError, UsageError
from sparksplit.base.pickles import pickled, unpickled
from sparksplit.model import model_identity
from sparksplit.model.compiled import Compiled, NotAKeyError

SUFFIX = ".keras"
FOLDER = "own_model"
"""The folder of the user's own model within a run's folder."""
_FILE = "model.zip"
_MODEL, _CODE = "model.keras", "code.pickle"
_OBJECT = re.compile(r"(keras\.Model|function):[\w.<>-]+@[0-9a-f]{16}")

Kind = Literal["keras.Model", "function", "file"]


class OwnModelError(UsageError):
    """The user's model cannot be used. The caller adds the key to the text."""


def is_own_model(name: str) -> bool:
    """Return whether `model.build` names a `.keras` file, or a model or function that was given as an object."""
    return name.endswith(SUFFIX) or is_object(name)


def is_object(name: str) -> bool:
    """Return whether `model.build` stands for an object of the user's session: KIND:NAME@IDENTITY."""
    return _OBJECT.fullmatch(name) is not None


@dataclass(frozen=True, eq=False)
class OwnModel:
    """The user's own model, as bytes.

    name: the value of `model.build` that stands for it. identity: the same for the same model in any session.
    model: the `.keras` file; empty for a function. code: the pickled function, or the pickled classes and functions of
    the model by name; empty without any. source: the function's source text. compile_config: what the model was
    compiled with, as Keras describes it.
    """

    kind: Kind
    name: str
    identity: str
    model: bytes = field(default=b"", repr=False)
    code: bytes = field(default=b"", repr=False)
    names: frozenset[str] = frozenset()
    source: str = ""
    compile_config: Mapping[str, Any] | None = field(default=None, repr=False)

    @cached_property
    def config(self) -> dict[str, Any]:
        """The model's configuration, as Keras has saved it; empty for a function."""
        return _config(self.model, self.name) if self.model else {}

    @property
    def compiled(self) -> Compiled:
        """What the model was compiled with. Raise NotAKeyError for values that have no key."""
        return Compiled.of(self.compile_config)

    @property
    def content(self) -> bytes:
        """All parts in one archive."""
        written = io.BytesIO()
        with zipfile.ZipFile(written, "w", zipfile.ZIP_STORED) as archive:
            for name, part in ((_MODEL, self.model), (_CODE, self.code)):
                if part:
                    archive.writestr(zipfile.ZipInfo(name), part)
        return written.getvalue()

    def sent(self, fence: Fence | None) -> str:
        """Return the text by which a node finds the model (`received`).

        fence: writes the model into the run's folder. None: the text itself holds the model, which takes memory of
        several times the model's size.
        """
        content = self.content
        trusted = self.kind != "file" or model_identity.has_code(self.config)
        told = {"digest": hashlib.sha256(content).hexdigest(), "trusted": trusted}
        if fence is None:
            return json.dumps({**told, "content": base64.b64encode(content).decode()})
        file = filesystem.join(fence.folder, FOLDER, _FILE)
        fence.write_bytes(file, content)
        return json.dumps({**told, "file": file})


_IN_USE: WeakValueDictionary[tuple[str, str], OwnModel] = WeakValueDictionary()
"""The models of the calls that are running, by name and identity, the newest last. A model is forgotten when its last
call has ended."""
_LOCK = threading.Lock()


def _used(own: OwnModel) -> OwnModel:
    """Return the model that calls share: an equal model of a running call, or else `own`."""
    with _LOCK:
        kept = _IN_USE.pop((own.name, own.identity), own)
        _IN_USE[own.name, own.identity] = kept
    return kept


def _in_use(name: str) -> OwnModel | None:
    with _LOCK:
        return next((own for own in reversed([*_IN_USE.values()]) if own.name == name), None)


def given(value: Any) -> OwnModel:
    """Return the model for a `keras.Model` or a function of the user's session. Keep it until the call has ended.

    Raise OwnModelError for anything else, and for a model or a function that cannot be sent to the nodes.
    """
    if _is_model(value):
        own = _of_model(value)
    elif callable(value) and not isinstance(value, type):
        own = _of_function(value)
    else:
        raise OwnModelError(
            "must be a keras.Model, a function that returns one, a name, or a mapping such as "
            f'{{"build": "mine.py:build"}} (is {type(value).__name__})'
        )
    return _used(own)


def opened(name: str, trust: bool = False) -> OwnModel | None:
    """Return the user's own model that `model.build` names; None for a builder.

    trust: whether a file of another user may hold Python code. Raise OwnModelError if the file cannot be used, and for
    the name of an object that no running call has given.
    """
    if not is_own_model(name):
        return None
    if is_object(name):
        own = _in_use(name)
        if own is None:
            raise OwnModelError(f"{name} is a model of a Python session; give the object itself, as model=")
        return own
    return _used(_of_file(name, trust))


def found(name: str, trust: bool = False) -> OwnModel | None:
    """Return the same as `opened`. A file that a running call has opened is not read again."""
    return _in_use(name) or opened(name, trust)


@dataclass(frozen=True)
class Received:
    """The user's own model on a node.

    model: the `.keras` file; empty for a function. code: the function, or the model's own classes and functions by
    name; None without any. trusted: whether Python code within `model` may run.
    """

    model: bytes
    code: Any
    trusted: bool


def received(text: str) -> Received:
    """Return the model for the text that `OwnModel.sent` has returned. This runs the model's code.

    Raise RunError if the file is not what the driver has written. Raise OwnModelError if the code cannot be loaded, as
    where a node lacks a package.
    """
    told = json.loads(text)
    content = base64.b64decode(told["content"]) if "content" in told else filesystem.read_bytes(told["file"])
    if hashlib.sha256(content).hexdigest() != told["digest"]:
        raise RunError(f"{told.get('file', 'the model')}: has changed since the run began; start the command again")
    model, code = _parts(content)
    return Received(model, _loaded(code, "on the nodes") if code else None, bool(told["trusted"]))


def code_of(run: str, trust: bool) -> Any:
    """Return the unpickled code of the own model in the run's folder `run`; None without any. This runs the code.

    Raise InputError if the file belongs to another user, or is not local, unless `trust`. Raise OwnModelError if the
    code cannot be loaded.
    """
    file = filesystem.join(run, FOLDER, _FILE)
    if not filesystem.exists(file):
        return None
    content, ours = read(file)
    code = _parts(content)[1]
    if not code:
        return None
    if not (trust or ours):
        raise InputError(f"{file}: holds Python code that may be another user's; trust=True runs it")
    return _loaded(code, "here")


def read(path: str) -> tuple[bytes, bool]:
    """Return (the file's content, whether it is a local file that belongs to this user and that others cannot write).
    Raise InputError if it cannot be read.
    """
    local = filesystem.absolute(path)
    if local.startswith("hdfs://") or not filesystem.is_file(local):
        return filesystem.read_bytes(path), False
    with Path(local).open("rb") as file:  # one descriptor, so that nobody changes the file in between
        facts = os.fstat(file.fileno())
        # A group with the user's own number has no other members, by the convention of Linux distributions.
        others = stat.S_IWOTH if facts.st_gid == facts.st_uid else stat.S_IWOTH | stat.S_IWGRP
        return file.read(), facts.st_uid == os.getuid() and not facts.st_mode & others


def is_ours(path: str) -> bool:
    """Return whether a file is local, belongs to this user, and cannot be written by others."""
    return read(path)[1]


def _loaded(code: bytes, where: str) -> Any:
    try:
        return unpickled(code)
    except Exception as error:  # the user's own code, or a package that is not installed
        raise OwnModelError(f"its code cannot be loaded {where}: {type(error).__name__}: {error}") from error


def _is_model(value: Any) -> bool:
    keras = sys.modules.get("keras")  # a model exists only if Keras has been imported
    return keras is not None and isinstance(value, keras.Model)


def _of_function(function: Callable[..., Any]) -> OwnModel:
    name = re.sub(r"[^\w.<>-]", "_", str(getattr(function, "__name__", type(function).__name__)))
    if not _takes_data(function):
        example = "lambda data: ..." if name == "<lambda>" else f"def {name}(data)"
        raise OwnModelError(f"{name} must take the description of the data as its argument: {example}")
    try:
        identity = code_identity.identity_of(function)
        source = code_identity.source_of(function) if hasattr(function, "__code__") else ""
    except code_identity.UnknownValueError as error:
        raise OwnModelError(str(error)) from None
    return OwnModel("function", f"function:{name}@{identity}", identity, code=_pickled(function, name), source=source)


def _takes_data(function: Callable[..., Any]) -> bool:
    """Return whether a function has an argument by place. True if its arguments are unknown."""
    try:
        arguments = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # a function that is not Python's
        return True
    kinds = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.VAR_POSITIONAL,
    )
    return any(argument.kind in kinds for argument in arguments)


def _of_model(model: Any) -> OwnModel:
    from sparksplit.model import arrival
    from sparksplit.model.custom_objects import compile_config, custom_objects, saved

    try:
        content = saved(model)
        config = _config(content, "the model")
        name = re.sub(r"[^\w.-]", "_", model_identity.called(config))
        _check_outputs(config, name)
        objects = custom_objects(model, config)
        code = code_identity.identity_of(*(objects[one] for one in sorted(objects))) if objects else ""
        pickle = _pickled(objects, name) if objects else b""
        compiled = compile_config(model)
        arrival.check(model, content, _loaded(pickle, "again") if pickle else {}, compiled)
    except ValueError as error:  # includes code_identity.UnknownValueError
        raise OwnModelError(str(error)) from None
    identity = model_identity.identity_of(config, _weights(content, "the model"), _compiled(compiled), code)
    return OwnModel(
        "keras.Model",
        f"keras.Model:{name}@{identity}",
        identity,
        model=content,
        code=pickle,
        names=frozenset(objects),
        compile_config=compiled,
    )


def _of_file(path: str, trust: bool) -> OwnModel:
    try:
        content, ours = read(path)
    except InputError as error:
        raise OwnModelError(str(error)) from None
    config = _config(content, path)
    try:
        compiled = _compiled(config.get("compile_config"))
        identity = model_identity.identity_of(config, _weights(content, path), compiled)
    except OSError as error:  # of h5py
        raise OwnModelError(f"{path}: is damaged: its weights cannot be read: {error}") from None
    _check_outputs(config, path)
    if model_identity.has_code(config) and not (trust or ours):
        raise OwnModelError(
            f"{path}: a Lambda layer holds Python code that may be another user's; to run it, set model.trust: true "
            "(--set model.trust=true)"
        )
    return OwnModel("file", path, identity, model=content, compile_config=config.get("compile_config"))


def _compiled(config: Mapping[str, Any] | None) -> Compiled | None:
    try:
        return Compiled.of(config)
    except NotAKeyError:  # told when the configuration takes the values over
        return None


def _check_outputs(config: Mapping[str, Any], name: str) -> None:
    number = model_identity.outputs(config)
    if number is not None and number != 1:
        raise OwnModelError(f"{name} has {number} outputs; exactly one is supported")


def _pickled(value: Any, name: str) -> bytes:
    try:
        return pickled(value)
    except Exception as error:  # a user's object may fail in any way while it is pickled
        why = " ".join(str(error).split())
        raise OwnModelError(f"{name} cannot be sent to the nodes: {type(error).__name__}: {why}") from error


def _parts(content: bytes) -> tuple[bytes, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = archive.namelist()
        return tuple(archive.read(name) if name in names else b"" for name in (_MODEL, _CODE))  # type: ignore[return-value]


def _config(content: bytes, path: str) -> dict[str, Any]:
    try:
        config = json.loads(_member(content, "config.json", path))
    except ValueError:
        config = None
    if not isinstance(config, dict):
        raise OwnModelError(f"{path}: is not a Keras model file ({SUFFIX})")
    return config


def _weights(content: bytes, path: str) -> bytes:
    return _member(content, "model.weights.h5", path)


def _member(content: bytes, name: str, path: str) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return archive.read(name)
    except (zipfile.BadZipFile, zlib.error, KeyError):
        raise OwnModelError(f"{path}: is not a Keras model file ({SUFFIX})") from None
