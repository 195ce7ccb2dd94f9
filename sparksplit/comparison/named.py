"""A row's name in words, for reports and answers."""

from __future__ import annotations

import re


def named(name: str, nodes: int) -> str:
    """A row's nodes and strategy, such as `1 node with batch_size 64` or `2 nodes with local, sync every 32 steps`."""
    strategy, *settings = re.sub(r"\bH = (\d+)", r"sync every \1 steps", name).replace(" = ", " ").split(", ")
    parts = ", ".join(settings if strategy == "single" else [f"`{strategy}`", *settings])
    return f"{nodes} node{'s' if nodes > 1 else ''} {f'with {parts}' if parts else 'as configured'}"
