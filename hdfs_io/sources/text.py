"""Text: sequences of characters or words, and at each position the token that follows.

The text is cut into contiguous stretches (train, validation, test, in this order) before it is cut into sequences, so
that no sequence lies in two splits. The driver reads it and fits the vocabulary, which takes about six times its bytes;
the sequences are made in executors, since they repeat every token at least twice, and more often with a small stride.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from hdfs_io.config import InputConfig, check_input
from hdfs_io.manifest import SPLITS, SourceFile
from hdfs_io.preprocessing import TOKENS, UNKNOWN, Description, TensorSpec
from hdfs_io.sources.base import (
    BATCH_BYTES,
    GZIP_ERRORS,
    RANGE_BYTES,
    BadRow,
    FileSource,
    ParsedRows,
    Task,
    gzip_problem,
    input_files,
    open_raw,
)
from sparksplit.base.errors import InputError

Tokens = npt.NDArray[Any]
TEXT_BYTES = 1024 * 1024 * 1024
"""A longer text would not fit into a driver."""
_WORD = re.compile(r"\w+|[^\w\s]")
_CODE_POINTS = 0x110000
_PIECE = 1024 * 1024
_MAX_TOKENS = 100_000


class TextSource(FileSource):
    """A text file, or a folder of them as one text; its tokens as indices of the vocabulary, 0 for unknown ones.

    validation, test: the shares of the tokens that these stretches get
    vocabulary: a trained model's, instead of one fitted on the training stretch
    """

    deals = True

    @classmethod
    def of(cls, config: InputConfig, description: Description | None, validation: float, test: float) -> TextSource:
        """When predicting, the sequences are of the tokens that the model was trained on."""
        check_input(config)
        if description is None:
            return cls(config, validation, test)
        label = description.label
        if label is None or label.kind not in TOKENS or label.classes is None:
            raise config.error("format", "is text, but the model was not trained on one")
        known = len(label.classes) - 1
        if config.vocabulary is not None and config.vocabulary < known:
            message = f"must be at least {known}, the tokens of the model (is {config.vocabulary})"
            raise config.error("vocabulary", message)
        own = {"unit": label.kind, "length": description.tensors[0].shape[0]}
        for key, value in own.items():
            if key in config.model_fields_set and getattr(config, key) != value:
                raise config.error(key, f"must be {value}, as the model was trained (is {getattr(config, key)})")
        return cls(config.model_copy(update=own), vocabulary=label.classes)

    def __init__(
        self,
        config: InputConfig,
        validation: float = 0.0,
        test: float = 0.0,
        vocabulary: list[str] | None = None,
    ) -> None:
        self._length, self._stride = config.length, config.stride or config.length
        self._span = config.length + (config.label is not None)
        if self._stride > self._length:
            # max_sequences would not hold either: with gaps, the three stretches may have more sequences than the whole
            # text.
            message = f"must be at most the length, {self._length}, or tokens would be left out (is {self._stride})"
            raise config.error("stride", message)
        files = input_files(config.one_path())
        names, codes = tokenize(_read(files), config.unit)
        if config.max_sequences is not None:
            codes = codes[: (config.max_sequences - 1) * self._stride + self._span]
        cut = stretches(len(codes), validation, test)
        parts = {split: (config.place, names, codes[cut[split].start : cut[split].stop]) for split in SPLITS}
        wanted = {"train": True, "validation": validation > 0, "test": test > 0}
        self.has_test = config.test is not None
        if config.test is not None:
            test_files = input_files(config.one_path("test"))
            parts["test"], wanted["test"] = (config.one_path("test"), *tokenize(_read(test_files), config.unit)), True
            files = files + test_files
        for split, (path, _, part) in parts.items():
            if wanted[split] and len(part) < self._span:
                whole = "" if split == "test" and self.has_test else f" of {len(codes):,}"
                raise InputError(
                    f"{path}: too short: the {split} stretch has {len(part):,}{whole} {config.unit}, "
                    f"one sequence and what follows needs {self._span}"
                )
        if vocabulary is None:
            vocabulary = fit(names, parts["train"][2], config.vocabulary)
        if len(vocabulary) > _MAX_TOKENS:
            raise InputError(
                f"{config.place}: more than {_MAX_TOKENS:,} different {config.unit}; "
                "input.vocabulary keeps the most frequent"
            )
        self.vocabulary = vocabulary
        self._parts = {split: encode(*part[1:], vocabulary) for split, part in parts.items() if wanted[split]}
        self.tensors = [TensorSpec(name="x", dtype=self._parts["train"].dtype.name, shape=[self._length])]
        self.label_kind = None if config.label is None else config.unit
        self.files = [SourceFile(path=path, bytes=size) for path, size in files]

    def tasks(self) -> list[Task]:
        """Ranges of the sequences of each split."""
        step = max(1, RANGE_BYTES // (2 * self.tensors[0].row_bytes))
        tasks = []
        for split, part in self._parts.items():
            count = sequences(len(part), self._span, self._stride)
            tasks += [
                Task(split, self.files[0].path, None, start, min(start + step, count))
                for start in range(0, count, step)
            ]
        return tasks

    def read(self, task: Task) -> Iterator[ParsedRows | BadRow]:
        """The task's sequences; none of them can be bad."""
        assert task.stop is not None
        windows = np.lib.stride_tricks.sliding_window_view(self._parts[task.part], self._span)[:: self._stride]
        step = max(1, BATCH_BYTES // (2 * self.tensors[0].row_bytes))
        for start in range(task.start, task.stop, step):
            found = windows[start : min(start + step, task.stop)]
            label = None if self.label_kind is None else np.ascontiguousarray(found[:, 1:])
            yield ParsedRows([np.ascontiguousarray(found[:, : self._length])], label)


def stretches(tokens: int, validation: float, test: float) -> dict[str, range]:
    """Where train, validation and test lie in a text of this many tokens; the shares are rounded down."""
    ends = [int(tokens * validation), int(tokens * test)]
    first, second = tokens - sum(ends), tokens - ends[1]
    return {"train": range(first), "validation": range(first, second), "test": range(second, tokens)}


def sequences(tokens: int, span: int, stride: int) -> int:
    """How many sequences that take `span` tokens and begin at 0, stride, 2 stride, ... lie within `tokens`."""
    return max(0, (tokens - span) // stride + 1)


def tokenize(text: str, unit: str) -> tuple[list[str], Tokens]:
    """(the different tokens in the order of their code points, the text as uint32 indices of them)."""
    if unit == "characters":
        names = sorted(set(text))
        place = np.zeros(_CODE_POINTS, np.uint32)
        place[[ord(name) for name in names]] = np.arange(len(names))
        codes = np.empty(len(text), np.uint32)
        for piece in _pieces(len(text)):
            codes[piece] = place[np.frombuffer(text[piece].encode("utf-32-le"), dtype="<u4")]
        return names, codes
    met: dict[str, int] = {}
    order = np.fromiter((met.setdefault(found[0], len(met)) for found in _WORD.finditer(text)), np.uint32)
    names = sorted(met)
    place = np.zeros(len(met), np.uint32)
    place[[met[name] for name in names]] = np.arange(len(names))
    return names, place[order]


def fit(names: list[str], training: Tokens, limit: int | None) -> list[str]:
    """The vocabulary of `training`, indices of `names`: UNKNOWN and then its tokens in the order of their code points.

    limit: keep this many, the most frequent; of equally frequent ones, the first
    """
    counts = np.zeros(len(names), np.int64)
    for piece in _pieces(len(training)):
        counts += np.bincount(training[piece], minlength=len(names))
    present = np.flatnonzero(counts)
    if limit is not None:
        present = np.sort(present[np.argsort(-counts[present], kind="stable")[:limit]])
    return [UNKNOWN, *(names[index] for index in present)]


def encode(names: list[str], tokens: Tokens, vocabulary: list[str]) -> Tokens:
    """`tokens`, indices of `names`, as indices of `vocabulary` in the smallest unsigned dtype; 0 where it has none."""
    known = {name: index for index, name in enumerate(vocabulary) if index}
    dtype = np.min_scalar_type(len(vocabulary) - 1)
    place = np.array([known.get(name, 0) for name in names], dtype)
    encoded = np.empty(len(tokens), dtype)
    for piece in _pieces(len(tokens)):
        encoded[piece] = place[tokens[piece]]
    return encoded


def _pieces(count: int) -> Iterator[slice]:
    """0 to `count` in pieces: NumPy makes an int64 copy to index or count, eight bytes for each character."""
    for start in range(0, count, _PIECE):
        yield slice(start, start + _PIECE)


def _read(files: list[tuple[str, int]]) -> str:
    """The files as one text. Raises InputError where one cannot be read or is not UTF-8, or there is too much text."""
    texts, room = [], TEXT_BYTES
    for path, _ in files:
        try:
            with open_raw(path) as (stream, _):
                content = stream.read(room + 1)
        except GZIP_ERRORS as error:
            raise InputError(f"{path}: {gzip_problem(error)}") from None
        room -= len(content)
        if room < 0:
            raise InputError(f"{path}: more than {TEXT_BYTES:,} bytes of text, which is read in one process")
        try:
            texts.append(content.decode("utf-8").removeprefix("\ufeff"))
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: is not UTF-8 text: byte {error.start} is 0x{content[error.start]:02x}") from None
    return "".join(texts)
