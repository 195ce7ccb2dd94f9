"""The common parts of self-contained pages, such as compare's report.html.

A page's style, script and pictures are inline, and nothing is fetched. So a page can be mailed, kept and opened from a
disk. A page's template extends `page.html.jinja`, and uses the macros of `parts.html.jinja` for its tables and
pictures.
"""

from __future__ import annotations

import re
from importlib import resources
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from sparksplit.pages.colours import PALETTE


def rendered(package: str, template: str, **values: Any) -> str:
    """Return the page of a template in `package`, with all values escaped. Equal values give equal bytes.

    values: `title`, `subtitle` (a list of its parts), and the other values of the template.
    """

    def source(name: str) -> str:
        # Use importlib, because the package may be imported from a .zip.
        folder = package if name == template else __name__
        return resources.files(folder).joinpath(name).read_text(encoding="utf-8")

    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FunctionLoader(source),
    )
    environment.filters["names"] = _names
    environment.globals["palette"] = PALETTE
    return environment.get_template(template).render(**values)


def sentence(text: str) -> str:
    """Return `text` with a capital first letter and a full stop."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def with_notes(lines: list[str], notes: list[str], elsewhere: str) -> list[str]:
    """Return the lines of an answer, and the first note with the number of the other notes. elsewhere: where these are,
    in words."""
    if not notes:
        return lines
    more = f" ({len(notes) - 1} more note{'s' if notes[2:] else ''} {elsewhere}.)" if notes[1:] else ""
    return [*lines, f"Note: {notes[0]}{more}"]


def _names(text: str) -> Markup:
    """Return the escaped text, with each name in backticks and each option of a command as <code>.

    An option is not broken into two lines where it fits into one.
    """
    found = r"`([^`]+)`|(--set \S*[^\s.,)]|--[a-z]+)"
    return Markup(re.sub(found, lambda match: f"<code>{match[1] or match[2]}</code>", str(escape(text))))
