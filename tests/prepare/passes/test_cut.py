"""Each way to cut on arrays: the share it gives, and a planted leak that it prevents and a cut by row does not."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparksplit.base.config import parse
from sparksplit.dataset import row_ids
from sparksplit.dataset.manifest import SPLITS
from sparksplit.prepare.cut_config import By
from sparksplit.prepare.passes.cut import TEST, TRAIN, VALIDATION, Cut, Strata
from sparksplit.prepare.passes.cut_fit import Times, pick, ranks
from sparksplit.prepare.preprocess_config import PreprocessConfig

ROWS, KNOWN = 200_000, 0.7


@pytest.mark.parametrize("features", [0, 1, 2, 4, 6, 8, 12, 16])
def test_each_split_is_a_random_sample_of_the_share_that_was_asked(features: int) -> None:
    """Tables of binary features and a label that the features foretell in 70 % of the rows, the best there is."""
    generator = np.random.default_rng(features)
    x, likely = generator.integers(0, 2**features, ROWS), generator.integers(0, 2, 2**features)
    y = np.where(generator.random(ROWS) < KNOWN, likely[x], 1 - likely[x])
    content = content_of(2 * x + y)
    splits = Cut(1, validation=0.1, test=0.2).splits(content, row_ids.duplicate_numbers(content), all_train(ROWS))

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
    for by in ("row", "features", "key", "time", "column"):
        cut = Cut(3, validation=0.5, by=by, validation_from=50)  # type: ignore[arg-type]
        splits = cut.splits(content, numbers, part, np.arange(300) % 2 if by == "column" else np.arange(300))
        assert splits.dtype == np.int32 and (splits[100:] == part[100:]).all()
        assert set(splits[:100].tolist()) == {TRAIN, VALIDATION}


def test_rows_are_cut_as_they_were_from_the_first_version_on() -> None:
    content = row_ids.mix64(np.arange(40, dtype=np.uint64).reshape(-1, 2))
    splits = Cut(7, validation=0.2, test=0.3).splits(content, np.zeros(20, np.int64), all_train(20))
    assert "".join(str(split) for split in splits) == "02021000200000100020"


def content_of(values: np.ndarray) -> row_ids.U64:
    """The content hash of rows that are each one whole number."""
    distinct, row = np.unique(values, return_inverse=True)
    return row_ids.content_hash(distinct.astype("<i8").view(np.uint8).reshape(-1, 8))[row]


def all_train(rows: int) -> np.ndarray:
    return np.zeros(rows, np.int32)


def both(cut: Cut, values: np.ndarray, goes_by: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(which rows are test by row, which by `cut`) of rows whose content is `values`."""
    content = content_of(values)
    numbers = row_ids.duplicate_numbers(content)
    by_row = Cut(cut.seed, cut.validation, 0.2).splits(content, numbers, all_train(len(values)))
    return by_row == TEST, cut.splits(content, numbers, all_train(len(values)), goes_by) == TEST


def hashed(groups: np.ndarray) -> np.ndarray:
    return row_ids.signed(content_of(groups)[:, 0])


def nearest(x: np.ndarray, y: np.ndarray, test: np.ndarray) -> np.ndarray:
    """The prediction for the test rows by the training row with the nearest x: what a model does that has learnt the
    training rows by heart."""
    order = np.argsort(x[~test], kind="stable")
    known, answers = x[~test][order], y[~test][order]
    right = np.clip(np.searchsorted(known, x[test]), 1, len(known) - 1)
    return np.where(x[test] - known[right - 1] <= known[right] - x[test], answers[right - 1], answers[right])


def test_by_features_no_test_row_was_seen_with_another_label() -> None:
    """Each row is there five times, with labels of pure chance that differ now and then: nothing can be foretold."""
    generator = np.random.default_rng(1)
    x = np.repeat(np.arange(4000), 5)
    y = np.repeat(generator.integers(0, 2, 4000), 5) ^ (generator.random(20_000) < 0.1)
    by_row, by_features = both(Cut(1, test=0.2, by="features"), 2 * x + y, hashed(x))
    assert np.isin(x[by_row], x[~by_row]).mean() > 0.99
    assert (nearest(x.astype(float), y, by_row) == y[by_row]).mean() > 0.75
    assert not np.isin(x[by_features], x[~by_features]).any()
    assert abs((nearest(x.astype(float), y, by_features) == y[by_features]).mean() - 0.5) < 0.06
    assert abs(by_features.mean() - 0.2) < 0.03


