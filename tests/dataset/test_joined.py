"""Several prepared data sets read as one: every row of all of them once, in an order that their names do not change."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.base.errors import InputError
from sparksplit.dataset import row_ids
from sparksplit.dataset.arrays import from_arrays
from sparksplit.dataset.description import Windows
from sparksplit.dataset.joined import JoinedDataSet, open_joined, pieces
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.rows import order
from sparksplit.rows.feed import Feed
from sparksplit.rows.ledger import Entry

LANES = 4


def day(path: Path, first: int, rows: int, **settings: Any) -> PreparedDataSet:
    """Rows that name themselves: first, first + 1, ..."""
    x = np.arange(first, first + rows, dtype=np.int32).reshape(-1, 1) * np.array([[1, 10]], np.int32)
    splits = {"train": (x, x[:, 0] % 3), "test": (x[: rows // 5] + 500_000, x[: rows // 5, 0] % 3)}
    return from_arrays(f"{path}", splits, **{"lanes": LANES, "block_size": 1024, "classes": 3, **settings})


@pytest.fixture(scope="module")
def days(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three days of 700, 90 and 411 rows, in blocks of 42; the second has some of the first one's rows again."""
    folder = tmp_path_factory.mktemp("days")
    for name, first, rows in (("ds=1", 0, 700), ("ds=2", 650, 90), ("ds=3", 2000, 411)):
        assert day(folder / name, first, rows, file_size=3000).manifest.block_rows < 90 // LANES * 3
    return folder


def everything(data: PreparedDataSet, split: str = "train") -> list[Any]:
    with data.split(split).reader() as reader:
        return [
            (lane, reader.read(lane, block))
            for lane in range(data.manifest.lanes)
            for block in range(data.manifest.blocks(split, lane))
        ]


