"""`check`: facts from the driver and every executor, a verdict, a table. Only `run` and `probe` have side effects."""
