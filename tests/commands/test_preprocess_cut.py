"""Each way to cut, unseen labels and bad rows through `preprocess`, on Parquet files that Spark did not write."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import sparksplit
from sparksplit import PreparedDataSet
from sparksplit.base.errors import ConfigError, InputError
from sparksplit.dataset import row_ids
from sparksplit.dataset.description import UNKNOWN

ROWS, DAYS, CUSTOMERS = 1200, 40, 60
COLUMNS = ["x", "kind"]


def table(seed: int) -> pa.Table:
    """Rows in a random order, the same whatever the seed: equal features with other labels and on other days, classes
    from 1 to 900 rows."""
    number = np.arange(ROWS)
    kinds = np.repeat(["a", "b", "c", "d", "lone"], [900, 200, 90, 9, 1])
    whole = pa.table(
        {
            "id": [f"r{each}" for each in number],
            "x": pa.array((number % 300).astype(np.float64)),
            "kind": pa.array(np.random.default_rng(9).permutation(kinds)),
            "customer": pa.array(number % CUSTOMERS),
            "country": pa.array(np.where(number % 2, "de", "fr")),
            "day": pa.array((number % DAYS).astype("datetime64[D]") + np.timedelta64(19_800, "D")),
            "split": pa.array(np.array(["train", "Valid", "TEST"])[np.minimum(number % 10 // 4, 2)]),
        }
    )
    return whole.take(pa.array(np.random.default_rng(seed).permutation(ROWS)))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Two folders with the same rows: in three files, and in one in another order."""
    places = [tmp_path_factory.mktemp(name) for name in ("three", "one")]
    rows = table(1)
    for part in range(3):
        pq.write_table(rows.slice(part * 500, 500), places[0] / f"part-{part}.parquet")
    pq.write_table(table(2), places[1] / "rows.parquet")
    yield [f"{place}" for place in places]


class Prepared:
    """What became of the rows. split: of each row, by its id."""

    def __init__(self, data: PreparedDataSet) -> None:
        self.data, self.manifest = data, data.manifest
        self.split: dict[str, str] = {}
        for name, facts in data.manifest.splits.items():
            found = pq.read_table(f"{data.path}/{name}").column("id").to_pylist() if facts.rows else []
            assert len(found) == facts.rows and self.split.keys().isdisjoint(found)
            self.split |= dict.fromkeys(found, name)

    def of(self, name: str) -> np.ndarray:
        """The numbers of a split's rows, ascending."""
        return np.sort([int(row[1:]) for row, split in self.split.items() if split == name])


def prepare(rows: str, folder: Path, dropped: tuple[str, ...] = (), **keys: Any) -> Prepared:
    columns = [name for name in ("customer", "country", "day", "split") if name not in dropped]
    section = {"format": "parquet", "label": "kind", "keep": ["id", *columns], **keys.pop("input", {})}
    keys = {"lanes": 4, "validation": 0.1, "test": 0.2, "unseen_labels": "unknown", **keys}
    return Prepared(sparksplit.preprocess(rows, f"{folder}/out", input=section, **keys))


def prepare_both(files: list[str], tmp_path: Path, **keys: Any) -> Prepared:
    """Of both folders, which give the same rows with the same ids in the same splits."""
    one, other = (prepare(rows, tmp_path / f"{number}", **keys) for number, rows in enumerate(files))
    assert one.split == other.split and len(one.split) == ROWS
    assert [facts.checksum for facts in one.manifest.splits.values()] == [
        facts.checksum for facts in other.manifest.splits.values()
    ]
    return one


def disjoint(found: Prepared, groups: np.ndarray) -> bool:
    parts = [set(groups[found.of(name)]) for name in ("train", "validation", "test")]
    return sum(map(len, parts)) == len(set().union(*parts)) and all(parts)


