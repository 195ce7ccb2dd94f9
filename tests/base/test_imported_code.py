"""The user's own modules that a function imports when it runs."""

import sys

import pytest

from sparksplit.base.code_identity import identity_of
from sparksplit.base.imported_code import imported

FUNCTIONS = """
def whole(): import own_lib; return own_lib.decay()
def renamed(): import own_lib as lib; return lib.decay()
def name(): from own_lib import decay; return decay()
def through(): from own_outer import decay; return decay()
def inside(): import own_pack.deep.sub; return own_pack.deep.sub.decay()
def submodule(): from own_pack.deep import sub; return sub.decay()
class Callback:
    def on_epoch_end(self): from own_lib import decay; return decay()
"""
NAMES = ["whole", "renamed", "name", "through", "inside", "submodule", "Callback"]


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Writes the modules into a new folder, where this process finds them. Returns the functions."""

    def write(folder, factor=2):
        deep = tmp_path / folder / "own_pack" / "deep"
        deep.mkdir(parents=True)
        for package in (deep, deep.parent):
            (package / "__init__.py").write_text("")
        decay = f"def decay(): return {factor}\n"
        (deep / "base.py").write_text(decay)
        (deep / "sub.py").write_text("from .base import decay\n")
        (tmp_path / folder / "own_lib.py").write_text(decay)
        (tmp_path / folder / "own_outer.py").write_text(
            "def decay():\n    import own_lib\n    return own_lib.decay()\n"
        )
        program = tmp_path / folder / "program.py"
        program.write_text(FUNCTIONS)
        monkeypatch.syspath_prepend(str(tmp_path / folder))
        names = {"__name__": "__main__"}
        exec(compile(FUNCTIONS, str(program), "exec"), names)
        return {name: names[name] for name in NAMES}

    return write


def test_what_a_function_imports_counts_with_its_text(written):
    first, again, other = (
        {name: identity_of(function) for name, function in written(folder, factor).items()}
        for folder, factor in (("first", 2), ("again", 2), ("other", 3))
    )
    assert first == again
    assert all(first[name] != other[name] for name in NAMES)


def test_modules_with_their_packages_are_found_without_importing_them(written):
    written("first")
    found = imported("def f():\n    from own_pack.deep import sub\n    import own_outer, numpy, sparksplit", None)
    expected = ["own_lib", "own_outer", "own_pack", "own_pack.deep", "own_pack.deep.base", "own_pack.deep.sub"]
    assert [name for name, _ in found] == expected
    assert not any(name.startswith("own_") for name in sys.modules)
    assert [name for name, _ in imported("from . import sub", "own_pack.deep")] == expected[2:]


@pytest.mark.parametrize(
    "text", ["import json, numpy.linalg", "from keras import layers", "import sparksplit.base", "from . import sub"]
)
def test_installed_and_unknown_modules_count_by_their_names(text):
    assert imported(text + "\nimport module_of_nobody", None) == []
