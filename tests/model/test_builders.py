import sys

import pytest

from sparksplit.base.user_functions import FunctionError
from sparksplit.model.builders import builder_source, load_builder, models


def test_the_models_that_come_with_it_have_short_names():
    assert models() == ["cnn", "lstm", "mlp", "tabular", "text"]
    for name in models():
        assert builder_source(name) is None
        assert load_builder(name, None).__name__ == "build"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "mpl",
            r"must be cnn, lstm, mlp, tabular, text, package\.module:function or path/to/file\.py:function "
            r"\(is 'mpl'\); did you mean",
        ),
        ("x", r"\(is 'x'\)$"),
        ("MLP", r"\(is 'MLP'\); did you mean 'mlp'\?"),
        ("mlp:build", r"module 'mlp' not found; did you mean 'mlp'\?"),
        ("models.mpl:build", r"module 'models\.mpl' not found; did you mean 'mlp'\?"),
        ("nothing.here:build", r"module 'nothing\.here' not found$"),
    ],
)
def test_a_model_that_is_not_there_is_told_with_those_that_are(name, message):
    with pytest.raises(FunctionError, match=message):
        builder_source(name)


def test_a_users_own_models_folder_is_the_users(tmp_path, monkeypatch):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "__init__.py").touch()
    (tmp_path / "models" / "mlp.py").write_text("def build(data): return 'mine'")
    for name in [name for name in sys.modules if name.partition(".")[0] == "models"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert builder_source("models.mlp:build") is None
    assert load_builder("models.mlp:build", None)(None) == "mine"
    assert "hidden" in load_builder("mlp", None).__code__.co_varnames
