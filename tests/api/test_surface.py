"""What `import sparksplit` gives: these names and no others, and none of them before it is used."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import PurePosixPath

import pandas as pd
import pytest

import sparksplit
from sparksplit import ConfigError, InputError
from sparksplit.api import calls, functions, results
from sparksplit.comparison.answer.words import words
from sparksplit.comparison.content import Results
from sparksplit.dataset.prepared import PreparedDataSet
from tests.comparison import sample

PARTS = {"BatchSplit", "EpochSplit", "LaneSplit", "LocalSync", "RoundSync", "Split", "StepSync", "Strategy", "Sync"}
RESULTS = {"Comparison", "Plan", "Predictions", "PreparedDataSet", "Search", "TrainedRun"}
ERRORS = {"ConfigError", "InputError", "NodeFailed", "OutputInUse", "RunError", "SparksplitError", "UsageError"}


def test_the_names_are_these() -> None:
    functions = {"compare", "fit", "plan", "predict", "preprocess", "search", "train"}
    assert set(sparksplit.__all__) == functions | PARTS | RESULTS | ERRORS | {"DataDescription"}
    assert sparksplit.__all__ == sorted(sparksplit.__all__)
    for name in sparksplit.__all__:
        found = getattr(sparksplit, name)
        assert found.__name__ == name and found.__doc__
    assert set(sparksplit.__all__) <= set(dir(sparksplit))
    with pytest.raises(AttributeError, match="module 'sparksplit' has no attribute 'trian'"):
        getattr(sparksplit, "trian")  # noqa: B009


def test_every_exception_has_its_place_in_the_tree_of_the_docstring() -> None:
    assert sparksplit.__doc__ is not None
    for name in ERRORS - {"SparksplitError"}:
        line = next(line for line in sparksplit.__doc__.splitlines() if f"- {name} " in line)
        depth = line.index("- ")
        above = sparksplit.__doc__[: sparksplit.__doc__.index(f"- {name} ")].splitlines()
        parent = next(line for line in reversed(above) if line.strip(" |") and 0 <= _depth(line) < depth)
        assert getattr(sparksplit, name).__mro__[1].__name__ == parent.split("- ")[-1].split()[0]


def _depth(line: str) -> int:
    return line.index("- ") if "- " in line else 0


def test_yarn_is_shown_each_call_that_has_succeeded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also a call that needs no Spark, as when it finds a finished run."""
    done: list[str] = []
    monkeypatch.setattr(calls, "satisfy_yarn", lambda: done.append("seen"))
    monkeypatch.setattr(functions.planning, "plan", lambda config: done.append("planned"))
    sparksplit.plan("data", "run")
    with pytest.raises(ConfigError):
        sparksplit.plan("data", "run", epoch=3)
    assert done == ["planned", "seen"]
    for name in ("compare", "fit", "plan", "predict", "preprocess", "search", "train"):
        assert getattr(sparksplit, name).__wrapped__.__name__ == name


def test_importing_it_imports_nothing_else() -> None:
    code = "import sys, sparksplit; print([name for name in sys.modules if name.split('.')[0] in {heavy}])"
    heavy = "('pyspark', 'tensorflow', 'keras', 'pyarrow', 'pandas', 'numpy', 'hdfs_io')"
    done = subprocess.run(
        [sys.executable, "-c", code.replace("{heavy}", heavy)], check=True, capture_output=True, text=True
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: sparksplit.preprocess([1, 2], "x"), r"rows: must be a path or a DataFrame of Spark \(is list\)"),
        (lambda: sparksplit.preprocess(pd.DataFrame(), "x"), r"rows: .* of pandas: spark\.createDataFrame"),
        (lambda: sparksplit.train("d", "x", frame="rows"), r"frame: must be a DataFrame of Spark \(is str\)"),
        (lambda: sparksplit.preprocess("raw", "x", lane=3), r"lane: unknown key; did you mean 'lanes'\?"),
        (lambda: sparksplit.train(3, "x"), r"data: must be a prepared data set or its folder \(is int\)"),
        (lambda: sparksplit.train(["d", 3], "x"), r"data: must be a prepared data set or its folder \(is int\)"),
        (lambda: sparksplit.train([], "x"), r"data: must have"),
        (lambda: sparksplit.train("d", "x", nodes=0), r"nodes"),
        (lambda: sparksplit.train("d", PurePosixPath("x")), r"output: must be text \(is PurePosixPath\('x'\)\)"),
        (lambda: sparksplit.train("d", "x", **{"sync.every": 0}), r"sync\.every: must be"),
        (lambda: sparksplit.compare("d", "x", seeds="5"), r'seeds: must be a whole number \(is "5"\)'),
        (lambda: sparksplit.predict("m", None, "x"), r"rows: must be a path or a DataFrame of Spark \(is NoneType\)"),
    ],
)
def test_what_is_wrong_is_told_by_its_key(call, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ConfigError, match=message):
        call()


def test_a_notebook_shows_one_line_of_a_run_and_the_answer_of_a_comparison() -> None:
    assert repr(results.TrainedRun("runs/1", record=None)) == "TrainedRun(path='runs/1')"  # type: ignore[arg-type]
    content = replace(Results.from_json(sample.results(1), "a test"), within="compare.")
    shown = repr(results.Comparison("compared/1", content.answer, content.to_json())).splitlines()
    assert shown == [*words(content), "Report: compared/1/report.html"]
    # As the comparison of quickstart says it. The prefix was missing.
    assert "--set compare.seeds=5" in "\n".join(shown)


@pytest.mark.parametrize(
    "kind", [results.TrainedRun, results.Comparison, results.Search, results.Predictions, PreparedDataSet]
)
def test_nothing_can_be_opened_where_nothing_is(tmp_path, kind) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError, match="_SUCCESS"):
        kind.open(f"{tmp_path}")
