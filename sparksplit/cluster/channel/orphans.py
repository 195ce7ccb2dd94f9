"""How a process of a run ends when its parent or its driver has gone."""

from __future__ import annotations

ORPHANED = 113
"""Exit status of a node that ended itself because the driver or its launcher was gone."""
