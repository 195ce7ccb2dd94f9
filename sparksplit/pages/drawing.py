"""How pictures are drawn: matplotlib figures as inline SVG, of which a page can have many.

Text stays text (it can be searched, and the page's font is used), the same figure gives the same bytes, and ids are
prefixed, since all those on a page must differ. Sizes are for a phone: about as many points wide as it has pixels.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

WIDTH, HEIGHT = 4.3, 2.9  # inches; the legend comes on top of the height
_LEGEND_ROW, _BAR_ROW = 0.21, 0.46
_LEGEND_LETTERS = 38  # what two columns have room for

INK, GREY, LIGHT = "#1a1a1a", "#595959", "#d9d9d9"
# Okabe and Ito's colours, which the colour-blind can tell apart; without yellow, which is too pale for lines on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p", "*")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)), (0, (3, 1.2, 1, 1.2, 1, 1.2)))

_STYLE: Any = {
    # Whatever the user's matplotlibrc says; the backend is not ours to set.
    **{key: value for key, value in mpl.rcParamsDefault.items() if key != "backend"},
    "svg.hashsalt": "sparksplit",
    "svg.fonttype": "none",
    "text.parse_math": False,  # names are the user's, and a $ is a $
    "text.usetex": False,
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],  # wide, so that what is laid out with it has room in any other font
    "font.size": 10,
    "axes.titlesize": 10,
    "text.color": INK,
    "axes.edgecolor": GREY,
    "axes.labelcolor": INK,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.7,
    "lines.linewidth": 1.6,
    "lines.markersize": 5.5,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "hatch.linewidth": 0.8,
}


@dataclass(frozen=True)
class Mark:
    """What tells a way's line from the others: colour, marker and dashes, any one of which would do."""

    colour: str
    marker: str
    dash: Any


def marks(names: Iterable[str]) -> dict[str, Mark]:
    """A mark for each name, in order of first appearance."""
    found: dict[str, Mark] = {}
    for name in names:
        if name not in found:
            index = len(found)
            parts = (COLOURS, _MARKERS, _DASHES)
            colour, marker, dash = (part[index % len(part)] for part in parts)
            found[name] = Mark(str(colour), str(marker), dash)
    return found


@dataclass(frozen=True)
class Picture:
    """A drawing, and what it shows in words and as a table; without an `svg`, `note` says why there is none."""

    key: str
    title: str
    caption: str = ""
    svg: str = ""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = field(default_factory=tuple)
    note: str = ""


@contextmanager
def canvas(height: float = HEIGHT) -> Iterator[tuple[Figure, Any]]:
    """(figure, axes), `height` inches without the legend; draw and save inside the block."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        FigureCanvasSVG(figure)
        yield figure, figure.add_subplot()


def legend(figure: Figure, entries: Sequence[tuple[str, Any]]) -> None:
    """A legend below the axes, for which the figure grows: names, and the artists that show them."""
    # matplotlib leaves out names that begin with an underscore: an invisible joiner goes before it.
    names = [shortened("\u2060" + name if name.startswith("_") else name, 42) for name, _ in entries]
    half = -(-len(names) // 2)
    widest = [max((len(name) for name in part), default=0) for part in (names[:half], names[half:])]
    columns = 2 if len(names) > 1 and sum(widest) <= _LEGEND_LETTERS else 1
    width, height = figure.get_size_inches()
    figure.set_size_inches(width, height + _LEGEND_ROW * -(-len(names) // columns))
    artists = [artist for _, artist in entries]
    figure.legend(
        artists, names, loc="outside lower center", ncols=columns, handlelength=2.4, columnspacing=1, borderpad=0
    )


def line(mark: Mark, *, hollow: bool = False, dash: bool = True) -> Line2D:
    """The legend's sample of a mark."""
    style: Any = mark.dash if dash else "none"
    face = "white" if hollow else mark.colour
    return Line2D([], [], color=mark.colour, marker=mark.marker, linestyle=style, markerfacecolor=face)


def shortened(text: str, length: int) -> str:
    """`text`, with its middle left out if it is longer than `length`."""
    if len(text) <= length:
        return text
    tail = length // 3
    return f"{text[: length - tail - 1]}…{text[-tail:]}"


def nodes_axis(axes: Any, nodes: Iterable[int], *, log: bool) -> None:
    """The x axis of pictures over N: a tick for each number of nodes that occurs."""
    values = sorted(set(nodes))
    if log:
        axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(values))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("nodes N")


def log_axis(axis: Any, write: Callable[[float], str]) -> None:
    """Make a logarithmic axis write its ticks with `write`; also between the powers of ten if it spans few of them."""
    low, high = sorted(axis.get_view_interval())
    decades = high / low if low > 0 else 10.0
    subs = (1.0, 2.0, 5.0) if decades < 30 else (1.0, 3.0) if decades < 1000 else (1.0,)
    axis.set_major_locator(LogLocator(10, subs=subs, numticks=8))
    axis.set_major_formatter(FuncFormatter(lambda value, _: re.sub(r"\.0+ ", " ", write(value))))
    axis.set_minor_formatter(NullFormatter())
    axis.set_minor_locator(NullLocator())


def bar_rows(axes: Any, labels: Sequence[str]) -> None:
    """Prepare bars at y = 0, 1, ... downwards, each with its label above it: names are long, phones narrow."""
    axes.set_ylim(len(labels) - 0.5, -0.85)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.grid(False, axis="y")
    for index, label in enumerate(labels):
        axes.annotate(
            shortened(label, 48), (0, index - 0.36), xycoords=("axes fraction", "data"), va="bottom", fontsize=9.5
        )


def bar_height(rows: int) -> float:
    """Inches for that many labelled bars and an axis."""
    return 0.75 + _BAR_ROW * rows


def interval_row(axes: Any, row: int, mean: float | None, low: float | None, high: float | None) -> None:
    """A dot in a row of `bar_rows`, with a line through it; without what is None."""
    if low is not None and high is not None:
        axes.plot([low, high], [row, row], color=INK, linewidth=1.6, marker="|", markersize=8)
    if mean is not None:
        axes.plot([mean], [row], color=INK, marker="o", linestyle="none")


def to_svg(figure: Figure, key: str, label: str) -> str:
    """The figure as an <svg> element whose ids begin with `key`."""
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<(metadata|style)\b.*?</\1>", "", text, flags=re.DOTALL)
    text = re.sub(r"<!--.*?-->\n?", "", text, flags=re.DOTALL)
    text = re.sub(r"<[^>]+>", lambda tag: _inline(tag[0], key), text)
    box = re.search(r'viewBox="([^"]+)"', text)
    if box is None:
        raise ValueError(f"the picture {key} has no viewBox")
    head = f'<svg class="picture" viewBox="{box[1]}" role="img" aria-label="{escape(label)}" '
    head += 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
    body = text[text.index(">") + 1 :]
    return head + re.sub(r"\n\s*", "\n", body).strip()


def _inline(tag: str, key: str) -> str:
    """A tag with its ids prefixed, and without a font family, which would override the page's."""
    tag = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{key}-", tag)
    return re.sub(r"font-family: [^;\"]*;? ?", "", tag)
