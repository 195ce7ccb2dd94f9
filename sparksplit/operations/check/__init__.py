"""`check`: facts from the driver and every executor, a judgement, a table. Only `run` and `probe` have side effects."""
