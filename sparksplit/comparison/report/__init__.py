"""report.html: one page that says which strategy to use, with the evidence."""

from sparksplit.comparison.report.page import render

__all__ = ["render"]