@pytest.mark.slow
def test_by_features_equal_ones_stay_together_whatever_they_weigh(spark: SparkSession, tmp_path: Path) -> None:
    """Rows that differ in their weights alone keep ids, splits and weights in another order of rows and files."""
    number = np.arange(600)
    whole = pa.table({"x": number % 80 / 4, "y": number % 3, "worth": (number % 7 + 1).astype(np.float32)})
    found: list[dict[int, tuple[str, float, bytes]]] = []
    digests = set()
    for order in (number, number[::-1]):
        folder = tmp_path / f"rows{len(found)}"
        folder.mkdir()
        for part, rows in enumerate(np.array_split(order, 1 + 2 * len(found))):
            pq.write_table(whole.take(pa.array(rows)), folder / f"{part}.parquet")
        section = {"format": "parquet", "label": "y", "weight": "worth"}
        keys: dict[str, Any] = {"cut": {"by": "features"}, "lanes": 4, "validation": 0.1, "test": 0.2}
        data = sparksplit.preprocess(f"{folder}", f"{tmp_path}/out{len(found)}", input=section, **keys)
        splits = {name: pq.read_table(f"{data.path}/{name}").to_pylist() for name in data.manifest.splits}
        for name, rows in splits.items():
            ids = np.array([row["row_id"] for row in rows], np.int64).view(np.uint64)
            weights = np.frombuffer(b"".join(row["weight"] for row in rows), np.float32)
            assert data.manifest.splits[name].weights_checksum == row_ids.weights_checksum(ids, weights)
        of_split = [(name, row) for name, rows in splits.items() for row in rows]
        found.append({row["row_id"]: (name, row["weight"], row["x"]) for name, row in of_split})
        digests.add(data.digest)
    assert found[0] == found[1] and len(found[0]) == 600 and len(digests) == 1
    assert {weight for _, weight, _ in found[0].values()} == {np.float32(value).tobytes() for value in range(1, 8)}
    parts = [{x for name, _, x in found[0].values() if name == split} for split in ("train", "validation", "test")]
    assert sum(map(len, parts)) == len(set().union(*parts)) == 80 and all(parts)


@pytest.mark.slow
def test_by_key_customers_stay_together_and_are_no_feature(
    spark: SparkSession, files: list[str], tmp_path: Path
) -> None:
    cut = {"by": "key", "columns": ["customer", -3]}  # with the country, which each customer has one of
    found = prepare(files[1], tmp_path, ("customer", "country"), cut=cut)
    assert len(found.split) == ROWS and disjoint(found, np.arange(ROWS) % CUSTOMERS)
    assert found.manifest.keep == ["id", "day", "split"] and found.manifest.tensors[0].columns == ["x"]


