"""A strategy that sparksplit does not have, as a user would add it; docs/own.md shows it."""

import numpy as np
import tensorflow as tf

from sparksplit import BatchSplit, LaneSplit, LocalSync, StepSync, Strategy


class MajorityVote(StepSync):
    """signSGD with majority vote (Bernstein et al. 2018): each node votes with its gradients' signs."""

    def update(self, values, model, optimizer):
        trainable = len(model.trainable_variables)
        votes = self._collective.sum_tensors([tf.sign(value) for value in values[:trainable]])
        optimizer.apply([tf.sign(vote) for vote in votes], model.trainable_variables)
        return self._collective.sum_tensors(values[trainable:])[-1]


def majority_vote():
    return Strategy(BatchSplit(), MajorityVote)


class Neighbours(BatchSplit):
    """Nodes that own neighbouring lanes, the later ones more of them."""

    def lanes(self, lanes, rank, nodes):
        begin, end = (lanes * place * (place + 1) // (nodes * (nodes + 1)) for place in (rank, rank + 1))
        return np.arange(begin, end)


class NeighboursApart(LaneSplit):
    """Nodes that own neighbouring lanes, and mini-batches of their own."""

    lanes = Neighbours.lanes


class Forgetful(BatchSplit):
    """Leaves out the last lane."""

    def lanes(self, lanes, rank, nodes):
        return super().lanes(lanes - 1, rank, nodes)


def neighbours():
    return Strategy(Neighbours(), StepSync)


def neighbours_apart():
    return Strategy(NeighboursApart(), LocalSync, settings=True)


def forgetful():
    return Strategy(Forgetful(), StepSync)


def nothing():
    return None
