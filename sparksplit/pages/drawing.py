"""Draws pictures: matplotlib figures as inline SVG. A page can have many of them.

Text stays text, so that it can be searched, and the page's font is used. Equal figures give equal bytes. Ids get a
prefix, because all ids on a page must differ. Sizes are for a phone: a picture is about as many points wide as a phone
has pixels.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import escape
from itertools import accumulate
from textwrap import wrap
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties
from matplotlib.lines import Line2D
from matplotlib.text import Text
from matplotlib.textpath import TextToPath
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator
from matplotlib.transforms import Bbox

from sparksplit.pages.colours import themed
from sparksplit.pages.tables import filled

WIDTH, HEIGHT = 4.3, 2.9  # inches; the legend adds to the height
_LEGEND_ROW, _BAR_ROW = 0.21, 0.46
_LEGEND_LETTERS = 38  # letters that fit into two columns of a legend
_SIDES = (
    ((1, 0), "left", "center"),
    ((-1, 0), "right", "center"),
    ((0, 1), "center", "bottom"),
    ((0, -1), "center", "top"),
    ((0.8, 0.8), "left", "bottom"),
    ((0.8, -0.8), "left", "top"),
    ((-0.8, 0.8), "right", "bottom"),
    ((-0.8, -0.8), "right", "top"),
)
_NEAR, _FURTHER = 7, (14, 22, 32, 44)  # distances of labels from their points, in points
BOX = {"facecolor": "white", "edgecolor": "none", "pad": 1.2}  # background of words, so that lines do not cross them
LABEL_LETTERS = 48  # letters of a bar's label that fit into the width
_LABEL_SIZE, _LABEL_LINE = 9.5, 12.5  # of rows' labels, in points: font size, line height
_POINT_ROOM, _EDGE = 18, 4  # in points: height of a row without its label, free margin at the sides
_NO_LINE = 0.004  # share of the axes' width and height: half of a line's width

# Colours of sparksplit.pages.colours, so that they change with the page.
INK, GREY, BAND, REST = "#1a1a1a", "#595959", "#e3e3e3", "#bfbfbf"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p", "*")
_DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.2)), (0, (6, 1.5, 1.5, 1.5)), (0, (3, 1.2, 1, 1.2, 1, 1.2)))

_STYLE: Any = {
    # Ignore the user's matplotlibrc, except for the backend.
    **{key: value for key, value in mpl.rcParamsDefault.items() if key != "backend"},
    "svg.hashsalt": "sparksplit",
    "svg.fonttype": "none",
    "text.parse_math": False,  # the user's names may contain a $
    "text.usetex": False,
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],  # wide, so that its layout has room for any other font
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
    """The look of a strategy's line: colour, marker and dashes. Any one of them is enough to identify the line."""

    colour: str
    marker: str
    dash: Any


def marks(names: Iterable[str]) -> dict[str, Mark]:
    """A mark for each name, in order of first appearance."""
    marks: dict[str, Mark] = {}
    for name in names:
        if name not in marks:
            index = len(marks)
            parts = (COLOURS, _MARKERS, _DASHES)
            colour, marker, dash = (part[index % len(part)] for part in parts)
            marks[name] = Mark(str(colour), str(marker), dash)
    return marks


@dataclass(frozen=True)
class Picture:
    """A drawing, with its content in words and as a table. Columns without any value are left out of the table.

    Without an `svg`, `note` says why there is no drawing.
    """

    key: str
    title: str
    caption: str = ""
    svg: str = ""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = field(default_factory=tuple)
    note: str = ""

    def __post_init__(self) -> None:
        kept = filled(self.rows)
        if self.rows:
            object.__setattr__(self, "columns", [self.columns[place] for place in kept])
            object.__setattr__(self, "rows", [[row[place] for place in kept] for row in self.rows])


@contextmanager
def canvas(height: float = HEIGHT) -> Iterator[tuple[Figure, Any]]:
    """Yield (figure, axes), `height` inches high without the legend. Draw and save inside the block."""
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        FigureCanvasSVG(figure)
        yield figure, figure.add_subplot()