def numbers(data: PreparedDataSet, split: str = "train") -> list[int]:
    return [number for _, block in everything(data, split) for number in block.tensors["x"][:, 0].tolist()]


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), st.integers(1, 9))
def test_every_row_of_a_lane_is_in_one_block_and_all_but_the_last_are_full(rows: list[int], block_rows: int) -> None:
    total, seen = sum(rows), []
    for block in range(-(-total // block_rows)):
        found = pieces(np.array(rows, np.int64), block_rows, block)
        size = sum(piece.stop - piece.start for piece in found)
        assert size == min(block_rows, total - block * block_rows)
        assert all(0 <= piece.start < piece.stop <= block_rows for piece in found)
        if block < sum(each // block_rows for each in rows):
            assert len(found) == 1  # a full block is read as it is
        for piece in found:
            start = piece.block * block_rows
            seen += [(piece.part, start + row) for row in range(piece.start, piece.stop)]
    assert sorted(seen) == [(part, row) for part, count in enumerate(rows) for row in range(count)]
    assert pieces(np.array(rows, np.int64), block_rows, -(-total // block_rows)) == []


def test_all_rows_of_all_days_are_there(days: Path) -> None:
    data = open_joined(f"{days}/ds=*")
    assert data.paths == sorted(data.paths, key=lambda path: PreparedDataSet.open(path).digest)
    assert {Path(path).name for path in data.paths} == {"ds=1", "ds=2", "ds=3"}
    wanted = [*range(700), *range(650, 740), *range(2000, 2411)]
    assert sorted(numbers(data)) == sorted(wanted)
    split = data.manifest.splits["train"]
    ids = np.concatenate([block.row_ids for _, block in everything(data)])
    assert split.rows == sum(split.lane_rows) == len(wanted) and split.checksum == row_ids.row_checksum(ids)
    assert len(np.unique(ids)) == len(wanted) - 50  # the rows that two days have
    assert split.label_counts == np.bincount([number % 3 for number in wanted]).tolist()
    x = np.array([[number, number * 10] for number in wanted], np.float64)
    found = split.statistics["x"]
    assert (found.min, found.max) == (x.min(), x.max())
    assert (found.mean, found.std) == pytest.approx((x.mean(), x.std()))
    for lane, block in everything(data):
        assert (row_ids.lane_of(block.row_ids, LANES) == lane).all()
        assert (block.label == block.tensors["x"][:, 0] % 3).all()
    assert len(numbers(data, "test")) == 140 + 18 + 82 and data.manifest.splits["validation"].rows == 0
    with data.split("train").reader() as reader, pytest.raises(IndexError):
        reader.read(0, data.manifest.blocks("train", 0))
    assert len(data.files("train")) == split.files


def test_neither_names_nor_places_change_the_order(days: Path, tmp_path: Path) -> None:
    data = open_joined([f"{days}/ds=3", f"{days}/ds=1", f"{days}/ds=2"])
    shutil.copytree(days / "ds=1", tmp_path / "z")
    other = open_joined([f"{tmp_path}/z", f"{days}/ds={{2,3}}"])
    assert numbers(data) == numbers(other) and data.digest == other.digest
    assert numbers(pickle.loads(pickle.dumps(data))) == numbers(data)
    fewer = open_joined(f"{days}/ds=[12]")
    assert fewer.digest not in (data.digest, PreparedDataSet.open(f"{days}/ds=1").digest)


def test_one_folder_is_itself(days: Path) -> None:
    one = open_joined([f"{days}/ds=[1]"])
    assert not isinstance(one, JoinedDataSet)
    assert (one.path, one.paths) == (f"{days}/ds=1", [f"{days}/ds=1"])
    assert one.digest == PreparedDataSet.open(f"{days}/ds=1").digest


@pytest.mark.parametrize("cache", [0, 1 << 30], ids=["streamed", "cached"])
@pytest.mark.parametrize("nodes", [1, 2, 3])
def test_every_number_of_nodes_trains_the_same_mini_batches_and_the_ledger_is_exact(
    days: Path, nodes: int, cache: int
) -> None:
    data = open_joined(f"{days}/ds=*")
    split, seen = data.manifest.splits["train"], Entry()
    batches: dict[int, list[int]] = {}
    for rank in range(nodes):
        own = order.owned_lanes(LANES, rank, nodes)
        feed = Feed(data.split("train"), own, batch_size=50, seed=3, window=2, cache=cache)
        for chunk in feed.epoch(1):
            seen = seen + chunk.seen
            for update in range(chunk.updates):
                share = chunk.tensors[0][chunk.offsets[update] : chunk.offsets[update + 1], 0]
                batches.setdefault(chunk.first + update, []).extend(share.tolist())
        feed.close()
    assert seen == Entry(split.rows, split.checksum)
    feed = Feed(data.split("train"), order.owned_lanes(LANES, 0, 1), batch_size=50, seed=3, window=2)
    whole = [
        sorted(chunk.tensors[0][chunk.offsets[update] : chunk.offsets[update + 1], 0].tolist())
        for chunk in feed.epoch(1)
        for update in range(chunk.updates)
    ]
    feed.close()
    assert [sorted(batches[update]) for update in sorted(batches)] == whole


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"lanes": 5}, "has 5 lanes, {one} has 4; prepare both with the same `lanes`"),
        ({"block_size": 2048}, "has 85 rows in a block, {one} has 42; prepare both with the same `block_size`"),
        ({"classes": 4}, "differs from {one} in its labels; prepare it with `fitted: {one}`"),
        ({"scaling": "standard"}, "differs from {one} in its fitted numbers; prepare it with `fitted: {one}`"),
    ],
)
def test_what_differs_is_named(tmp_path: Path, settings: dict[str, Any], problem: str) -> None:
    day(tmp_path / "a", 0, 100)
    day(tmp_path / "b", 100, 100, **settings)
    with pytest.raises(InputError) as raised:
        open_joined([f"{tmp_path}/a", f"{tmp_path}/b"])
    assert str(raised.value) == f"{tmp_path}/b: {problem.format(one=f'{tmp_path}/a')}"


def test_rows_that_differ_in_weights_alone_have_one_order_whatever_the_folders_are_called(tmp_path: Path) -> None:
    x, label = np.zeros((40, 2), np.float32), np.arange(40) % 2
    for name, weight in (("a", 1), ("b", 2), ("z", 1)):
        tensors = {"x": x, "weight": np.full(40, weight, np.float32)}
        from_arrays(f"{tmp_path}/{name}", {"train": (tensors, label)}, lanes=LANES)
    one, other = open_joined([f"{tmp_path}/a", f"{tmp_path}/b"]), open_joined([f"{tmp_path}/b", f"{tmp_path}/z"])
    assert one.digest == other.digest and one.manifest.splits == other.manifest.splits
    for (lane, block), (same, again) in zip(everything(one), everything(other), strict=True):
        assert lane == same and block.tensors["weight"].tolist() == again.tensors["weight"].tolist()


@pytest.mark.parametrize(
    ("weighted", "problem"), [("b", "has weights, .*a has none"), ("a", "has no weights, .*a has")]
)
def test_weights_on_one_day_alone_are_named(tmp_path: Path, weighted: str, problem: str) -> None:
    x = np.zeros((4, 2), np.float32)
    for name in ("a", "b"):
        tensors = {"x": x, "weight": np.ones(4, np.float32)} if name == weighted else {"x": x}
        from_arrays(f"{tmp_path}/{name}", {"train": (tensors, np.arange(4) % 2)}, lanes=LANES)
    with pytest.raises(InputError, match=f"b: {problem}.*; prepare both with `input.weight`"):
        open_joined([f"{tmp_path}/a", f"{tmp_path}/b"])


def test_days_of_booleans_from_before_they_had_one_spelling_are_read_as_one(tmp_path: Path) -> None:
    for name, classes in (("a", ["0", "1"]), ("b", ["false", "true"])):
        from_arrays(f"{tmp_path}/{name}", {"train": (np.zeros((4, 2), np.float32), np.arange(4) % 2)}, lanes=LANES)
        before = PreparedDataSet.open(f"{tmp_path}/{name}").manifest
        assert before.label is not None
        label = before.label.model_copy(update={"classes": classes, "kind": "integer" if name == "a" else "text"})
        before.model_copy(update={"label": label}).write(f"{tmp_path}/{name}")
    assert open_joined([f"{tmp_path}/a", f"{tmp_path}/b"]).manifest.splits["train"].rows == 8


def test_a_data_set_is_the_same_whatever_its_only_column_is_called(days: Path) -> None:
    """Also one from before the name was noted. The names of several columns are their order."""

    def named(number: int, **names: Any) -> PreparedDataSet:
        part = PreparedDataSet.open(f"{days}/ds={number}")
        tensors = [part.manifest.tensors[0].model_copy(update=names)]
        return PreparedDataSet(part.path, part.manifest.model_copy(update={"tensors": tensors}))

    assert named(1).digest == named(1, column="pixels").digest
    joined = JoinedDataSet.of([named(1), named(2, column="pixels"), named(3, column="features")])
    assert joined.manifest.splits["train"].rows == 1201
    with pytest.raises(InputError, match=r"differs from .* in its tensors"):
        JoinedDataSet.of([named(1, columns=["a", "b"]), named(2, columns=["b", "a"])])


def test_windows_of_another_step_are_others(days: Path) -> None:
    """What is predicted later is made into the windows of one of them, by the order of their digests."""
    hours = {"window": 2, "horizon": 1, "by": [], "order": "t", "label": "x", "step": 3600, "time": False}
    one, *others = (
        PreparedDataSet(
            f"{days}/ds={number}",
            PreparedDataSet.open(f"{days}/ds={number}").manifest.model_copy(
                update={
                    "windows": Windows(**{**hours, "step": step}),
                    "windows_left_out": {"gaps": number},
                    "dependent": None if number == 1 else "windows",
                }
            ),
        )
        for number, step in ((1, 3600), (2, 3600), (3, 60))
    )
    joined = JoinedDataSet.of([one, others[0]]).manifest
    assert joined.windows_left_out == {"gaps": 3} and joined.dependent == "windows"
    with pytest.raises(
        InputError, match=r"ds=3: differs from .*ds=1 in its windows over time; prepare it with `fitted: "
    ):
        JoinedDataSet.of([one, others[1]])


@pytest.mark.parametrize("named", [1, 3])
def test_the_label_has_the_name_that_any_of_them_knows(days: Path, named: int) -> None:
    parts = []
    for number in (1, 3):
        part = PreparedDataSet.open(f"{days}/ds={number}")
        name = "y" if number == named else None
        parts.append(PreparedDataSet(part.path, part.manifest.model_copy(update={"label_name": name})))
    assert JoinedDataSet.of(parts).manifest.label_name == "y"


@pytest.mark.parametrize("given", [1, 3])
def test_missing_values_have_the_texts_that_any_of_them_knows(days: Path, given: int) -> None:
    parts = []
    for number in (1, 3):
        part = PreparedDataSet.open(f"{days}/ds={number}")
        nulls = ["", "NA"] if number == given else None
        parts.append(PreparedDataSet(part.path, part.manifest.model_copy(update={"nulls": nulls})))
    assert parts[0].digest == PreparedDataSet.open(parts[0].path).digest
    assert JoinedDataSet.of(parts).description.nulls == ["", "NA"]


def test_nothing_twice_and_nothing_missing(days: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(days / "ds=1")
    with pytest.raises(InputError, match=r"link: is listed twice, so its rows would count twice"):
        open_joined([f"{days}/ds=1", f"{tmp_path}/link"])
    with pytest.raises(InputError, match=r"no=\*: no file or folder matches"):
        open_joined([f"{days}/ds=1", f"{days}/no=*"])
    with pytest.raises(InputError, match="folder not found"):
        open_joined(f"{days}/ds=9")
    (tmp_path / "begun").mkdir()
    with pytest.raises(InputError, match="no _SUCCESS file"):
        open_joined([f"{days}/ds=1", f"{tmp_path}/begun"])
