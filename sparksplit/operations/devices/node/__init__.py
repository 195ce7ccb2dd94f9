"""The code that measures a process's devices in a fresh interpreter. Only this part of `devices` imports TensorFlow."""
