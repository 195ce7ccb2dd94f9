"""How long each end of the driver's channel may be silent, in seconds, and what a node does after that."""

BEAT = 2.0
"""How often a node and its launcher each send their state."""
SILENT = 5.0
"""Silence that makes a node the culprit when another node has failed."""
DEAD = 10.0
"""Silence that is a failure in itself."""
ORPHAN = 20.0
"""A node ends itself after hearing nothing from the driver for this long."""
ORPHANED = 113
"""Exit status of a node that ended itself because the driver or its launcher was gone."""
