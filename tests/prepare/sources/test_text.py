"""Texts: tokens, vocabularies, stretches and sequences, and every way in which a text can be wrong."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.base.config import parse
from sparksplit.base.errors import ConfigError, InputError
from sparksplit.dataset.description import (
    UNKNOWN,
    Description,
    FittedPreprocessing,
    LabelSpec,
    TensorSpec,
)
from sparksplit.prepare.preprocess_config import InputConfig
from sparksplit.prepare.source import labelled_like
from sparksplit.prepare.sources import ParsedRows, open_source, text, text_tokens
from sparksplit.prepare.sources.text import TextSource


def config(path: Path, **keys: Any) -> InputConfig:
    return parse(InputConfig, {"format": "text", "path": f"{path}", **keys})


def source(path: Path, *, validation: float = 0.0, test: float = 0.0, **keys: Any) -> TextSource:
    opened = open_source(config(path, **keys), validation=validation, test=test)
    assert isinstance(opened, TextSource)
    return opened


def write(folder: Path, content: str | bytes, name: str = "text.txt") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def read(opened: TextSource) -> dict[str, list[tuple[str, str]]]:
    """By split, each sequence and its label as text, unknown tokens as ?, in the order of the tasks."""
    assert opened.vocabulary is not None
    names = np.array(["?", *opened.vocabulary[1:]])
    found: dict[str, list[tuple[str, str]]] = {}
    for task in opened.tasks():
        for rows in opened.read(task):
            assert isinstance(rows, ParsedRows)
            assert rows.tensors[0].dtype.name == opened.tensors[0].dtype
            labels = [None] * len(rows) if rows.label is None else [names[np.array(label)] for label in rows.label]
            found.setdefault(task.part, []).extend(
                ("".join(names[x]), "" if label is None else "".join(label))
                for x, label in zip(rows.tensors[0], labels, strict=True)
            )
    return found


def test_sequences_and_what_follows_at_each_position(tmp_path: Path) -> None:
    opened = source(write(tmp_path, "abcdefghij"), length=3)
    assert opened.label_kind == "characters" and opened.tensors[0] == TensorSpec(name="x", dtype="uint8", shape=[3])
    assert opened.vocabulary == [UNKNOWN, *"abcdefghij"]
    assert read(opened) == {"train": [("abc", "bcd"), ("def", "efg"), ("ghi", "hij")]}
    overlapping = source(write(tmp_path, "abcdef"), length=3, stride=1)
    assert read(overlapping) == {"train": [("abc", "bcd"), ("bcd", "cde"), ("cde", "def")]}


def test_splits_are_stretches_and_only_the_first_one_makes_the_vocabulary(tmp_path: Path) -> None:
    opened = source(
        write(tmp_path, "abababababab" + "abcabc" + "xbaxba"), length=2, stride=1, validation=0.25, test=0.25
    )
    assert opened.deals and not opened.has_test
    assert opened.vocabulary == [UNKNOWN, "a", "b"]
    found = read(opened)
    assert {split: [x + label[-1] for x, label in rows] for split, rows in found.items()} == {
        "train": ["aba", "bab"] * 5,
        "validation": ["ab?", "b?a", "?ab", "ab?"],
        "test": ["?ba", "ba?", "a?b", "?ba"],
    }


def test_a_test_file_stays_the_test_split(tmp_path: Path) -> None:
    path, test = write(tmp_path, "abcabc"), write(tmp_path, "cbaz", "test.txt")
    opened = open_source(config(path, length=3, test=f"{test}"))
    assert isinstance(opened, TextSource)
    assert opened.has_test and [file.path for file in opened.files] == [f"{path}", f"{test}"]
    assert read(opened) == {"train": [("abc", "bca")], "test": [("cba", "ba?")]}


def test_the_beginning_alone_where_little_data_is_wanted(tmp_path: Path) -> None:
    path = write(tmp_path, "abcdefghijklmnopqrstuvwxyz")
    assert read(source(path, length=3, max_sequences=2)) == {"train": [("abc", "bcd"), ("def", "efg")]}
    assert source(path, length=3, max_sequences=2).vocabulary == [UNKNOWN, *"abcdefg"]
    shared = read(source(path, length=2, stride=1, max_sequences=12, validation=0.3, test=0.3))
    assert sum(map(len, shared.values())) <= 12 and set(shared) == {"train", "validation", "test"}
    assert read(source(path, length=3, max_sequences=99)) == read(source(path, length=3))


def test_the_most_frequent_tokens_and_of_equals_the_first_by_code_point(tmp_path: Path) -> None:
    opened = source(write(tmp_path, "zzzddccbbaé"), length=3, vocabulary=3)
    assert opened.vocabulary == [UNKNOWN, "b", "c", "z"]
    assert read(opened)["train"] == [("zzz", "zz?"), ("??c", "?cc"), ("cbb", "bb?")]
    assert source(write(tmp_path, "abcabc"), length=3, vocabulary=99).vocabulary == [UNKNOWN, *"abc"]


def test_words(tmp_path: Path) -> None:
    opened = source(write(tmp_path, "to be , or not to be"), unit="words", length=2)
    assert opened.label_kind == "words" and opened.vocabulary == [UNKNOWN, ",", "be", "not", "or", "to"]
    assert read(opened) == {"train": [("tobe", "be,"), (",or", "ornot"), ("notto", "tobe")]}


def test_a_large_vocabulary_takes_a_wider_dtype(tmp_path: Path) -> None:
    words = " ".join(f"w{number:04}" for number in range(300))
    wide = source(write(tmp_path, words), unit="words", length=4)
    assert wide.tensors[0].dtype == "uint16"
    assert "".join(x for x, _ in read(wide)["train"]) == words.replace(" ", "")[: 4 * 5 * 74]
    assert source(write(tmp_path, words), unit="words", length=4, vocabulary=255).tensors[0].dtype == "uint8"


@given(st.integers(0, 10**9), st.floats(0, 0.99), st.floats(0, 0.99))
def test_stretches_lie_side_by_side(tokens: int, validation: float, test: float) -> None:
    if validation + test >= 1:
        validation, test = validation / 2, test / 2
    cut = text.stretches(tokens, validation, test)
    assert list(cut) == ["train", "validation", "test"]
    assert cut["train"].start == 0 and cut["test"].stop == tokens
    assert cut["train"].stop == cut["validation"].start and cut["validation"].stop == cut["test"].start
    assert len(cut["validation"]) == int(tokens * validation) and len(cut["test"]) == int(tokens * test)


@given(st.integers(0, 400), st.integers(1, 50), st.integers(1, 60))
def test_the_number_of_sequences_is_that_of_all_that_fit(tokens: int, span: int, stride: int) -> None:
    assert text.sequences(tokens, span, stride) == sum(start + span <= tokens for start in range(0, tokens, stride))


@given(
    size=st.integers(30, 400),
    length=st.integers(1, 12),
    stride=st.integers(1, 12),
    limit=st.none() | st.integers(10, 60),
    shares=st.tuples(st.sampled_from([0.0, 0.3]), st.sampled_from([0.0, 0.3])),
)
def test_no_sequence_lies_across_a_cut_and_each_is_the_texts(
    tmp_path_factory: pytest.TempPathFactory,
    size: int,
    length: int,
    stride: int,
    limit: int | None,
    shares: tuple[float, float],
) -> None:
    """Every character is another one, so that each sequence tells where it comes from."""
    content = "".join(chr(0x4E00 + number) for number in range(size))
    path = write(tmp_path_factory.mktemp("text"), content)
    keys = {"length": length, "stride": stride, **({} if limit is None else {"max_sequences": limit})}
    if stride > length:
        with pytest.raises(ConfigError, match=f"stride: must be at most input.length, {length}, "):
            source(path, **keys)
        return
    try:
        opened = source(path, validation=shares[0], test=shares[1], **keys)
    except InputError as error:
        assert "too short" in str(error)
        return
    used = size if limit is None else min(size, (limit - 1) * stride + length + 1)
    cut = text.stretches(used, *shares)
    rows = {task.part: next(iter(opened.read(task))) for task in opened.tasks()}
    total = 0
    for split, found in rows.items():
        assert isinstance(found, ParsedRows) and isinstance(found.label, np.ndarray)
        total += len(found)
        assert len(found) == text.sequences(len(cut[split]), length + 1, stride)
        if split == "train":
            starts = found.tensors[0][:, 0].astype(int) - 1
            assert starts.tolist() == [stride * number for number in range(len(found))]
            assert (found.tensors[0] == starts[:, None] + 1 + np.arange(length)).all()
            assert (found.label == found.tensors[0] + 1).all()
            assert found.label.max() <= len(cut["train"])
        else:
            # The training stretch has none of these characters: none of its own has crossed the cut.
            assert not found.tensors[0].any() and not found.label.any()
    assert limit is None or total <= limit


def test_files_of_a_folder_are_one_text(tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    write(folder, gzip.compress("édef".encode(), mtime=0), "b.txt.gz")
    write(folder, b"\xef\xbb\xbfabc", "a.txt")
    write(folder, "never", ".hidden")
    whole = write(tmp_path, "abcédef")
    assert read(source(folder, length=2)) == read(source(whole, length=2))
    assert len(source(folder, length=2).files) == 2


def test_tasks_and_batches_give_every_sequence_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "".join(chr(97 + number % 26) for number in range(500)))
    expected = read(source(path, length=4, stride=3, validation=0.2))
    monkeypatch.setattr(text_tokens, "RANGE_BYTES", 80)
    monkeypatch.setattr(text_tokens, "PIECE_BYTES", 7)
    monkeypatch.setattr(text, "BATCH_BYTES", 24)
    opened = source(path, length=4, stride=3, validation=0.2)
    assert len(opened.tasks()) > 5
    assert read(pickle.loads(pickle.dumps(opened))) == expected


def trained(kind: str = "characters", classes: list[str] | None = None) -> Description:
    label = LabelSpec(dtype="uint8", shape=[3], classes=classes or [UNKNOWN, "a", "b", "c"], kind=kind)
    tensors = [TensorSpec(name="x", dtype="uint8", shape=[3])]
    return Description(tensors=tensors, label=label, preprocessing=FittedPreprocessing())


def test_a_new_text_is_cut_into_the_same_splits_with_an_earlier_vocabulary(tmp_path: Path) -> None:
    path = write(tmp_path, "abcd" * 10)
    known = config(path), trained()
    opened = open_source(*known, validation=0.2, test=0.1)
    assert {split: len(pairs) for split, pairs in read(opened).items()} == {"train": 9, "validation": 2, "test": 1}
    assert opened.vocabulary == [UNKNOWN, "a", "b", "c"]


def test_to_predict_a_text_is_read_as_the_model_was_trained(tmp_path: Path) -> None:
    path = write(tmp_path, "bcdabc")
    opened = open_source(config(path), trained())
    assert isinstance(opened, TextSource)
    assert read(opened) == {"train": [("bc?", "c?a")]}
    unlabelled = open_source(config(path, label=None), trained())
    assert isinstance(unlabelled, TextSource) and unlabelled.label_kind is None
    assert read(unlabelled) == {"train": [("bc?", ""), ("abc", "")]}
    with pytest.raises(ConfigError, match=r"vocabulary: must be at least 3, the tokens of the model \(is 2\)"):
        open_source(config(path, vocabulary=2), trained())
    with pytest.raises(ConfigError, match=r"length: must be 3, as the model was trained \(is 4\)"):
        open_source(config(path, length=4), trained())
    with pytest.raises(ConfigError, match="unit: must be words, as the model was trained"):
        open_source(config(path, unit="characters"), trained("words"))
    with pytest.raises(ConfigError, match="format: is text, but the model was not trained on a text"):
        open_source(config(path), trained("integer"))
    rows = parse(InputConfig, {"format": "csv", "path": "x.csv", "header": False})
    with pytest.raises(
        ConfigError, match="format: must be text, because the model was trained on the characters of a text"
    ):
        labelled_like(rows, trained())


@pytest.mark.parametrize(
    ("content", "keys", "message"),
    [
        (b"abc\xffdef", {}, "is not UTF-8 text: byte 3 is 0xff"),
        (b"\xef\xbb\xbfab\xe2\x82", {}, "is not UTF-8 text: byte 5 is 0xe2"),
        (gzip.compress(b"abcdefgh", mtime=0)[:-3], {}, "is truncated: the gzip stream has no end"),
        (b"", {}, "too short: the train part has 0 of 0 characters, but one sequence needs 4"),
        (b"abc", {}, "too short: the train part has 3 of 3 characters, but one sequence needs 4"),
        (b" a b\n", {"unit": "words"}, "the train part has 2 of 2 words, but one sequence needs 4"),
        (b"abcdefghij" * 3, {"validation": 0.1}, "the validation part has 3 of 30 characters"),
        (b"abcdefghij" * 3, {"test": 0.01}, "the test part has 0 of 30 characters"),
        (b"abcdefghij" * 3, {"max_sequences": 1, "validation": 0.5}, "the train part has 2 of 4 characters"),
    ],
)
def test_texts_that_will_not_do(tmp_path: Path, content: bytes, keys: dict[str, Any], message: str) -> None:
    path = write(tmp_path, content)
    with pytest.raises(InputError) as error:
        source(path, length=3, **keys)
    assert str(error.value).startswith(f"{path}: ") and message in str(error.value)
    assert "\n" not in str(error.value)


def test_too_many_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "a b c d e f g h")
    monkeypatch.setattr(text, "_MAX_TOKENS", 5)
    with pytest.raises(InputError, match=r"more than 5 different words; input\.vocabulary keeps the most frequent"):
        source(path, unit="words", length=3)
    assert source(path, unit="words", length=3, vocabulary=4).vocabulary == [UNKNOWN, *"abcd"]


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"stride": 0}, "stride: must be at least 1"),
        ({"length": 0}, "length: must be at least 1"),
        ({"max_sequences": 0}, "max_sequences: must be at least 1"),
        ({"vocabulary": 0}, "vocabulary: must be at least 1"),
        ({"unit": "lines"}, "unit: must be one of 'characters' or 'words'"),
        ({"label": 0}, r"label: must be left out or null for text, which has no columns \(is 0\)"),
    ],
)
def test_keys_that_will_not_do(tmp_path: Path, keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        source(write(tmp_path, "abcdefgh" * 20), **keys)


def test_a_file_is_not_both_in_the_text_and_in_the_test_text(tmp_path: Path) -> None:
    path = write(tmp_path, "abcabcabcabc")
    for keys in ({"path": f"{tmp_path}", "test": f"{path}"}, {"path": f"{path}", "test": f"{path}"}):
        with pytest.raises(InputError) as caught:
            open_source(parse(InputConfig, {"format": "text", "length": 3, **keys}))
        assert str(caught.value) == (
            f"{path}: is in input.path and in input.test, so its rows would be in two splits; "
            "give input.test a file or folder outside input.path"
        )
