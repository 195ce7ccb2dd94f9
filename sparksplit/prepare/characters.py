"""Characters in a configuration: delimiters, quotes, escapes and comment marks of text files."""

from __future__ import annotations

import re

_MARKS = {"tab": "\t", "space": " ", "comma": ",", "semicolon": ";", "pipe": "|", r"\t": "\t"}
_ESCAPE = re.compile(r"\\x([0-9a-fA-F]{2})|\\([0-7]{3})|\^([A-_])")


def delimiter(text: str) -> str:
    """Return the character that `text` stands for: the character itself, a name or an escape. Raise ValueError
    otherwise."""
    character = _MARKS.get(text, text)
    if escape := _ESCAPE.fullmatch(text):
        hexadecimal, octal, control = escape.groups()
        character = chr(int(hexadecimal, 16) if hexadecimal else int(octal, 8) if octal else ord(control) - ord("@"))
    if len(character) != 1 or not character.isascii() or character in '"\r\n\0':
        names = ", ".join(name for name in _MARKS if name.isalpha())
        raise ValueError(
            "must be one ASCII character that is neither a quote nor a line end, "
            f"or one of {names}, or like \\t, \\x01, \\001 or ^A (is {text!r})"
        )
    return character


def mark(text: str) -> str:
    """Return `text`. Raise ValueError unless it is one character that Spark's reader can search for."""
    if len(text) != 1 or not text.isascii() or text in "\r\n\0":
        raise ValueError(f"must be one ASCII character that is not a line end (is {text!r})")
    return text
