"""The version of sparksplit, in its one place."""

__version__ = "0.1.0"
