"""A way that sparksplit does not have, as a user would add it; the README shows it."""

import numpy as np
import tensorflow as tf

from sparksplit.strategies import Strategy
from sparksplit.strategies.splits import BatchSplit
from sparksplit.strategies.syncs import StepSync


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
    """Nodes that own neighbouring lanes."""

    def lanes(self, lanes, rank, nodes):
        return np.array_split(np.arange(lanes), nodes)[rank]


class Forgetful(BatchSplit):
    """Leaves out the last lane."""

    def lanes(self, lanes, rank, nodes):
        return super().lanes(lanes - 1, rank, nodes)


def neighbours():
    return Strategy(Neighbours(), StepSync)


def forgetful():
    return Strategy(Forgetful(), StepSync)


def nothing():
    return None
