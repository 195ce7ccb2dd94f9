"""A row's name in words, for reports and answers."""

from __future__ import annotations

import re


def named(name: str, nodes: int) -> str:
    """A row's nodes and strategy, such as `1 node with batch_size 64` or `2 nodes with local (sync every 32 steps)`."""
    strategy, *settings = re.sub(r"\bH = (\d+)", r"sync every \1 steps", name).replace(" = ", " ").split(", ")
    parts, node = ", ".join(settings), f"{nodes} node{'s' if nodes > 1 else ''}"
    if strategy == "single":
        return f"{node} {f'with {parts}' if parts else 'as configured'}"
    return f"{node} with `{strategy}`{f' ({parts})' if parts else ''}"
