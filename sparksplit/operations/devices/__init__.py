"""`devices`: what devices the driver and the executors have, what they can do, and what a training step does on them.

`run` is the driver's part, `ask` starts a fresh interpreter and listens to it, `node/` is what runs there and alone
imports TensorFlow; `host`, `sizes` and `summary` are arithmetic and parsers without side effects.
"""
