"""The tokens of ranges of text files: each once, however the files are cut, and the counts and codes made of them."""

from __future__ import annotations

import gzip
import re
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.base.errors import InputError
from sparksplit.dataset.description import UNKNOWN
from sparksplit.prepare.sources import text_tokens
from sparksplit.prepare.sources.text_tokens import Encoder, Range

UNITS = st.sampled_from(["characters", "words"])
TEXTS = st.text(st.sampled_from("aé_ÜZ9 \n\t,.—字😀\u2028\r"), max_size=80)


def written(folder: Path, content: bytes) -> str:
    path = folder / "text.txt"
    path.write_bytes(content)
    return f"{path}"


def whole(content: str, unit: str) -> list[str]:
    return list(content) if unit == "characters" else re.findall(r"\w+|[^\w\s]", content)


@given(content=TEXTS, unit=UNITS, range_bytes=st.integers(1, 40), piece_bytes=st.integers(1, 9), packed=st.booleans())
def test_ranges_have_each_token_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, content: str, unit: str, range_bytes: int, piece_bytes: int, packed: bool
) -> None:
    raw = content.encode()
    path = written(tmp_path_factory.mktemp("text"), gzip.compress(raw, mtime=0) if packed else raw)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_tokens, "RANGE_BYTES", range_bytes)
        patch.setattr(text_tokens, "PIECE_BYTES", piece_bytes)
        ranges = text_tokens.ranges_of([(path, Path(path).stat().st_size)])
        found = [
            token
            for part in ranges
            for piece in text_tokens.pieces(part, unit)
            for token in text_tokens.split(piece, unit)
        ]
        counts = [text_tokens.count(part, unit) for part in ranges]
    assert found == whole(content, unit)
    assert all(isinstance(count, int) for count in counts) and sum(map(int, counts)) == len(found)  # type: ignore[call-overload]


@given(TEXTS, UNITS, st.integers(0, 30), st.integers(0, 30))
def test_frequencies_are_those_of_the_tokens_asked_for(
    tmp_path_factory: pytest.TempPathFactory, content: str, unit: str, first: int, more: int
) -> None:
    path = written(tmp_path_factory.mktemp("text"), content.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_tokens, "PIECE_BYTES", 5)
        counts = dict(text_tokens.frequencies(Range(path, 0, None), first, first + more, unit))
    assert counts == Counter(whole(content, unit)[first : first + more])


@given(st.dictionaries(st.sampled_from("abcdefgéh"), st.integers(1, 3)), st.none() | st.integers(1, 9))
def test_a_vocabulary_is_the_top_of_the_counts_in_the_order_of_code_points(
    counts: dict[str, int], limit: int | None
) -> None:
    vocabulary = text_tokens.vocabulary_of(counts, limit)
    kept = vocabulary[1:]
    assert vocabulary[0] == UNKNOWN and kept == sorted(set(kept)) and len(kept) == min(len(counts), limit or 99)
    left = [(-counts[name], name) for name in counts if name not in kept]
    assert not left or not kept or max((-counts[name], name) for name in kept) < min(left)


@given(TEXTS, UNITS)
def test_codes_are_places_in_the_vocabulary(content: str, unit: str) -> None:
    vocabulary = [UNKNOWN, "9", "a", "é"]
    codes = Encoder(vocabulary, unit).encode(content)
    assert codes.dtype == "uint8"
    tokens = whole(content, unit)
    assert [vocabulary[code] for code in codes] == [token if token in vocabulary else UNKNOWN for token in tokens]


def test_words_of_every_kind() -> None:
    found = text_tokens.split("Don't go,\n\tgo_2 Ünder—now!", "words")
    assert found == ["Don", "'", "t", "go", ",", "go_2", "Ünder", "—", "now", "!"]


@pytest.mark.parametrize("piece_bytes", [1, 2, 3, 1000])
def test_a_byte_that_is_not_utf8_is_named_wherever_pieces_end(
    tmp_path: Path, piece_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_tokens, "PIECE_BYTES", piece_bytes)
    path = written(tmp_path, "aé字".encode() + b"b\xe2\x28")
    found = text_tokens.count(Range(path, 0, None), "characters")
    assert isinstance(found, InputError) and str(found) == f"{path}: is not UTF-8 text: byte 7 is 0xe2"
    with pytest.raises(InputError, match="byte 7 is 0xe2"):
        list(text_tokens.pieces(Range(path, 3, None), "characters"))
