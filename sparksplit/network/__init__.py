"""Connections between a run's processes, whatever they carry: where they listen, keys derived from the secret, TLS."""
