"""The colours of pages and their pictures, for light and dark pages. Each colour is a CSS variable of its name."""

from __future__ import annotations

import re
from typing import NamedTuple


class Colour(NamedTuple):
    """A colour.

    light: for a light page, and the colour that pictures are drawn in. dark: its replacement on a dark page.
    """

    name: str
    light: str
    dark: str


# The colours are Okabe and Ito's, which colour-blind people can distinguish. Yellow is left out, because it is too pale
# for lines on white. On a dark page the colours are lighter, and as far apart.
PALETTE = (
    Colour("page", "#ffffff", "#181818"),
    Colour("ink", "#1a1a1a", "#e8e8e5"),
    Colour("grey", "#595959", "#a8a8a8"),
    Colour("rule", "#d9d9d9", "#3f3f3f"),
    Colour("pale", "#f5f5f3", "#242424"),
    Colour("grid", "#e6e6e6", "#303030"),
    Colour("band", "#e3e3e3", "#363636"),
    Colour("rest", "#bfbfbf", "#777777"),
    Colour("blue", "#0072b2", "#4a9be0"),
    Colour("vermilion", "#d55e00", "#f2803a"),
    Colour("green", "#009e73", "#2fc596"),
    Colour("purple", "#cc79a7", "#e39ac4"),
    Colour("orange", "#e69f00", "#f0b63a"),
    Colour("sky", "#56b4e9", "#93d4ff"),
    Colour("black", "#000000", "#fafafa"),
)
_NAMES = {colour.light: colour.name for colour in PALETTE}


def themed(tag: str) -> str:
    """Return a picture's tag in the colours of the page that it is on."""
    # CSS variables work in a style, but not in attributes such as fill.
    tag = re.sub(r'\b(fill|stroke)="(#[0-9a-f]{6})"', r'style="\1: \2"', tag)
    return re.sub(r'(?<=style=")[^"]*', lambda style: re.sub(r"#[0-9a-f]{6}\b", _variable, style[0]), tag)


def _variable(colour: re.Match[str]) -> str:
    name = _NAMES.get(colour[0])
    return f"var(--{name})" if name else colour[0]
