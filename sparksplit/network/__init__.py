"""Connections between a run's processes: listening addresses and ports, keys derived from the run's secret, TLS."""