@pytest.mark.slow
def test_by_time_the_latest_rows_are_test_also_where_only_they_have_their_labels(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A long tail: each row of the last six days has a label of its own."""
    rows = table(1).to_pandas()
    tail = rows["day"] >= rows["day"].max() - np.timedelta64(5, "D")
    rows.loc[tail, "kind"] = [f"only {number}" for number in range(tail.sum())]
    (tmp_path / "tail").mkdir()
    pq.write_table(pa.Table.from_pandas(rows), tmp_path / "tail" / "rows.parquet")
    raw, day = f"{tmp_path}/tail", np.arange(ROWS) % DAYS

    unknown = prepare(raw, tmp_path / "unknown", cut={"by": "time", "column": "day"})
    assert len(unknown.split) == ROWS and set(day[unknown.of("test")]) == set(range(32, 40))
    assert set(day[unknown.of("validation")]) == set(range(28, 32))
    label, splits = unknown.manifest.label, unknown.manifest.splits
    assert label is not None and label.classes is not None and label.classes[-1] == UNKNOWN and label.unknown
    assert [facts.label_counts[-1] for facts in splits.values() if facts.label_counts] == [0, 0, tail.sum()]
    assert unknown.manifest.unseen_labels == {"test": tail.sum()}

    # From a day on, which is neither kept nor a feature, and without those rows.
    dropped = Prepared(
        sparksplit.preprocess(
            raw,
            f"{tmp_path}/dated",
            input={"format": "parquet", "label": "kind", "keep": ["id", "customer", "country", "split"]},
            cut={"by": "time", "column": "day", "test_from": str(np.datetime64("1970-01-01") + 19_833)},
            unseen_labels="drop",
        )
    )
    assert dropped.of("test").tolist() == np.flatnonzero(day == 33).tolist() and not len(dropped.of("validation"))
    assert dropped.of("train").tolist() == np.flatnonzero(day < 33).tolist()
    assert dropped.manifest.label is not None and dropped.manifest.label.classes == label.classes[:-1]
    assert dropped.manifest.tensors[0].columns == ["x"]
    assert dropped.manifest.unseen_labels == unknown.manifest.unseen_labels


@pytest.mark.slow
def test_by_column_rows_are_where_they_were_put_and_bad_rows_are_counted_and_kept_up_to_a_share_of_all(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = table(1).to_pandas()
    rows.loc[range(24), "x"] = [np.nan] * 20 + [np.inf] * 4
    rows.loc[[30, 31], "split"] = ["holdout", None]
    good = np.sort([int(row[1:]) for row in rows["id"].drop([*range(24), 30, 31])])
    (tmp_path / "raw").mkdir()
    for part in range(2):
        pq.write_table(pa.Table.from_pandas(rows[part * 600 : part * 600 + 600]), tmp_path / "raw" / f"{part}.parquet")
    keys: dict[str, Any] = {"cut": {"by": "column", "column": "split"}, "validation": 0.0, "test": 0.0}
    found = prepare(f"{tmp_path}/raw", tmp_path / "some", **keys, input={"max_bad_fraction": 0.022})
    assert found.of("test").tolist() == [row for row in good if row % 10 >= 8]
    assert found.of("validation").tolist() == [row for row in good if 4 <= row % 10 < 8]
    assert len(found.split) == ROWS - 26
    subject = "column 'split' of the cut"
    assert found.manifest.bad_rows == {
        "column 'x': is null": 20,
        "column 'x': not finite": 4,
        f"{subject}: is null": 1,
        f"{subject}: not train, validation, test, true or false": 1,
    }
    kept = pq.read_table(f"{found.data.path}/bad_rows").to_pylist()
    assert len(kept) == 26 and all(row["path"] == f"{tmp_path}/raw/0.parquet" for row in kept)
    reasons = {row["reason"] for row in kept}
    assert reasons > {"column 'x': is null; input.missing: mean fills missing values", "column 'x': inf is not finite"}
    with pytest.raises(
        InputError,
        match=r"0\.parquet: a row: .*first of 26 bad rows, most often: .*is null, 20 rows; .*0\.021 of 1,200 rows\)$",
    ):
        prepare(f"{tmp_path}/raw", tmp_path / "none", **keys, input={"max_bad_fraction": 0.021})
    assert not (tmp_path / "none" / "out").exists()


@pytest.mark.slow
def test_stratified_every_class_has_its_share(spark: SparkSession, files: list[str], tmp_path: Path) -> None:
    found = prepare_both(files, tmp_path, cut={"stratify": True}, unseen_labels="error")
    assert found.manifest.label is not None and found.manifest.label.classes == ["a", "b", "c", "d", "lone"]
    counts = {name: facts.label_counts for name, facts in found.manifest.splits.items()}
    assert counts == {"train": [630, 140, 63, 6, 1], "validation": [90, 20, 9, 1, 0], "test": [180, 40, 18, 2, 0]}


def test_a_column_to_cut_by_that_is_not_there_is_named(spark: SparkSession, files: list[str], tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cut\.columns: .*has no column 'custumer'.*customer"):
        prepare(files[0], tmp_path, cut={"by": "key", "columns": ["custumer"]})
    with pytest.raises(ConfigError, match=r"cut\.column: names the label"):
        prepare(files[0], tmp_path, cut={"by": "column", "column": "kind"}, validation=0.0, test=0.0)
    assert list(tmp_path.iterdir()) == []