def legend(figure: Figure, entries: Sequence[tuple[str, Any]]) -> None:
    """Add a legend below the axes. The figure grows by its height.

    entries: (name of one or more lines, the artist that shows it).
    """
    names = ["\n".join(shortened(line, 42) for line in name.split("\n")) for name, _ in entries]
    # matplotlib leaves out names that begin with an underscore, so an invisible joiner goes before it.
    names = ["\u2060" + name if name.startswith("_") else name for name in names]
    half = -(-len(names) // 2)
    widest = [max((len(name) for name in part), default=0) for part in (names[:half], names[half:])]
    columns = 2 if len(names) > 1 and sum(widest) <= _LEGEND_LETTERS else 1
    width, height = figure.get_size_inches()
    lines = [name.count("\n") + 1 for name in names]
    rows = max(sum(lines[:half]), sum(lines[half:])) if columns == 2 else sum(lines)
    figure.set_size_inches(width, height + _LEGEND_ROW * rows)
    artists = [artist for _, artist in entries]
    figure.legend(
        artists, names, loc="outside lower center", ncols=columns, handlelength=2.4, columnspacing=1, borderpad=0
    )


def line(mark: Mark, *, hollow: bool = False, dash: bool = True) -> Line2D:
    """Return the legend's sample of a mark."""
    style: Any = mark.dash if dash else "none"
    face = "white" if hollow else mark.colour
    return Line2D([], [], color=mark.colour, marker=mark.marker, linestyle=style, markerfacecolor=face)


def label_points(
    axes: Any,
    points: Sequence[tuple[float, float]],
    labels: Sequence[str],
    lines: Sequence[tuple[tuple[float, float], tuple[float, float]]] = (),
) -> None:
    """Write a label beside each point, at the nearest place where it covers no point, no line and no other label.

    Without such a place, the label stands where it covers the fewest of them. A line leads to a label that is not right
    beside its point. lines: both ends of each horizontal or vertical line. The content of the axes and the legend must
    exist before this call.
    """
    axes.figure.draw_without_rendering()
    taken = []
    for ends, room in [*(((point, point), 5) for point in points), *((line, 2) for line in lines)]:
        (left, bottom), (right, top) = axes.transData.transform(ends)
        x, y = sorted((left, right)), sorted((bottom, top))
        taken.append(Bbox.from_extents(x[0] - room, y[0] - room, x[1] + room, y[1] + room))
    inside = axes.get_window_extent()
    places = [(side, distance) for distance in (_NEAR, *_FURTHER) for side in _SIDES]
    for point, label in zip(points, labels, strict=True):
        tried: list[tuple[bool, int, int, Any]] = []
        for rank, (((right, up), side, height), distance) in enumerate(places):
            style = {"textcoords": "offset points", "fontsize": 8.5, "ha": side, "va": height}
            leader = {"arrowstyle": "-", "color": GREY, "linewidth": 0.6, "shrinkA": 0, "shrinkB": 4}
            style |= {"arrowprops": leader} if distance > _NEAR else {}
            offset = right * distance, up * distance
            text = axes.annotate(label, point, offset, annotation_clip=False, **style)
            text.get_window_extent()  # moves the text to its place; with the leader, its own result is too large
            box = Text.get_window_extent(text)
            is_out = not (inside.contains(box.x0, box.y0) and inside.contains(box.x1, box.y1))
            tried.append((is_out, box.count_overlaps(taken), rank, text))
            if not is_out and tried[-1][1] == 0:
                break
        *_, best = min(tried, key=lambda one: one[:3])
        taken.append(Text.get_window_extent(best))
        for *_, text in tried:
            if text is not best:
                text.remove()


Points = Sequence[tuple[float, float]]


def coinciding(lines: Mapping[str, Points], width: float, height: float) -> list[list[str]]:
    """Return the names of lines, in order, with lines that lie on each other in one group.

    lines: the points of each line. width, height: size of the axes in the units of the points.
    """
    groups: list[list[str]] = []
    for name, points in lines.items():
        for group in groups:
            first = lines[group[0]]
            if len(first) == len(points) and all(
                abs(x - other_x) <= _NO_LINE * width and abs(y - other_y) <= _NO_LINE * height
                for (x, y), (other_x, other_y) in zip(points, first, strict=True)
            ):
                group.append(name)
                break
        else:
            groups.append([name])
    return groups


def named(group: Sequence[str]) -> str:
    """Return the legend's name of a line that stands for a group, in one line if it is short enough."""
    together = " and ".join(group)
    return together if len(together) <= 42 else "\nand ".join(group)


def drawn_once(groups: Sequence[Sequence[str]]) -> str:
    """Return the sentence to add to the caption if lines coincide; otherwise an empty text."""
    return " Lines that lie on each other are drawn once." if any(len(group) > 1 for group in groups) else ""


def shortened(text: str, length: int) -> str:
    """Return `text`, without its middle if it is longer than `length`."""
    if len(text) <= length:
        return text
    tail = length // 3
    return f"{text[: length - tail - 1]}…{text[-tail:]}"


def nodes_axis(axes: Any, nodes: Iterable[int], *, log: bool) -> None:
    """Set up the x axis of pictures over N, with a tick for each number of nodes that occurs."""
    values = sorted(set(nodes))
    if log:
        axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(values))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("nodes N")


