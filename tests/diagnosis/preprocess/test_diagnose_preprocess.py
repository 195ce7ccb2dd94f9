"""Preparations that are measured: a skewed input and an even one, on a real cluster."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from sparksplit.diagnosis.preprocess import diagnose_preprocess as diagnose_preprocess_module
from sparksplit.diagnosis.preprocess import verdict
from sparksplit.diagnosis.preprocess.diagnose_preprocess import diagnose_preprocess
from sparksplit.diagnosis.preprocess.parts import parts_of
from sparksplit.diagnosis.preprocess.preprocess_record import PreprocessDiagnosis
from sparksplit.diagnosis.preprocess.stages import Stage
from sparksplit.prepare.preprocess_config import PreprocessConfig


def files(folder: Path, rows: Sequence[int]) -> Path:
    """Gzipped CSV files of so many rows, two of which are equal in each."""
    folder.mkdir()
    for number, count in enumerate(rows):
        values = np.random.default_rng(number).integers(0, 10_000, (count, 10)) / 100
        lines = [",".join([*map(str, row), str(place % 3)]) for place, row in enumerate(values.tolist())]
        header = ",".join([*(f"x{place}" for place in range(10)), "label"])
        content = "\n".join([header, *lines, lines[0], ""])
        (folder / f"part-{number}.csv.gz").write_bytes(gzip.compress(content.encode(), 1))
    return folder


def configured(folder: Path, output: Path, **keys: object) -> PreprocessConfig:
    values = {"input": {"format": "csv", "path": str(folder), "label": "label"}, "output": str(output), **keys}
    return PreprocessConfig.model_validate(values)


@pytest.mark.slow
@pytest.mark.cluster
def test_a_skewed_input_is_told_from_an_even_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verdict, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(verdict, "NAMED", 0.0)
    monkeypatch.setattr(diagnose_preprocess_module, "is_cold", lambda *_: False)
    measured: list[Stage] = []
    monkeypatch.setattr(
        diagnose_preprocess_module, "parts_of", lambda stages, *rest: measured.extend(stages) or parts_of(stages, *rest)
    )
    skewed = files(tmp_path / "skewed", [30_000, 500, 500, 500])
    even = files(tmp_path / "even", [2000] * 4)
    output = tmp_path / "prepared" / "set"
    found = diagnose_preprocess(configured(skewed, output), 1)
    assert set(tmp_path.iterdir()) == {even, skewed}
    assert sum(part.seconds for part in found.parts) == pytest.approx(found.seconds, abs=0.01)
    by_name = {part.name: part for part in found.parts}
    assert {"open", "parse", "number", "count", "shuffle", "write", "driver", "publish"} <= set(by_name)
    assert by_name["parse"].tasks >= 4
    assert "write" in {stage.part for stage in measured if stage.shuffles}
    assert sum(stage.gc for stage in measured) > 0 and all(stage.busy > 0 for stage in measured)
    # What a busy machine makes of so small an input is not sure, but for the advice.
    trouble = next(each for each in found.troubles if "such as by Spark's repartition(4)" in each.help[0])
    assert trouble.kind in ("skew", "few") and trouble.settings == {}
    assert all(each.gain is not None and each.gain.low is None for each in found.answer.keeping)
    assert PreprocessDiagnosis.from_json(found.to_json(), "a test") == found

    control = diagnose_preprocess(configured(even, output), 0)
    assert "skew" not in [each.kind for each in control.troubles if (each.seconds or 0) > 0.1 * control.seconds]
