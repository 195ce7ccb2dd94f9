"""Text: sequences of characters or words. The label is the next token at each position.

The text is cut into consecutive parts (train, validation, test) before it is cut into sequences. So no sequence lies in
two splits. Tokens are counted, the vocabulary is fitted and sequences are made range by range of the files. Executors
do this if there is more than one range.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from sparksplit.base.errors import InputError, UsageError
from sparksplit.dataset.description import TOKENS, Description, TensorSpec
from sparksplit.dataset.manifest import SPLITS, SourceFile
from sparksplit.prepare.config_checks import check_apart, check_input
from sparksplit.prepare.preprocess_config import InputConfig
from sparksplit.prepare.source import BATCH_BYTES, BadRow, FileSource, ParsedRows, Task, input_files
from sparksplit.prepare.sources import contents, text_tokens
from sparksplit.prepare.sources.text_tokens import Encoder, Range

Item = TypeVar("Item")
Result = TypeVar("Result")
_MAX_TOKENS = 100_000
_PATHS = ("path", "test")


@dataclass(frozen=True)
class _Stretch:
    """A split's part of some files: the tokens `used` of the tokens in `ranges`.

    starts: the number of the first token of each range, and the number of all tokens: int64 [ranges + 1].
    """

    ranges: list[Range]
    starts: npt.NDArray[np.int64]
    used: range


class TextSource(FileSource):
    """A text file, or a folder of text files as one text. Tokens become indices of the vocabulary; 0 is an unknown
    token.

    validation, test: fractions of the tokens for these splits.
    vocabulary: a trained model's. None: fitted on the training part.
    """

    deals = True

    @classmethod
    def of(cls, config: InputConfig, description: Description | None, validation: float, test: float) -> TextSource:
        """Return the source of `config`. With a description, use the model's unit, length and vocabulary."""
        check_input(config)
        if description is None:
            return cls(config, validation, test)
        label = description.label
        if label is None or label.kind not in TOKENS or label.classes is None:
            raise config.error("format", "is text, but the model was not trained on a text")
        known = len(label.classes) - 1
        if config.vocabulary is not None and config.vocabulary < known:
            message = f"must be at least {known}, the tokens of the model (is {config.vocabulary})"
            raise config.error("vocabulary", message)
        fixed = {"unit": label.kind, "length": description.tensors[0].shape[0]}
        for key, value in fixed.items():
            if key in config.model_fields_set and getattr(config, key) != value:
                raise config.error(key, f"must be {value}, as the model was trained (is {getattr(config, key)})")
        return cls(config.model_copy(update=fixed), validation, test, label.classes)

    def __init__(
        self,
        config: InputConfig,
        validation: float = 0.0,
        test: float = 0.0,
        vocabulary: list[str] | None = None,
    ) -> None:
        self._length, self._stride, self._unit = config.length, config.stride or config.length, config.unit
        self._span = config.length + (config.label is not None)
        if self._stride > self._length:
            # max_sequences would not hold either: with gaps, the three parts may have more sequences than the whole
            # text.
            message = f"must be at most input.length, {self._length}, or tokens would be left out (is {self._stride})"
            raise config.error("stride", message)
        wanted = {"train": True, "validation": validation > 0, "test": test > 0}
        files = {key: _files(config, key) for key in _PATHS if config.paths_of(key)}
        check_apart(config, {key: [path for path, _ in named] for key, named in files.items()})
        most = None if config.max_sequences is None else (config.max_sequences - 1) * self._stride + self._span
        ranges, starts = self._counted(files["path"], most)
        tokens = int(starts[-1]) if most is None else min(int(starts[-1]), most)
        cut = stretches(tokens, validation, test)
        self._stretches = {split: _Stretch(ranges, starts, cut[split]) for split in SPLITS if wanted[split]}
        self.has_test = config.test is not None
        if config.test is not None:
            ranges, starts = self._counted(files["test"], None)
            self._stretches["test"] = _Stretch(ranges, starts, range(int(starts[-1])))
        for split, stretch in self._stretches.items():
            if len(stretch.used) < self._span:
                apart = self.has_test and split == "test"
                whole = "" if apart else f" of {tokens:,}"
                raise InputError(
                    f"{config.one_path('test') if apart else config.place}: too short: the {split} part has "
                    f"{len(stretch.used):,}{whole} {config.unit}, but one sequence needs {self._span}"
                )
        self.vocabulary = vocabulary or self._fitted(config)
        self._encoder: Encoder | None = None
        dtype = np.min_scalar_type(len(self.vocabulary) - 1)
        self.tensors = [TensorSpec(name="x", dtype=dtype.name, shape=[self._length])]
        self.label_kind = None if config.label is None else config.unit
        self.files = [SourceFile(path=path, bytes=size) for named in files.values() for path, size in named]

    @classmethod
    def is_long(cls, config: InputConfig) -> bool:
        return any(
            len(text_tokens.ranges_of(input_files(config.one_path(key)))) > 1 for key in _PATHS if config.paths_of(key)
        )

    def tasks(self) -> list[Task]:
        """Return the sequences that begin in each range, split by split, as tasks."""
        tasks = []
        for split, stretch in self._stretches.items():
            count = sequences(len(stretch.used), self._span, self._stride)
            # The first sequence that begins at or after each range's first token.
            firsts = np.clip(-((stretch.used.start - stretch.starts) // self._stride), 0, count).tolist()
            tasks += [
                Task(split, part.path, None, first, last)
                for part, (first, last) in zip(stretch.ranges, pairwise(firsts), strict=True)
                if first < last
            ]
        return tasks

    def read(self, task: Task) -> Iterator[ParsedRows | BadRow]:
        """Yield the task's sequences. A sequence cannot be bad. A file that can no longer be read gives a fatal
        BadRow."""
        try:
            yield from self._read(task)
        except UsageError as error:
            yield BadRow(task.path, 0, str(error).removeprefix(f"{task.path}: "), fatal=True)

    def _read(self, task: Task) -> Iterator[ParsedRows]:
        assert task.stop is not None
        stretch, span, stride = self._stretches[task.part], self._span, self._stride
        first = stretch.used.start + task.start * stride
        last = stretch.used.start + (task.stop - 1) * stride + span
        step = max(1, BATCH_BYTES // (2 * self.tensors[0].row_bytes))
        held = np.zeros(0, self.tensors[0].dtype)
        for codes in self._codes(stretch, first, last):
            held = np.concatenate([held, codes])
            while len(held) >= (step - 1) * stride + span:
                yield self._rows(held, step)
                held = held[step * stride :]
        if count := sequences(len(held), span, stride):
            yield self._rows(held, count)

    def _rows(self, codes: npt.NDArray[Any], count: int) -> ParsedRows:
        windows = np.lib.stride_tricks.sliding_window_view(codes, self._span)[:: self._stride][:count]
        label = None if self.label_kind is None else np.ascontiguousarray(windows[:, 1:])
        return ParsedRows([np.ascontiguousarray(windows[:, : self._length])], label)

    def _codes(self, stretch: _Stretch, first: int, last: int) -> Iterator[npt.NDArray[Any]]:
        """Yield the tokens first..last-1 of the files of `stretch`, as indices of the vocabulary.

        Raise InputError if the files have fewer tokens than before.
        """
        assert self.vocabulary is not None
        if self._encoder is None:
            self._encoder = Encoder(self.vocabulary, self._unit)
        number = int(np.searchsorted(stretch.starts, first, side="right")) - 1
        position = int(stretch.starts[number])
        for part in stretch.ranges[number:]:
            for text in text_tokens.pieces(part, self._unit):
                codes = self._encoder.encode(text)
                yield codes[max(0, first - position) : max(0, last - position)]
                position += len(codes)
                if position >= last:
                    return
        raise InputError(f"{stretch.ranges[number].path}: has fewer tokens than at first: it changed while it was read")

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the encoder, which is larger than the rest and can be made again."""
        return {**self.__dict__, "_encoder": None}

    def _counted(self, files: list[tuple[str, int]], most: int | None) -> tuple[list[Range], npt.NDArray[np.int64]]:
        """Return (ranges, the number of each range's first token and of all tokens). With `most`, stop after that many
        tokens.

        Raise InputError for the first file that cannot be read.
        """
        ranges, unit = text_tokens.ranges_of(files), self._unit
        counts: list[int] = []
        for result in _spread(lambda part: text_tokens.count(part, unit), ranges, most is not None):
            if isinstance(result, InputError):
                raise result
            counts.append(result)
            if most is not None and sum(counts) >= most:
                break
        return ranges[: len(counts)], np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)

    def _fitted(self, config: InputConfig) -> list[str]:
        """Return the vocabulary of the training part. Raise InputError if it has too many tokens."""
        stretch, unit = self._stretches["train"], self._unit
        begin, end = stretch.used.start, stretch.used.stop
        parts = [
            (part, max(0, begin - first), min(last, end) - first)
            for part, (first, last) in zip(stretch.ranges, pairwise(stretch.starts.tolist()), strict=True)
            if first < end and last > begin
        ]
        counts = _summed(lambda part: text_tokens.frequencies(*part, unit=unit), parts, config.vocabulary)
        vocabulary = text_tokens.vocabulary_of(counts, config.vocabulary)
        if len(vocabulary) > _MAX_TOKENS:
            raise InputError(
                f"{config.place}: more than {_MAX_TOKENS:,} different {unit}; input.vocabulary keeps the most frequent"
            )
        return vocabulary


def _files(config: InputConfig, key: str) -> list[tuple[str, int]]:
    """Return (path, bytes) of the files that a key of `config` names. Raise InputError if a file is no text."""
    files = input_files(config.one_path(key))
    contents.check([path for path, _ in files], ours=True)
    return files


def stretches(tokens: int, validation: float, test: float) -> dict[str, range]:
    """Return where train, validation and test lie in a text of this many tokens. Validation and test are rounded down
    to whole tokens."""
    ends = [int(tokens * validation), int(tokens * test)]
    first, second = tokens - sum(ends), tokens - ends[1]
    return {"train": range(first), "validation": range(first, second), "test": range(second, tokens)}


def sequences(tokens: int, span: int, stride: int) -> int:
    """Return how many sequences of `span` tokens, which begin at 0, stride, 2 stride, ..., lie within `tokens`."""
    return max(0, (tokens - span) // stride + 1)


def _spread(work: Callable[[Item], Result], items: Sequence[Item], in_order: bool = False) -> Iterator[Result]:
    """Yield `work` of each item. With several items and a running Spark, executors do the work, otherwise this process.

    in_order: do the work here, one by one, because the caller may want only the first results
    """
    context = None if in_order or len(items) < 2 else _spark_context()
    if context is None:
        yield from map(work, items)
    else:
        yield from context.parallelize(items, _slices(context, items)).map(work).collect()


def _summed(work: Callable[[Item], list[tuple[str, int]]], items: Sequence[Item], limit: int | None) -> dict[str, int]:
    """Return the counts that `work` gives for each item, summed by name.

    Spark returns only the largest counts: `limit` of them, or one more than _MAX_TOKENS.
    """
    context = None if len(items) < 2 else _spark_context()
    if context is None:
        total: Counter[str] = Counter()
        for item in items:
            for name, count in work(item):
                total[name] += count
        return total
    summed = context.parallelize(items, _slices(context, items)).flatMap(work).reduceByKey(int.__add__)
    most = _MAX_TOKENS + 1 if limit is None else limit
    return dict(summed.takeOrdered(most, key=lambda item: (-item[1], item[0])))


def _slices(context: Any, items: Sequence[Any]) -> int:
    return min(len(items), 16 * int(context.defaultParallelism))


def _spark_context() -> Any:
    from sparksplit.spark.session import running_context

    return running_context()
