"""Rows that the virtual nodes of a process share."""

import numpy as np
import pytest

from sparksplit.base.errors import Passing, RunError
from sparksplit.dataset.arrays import from_arrays
from sparksplit.rows.feed import Feed
from sparksplit.rows.held import Held
from tests.disks import small_disk


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    generator = np.random.default_rng(5)
    rows = (generator.integers(0, 255, (331, 4, 2)).astype("u1"), generator.integers(0, 3, 331))
    return from_arrays(str(tmp_path_factory.mktemp("held") / "data"), {"train": rows}, lanes=17)


@pytest.mark.parametrize("limit", [1 << 20, 0])
@pytest.mark.parametrize("nodes", [1, 5])
def test_a_node_reads_the_same_rows_in_the_same_order(data, tmp_path, limit, nodes):
    """In memory, and in files mapped into memory."""
    source = data.split("train")
    held = Held(source, str(tmp_path), limit)
    assert bool(list(tmp_path.iterdir())) == (limit == 0)
    for rank in range(nodes):
        lanes = np.arange(rank, 17, nodes)
        feeds = [Feed(each, lanes, batch_size=20, seed=3, window=2) for each in (source, held)]
        for read, taken in zip(*(feed.epoch(1) for feed in feeds), strict=True):
            assert read.tensors[0].tobytes() == taken.tensors[0].tobytes()
            assert (read.label == taken.label).all() and read.seen == taken.seen
        for feed in feeds:
            feed.close()


def test_a_disk_that_is_full_is_known_before_its_pages_are_touched(data, tmp_path):
    """A page of a mapped file that finds no room ends the process by SIGBUS."""
    full = r"^/.*/disk: cannot be written: No space left on device$"
    with small_disk(tmp_path / "disk", kibibytes=4) as disk:
        with pytest.raises(RunError, match=full):
            Held(data.split("train"), str(disk), 0)
        assert list(disk.iterdir()) == []


def test_a_folder_that_was_cleaned_away_is_the_hosts_failure(data, tmp_path):
    with pytest.raises(Passing, match=r"/gone: cannot be written: No such file or directory$"):
        Held(data.split("train"), str(tmp_path / "gone"), 0)
