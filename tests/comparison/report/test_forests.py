"""The pictures of differences, by the numbers in their SVG: where labels and points are."""

from __future__ import annotations

import re
from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparksplit.comparison.content import Results
from sparksplit.comparison.report.charts import forest
from sparksplit.pages import drawing
from tests.comparison.report.pages import changed, pictures

SIZE = 9.5
LONG = "single, batch_size = 128, learning_rate = 0.000123 to 0.0123, momentum = 0.95, nesterov = True"
SOLID = "W" * 70


def pair(strategy, against, mean, half):
    return {
        "name": strategy, "nodes": 2, "virtual": False, "against": against, "against_nodes": 1, "quantity": "accuracy",
        "seeds": 5, "of": 5, "mean": mean, "low": mean - half, "high": mean + half, "pooled": True, "verdict": "better",
    }  # fmt: skip


def drawn(pairs):
    """(width, height; the rows' labels as lists of (text, x, y); the dots) of the picture."""
    picture = forest(Results.from_json(changed(pairs=pairs), "a test"))
    (svg,) = pictures(picture.svg)
    width, height = (float(end) for end in svg.get("viewBox").split()[2:])
    elements = list(svg.iter())
    texts = [one for one in elements if one.tag.endswith("}text") and f"font-size: {SIZE}px" in one.get("style")]
    assert all("text-anchor: middle" in one.get("style") for one in texts)
    lines = [(one.text, float(one.get("x")), float(one.get("y"))) for one in texts]
    marks = [one for one in elements if one.tag.endswith("}use") and "var(--ink)" in one.get("style")]
    kinds = Counter(next(value for key, value in one.attrib.items() if key.endswith("href")) for one in marks)
    dots = [
        (float(one.get("x")), float(one.get("y"))) for one in marks
        if kinds[next(value for key, value in one.attrib.items() if key.endswith("href"))] == len(pairs)
    ]  # fmt: skip
    assert len(dots) == len(pairs)
    return width, height, lines, dots


def check(pairs):
    width, height, lines, dots = drawn(pairs)
    boxes = [(x - half, y - SIZE, x + half, y + 2) for text, x, y in lines
             for half in [drawing.text_width(text, SIZE) / 2]]  # fmt: skip
    for left, top, right, bottom in boxes:
        assert left >= 0 and right <= width and top >= 0 and bottom <= height
    for one, other in combinations(boxes, 2):
        assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
    left = list(zip(lines, boxes, strict=True))
    for each, (x, y) in zip(pairs, dots, strict=True):
        own = f"{each['name']}, N = 2 − {each['against']}, N = 1"
        count = len(drawing.label_lines(own))
        mine, left = left[:count], left[count:]
        # From the lowest line up, whole: nothing is left out.
        said = "".join(line[0] for line, _ in reversed(mine))
        assert re.sub(r"\s", "", said) == re.sub(r"\s", "", own)
        # The lowest line ends right above its point, which is below it, and covers no point.
        lowest = mine[0][1]
        assert 3 <= y - lowest[3] <= 12
        assert min(box[0] for _, box in mine) <= x <= max(box[2] for _, box in mine)
        assert not any(box[0] < a < box[2] and box[1] < b < box[3] for a, b in dots for _, box in mine)
    assert not left


@pytest.mark.parametrize("ends", [(-0.02, 0.03), (0.0, 0.0), (0.001, 0.001), (-1.0, 1.0)])
def test_labels_are_beside_their_points_whole_and_apart(ends):
    check([
        pair(strategy, against, mean, 0.003)
        for strategy, against in (("batch", "single"), (LONG, "single"), (SOLID, LONG), ("local", SOLID))
        for mean in ends
    ])  # fmt: skip


names = st.text("abcdefgW_ ,=1.", min_size=1, max_size=80).filter(lambda name: name.strip() == name)


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(st.lists(st.tuples(names, names, st.floats(-1, 1), st.floats(0.001, 1)), min_size=1, max_size=6))
def test_labels_of_any_names(found):
    check([pair(*one) for one in found])
