"""One value of a YAML file replaced or added, and nothing else."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.base.config import Config, load, parse_yaml
from sparksplit.base.yaml_edits import CannotEdit, as_yaml, set_word, with_value

ROOT = Path(__file__).parent.parent.parent

EDITS = {
    "a value": ("readers: 1\n", "readers", 4, "readers: 4\n"),
    "its comment and columns": ("a:      0\nreaders:   1   # of May\n", "readers", 4, None),
    "an empty value": ("readers:\nb: 1\n", "readers", 4, "readers: 4\nb: 1\n"),
    "an empty value with a comment": ("readers: # none\nb: 1\n", "readers", 4, "readers: 4 # none\nb: 1\n"),
    "null": ("readers: null\n", "readers", 4, "readers: 4\n"),
    "to null": ("readers: 4\n", "readers", None, "readers: null\n"),
    "in double quotes": ('every: "200"\n', "every", "epoch", 'every: "epoch"\n'),
    "in single quotes": ("every: '200'\n", "every", "it's", "every: 'it''s'\n"),
    "text that YAML would read otherwise": ("every: 200\n", "every", "yes", 'every: "yes"\n'),
    "a small number": ("rate: 1\n", "rate", 1e-05, "rate: 1e-05\n"),
    "within a section": ("a:\n  readers: 1\n  b: 2\n", "a.readers", 4, "a:\n  readers: 4\n  b: 2\n"),
    "within braces": ("a: {readers: 1, b: 2} # x\n", "a.readers", 4, "a: {readers: 4, b: 2} # x\n"),
    "without a line's end": ("readers: 1", "readers", 4, "readers: 4"),
    "the ends of lines": ("a: 1\r\nreaders: 1\r\n", "readers", 4, "a: 1\r\nreaders: 4\r\n"),
    "after a mark of the byte order": ("\ufeffreaders: 1\n", "readers", 4, "\ufeffreaders: 4\n"),
    "beside a list of paths": ("data: [a,\n   b]\nreaders: 1\n", "readers", 4, "data: [a,\n   b]\nreaders: 4\n"),
    "braces as a whole": ("a: {b: 1}\n", "a", {"c": 2, "d": [1, 2]}, "a: {c: 2, d: [1, 2]}\n"),
    "a new key": ("a: 1\n", "readers", 4, "a: 1\nreaders: 4\n"),
    "a new key and no line's end": ("a: 1", "readers", 4, "a: 1\nreaders: 4\n"),
    "a new key and other ends of lines": ("a: 1\r\n", "readers", 4, "a: 1\r\nreaders: 4\r\n"),
    "a new key in nothing": ("", "readers", 4, "readers: 4\n"),
    "a new key in comments": ("# nothing yet", "readers", 4, "# nothing yet\nreaders: 4\n"),
    "a new key below comments of what is nested": (
        "a:\n  b: 1  # x\n  # c: 2\n\n# the end\n",
        "readers",
        4,
        "a:\n  b: 1  # x\n  # c: 2\nreaders: 4\n\n# the end\n",
    ),
    "a new key in a section": (
        "a:\n  b: 1\n\n# next\nc: 2\n",
        "a.readers",
        4,
        "a:\n  b: 1\n  readers: 4\n\n# next\nc: 2\n",
    ),
    "a new key after a list": ("a:\n  - b\n  - c\n", "readers", 4, "a:\n  - b\n  - c\nreaders: 4\n"),
    "a new key after a long text": ("a: |\n  one\n  two\n", "readers", 4, "a: |\n  one\n  two\nreaders: 4\n"),
    "a new key in braces": ("a: {b: 1}  # x\n", "a.readers", 4, "a: {b: 1, readers: 4}  # x\n"),
    "a new key in empty braces": ("a: {}\n", "a.readers", 4, "a: {readers: 4}\n"),
    "a new key in braces over lines": (
        "a: {\n  b: 1,  # one\n  c: 2  # two\n}\n",
        "a.readers",
        4,
        "a: {\n  b: 1,  # one\n  c: 2, readers: 4  # two\n}\n",
    ),
    "a new section": ("a: 1\n", "checkpoint.seconds", 90.5, "a: 1\ncheckpoint: {seconds: 90.5}\n"),
    "a section in place of null": ("a: null\n", "a.b", 1, "a: {b: 1}\n"),
    "before the document's end": ("---\na: 1\n...\n", "readers", 4, "---\na: 1\nreaders: 4\n...\n"),
    "in place of what was merged": (
        "x: &x {readers: 1}\ny:\n  <<: *x\n",
        "y.readers",
        4,
        "x: &x {readers: 1}\ny:\n  <<: *x\n  readers: 4\n",
    ),
    "after an alias": ("x: &x 1\ny: *x\n", "readers", 4, "x: &x 1\ny: *x\nreaders: 4\n"),
    "in place of an alias": ("x: &x 1\ny: *x\n", "y", 4, CannotEdit),
    "an anchor that is referred to": ("x: &x 1\ny: *x\n", "x", 4, CannotEdit),
    "in what an alias stands for": ("x: &x {a: 1}\ny: *x\n", "y.a", 4, CannotEdit),
    "in what an anchor names": ("x: &x {a: 1}\ny: *x\n", "x.a", 4, CannotEdit),
    "a section in lines as a whole": ("a:\n  b: 1\nc: 2\n", "a", 4, CannotEdit),
    "a list's entry": ("a: [1, 2]\n", "a.0", 4, CannotEdit),
    "the same": ("readers:  4 # x\n", "readers", 4, "readers:  4 # x\n"),
}


@pytest.mark.parametrize("name", EDITS)
def test_one_value_changes_and_every_other_character_stays(name: str) -> None:
    text, key, value, wanted = EDITS[name]
    parts = tuple(key.split("."))
    if wanted is CannotEdit:
        with pytest.raises(CannotEdit):
            with_value(text, parts, value)
    else:
        assert with_value(text, parts, value) == (text.replace("1   #", "4   #") if wanted is None else wanted)


@pytest.mark.parametrize("file", sorted((ROOT / "conf").glob("*.yaml")), ids=lambda file: file.name)
def test_the_projects_own_configurations_can_all_be_edited(file: Path) -> None:
    text = file.read_text()
    for key in ("readers", "checkpoint.seconds"):
        edited = with_value(text, tuple(key.split(".")), 7)
        assert len(edited.splitlines()) - len(text.splitlines()) in (0, 1)
        assert len(set(edited.splitlines()) - set(text.splitlines())) == 1


TEXTS = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"]), max_size=30)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)


@given(VALUES)
def test_what_is_written_is_read_as_the_same(value: Any) -> None:
    try:
        read = parse_yaml(as_yaml(value))[1]
    except yaml.YAMLError:  # a character that no YAML file can hold; with_value refuses it
        return
    assert read == value


class Keyed(Config):
    """A configuration with a key of any type."""

    key: Any


@pytest.mark.parametrize(
    ("value", "word"),
    [
        ("batch", "key=batch"),
        (2, "key=2"),
        (1e-5, "key=1e-05"),
        (None, "key=null"),
        (True, "key=true"),
        ("runs/first", "key=runs/first"),
        ("0.10", """'key="0.10"'"""),
        ("my>Opt", """'key="my>Opt"'"""),
        ("a b; rm $HOME", """'key="a b; rm $HOME"'"""),
        ({"every": 8, "outer": "nesterov"}, "'key={every: 8, outer: nesterov}'"),
        (["it's", "`x`", 'a"b'], None),
        ("null", """'key="null"'"""),
    ],
)
def test_a_word_for_a_shell_is_read_as_the_same_value(value: Any, word: str | None) -> None:
    written = set_word("key", value)
    assert word is None or written == word
    (given,) = shlex.split(written)
    assert load(Keyed, None, [given]).key == value
