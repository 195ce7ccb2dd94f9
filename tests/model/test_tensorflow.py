"""What a node's interpreter imports with TensorFlow."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
from sparksplit.model.tensorflow import import_tensorflow
tf = import_tensorflow()
assert tf is sys.modules["tensorflow"] and "keras" in sys.modules
assert not {"matplotlib", "sklearn"} & set(sys.modules)
import matplotlib
assert import_tensorflow() is tf and sys.modules["matplotlib"] is matplotlib
"""


def test_keras_brings_neither_pictures_nor_scikit_learn_and_a_user_can_still_import_them() -> None:
    subprocess.run([sys.executable, "-c", CODE], check=True)
