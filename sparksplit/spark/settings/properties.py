"""Java's properties files, such as spark-defaults.conf, read and written like Java does."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

_PAIR = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\u([0-9a-fA-F]{4})|\\(.)", re.DOTALL)
_LETTERS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_CONTINUED = re.compile(r"(?<!\\)(?:\\\\)*\\$")


def read(text: str) -> dict[str, str]:
    """Return the keys and values. For a repeated key, the last value counts."""
    pairs = (_PAIR.fullmatch(line) for line in _lines(text))
    return {_unescaped(pair[1]): _unescaped(pair[2]) for pair in pairs if pair}


def written(pairs: Mapping[str, str]) -> str:
    """Return a file's text, all ASCII, that `read` and Java turn back into `pairs`."""
    return "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in pairs.items())


def _lines(text: str) -> Iterator[str]:
    """Yield lines without comments and leading blanks. Join lines that end with a backslash with the next line."""
    begun = ""
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(" \t\f")
        if not begun and (not line or line[0] in "#!"):
            continue
        begun += line
        if _CONTINUED.search(line):
            begun = begun[:-1]
        else:
            yield begun
            begun = ""
    if begun:
        yield begun


def _unescaped(text: str) -> str:
    plain = _ESCAPE.sub(lambda found: chr(int(found[1], 16)) if found[1] else _LETTERS.get(found[2], found[2]), text)
    # Java writes a character above U+FFFF as two.
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _escaped(text: str) -> str:
    return re.sub(r"[^\w.,/-]", _units, text, flags=re.ASCII)


def _units(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{high:02x}{low:02x}" for high, low in zip(units[::2], units[1::2], strict=True))
