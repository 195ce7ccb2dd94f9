"""The version of sparksplit, defined only here."""

__version__ = "0.2.0"
