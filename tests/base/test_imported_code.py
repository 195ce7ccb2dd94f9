"""The user's own modules that a function imports when it runs."""

import importlib
import sys
import zipfile

import pytest

from sparksplit.base.code_identity import UnknownValueError, identity_of
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


def test_a_module_in_an_archive_counts_with_its_text(tmp_path, monkeypatch):
    contents = []
    for factor in (2, 3):
        archive = tmp_path / f"{factor}.zip"
        with zipfile.ZipFile(archive, "w") as file:
            file.writestr("own_zipped.py", f"def decay(): return {factor}")
        with monkeypatch.context() as patch:
            patch.syspath_prepend(str(archive))
            contents.append(imported("import own_zipped", None))
            assert importlib.import_module("own_zipped").decay() == factor
            assert imported("import own_zipped", None) == contents[-1]
            del sys.modules["own_zipped"]
    assert contents[0] != contents[1] and [name for name, _ in contents[0]] == ["own_zipped"]


def test_a_module_whose_text_is_gone_is_named(tmp_path, monkeypatch):
    (tmp_path / "own_gone.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.import_module("own_gone")
    (tmp_path / "own_gone.py").unlink()

    def function():
        import own_gone  # noqa: F401

    with pytest.raises(UnknownValueError, match=r"^function imports a module whose text cannot be read: .*own_gone.py"):
        identity_of(function)
    del sys.modules["own_gone"]


@pytest.mark.parametrize(
    "text", ["import json, numpy.linalg", "from keras import layers", "import sparksplit.base", "from . import sub"]
)
def test_installed_and_unknown_modules_count_by_their_names(text):
    assert imported(text + "\nimport module_of_nobody", None) == []
