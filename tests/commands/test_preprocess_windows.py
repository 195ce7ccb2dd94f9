"""Series over time to windows, a forecast's training, and predictions of what comes next; on CSV and Parquet files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import sparksplit
from sparksplit import PreparedDataSet
from sparksplit.base.config import parse
from sparksplit.base.errors import ConfigError, InputError
from sparksplit.dataset.description import Windows
from sparksplit.prepare.dry_run import dry_run
from sparksplit.prepare.preprocess_config import PreprocessConfig

WINDOW, HORIZON, HOUR = 6, 3, timedelta(hours=1)
SECTION = {"window": WINDOW, "horizon": HORIZON, "by": ["station"], "order": "hour"}
STATIONS = {"north": 80, "south": 60, "tiny": 7}


def series(seed: int = 1) -> pd.DataFrame:
    """Three stations in a random order of rows: `north` without the hours 40 and 41, `south` with a null at 30."""
    generator = np.random.default_rng(seed)
    tables = []
    for number, (name, hours) in enumerate(STATIONS.items()):
        hour = [datetime(2024, 3, 1) + each * HOUR for each in range(hours)]
        load = 100.0 * number + np.arange(hours)
        tables.append(pd.DataFrame({"station": name, "hour": hour, "wind": load / 8, "load": load}))
    whole = pd.concat(tables, ignore_index=True)
    gone = (whole.station == "north") & whole.load.isin([40.0, 41.0])
    whole.loc[(whole.station == "south") & (whole.load == 130.0), "wind"] = np.nan
    return whole[~gone].iloc[generator.permutation(int((~gone).sum()))]


def write(table: pd.DataFrame, folder: Path, files: int) -> str:
    folder.mkdir()
    for part, rows in enumerate(np.array_split(np.arange(len(table)), files)):
        table.iloc[rows].to_csv(folder / f"part-{part}.csv", index=False, date_format="%Y-%m-%dT%H:%M:%S")
    return str(folder)


def prepare(rows: Any, output: str, windows: dict[str, Any] | None = None, **keys: Any) -> PreparedDataSet:
    section = {"label": "load", "windows": {**SECTION, **(windows or {})}, **keys.pop("input", {})}
    section |= {"format": "csv"} if isinstance(rows, str) else {}
    keys = {"lanes": 4, "validation": 0.2, "test": 0.2, "scaling": "standard", "scaling_by": "feature", **keys}
    return sparksplit.preprocess(rows, output, input=section, **keys)


def found(data: PreparedDataSet, split: str) -> dict[tuple[str, str], tuple[list[list[float]], list[float]]]:
    """The windows of a split, (features, label) by the station and the hour of the last row that is known."""
    if not data.manifest.splits[split].rows:
        return {}
    table = pq.read_table(f"{data.path}/{split}")
    windows = {}
    for row in table.to_pylist():
        x = np.frombuffer(row["x"], "<f4").reshape(WINDOW, 2)
        assert (row["station"], row["hour"]) not in windows
        windows[row["station"], row["hour"]] = x.tolist(), np.frombuffer(row["label"], "<f4").tolist()
    return windows


def expected() -> dict[tuple[str, str], tuple[list[list[float]], list[float]]]:
    windows = {}
    for name, own in series().sort_values("hour").groupby("station"):
        rows = list(own.itertuples())
        for start in range(len(rows) - WINDOW - HORIZON + 1):
            taken = rows[start : start + WINDOW + HORIZON]
            known, label = taken[:WINDOW], taken[WINDOW:]
            whole = taken[-1].hour - taken[0].hour == (len(taken) - 1) * HOUR
            if whole and not any(np.isnan(row.wind) for row in known):
                key = str(name), known[-1].hour.strftime("%Y-%m-%dT%H:%M:%S")
                windows[key] = [[row.wind, row.load] for row in known], [row.load for row in label]
    return windows


@pytest.mark.slow
@pytest.mark.cluster
def test_windows_are_those_of_a_loop_and_no_training_row_is_a_label_of_another_split(
    spark: SparkSession, tmp_path: Path
) -> None:
    places = [write(series(1), tmp_path / "three", 3), write(series(2), tmp_path / "one", 1)]
    one, other = (prepare(place, f"{tmp_path}/out-{number}") for number, place in enumerate(places))
    manifest = one.manifest
    checksums = [[split.checksum for split in data.manifest.splits.values()] for data in (one, other)]
    assert checksums[0] == checksums[1] and manifest.preprocessing == other.manifest.preprocessing
    assert manifest.windows == Windows(
        window=WINDOW, horizon=HORIZON, by=["station"], order="hour", label="load", step=3_600_000_000, time=True
    )
    assert manifest.tensors[0].shape == [WINDOW, 2] and manifest.tensors[0].columns == ["wind", "load"]
    assert manifest.label is not None and (manifest.label.shape, manifest.label.kind) == ([HORIZON], "number")
    splits = {name: found(one, name) for name in manifest.splits}
    every = expected()
    made = {key: window for windows in splits.values() for key, window in windows.items()}
    assert made.items() <= every.items() and all(splits.values())
    assert manifest.dependent == "windows"
    left = manifest.windows_left_out
    # 78 - 8 windows of the north that has a gap, 60 - 8 of the south with a null in six of them.
    assert (left["gaps"], left["nulls"], left["short"]) == (8, 6, 1)
    assert len(every) == 70 - 8 + 52 - 6 and len(made) == len(every) - left["cut"]
    # What is left out at the cut is what would know the next split's labels, and nothing else.
    hours: dict[str, list[tuple[set[datetime], set[datetime]]]] = {name: [] for name in splits}
    for name, windows in splits.items():
        for _, last in windows:
            end = datetime.fromisoformat(last)
            label = {end + step * HOUR for step in range(1, HORIZON + 1)}
            hours[name].append(({end - step * HOUR for step in range(WINDOW)} | label, label))
    for name, others in (("train", ("validation", "test")), ("validation", ("test",))):
        known = set().union(*(rows for rows, _ in hours[name]))
        for later in others:
            assert known.isdisjoint(set().union(*(label for _, label in hours[later])))
    assert 0 < left["cut"] <= 2 * 2 * (HORIZON - 1)
    # A dry run that has seen all rows tells the same.
    keys = {"input": {"format": "csv", "path": places[0], "label": "load", "windows": SECTION}, "output": "none"}
    told = dry_run(parse(PreprocessConfig, {**keys, "validation": 0.2, "test": 0.2}))
    counts = ", ".join(f"{name} {len(windows)}" for name, windows in splits.items())
    assert f"splits     {counts} rows" in told.splitlines()
    # One scale for each column.
    train = np.array([x for x, _ in splits["train"].values()])
    np.testing.assert_allclose(manifest.preprocessing.tensors["x"].offset, train.mean(axis=(0, 1)), rtol=1e-6)


@pytest.mark.cluster
@pytest.mark.slow
def test_what_windows_cannot_be_made_of_is_refused_with_where_it_is(spark: SparkSession, tmp_path: Path) -> None:
    table = series()
    twice = write(pd.concat([table, table.iloc[:1]]), tmp_path / "twice", 2)
    row = table.iloc[0]
    text = f"twice: several rows have station {row.station}, hour {row.hour:%Y-%m-%dT%H:%M:%S}: each series "
    with pytest.raises(InputError, match=text):
        prepare(twice, f"{tmp_path}/out")
    rows = write(table, tmp_path / "rows", 1)
    with pytest.raises(InputError, match=r"has no windows for validation: .* their labels overlap the next split"):
        prepare(rows, f"{tmp_path}/out", {"horizon": 5}, validation=0.01, test=0.2)
    with pytest.raises(InputError, match=r"has no rows to train on: 1\d\d over a gap"):
        prepare(rows, f"{tmp_path}/out", {"step": "30min"})
    with pytest.raises(ConfigError, match=r"input\.windows\.step: must be a duration such as 1h"):
        prepare(rows, f"{tmp_path}/out", {"step": 1})
    with pytest.raises(ConfigError, match=r"input\.windows\.by: .* has no column 'place'"):
        prepare(rows, f"{tmp_path}/out", {"by": ["place"]})
    with pytest.raises(ConfigError, match=r"input\.label: 'hour' cannot be the label: it is in input\.keep"):
        prepare(rows, f"{tmp_path}/out", input={"label": "hour"})
    with pytest.raises(ConfigError, match=r"input\.weight: must be left out with input\.windows"):
        prepare(rows, f"{tmp_path}/out", input={"weight": "wind"})
    calm = [wind if wind != 1.0 else "calm" for wind in table.wind]
    broken = write(table.assign(wind=calm), tmp_path / "broken", 1)
    left = prepare(broken, f"{tmp_path}/out", input={"max_bad_rows": 3}).manifest
    assert sum(left.bad_rows.values()) == 1 and left.windows_left_out["gaps"] > 8


@pytest.mark.slow
def test_a_forecast_from_raw_rows_to_what_follows_them(fed: None, spark: SparkSession, tmp_path: Path) -> None:
    table = series()
    hours = (table.hour - datetime(2024, 3, 1)) // HOUR
    rows = spark.createDataFrame(table.assign(hour=hours))
    data = prepare(rows, f"{tmp_path}/data", {"step": 1}, input={"missing": "mean"})
    assert data.manifest.windows_left_out["nulls"] == 0
    model, optimizer = {"build": "lstm", "params": {"units": [8]}}, {"name": "adam", "learning_rate": 0.01}
    run = sparksplit.train(
        data, f"{tmp_path}/run", model=model, optimizer=optimizer, epochs=2, batch_size=16, nodes=2, strategy="batch"
    )
    assert np.isfinite(run.history["validation_mean_absolute_error"]).all()
    prepared = sparksplit.predict(run, data, f"{tmp_path}/prepared", split=["train", "validation", "test"])
    raw = sparksplit.predict(run, rows, f"{tmp_path}/raw", input={"label": "load", "missing": "mean"})
    one, other = (_predictions(each.path) for each in (prepared, raw))
    assert one.keys() <= other.keys() and len(other) == len(one) + data.manifest.windows_left_out["cut"]
    # In batches of other rows TensorFlow rounds otherwise.
    np.testing.assert_allclose([one[key] for key in one], [other[key] for key in one], rtol=1e-4, atol=1e-4)
    assert raw.metrics is not None and raw.metrics["mean_absolute_error"] > 0
    later = sparksplit.predict(run, rows, f"{tmp_path}/later", input={"label": None, "missing": "mean"})
    assert later.metrics is None
    forecast = _predictions(later.path)
    assert {key: len(values) for key, values in forecast.items()} == {
        (name, str(count - 1)): HORIZON for name, count in STATIONS.items()
    }
    with pytest.raises(InputError, match="has no column 'hour', which the model's windows need"):
        sparksplit.predict(run, rows.drop("hour"), f"{tmp_path}/without")
    with pytest.raises(ConfigError, match=r"input\.label: must be 'load', which the model predicts, or null"):
        sparksplit.predict(run, rows, f"{tmp_path}/without", input={"label": "wind"})


def _predictions(folder: str) -> dict[tuple[str, str], Sequence[float]]:
    table = pq.read_table(f"{folder}/predictions").to_pylist()
    assert len({(row["station"], row["hour"]) for row in table}) == len(table)
    return {(row["station"], row["hour"]): row["prediction"] for row in table}
