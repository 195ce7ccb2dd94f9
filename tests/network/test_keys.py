"""Keys from a run's secret."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sparksplit.network.keys import derived

uses = st.tuples(st.sampled_from(["channel", "ring", "hand-off", "driver", "caller"]), st.binary(max_size=64))


@given(st.binary(min_size=1, max_size=64), uses, uses)
def test_each_use_and_each_conversation_has_a_key_of_its_own(secret: bytes, one: object, other: object) -> None:
    keys = [derived(secret, *each) for each in (one, other)]  # type: ignore[misc]
    assert all(len(key) == 32 for key in keys)
    assert (keys[0] == keys[1]) == (one == other)
    assert secret not in keys
