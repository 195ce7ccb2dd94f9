"""What commands write on stderr where there is no terminal."""

from __future__ import annotations

import re

_TIME = re.compile(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d (?=\S)", re.MULTILINE)
_OF_JAVA = "WARNING: Using incubator modules: jdk.incubator.vector\n"


def without_times(text: str) -> str:
    """`text` without the time at the beginning of its lines, and without Java's line about Spark 4."""
    return _TIME.sub("", text).replace(_OF_JAVA, "")
