"""What a node's interpreter imports with TensorFlow, and with its first rows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sparksplit.dataset.arrays import from_arrays
from sparksplit.model.tensorflow import be_quiet

CODE = """
import sys

import pytest
from sparksplit.model.tensorflow import import_tensorflow
tf = import_tensorflow()
assert tf is sys.modules["tensorflow"] and "keras" in sys.modules
assert not {"IPython", "matplotlib", "pandas", "scipy", "sklearn"} & set(sys.modules)
from sparksplit.dataset.joined import open_joined
split = open_joined(sys.argv[1], verify=False).split("train")
assert len(split.reader().read(0, 0).row_ids) == split.lane_rows[0] > 0
assert not {"pandas", "pyarrow.dataset"} & set(sys.modules)
import matplotlib, pyarrow
assert list(pyarrow.table({"a": [1]}).to_pandas()["a"]) == [1]
import scipy.stats
assert import_tensorflow() is tf and sys.modules["matplotlib"] is matplotlib
"""


@pytest.mark.slow
def test_a_node_imports_no_libraries_that_it_does_not_need_and_a_user_can_still_import_them(tmp_path: Path) -> None:
    rows = np.arange(8, dtype=np.float32)[:, None]
    from_arrays(f"{tmp_path}/data", {"train": (rows, np.arange(8) % 2)}, lanes=2)
    subprocess.run([sys.executable, "-c", CODE, f"{tmp_path}/data"], check=True)


def test_errors_are_logged_where_there_is_a_gpu_or_the_user_wants_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "gpu").touch()
    for name, level in (("gpu", "2"), ("none", "3")):
        monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
        be_quiet([f"{tmp_path}/{name}", f"{tmp_path}/other"])
        assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == level
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "0")
    be_quiet([])
    assert os.environ["TF_CPP_MIN_LOG_LEVEL"] == "0"