def test_by_key_no_customer_of_the_test_split_was_trained_on() -> None:
    """A customer's rows are nearly the same, and the label is the customer's: whoever knows the customer knows it."""
    generator = np.random.default_rng(2)
    customer = np.repeat(np.arange(1000), 20)
    x = customer + generator.normal(0, 0.01, 20_000)
    y = generator.integers(0, 2, 1000)[customer]
    by_row, by_key = both(Cut(1, test=0.2, by="key"), np.arange(20_000), hashed(customer))
    assert (nearest(x, y, by_row) == y[by_row]).mean() > 0.99
    assert not np.isin(customer[by_key], customer[~by_key]).any()
    assert abs((nearest(x, y, by_key) == y[by_key]).mean() - 0.5) < 0.1
    assert abs(by_key.mean() - 0.2) < 0.05


def test_by_time_the_test_split_is_the_future() -> None:
    """A price that drifts: between two known days it is easily told, and after the last one it is not."""
    generator = np.random.default_rng(3)
    day = np.arange(10_000)
    price = np.cumsum(generator.normal(0, 1, 10_000))
    start = pick([Times(each, 1) for each in day.tolist()], 0.0, 0.2)
    assert start == (None, 8000)
    by_row, by_time = both(Cut(test_from=8000, by="time"), day, day)
    errors = [np.abs(nearest(day.astype(float), price, test) - price[test]).mean() for test in (by_row, by_time)]
    assert errors[0] < 2 and errors[1] > 10 * errors[0]
    assert day[~by_time].max() < day[by_time].min() and by_time.sum() == 2000


def test_by_column_no_row_that_was_set_aside_is_trained_on() -> None:
    """The split that a competition, say, has published with its rows."""
    generator = np.random.default_rng(4)
    published = generator.choice(3, 10_000, p=[0.7, 0.1, 0.2])
    by_row, by_column = both(Cut(by="column"), np.arange(10_000), published)
    assert (published[~by_row] == TEST).mean() > 0.15
    assert (by_column == (published == TEST)).all()


@pytest.mark.parametrize("words", [False, True])
def test_stratified_every_class_has_its_share_in_every_split(words: bool) -> None:
    generator = np.random.default_rng(5)
    sizes = np.array([1, 1, 2, 3, 5, 9, 10, 30, 100, 3000])
    y = generator.permutation(np.repeat(np.arange(10), sizes))
    content, part = content_of(np.arange(len(y))), all_train(len(y))
    numbers = np.zeros(len(y), np.int64)
    fraction = row_ids.split_fraction(content, numbers, 1)
    labels = [f"c{each}" for each in range(10)] if words else list(range(10))
    raw = [f"c{each}" for each in y] if words else y
    ordered = [np.sort(fraction[y == each]) for each in range(10)]
    bounds = [
        np.array([of_class[rank - 1] if rank else -1.0 for of_class, rank in zip(ordered, wanted, strict=True)])
        for wanted in ranks(sizes, 0.1, 0.2)
    ]
    cut = Cut(1, 0.1, 0.2, stratify=True, strata=Strata(pa.array(labels), *bounds))
    splits = pickle.loads(pickle.dumps(cut)).splits(content, numbers, part, None, raw)
    by_row = Cut(1, 0.1, 0.2).splits(content, numbers, part)

    def misses(found: np.ndarray) -> np.ndarray:
        return np.array(
            [
                abs(np.bincount(y[found == split], minlength=10) - share * sizes)
                for split, share in ((VALIDATION, 0.1), (TEST, 0.2))
            ]
        )

    assert misses(splits).max() <= 1 and misses(by_row).max() > 5
    assert (np.bincount(y[splits == TRAIN], minlength=10) > 0).all()
    assert (np.bincount(y[by_row == TRAIN], minlength=10) == 0).any()
    assert (cut.splits(content, numbers, part, None, ["new"] * len(y) if words else y + 99) == TRAIN).all()


def cut_of(brought: tuple[str, ...] = (), **keys: Any) -> Cut:
    values = {"input": {"format": "csv", "path": "rows.csv"}, "output": "out", **keys}
    return Cut.of(parse(PreprocessConfig, values), brought)


@pytest.mark.parametrize("by", ["row", "features", "key"])
def test_what_the_configuration_says_is_what_is_cut(by: By) -> None:
    found = cut_of(cut={"by": by}, validation=0.2, test=0.3, seed=4)
    assert found == Cut(4, 0.2, 0.3, by) and not found.fits
    assert cut_of(("test",), cut={"by": by}, validation=0.2, test=0.3, seed=4) == Cut(4, 0.2, 0.0, by)


def test_boundaries_and_named_splits_leave_no_shares() -> None:
    time = {"by": "time", "column": "day"}
    assert cut_of(cut=time).fits and not cut_of(cut=time, validation=0.0).fits
    dated = cut_of(cut={**time, "test_from": "1970-01-02"})
    assert dated == Cut(1, 0.0, 0.0, "time", test_from=86_400_000_000) and not dated.fits
    assert cut_of(cut={"by": "column", "column": "s"}) == Cut(1, 0.0, 0.0, "column")
    assert cut_of(cut={"stratify": True}).fits and not cut_of(("validation",), cut={"stratify": True}).fits
