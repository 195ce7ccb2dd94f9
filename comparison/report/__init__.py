"""report.html: one page that says which way to use, with the evidence."""

from comparison.report.page import render

__all__ = ["render"]
