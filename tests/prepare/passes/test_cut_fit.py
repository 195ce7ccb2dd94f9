"""What a cut asks of all rows: order statistics, found in two steps."""

from __future__ import annotations

from itertools import groupby

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.base.errors import InputError
from sparksplit.prepare.passes.cut_fit import Bounds, Times, _near, around, pick, ranks

shares = st.floats(0.0, 0.6)


@given(st.lists(st.integers(1, 2000), min_size=1, max_size=50), shares, st.floats(0.0, 0.39))
def test_every_class_has_its_shares_to_the_row_and_one_row_to_train_on(
    sizes: list[int], validation: float, test: float
) -> None:
    rows = np.array(sizes)
    tested, held = ranks(rows, validation, test)
    assert ((tested >= 0) & (tested <= held) & (held < rows)).all()
    # Where a row had to be left to train on, the splits miss it.
    free = np.floor(rows * (validation + test) + 0.5) < rows
    assert (np.abs(tested - rows * test)[free] <= 0.5 + 1e-9).all()
    assert (np.abs(held - tested - rows * validation)[free] <= 1 + 1e-9).all()


@given(st.lists(st.integers(0, 30), min_size=3, max_size=200), shares, st.floats(0.0, 0.39))
def test_boundaries_are_at_whole_times_and_as_near_as_can_be(days: list[int], validation: float, test: float) -> None:
    times = [Times(day, len(list(rows))) for day, rows in groupby(sorted(days))]
    asked = sum(share > 0 for share in (validation, test))
    if len(times) <= asked:
        with pytest.raises(InputError, match=f"the training rows have {len(times)} different times, too few"):
            pick(times, validation, test)
        return
    found = pick(times, validation, test)
    assert found is not None
    values = np.array(days)
    end = np.inf
    for share, start, before in ((test, found[1], asked), (validation, found[0], 1)):
        assert (start is None) == (share == 0)
        if start is None:
            continue
        every = [each.first for each in times]
        # All starts that leave this split, and each before it, a time.
        open_ = [day for place, day in enumerate(every) if place >= min(before, asked) and day < end]
        missed = {
            day: abs(((values >= day) & (values < end)).sum() - max(1, round(share * len(days)))) for day in open_
        }
        assert start in missed and missed[start] == min(missed.values())
        end = start


def test_times_that_are_not_known_well_enough_are_asked_for_again() -> None:
    known, unknown = Times(50, 10), Times(0, 80, exact=False)
    assert pick([unknown, known, Times(60, 10, exact=False)], 0.0, 0.2) == (None, 50)
    assert pick([unknown, known, Times(60, 10, exact=False)], 0.0, 0.1) is None
    assert pick([unknown, known, Times(60, 10)], 0.1, 0.1) == (50, 60)
    assert pick([unknown, known, Times(60, 10)], 0.5, 0.1) is None
    assert pick([unknown], 0.1, 0.0) is None
    with pytest.raises(InputError, match="has no rows to train on"):
        pick([], 0.1, 0.0)


@pytest.mark.parametrize("batch", [1, 7, 5000])
def test_the_number_of_a_rank_lies_among_those_that_are_looked_at(batch: int) -> None:
    generator = np.random.default_rng(batch)
    sizes = np.array([1, 2, 30, 4000, 400_000 if batch == 5000 else 400])
    place = generator.permutation(np.repeat(np.arange(5), sizes))
    fraction = generator.random(len(place))
    wanted = np.stack(ranks(sizes, 0.1, 0.05))
    bounds = Bounds(wanted, *around(wanted, sizes))
    found: dict[tuple[int, int], list[tuple[float, int]]] = {}
    looked_at = 0
    for start in range(0, len(place), batch):
        chosen = slice(start, start + batch)
        for rows in _near(fraction[chosen], place[chosen], bounds):
            for row in rows.to_pylist():
                looked_at += row["fraction"] >= 0
                found.setdefault((row["bound"], row["class"]), []).append((row["fraction"], row["rows"]))
                assert row["wanted"] == wanted[row["bound"], row["class"]] > 0
    for (bound, each), near in found.items():
        near.sort()
        ranked = dict(zip(np.cumsum([rows for _, rows in near]).tolist(), (value for value, _ in near), strict=True))
        assert ranked[wanted[bound, each]] == np.sort(fraction[place == each])[wanted[bound, each] - 1]
    assert set(found) == {(bound, each) for bound in (0, 1) for each in range(5) if wanted[bound, each]}
    if batch == 5000:
        assert looked_at < 30_000
