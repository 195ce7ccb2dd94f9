"""Replace or add one value in the text of a YAML file, and leave every other character unchanged.

Loading and writing a file loses details that have no meaning in YAML: indentation of lists, `null` or nothing, aligned
columns. So the text is cut at the positions of PyYAML's nodes, and the result is read again. If another value has
changed (for example through an anchor), the edit is refused.
"""

from __future__ import annotations

import copy
import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

import yaml

from sparksplit.base.config import Key, parse_yaml
from sparksplit.base.records import Json


class CannotEdit(Exception):
    """The form of the text does not allow replacing or adding only this value."""


def with_value(text: str, key: Key, value: Json) -> str:
    """Return `text` with `value` for `key`; every part of `key` names a key of a mapping. Raise CannotEdit if that is
    impossible.
    """
    root, values = parse_yaml(text)
    wanted = _wanted(values, key, value)
    if wanted == values and _has(values, key):
        return text
    try:
        edited = _edited(text, root, key, value)
        result = parse_yaml(edited)[1]
    except (yaml.YAMLError, ValueError):
        raise CannotEdit from None
    if result != wanted:
        raise CannotEdit
    return edited


def as_yaml(value: Json) -> str:
    """Return `value` as YAML on one line: {every: 200, keep: 3}"""
    if isinstance(value, dict):
        return f"{{{', '.join(f'{as_yaml(name)}: {as_yaml(inner)}' for name, inner in value.items())}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(as_yaml, value))}]"
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z][\w./-]*", value) and parse_yaml(value)[1] == value:
        return value
    return _quoted(value) if isinstance(value, str) else json.dumps(value)


def set_word(key: str, value: Json) -> str:
    """Return KEY=VALUE as one word of a shell. `--set` reads `value` from it."""
    return shlex.quote(f"{key}={as_yaml(value)}")


def set_words(settings: Mapping[str, Json], within: str = "") -> str:
    """Return settings (values by dotted key) as options for a shell: `--set KEY=VALUE`, and `--conf` for Spark's own.
    within: a prefix of the keys of `--set`."""
    return " ".join(
        f"--conf {set_word(key, value)}" if key.startswith("spark.") else f"--set {set_word(within + key, value)}"
        for key, value in settings.items()
    )


def _quoted(value: str) -> str:
    return json.dumps(value, ensure_ascii=not value.isprintable())  # YAML would read a rare line break as a space


def _has(values: Any, key: Key) -> bool:
    for name in key:
        if not isinstance(values, dict) or name not in values:
            return False
        values = values[name]
    return True


def _wanted(values: Any, key: Key, value: Json) -> dict[str, Any]:
    wanted: dict[str, Any] = copy.deepcopy(values) if isinstance(values, dict) else {}
    target = wanted
    for name in key[:-1]:
        inner = target.get(name)
        if not isinstance(inner, dict | None):
            raise CannotEdit
        # An alias is one object in several places. Copy it, so that only this place changes.
        target[name] = copy.deepcopy(inner or {})
        target = target[name]
    target[key[-1]] = value
    return wanted


def _edited(text: str, root: yaml.Node | None, key: Key, value: Json) -> str:
    if not isinstance(root, yaml.MappingNode):
        return _line_added(text, len(text), 0, key, value)  # the file has only comments
    node: yaml.Node = root
    for depth, name in enumerate(key):
        if not isinstance(node, yaml.MappingNode):
            return _replaced(text, node, _nested(key[depth:], value))
        inner = next((inner for outer, inner in node.value if outer.value == name), None)
        if inner is None:
            return _added(text, node, key[depth:], value)
        node = inner
    return _replaced(text, node, value)


def _nested(key: Key, value: Json) -> Json:
    for name in reversed(key):
        value = {name: value}
    return value


def _replaced(text: str, node: yaml.Node, value: Json) -> str:
    style = node.style if isinstance(node, yaml.ScalarNode) else None
    if style in ("|", ">") or (isinstance(node, yaml.CollectionNode) and not node.flow_style):
        raise CannotEdit  # the exact end of a block value is unknown
    start, end = node.start_mark.index, node.end_mark.index
    written = as_yaml(value)
    if isinstance(value, str) and style == "'":
        written = "'" + value.replace("'", "''") + "'"
    elif isinstance(value, str) and style == '"':
        written = _quoted(value)
    gap = " " if start == end and text[start - 1] == ":" else ""
    return text[:start] + gap + written + text[end:]


def _added(text: str, mapping: yaml.MappingNode, key: Key, value: Json) -> str:
    """Return `text` with another entry at the end of `mapping`."""
    if not mapping.value:
        place = mapping.end_mark.index - 1
        return text[:place] + _entry(key, value) + text[place:]
    place = _end(mapping.value[-1])
    if mapping.flow_style:
        return f"{text[:place]}, {_entry(key, value)}{text[place:]}"
    return _line_added(text, place, mapping.value[0][0].start_mark.column, key, value)


def _end(entry: tuple[yaml.Node, yaml.Node]) -> int:
    """Return where the last word of a mapping's entry ends. PyYAML's end mark of a block collection is only at the next
    word.
    """
    name, value = entry
    if value.start_mark.index < name.start_mark.index:  # an alias of an earlier value
        return int(name.end_mark.index)
    if isinstance(value, yaml.CollectionNode) and not value.flow_style and value.value:
        last = value.value[-1]
        return _end(last if isinstance(last, tuple) else (name, last))
    return int(value.end_mark.index)


def _line_added(text: str, place: int, column: int, key: Key, value: Json) -> str:
    """Return `text` with a new line below the line of `place`, and below the comments there that belong to nested
    values.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    if place and text[place - 1] != "\n":
        place = text.find("\n", place) + 1 or len(text)
    while comment := re.compile(rf" {{{column + 1},}}#[^\n]*(\n|$)").match(text, place):
        place = comment.end()
    before = newline if place and text[place - 1] != "\n" else ""
    return f"{text[:place]}{before}{' ' * column}{_entry(key, value)}{newline}{text[place:]}"


def _entry(key: Key, value: Json) -> str:
    return f"{as_yaml(key[0])}: {as_yaml(_nested(key[1:], value))}"
