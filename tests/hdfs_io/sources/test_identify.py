"""How rows are cut into splits: the arithmetic that Spark's tasks apply, on arrays."""

from __future__ import annotations

import numpy as np
import pytest

from hdfs_io import row_ids
from hdfs_io.manifest import SPLITS
from hdfs_io.sources.identify import Cut

ROWS, KNOWN = 200_000, 0.7


@pytest.mark.parametrize("features", [0, 1, 2, 4, 6, 8, 12, 16])
def test_each_split_is_a_random_sample_of_the_share_that_was_asked(features: int) -> None:
    """Tables of binary features and a label that the features foretell in 70 % of the rows, the best there is."""
    generator = np.random.default_rng(features)
    x, likely = generator.integers(0, 2**features, ROWS), generator.integers(0, 2, 2**features)
    y = np.where(generator.random(ROWS) < KNOWN, likely[x], 1 - likely[x])
    distinct, row = np.unique(2 * x + y, return_inverse=True)
    content = row_ids.content_hash(distinct.astype("<i8").view(np.uint8).reshape(-1, 8))[row]
    numbers = row_ids.duplicate_numbers(content)
    splits = Cut(1, validation=0.1, test=0.2).splits(content, numbers, np.zeros(ROWS, np.int32))

    def accuracy(test: np.ndarray) -> float:
        """On the test rows, of each x's more frequent label among the training rows."""
        votes = np.bincount(2 * x[~test] + y[~test], minlength=2 ** (features + 1)).reshape(-1, 2)
        return float((votes.argmax(axis=1)[x[test]] == y[test]).mean())

    for name, share in (("validation", 0.1), ("test", 0.2)):
        chosen = splits == SPLITS.index(name)
        assert abs(chosen.mean() - share) < 4 * np.sqrt(share * (1 - share) / ROWS)
        error = np.sqrt(KNOWN * (1 - KNOWN) / chosen.sum())
        assert abs((likely[x[chosen]] == y[chosen]).mean() - KNOWN) < 4 * error
        # With few rows of each x the training rows foretell less: as much as those of a cut at random.
        assert abs(accuracy(chosen) - accuracy(generator.random(ROWS) < share)) < 4 * np.sqrt(2) * error


def test_what_the_source_brings_as_test_stays_test_and_nothing_is_cut_without_a_share() -> None:
    content = row_ids.mix64(np.arange(600, dtype=np.uint64).reshape(-1, 2))
    part = np.repeat(np.array([0, 2, 1], np.int32), 100)
    numbers = np.zeros(300, np.int64)
    assert (Cut(3).splits(content, numbers, part) == part).all()
    splits = Cut(3, validation=0.5).splits(content, numbers, part)
    assert splits.dtype == np.int32 and (splits[100:] == part[100:]).all()
    assert set(splits[:100].tolist()) == {SPLITS.index("train"), SPLITS.index("validation")}
