import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.dataset.row_ids import row_checksum
from sparksplit.rows.ledger import Entry, Ledger

ids = st.lists(st.integers(0, 2**64 - 1), max_size=30)


def entry(row_ids):
    return Entry(len(row_ids), row_checksum(np.array(row_ids, np.uint64)))


@given(ids, st.integers(0, 30), st.randoms())
def test_the_entry_does_not_depend_on_order_or_nodes(rows, cut, random):
    shuffled = random.sample(rows, len(rows))
    assert entry(shuffled[:cut]) + entry(shuffled[cut:]) == entry(rows)


@given(st.lists(ids, min_size=1, max_size=4))
def test_nodes_sums_are_the_ledger_of_all_rows(nodes):
    """What a collective does: uint64 sums modulo 2^64."""
    entries = [entry(rows) for rows in nodes]
    with np.errstate(over="ignore"):
        total = np.sum([np.array([one.rows, one.checksum], np.uint64) for one in entries], axis=0, dtype=np.uint64)
    assert Entry(*(int(value) for value in total)) == Ledger(dict(enumerate(entries))).total()


@given(st.dictionaries(st.integers(0, 100), st.builds(Entry, st.integers(0, 2**40), st.integers(0, 2**64 - 1))))
def test_json_loses_nothing(entries):
    ledger = Ledger(entries)
    assert Ledger.from_json(json.loads(json.dumps(ledger.to_json()))).entries == entries


def test_exact_means_every_epoch_once_and_no_other():
    expected = entry([1, 2, 3])
    ledger = Ledger({0: expected, 1: expected})
    assert ledger.seen(range(2)).exact(expected)
    assert not ledger.seen(range(1)).exact(expected)
    assert not ledger.seen(range(3)).exact(expected)
    assert not ledger.seen(range(2)).exact(entry([1, 2, 4]))
    ledger.entries[1] += entry([7])
    assert not ledger.seen(range(2)).exact(expected)
    assert ledger.seen(range(2)).total == ledger.total()


def test_a_row_twice_for_one_left_out_is_noticed():
    assert entry([1, 2, 3]) != entry([1, 1, 3])
    assert entry([1, 2, 3]).rows == entry([1, 1, 3]).rows


def test_an_epoch_without_rows_is_zero():
    assert Ledger().total() == Entry()
