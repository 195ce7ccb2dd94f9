"""Small prepared data for runs on real nodes."""

from __future__ import annotations

from pathlib import Path

import pytest
from sklearn.datasets import load_digits

from hdfs_io.arrays import from_arrays


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """scikit-learn's digits, prepared: 1300 training rows in 96 lanes of uneven length, validation, test."""
    images, labels = load_digits(return_X_y=True)
    images, labels = images.reshape(-1, 8, 8).astype("u1"), labels.astype("i8")
    folder = tmp_path_factory.mktemp("digits") / "data"
    from_arrays(
        str(folder),
        {
            "train": (images[:1300], labels[:1300]),
            "validation": (images[1300:1450], labels[1300:1450]),
            "test": (images[1450:], labels[1450:]),
        },
        scaling="unit",
    )
    return folder
