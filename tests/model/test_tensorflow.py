"""What a node's interpreter imports with TensorFlow."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import sys

import pytest
from sparksplit.model.tensorflow import import_tensorflow
tf = import_tensorflow()
assert tf is sys.modules["tensorflow"] and "keras" in sys.modules
assert not {"matplotlib", "pandas", "scipy", "sklearn"} & set(sys.modules)
import matplotlib, pyarrow
assert list(pyarrow.table({"a": [1]}).to_pandas()["a"]) == [1]
import scipy.stats
assert import_tensorflow() is tf and sys.modules["matplotlib"] is matplotlib
"""


@pytest.mark.slow
def test_keras_brings_no_libraries_that_nodes_do_not_need_and_a_user_can_still_import_them() -> None:
    subprocess.run([sys.executable, "-c", CODE], check=True)
