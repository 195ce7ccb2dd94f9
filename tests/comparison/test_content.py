"""results.json as it is written and read back."""

from __future__ import annotations

import json

import pytest

from hdfs_io import filesystem
from sparksplit.base.errors import InputError
from sparksplit.comparison.content import FORMAT_VERSION, Results
from tests.comparison import sample


@pytest.mark.parametrize("seeds", [1, 3])
def test_what_is_written_is_read_back_value_for_value(tmp_path, seeds):
    content = sample.results(seeds)
    filesystem.write_json(str(tmp_path / "results.json"), content)
    assert json.loads(json.dumps(Results.read(str(tmp_path)).to_json())) == content


@pytest.mark.parametrize("version", [FORMAT_VERSION - 1, FORMAT_VERSION + 1])
def test_another_version_is_refused_with_what_to_do(tmp_path, version):
    """An earlier one lacks parts, whose names would say nothing."""
    content = {**sample.results(1), "format_version": version}
    del content["references"]
    filesystem.write_json(str(tmp_path / "results.json"), content)
    reads = f"this sparksplit reads {FORMAT_VERSION}"
    expected = rf"json: has format version {version}, and {reads}; compare again with --overwrite$"
    with pytest.raises(InputError, match=expected):
        Results.read(str(tmp_path))


@pytest.mark.parametrize(
    "lost", [["answer"], ["metric", "split"], ["table", 0, "time"], ["runs", 1, "ledger", "exact"]]
)
def test_a_part_that_is_missing_is_named_with_what_to_do(tmp_path, lost):
    content = sample.results(1)
    *path, last = lost
    part = content
    for key in path:
        part = part[key]
    del part[last]
    filesystem.write_json(str(tmp_path / "results.json"), content)
    name = r"\.".join(map(str, lost))
    expected = rf"results\.json: is not what compare writes: {name} is missing; compare again with --overwrite$"
    with pytest.raises(InputError, match=expected):
        Results.read(str(tmp_path))
