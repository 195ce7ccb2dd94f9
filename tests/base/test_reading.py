import io

from hypothesis import given
from hypothesis import strategies as st

from sparksplit.base.reading import read_exactly, short_lines


@given(st.binary(max_size=40), st.integers(0, 50), st.lists(st.integers(1, 7), min_size=1))
def test_pieces_of_any_size_make_what_was_asked_for_and_no_more_is_read(content, count, sizes):
    stream, asked = io.BytesIO(content), []

    def read(most):
        asked.append(most)
        return stream.read(min(most, sizes[len(asked) % len(sizes)]))

    assert read_exactly(read, count) == content[:count]
    assert stream.tell() == min(count, len(content))
    assert all(asked)  # a socket that is asked for no bytes seems to be at its end


def test_a_line_of_any_length_is_shown_whole_and_kept_short():
    """A node that writes 300 MB without a newline must not fill its launcher's memory."""
    content = b"first\r\n\n" + "é".encode() * 400_000 + b"\nlast, \xff and no end"
    stream, asked, shown = io.BytesIO(content), [], []
    read = stream.readline
    stream.readline = lambda most=-1: asked.append(most) or read(most)
    lines = list(short_lines(stream, shown.append))
    assert lines == ["first", "", "é" * 500, "last, \ufffd and no end"]
    assert b"".join(shown) == content
    assert min(asked) > 0 and max(map(len, shown)) <= 64 << 10
