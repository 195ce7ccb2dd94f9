"""What comes with sparksplit is found in a checkout, in an installed package and in a .zip, not a stranger's."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

from sparksplit.base import shipped

MODULE = Path(shipped.__file__)
ASK = (
    "from sparksplit.base.shipped import shipped, shipped_names, shipped_text;"
    "print(shipped('models/mlp.py'), shipped_names('models'), shipped_text('models/mlp.py'))"
)


def asked(path: Path) -> str:
    """What a Python that imports sparksplit from `path` says of its models."""
    environment = {**os.environ, "PYTHONPATH": str(path)}
    answer = subprocess.run(
        [sys.executable, "-c", ASK], env=environment, cwd=path.parent, check=True, capture_output=True, text=True
    )
    return answer.stdout.strip()


def files(folder: str) -> dict[str, str]:
    """A package with this module alone, a model in `folder`, and a stranger's models beside the package."""
    return {
        "sparksplit/__init__.py": "",
        "sparksplit/base/__init__.py": "",
        "sparksplit/base/shipped.py": MODULE.read_text(),
        "models/mlp.py": "stranger",
        f"{folder}/models/mlp.py": "ours",
    }


def test_in_a_checkout() -> None:
    assert Path(shipped.shipped("conf/log4j2.properties")).is_file()
    assert shipped.shipped_names("models") == ["cnn.py", "lstm.py", "mlp.py", "tabular.py", "text.py"]
    assert shipped.shipped_text("jobs/train.py").startswith('"""For spark-submit')


def test_in_an_installed_package(tmp_path: Path) -> None:
    for name, content in files(shipped.FOLDER).items():
        file = tmp_path / "site" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    assert asked(tmp_path / "site") == f"{tmp_path}/site/{shipped.FOLDER}/models/mlp.py ['mlp.py'] ours"


def test_in_a_zip(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "ours.zip", "w") as archive:
        for name, content in files(shipped.FOLDER).items():
            archive.writestr(name, content)
    assert asked(tmp_path / "ours.zip") == f"{tmp_path}/ours.zip/{shipped.FOLDER}/models/mlp.py ['mlp.py'] ours"
