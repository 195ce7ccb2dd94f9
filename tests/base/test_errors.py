"""Which errors of the system are the user's, and which pass."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import flight

from hdfs_io.errors import Missing, errno_of, file_error, using
from sparksplit.base.errors import InputError, Passing, RunError, UsageError, exit_status

GIVEN = {
    *("ENOENT", "ENOTDIR", "EISDIR", "EEXIST", "ENOTEMPTY", "EACCES", "EPERM"),
    *("EROFS", "ELOOP", "ENAMETOOLONG", "EINVAL", "EXDEV"),
}


@given(st.sampled_from(sorted(errno.errorcode)))
def test_a_number_means_the_same_however_it_arrives(number: int) -> None:
    """Python's own error, Arrow's with the number in its text, and one that came over Flight."""
    own = OSError(number, os.strerror(number))
    arrow = OSError(number, f"Error writing bytes to file. Detail: [errno {number}] {os.strerror(number)}")
    textual = pa.ArrowException(f"Cannot do this. Detail: [errno {number}] {os.strerror(number)}")
    remote = flight.FlightServerError(f"/spool: [Errno {number}] {os.strerror(number)}. Detail: Failed")
    kind = InputError if errno.errorcode[number] in GIVEN else Passing
    for error in (own, arrow, textual, remote):
        assert errno_of(error) == number
        found = file_error("/x/y", "cannot be written", error)
        assert type(found) is (Missing if number == errno.ENOENT else kind)
        if number == errno.ENOENT:
            assert str(found) == "/x/y: does not exist"
        else:
            assert str(found) == f"/x/y: cannot be written: {os.strerror(number)}"


@pytest.mark.parametrize(
    "name", ["ENOSPC", "EDQUOT", "EIO", "ESTALE", "ENETUNREACH", "ETIMEDOUT", "ECONNREFUSED", "EMFILE", "EFBIG"]
)
def test_what_passes_is_never_the_users(name: str) -> None:
    error = file_error("/x", "cannot be read", OSError(getattr(errno, name), "so"))
    assert isinstance(error, RunError) and not isinstance(error, UsageError)
    assert exit_status(error) == 1


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (PermissionError("user=stranger, access=WRITE"), InputError, "/x: cannot be read: user=stranger, access=WRITE"),
        (FileNotFoundError("/x"), Missing, "/x: does not exist"),
        (IsADirectoryError("/x is a folder"), InputError, "/x: cannot be read: /x is a folder"),
        (OSError("Cannot open for reading: path '/x' is a directory"), InputError, "/x: cannot be read: Cannot open"),
        (TimeoutError(), Passing, "/x: cannot be read: Connection timed out"),
        (ConnectionResetError("gone"), Passing, "/x: cannot be read: gone"),
        (OSError("something\n odd"), Passing, "/x: cannot be read: something odd"),
        (OSError(errno.EREMOTEIO, "the server's own words"), Passing, "/x: cannot be read: the server's own words"),
        (
            RuntimeError("{{node Save}} /x; No space left on device [Op:SaveV2]"),
            Passing,
            "/x: cannot be read: No space",
        ),
    ],
)
def test_errors_without_a_number_are_known_by_their_class(error: Exception, kind: type[Exception], text: str) -> None:
    found = file_error("/x", "cannot be read", error)
    assert type(found) is kind
    assert str(found).startswith(text)


def test_a_block_that_uses_a_place_raises_nothing_else() -> None:
    full = Path("/dev/full")
    with pytest.raises(RunError, match=r"^/dev/full: cannot be written: No space left on device$"):  # noqa: SIM117
        with using(str(full), "cannot be written"), full.open("wb", buffering=0) as file:
            file.write(b"x")
    with pytest.raises(ValueError, match="no OSError"), using("/x"):
        raise ValueError("no OSError")
