"""`devices`: the devices of the driver and the executors, their speed, and the work of a training step on them.

`run` is the driver's part. `ask` starts a fresh interpreter and reads its answers. `node/` runs in this interpreter,
and only `node/` imports TensorFlow. `host` asks the system about its hardware. `sizes` and `summary` are pure
arithmetic.
"""
