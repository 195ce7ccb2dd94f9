"""The user's functions as bytes, for processes that cannot import their modules."""

import subprocess
import sys
import threading

import pytest

from sparksplit.base.pickles import is_users, pickled, unpickled


def test_which_modules_are_the_users():
    assert is_users("__main__") and is_users(__name__)
    assert not any(map(is_users, ("keras", "keras.layers", "json", "sparksplit", "hdfs_io.disk", "builtins", "gone")))


def test_a_users_module_travels_with_its_functions(tmp_path):
    """The other process can import neither this module nor the test folder."""
    (tmp_path / "f").write_bytes(pickled(borrowed))
    program = (
        "import pickle, sys; sys.path[:] = [p for p in sys.path if p]\nprint(pickle.load(open(sys.argv[1], 'rb'))(3))"
    )
    found = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "f")], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert found.stdout == "13\n", found.stderr
    assert unpickled(pickled(borrowed))(3) == 13


def borrowed(x):
    return x + TEN


TEN = 10


def test_what_only_this_process_has_cannot_be_pickled():
    with pytest.raises(TypeError, match="lock"):
        pickled(threading.Lock())