def log_axis(axis: Any, write: Callable[[float], str]) -> None:
    """Write the ticks of a logarithmic axis with `write`: as many as have room, also between the powers of ten."""
    low, high = sorted(axis.get_view_interval())
    decades = high / low if low > 0 else 10.0

    def label(value: float, _: object = None) -> str:
        return re.sub(r"\.0+ ", " ", write(value))

    between = [(1.0, 2.0, 5.0)] if decades < 30 else [(1.0, 3.0)] if decades < 1000 else []

    def ticks(locator: Any) -> list[str]:
        return [label(tick) for tick in locator.tick_values(low, high) if low <= tick <= high]

    round_ones: list[Any] = [LogLocator(10, subs=subs, numticks=8) for subs in between]
    round_ones += [LogLocator(10, subs=(1.0,), numticks=most) for most in (8, 4, 3, 2)]
    some = [each for each in round_ones if len(ticks(each)) > 1]
    # Part of a decade may hold fewer than two of these values. Then use evenly spaced values.
    for locator in some or [MaxNLocator(nbins=most, steps=[1, 2, 5, 10]) for most in (4, 3, 2)]:
        # matplotlib counts on labels of five letters. On a y axis, labels lie one above the other.
        room = sum(max(1.0, (len(text) + 1) / 5) if axis.axis_name == "x" else 1.0 for text in ticks(locator))
        if room <= axis.get_tick_space():
            break
    axis.set_major_locator(locator)
    axis.set_major_formatter(FuncFormatter(label))
    axis.set_minor_formatter(NullFormatter())
    axis.set_minor_locator(NullLocator())


def bar_rows(axes: Any, labels: Sequence[str]) -> None:
    """Prepare bars at y = 0, 1, ... downwards, each with its label above, because names are long and phones narrow."""
    axes.set_ylim(len(labels) - 0.5, -0.85)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.grid(False, axis="y")
    for index, label in enumerate(labels):
        if not label:
            continue
        # A long label must not make the axes narrower.
        place = {"xycoords": ("axes fraction", "data"), "va": "bottom"}
        text = axes.annotate(
            shortened(label, LABEL_LETTERS), (0, index - 0.36), fontsize=9.5, bbox=BOX, zorder=3, **place
        )
        text.set_in_layout(False)


def text_width(text: str, size: float = _LABEL_SIZE) -> float:
    """Return the width of a line in points, in the wide font of the pictures."""
    with mpl.rc_context(_STYLE):
        width, _, _ = TextToPath().get_text_width_height_descent(text, FontProperties(size=size), ismath=False)
    return float(width)


def label_lines(label: str) -> list[str]:
    """Return a label in as many lines as it needs within a picture's width. Nothing of the label is left out."""
    room = 72 * WIDTH - 2 * _EDGE
    letters = LABEL_LETTERS
    while letters > 1:
        lines = wrap(label, letters, break_on_hyphens=False)
        if all(text_width(line) <= room for line in lines):
            return lines
        letters -= 4
    return list(label)


def point_height(labels: Sequence[str]) -> float:
    """Return the height in inches for rows of points with these labels above them, and an axis."""
    return 0.75 + sum(_row_height(label) for label in labels)


def _row_height(label: str) -> float:
    return (_POINT_ROOM + _LABEL_LINE * len(label_lines(label))) / 72


def point_rows(axes: Any, labels: Sequence[str]) -> list[float]:
    """Prepare rows downwards, as high as their labels need. Return the y value of each row's point."""
    ends = list(accumulate(map(_row_height, labels)))
    axes.set_ylim(ends[-1], 0)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.grid(False, axis="y")
    return [end - _POINT_ROOM / 2 / 72 for end in ends]


def label_rows(axes: Any, labels: Sequence[str], points: Sequence[tuple[float, float]]) -> None:
    """Write each row's label right above its point, centred as far as the picture's width allows.

    The content of the axes and the legend must exist before this call.
    """
    axes.figure.draw_without_rendering()
    to_points = 72 / axes.figure.dpi
    for (x, y), label in zip(points, labels, strict=True):
        at = axes.transData.transform((x, y))[0] * to_points
        lines = label_lines(label)
        half = max(map(text_width, lines)) / 2 + _EDGE
        middle = min(max(at, half), 72 * WIDTH - half)
        for place, line in enumerate(reversed(lines)):
            offset = middle - at, _POINT_ROOM / 2 - 3 + place * _LABEL_LINE
            style = {"textcoords": "offset points", "ha": "center", "va": "bottom", "fontsize": _LABEL_SIZE}
            text = axes.annotate(line, (x, y), offset, annotation_clip=False, bbox=BOX, zorder=3, **style)
            text.set_in_layout(False)


def bar_height(rows: int) -> float:
    """Return the height in inches for this number of labelled bars and an axis."""
    return 0.75 + _BAR_ROW * rows


def interval_row(axes: Any, row: float, mean: float | None, low: float | None, high: float | None) -> None:
    """Draw a dot and a line through it, in a row of `bar_rows` or `point_rows`. Values that are None are left out."""
    if low is not None and high is not None:
        axes.plot([low, high], [row, row], color=INK, linewidth=1.6, marker="|", markersize=8)
    if mean is not None:
        axes.plot([mean], [row], color=INK, marker="o", linestyle="none")


def to_svg(figure: Figure, key: str, label: str) -> str:
    """Return the figure as an <svg> element whose ids begin with `key`."""
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
    """Return a tag with prefixed ids and the page's colours, but without a font family, which would override the
    page's.
    """
    tag = themed(re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{key}-", tag))
    return re.sub(r"font-family: [^;\"]*;? ?", "", tag)
