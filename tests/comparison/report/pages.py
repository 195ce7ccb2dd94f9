"""A page of the report as tests look at it: its words, its pictures, its tags."""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from html.parser import HTMLParser
from typing import Any
from unittest.mock import patch
from xml.etree import ElementTree

from sparksplit.comparison.content import Results
from sparksplit.comparison.report import render
from sparksplit.pages import drawing
from tests.comparison import sample


def changed(**parts):
    """The sample with other parts."""
    return {**sample.results(seeds=3), **parts}


def rendered(results: dict[str, Any]) -> str:
    """The page of such a results.json."""
    return render(Results.from_json(results, "a test"))


def visible(page: str) -> str:
    """The words of a page, without its pictures, style and script."""
    page = re.sub(r"<(style|script|svg)\b.*?</\1>", "", page, flags=re.DOTALL)
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def unpainted() -> AbstractContextManager[object]:
    """Pages without their pictures, which take most of the time."""
    return patch.object(drawing, "to_svg", lambda figure, key, label: "")


def words(results: dict[str, Any]) -> str:
    """The words of the page of such a results.json."""
    with unpainted():
        return visible(rendered(results))


def pictures(page: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(svg) for svg in re.findall(r"<svg .*?</svg>", page, flags=re.DOTALL)]


class Tags(HTMLParser):
    """Every start tag with its attributes; fails where tags do not nest."""

    VOID = ("meta", "br", "link", "input")

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def fetches_nothing(page: str) -> bool:
    """Whether all that a page shows is in the page itself. Links to a run's folder are fine."""
    for tag, attributes in Tags(page).found:
        leads = ("#", "data:", *(["runs/"] if tag == "a" else []))
        urls = [attributes.get(name) or "#" for name in ("src", "href", "xlink:href")]
        if tag in ("link", "iframe", "object", "embed") or not all(url.startswith(leads) for url in urls):
            return False
    return True
