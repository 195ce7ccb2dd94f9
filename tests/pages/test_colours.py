"""The colours of pages: each is told from the page, in light and in dark, and pictures have the page's."""

from __future__ import annotations

import pytest

from sparksplit.pages.colours import PALETTE, themed
from sparksplit.pages.drawing import BAND, COLOURS, GREY, INK, REST, canvas, to_svg


def luminance(colour):
    """Of WCAG 2."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one, other):
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("which", ["light", "dark"])
def test_text_stands_out_from_the_page(which):
    colours = {colour.name: getattr(colour, which) for colour in PALETTE}
    for name in ("ink", "grey", "black"):
        assert contrast(colours[name], colours["page"]) > 4.5 and contrast(colours[name], colours["pale"]) > 4.5
    assert contrast(colours["page"], colours["pale"]) < 1.5  # a shade of it


def test_lines_stand_out_from_a_dark_page():
    page = next(colour.dark for colour in PALETTE if colour.name == "page")
    of_lines = [colour.dark for colour in PALETTE if colour.light in COLOURS]
    assert len(of_lines) == len(set(of_lines)) == len(COLOURS)
    assert min(contrast(colour, page) for colour in of_lines) > 3


def test_a_pictures_colours_are_the_pages():
    assert {INK, GREY, BAND, REST, *COLOURS} < {colour.light for colour in PALETTE}
    assert themed('<path style="fill: #1a1a1a; stroke: #123456">') == '<path style="fill: var(--ink); stroke: #123456">'
    assert themed('<rect fill="#ffffff" x="1">') == '<rect style="fill: var(--page)" x="1">'
    assert themed('<use href="#0072b2">') == '<use href="#0072b2">'
    with canvas() as (figure, axes):
        for colour in COLOURS:
            axes.bar([0], [1], color=colour, hatch="//", edgecolor="white")
        svg = to_svg(figure, "key", "bars")
    assert "#ffffff" not in svg and not any(colour in svg for colour in COLOURS)
    assert "var(--blue)" in svg and "var(--page)" in svg
