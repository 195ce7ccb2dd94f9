"""SipHash-2-4 over many texts."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.features.siphash import siphash

KEY = (0x0706050403020100, 0x0F0E0D0C0B0A0908)


def test_the_papers_example():
    # Appendix A of the paper, and the first and last of the 64 vectors of the authors' reference implementation.
    texts = pa.array([bytes(range(15)), b"", bytes(range(63))], pa.binary())
    assert siphash(texts, KEY).tolist() == [0xA129CA6149BE45E5, 0x726FDB47DD0E0E31, 0x958A324CEB064572]


@given(st.lists(st.none() | st.text(max_size=40)))
def test_a_texts_hash_does_not_depend_on_the_others(texts):
    alone = [siphash(pa.array([text], pa.large_string()), KEY)[0] for text in texts]
    np.testing.assert_array_equal(siphash(pa.array(texts, pa.string()), KEY), np.array(alone, np.uint64))


def test_a_null_is_as_the_empty_text():
    empty, null = siphash(pa.array(["", None]), KEY)
    assert empty == null
