import io

from hypothesis import given
from hypothesis import strategies as st

from sparksplit.base.reading import read_exactly


@given(st.binary(max_size=40), st.integers(0, 50), st.lists(st.integers(1, 7), min_size=1))
def test_pieces_of_any_size_make_what_was_asked_for_and_no_more_is_read(content, count, sizes):
    stream, asked = io.BytesIO(content), []

    def read(most):
        asked.append(most)
        return stream.read(min(most, sizes[len(asked) % len(sizes)]))

    assert read_exactly(read, count) == content[:count]
    assert stream.tell() == min(count, len(content))
    assert all(asked)  # a socket that is asked for no bytes seems to be at its end
