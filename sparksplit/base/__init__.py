"""Shared by all packages: errors, configuration, records and progress."""
