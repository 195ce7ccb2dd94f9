"""Self-contained pages, such as compare's report.html: what they have in common.

A page's style, script and pictures are inline and nothing is fetched, so that it can be mailed, kept and opened from a
disk. Its template extends `page.html.jinja`, and has the macros of `parts.html.jinja` for its tables and pictures.
"""

from __future__ import annotations

import re
from importlib import resources
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from sparksplit.pages.colours import PALETTE


def rendered(package: str, template: str, **values: Any) -> str:
    """The page of a template that lies in `package`, with everything escaped; `title` and `subtitle` (its parts) are
    among the values. The same values give the same bytes."""

    def source(name: str) -> str:
        # Through importlib, since the package may be imported from a .zip.
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
    """With its first letter large, and a full stop."""
    return f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"


def _names(text: str) -> Markup:
    """Text in which whatever stands between backticks is a name."""
    return Markup(re.sub("`([^`]+)`", r"<code>\1</code>", str(escape(text))))
