"""The strategies in a few lines of NumPy, on a linear model that begins at zero, update by update, and its rows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from sparksplit.dataset.arrays import from_arrays
from sparksplit.rows.feed import Feed, LanesOf
from tests.training.runs import MODELS, weights

ROWS, LANES, BATCH, RATE, EPOCHS = 103, 31, 16, 0.05, 5
LINEAR = {
    "epochs": EPOCHS, "batch_size": BATCH, "dtype": "float64", "optimizer": {"name": "sgd", "learning_rate": RATE},
    "model": {"build": f"{MODELS}:linear"},
}  # fmt: skip
"""Of the runs that these say the weights and losses of."""


def prepared(folder, test=0):
    """Rows of three numbers, each with a number to learn; lanes of uneven lengths, some of them empty.

    test: how many of them are the test split, too.
    """
    generator = np.random.default_rng(3)
    x = generator.random((ROWS, 3), np.float32)
    y = (x @ [1.0, -2.0, 0.5] + 0.3 + generator.normal(0, 0.01, ROWS)).astype(np.float32)
    splits = {"train": (x, y), "test": (x[:test], y[:test])} if test else {"train": (x, y)}
    return from_arrays(str(folder), splits, lanes=LANES)


def strided(nodes):
    """By rank, the lanes that a node owns where the product's splits deal them."""
    return [np.arange(rank, LANES, nodes) for rank in range(nodes)]


def neighbouring(nodes):
    """The lanes of each node, for the splits of strategies_of_ones_own.py."""
    edges = [LANES * place * (place + 1) // (nodes * (nodes + 1)) for place in range(nodes + 1)]
    return [np.arange(begin, end) for begin, end in pairwise(edges)]


def check(folder, result, reference):
    """Compare the run in `folder`, and what it returned, with a reference's weights, bias and losses by epoch."""
    w, b, losses = reference
    kernel, bias = weights(folder)[:2]
    np.testing.assert_allclose(kernel[:, 0], w, atol=1e-9, rtol=0)
    np.testing.assert_allclose(bias, b, atol=1e-9, rtol=0)
    np.testing.assert_allclose(result["metrics"]["train"]["loss"], losses, atol=1e-9, rtol=0)


def mini_batches(data, epoch, batch_size=BATCH, lanes=None):
    """[(x, y)] of every mini-batch of `epoch` over all lanes, or over `lanes` alone."""
    source = data.split("train") if lanes is None else LanesOf(data.split("train"), lanes)
    return shares_of(source, epoch, np.arange(LANES) if lanes is None else lanes, batch_size)


def shares_of(source, epoch, lanes, batch_size=BATCH):
    """[(x, y)] of what a node with those lanes has of every mini-batch of `epoch`."""
    feed = Feed(source, lanes, batch_size=batch_size, seed=1)
    found = []
    for chunk in feed.epoch(epoch):
        for begin, end in zip(chunk.offsets[:-1], chunk.offsets[1:], strict=True):
            found.append((chunk.tensors[0][begin:end], chunk.label[begin:end].astype(np.float64)))
    feed.close()
    return found


def gradient(w, b, x, y):
    """Of the mean squared error, and the error."""
    difference = x @ w + b - y
    return 2 * x.T @ difference / len(y), 2 * difference.mean(), float((difference**2).mean())


def epochs_split(data, nodes):
    """Horovod's recipe: gradients averaged at every step, N times the rate after a warm-up over the first epoch."""
    w, b, step, losses = np.zeros(3), 0.0, 0, []
    per_epoch = -(-ROWS // BATCH)
    for first in range(0, EPOCHS, nodes):
        loss = 0.0
        for batches in zip(*(mini_batches(data, first + rank) for rank in range(nodes)), strict=True):
            rate = RATE * (1 + (nodes - 1) * min(1, step / per_epoch))
            found = [gradient(w, b, x, y) for x, y in batches]
            w = w - rate * np.mean([one[0] for one in found], axis=0)
            b = b - rate * np.mean([one[1] for one in found])
            loss += sum(one[2] * len(y) for one, (_, y) in zip(found, batches, strict=True))
            step += 1
        losses.append(loss / (nodes * ROWS))
    return w, b, losses


def epochs_apart(data, nodes):
    """Each node trains an epoch by itself from the same weights; then they are averaged, as all have as many rows."""
    w, b, losses = np.zeros(3), 0.0, []
    for first in range(0, EPOCHS, nodes):
        ends, loss = [], 0.0
        for rank in range(nodes):
            own_w, own_b = w, b
            for x, y in mini_batches(data, first + rank):
                change, shift, error = gradient(own_w, own_b, x, y)
                own_w, own_b, loss = own_w - RATE * change, own_b - RATE * shift, loss + error * len(y)
            ends.append((own_w, own_b))
        w, b = np.mean([end[0] for end in ends], axis=0), np.mean([end[1] for end in ends])
        losses.append(loss / (nodes * ROWS))
    return w, b, losses


def longest_round(data, nodes, dealt=strided):
    """Steps of an epoch of the node with the most, where each trains on its own lanes."""
    rows = np.array(data.split("train").lane_rows)
    return max(-(-int(rows[own].sum()) // max(1, BATCH // nodes)) for own in dealt(nodes))


def rows_split(data, nodes, every, outer, epochs_before=0, dealt=strided):
    """Each node trains on its own lanes; every so many of its updates the changes are averaged by rows.

    Before that, `epochs_before` epochs in which they share every mini-batch. dealt: whose lanes are whose.
    """
    w, velocity, losses = np.zeros(4), np.zeros(4), []
    for epoch in range(epochs_before):
        loss = 0.0
        for x, y in mini_batches(data, epoch):
            change, shift, error = gradient(w[:3], w[3], x, y)
            w, loss = w - RATE * np.append(change, shift), loss + error * len(y)
        losses.append(loss / ROWS)
    for epoch in range(epochs_before, EPOCHS):
        queues = [mini_batches(data, epoch, max(1, BATCH // nodes), own) for own in dealt(nodes)]
        loss = 0.0
        for start in range(0, max(map(len, queues)), every):
            changes, weights = [], []
            for queue in queues:
                own = w.copy()
                for x, y in queue[start : start + every]:
                    change, shift, error = gradient(own[:3], own[3], x, y)
                    own, loss = own - RATE * np.append(change, shift), loss + error * len(y)
                changes.append(own - w)
                weights.append(sum(len(y) for _, y in queue[start : start + every]))
            average = np.average(changes, axis=0, weights=weights)
            rate, momentum = {"none": (1.0, 0.0), "momentum": (1.0, 0.7), "nesterov": (0.7, 0.9)}[outer]
            velocity = momentum * velocity + average
            w = w + rate * (average + momentum * velocity if outer == "nesterov" else velocity)
        losses.append(loss / ROWS)
    return w[:3], w[3], losses


def majority_vote(data, nodes):
    """Each node's part of a mini-batch's gradient has one vote for each weight's direction."""
    w, b, losses = np.zeros(3), 0.0, []
    for epoch in range(EPOCHS):
        loss = 0.0
        shares = [shares_of(data.split("train"), epoch, own) for own in strided(nodes)]
        for parts in zip(*shares, strict=True):
            found = [gradient(w, b, x, y) for x, y in parts if len(y)]
            loss += sum(one[2] * len(y) for one, (_, y) in zip(found, [p for p in parts if len(p[1])], strict=True))
            w = w - RATE * np.sign(np.sum([np.sign(one[0]) for one in found], axis=0))
            b = b - RATE * np.sign(np.sum([np.sign(one[1]) for one in found]))
        losses.append(loss / ROWS)
    return w, b, losses
