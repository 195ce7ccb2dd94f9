"""A collective that sparksplit does not have, as a user would add it: sums by way of the driver, for a few numbers."""

import numpy as np

from sparksplit.collectives import Collective


class ByTheDriver(Collective):
    in_graphs = False

    def __init__(self, member):
        super().__init__(member.rank, member.size)
        self._member, self._sums = member, 0

    def sum(self, arrays):
        self._sums += 1
        every = self._member.gather(f"sum {self._sums}", [np.asarray(array).tolist() for array in arrays])
        parts = zip(*every, strict=True)
        return [sum(np.array(part, array.dtype) for part in own) for own, array in zip(parts, arrays, strict=True)]

    def sum_tensors(self, tensors):
        import tensorflow as tf

        return [tf.constant(array) for array in self.sum([tensor.numpy() for tensor in tensors])]

    def close(self):
        return


def by_the_driver(member):
    return ByTheDriver(member)


def broken(member):
    raise OSError(f"no network for node {member.rank}")


def left(member):
    raise ConnectionResetError("node 1 has gone")


def nothing(member):
    return None
