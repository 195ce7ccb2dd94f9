"""Input that is still to come is waited for, and only where that was asked."""

from __future__ import annotations

import re

import pytest

from sparksplit.base.config import parse
from sparksplit.base.errors import ConfigError, InputError
from sparksplit.base.options import Options
from sparksplit.prepare import awaited, preprocess
from sparksplit.prepare.preprocess_config import InputConfig, PreprocessConfig
from tests.replaced import replaced


@pytest.fixture
def meanwhile(monkeypatch):
    """What is to happen while `await_input` sleeps: functions, one each time; it gives the seconds slept."""
    slept, happens = [], []

    def sleep(seconds):
        slept.append(seconds)
        happens.pop(0)()

    replaced(monkeypatch, awaited, "time", sleep=sleep)
    return happens, slept


def of(path, **keys):
    return parse(InputConfig, {"format": "csv", "path": str(path), **keys})


@pytest.mark.parametrize(
    ("text", "wanted"), [("90s", 90), ("1.5 h", 5400), ("30m", 1800), ("1d", 86400), (7, 7), (0.5, 0.5)]
)
def test_a_duration_has_a_unit_or_is_in_seconds(text, wanted):
    assert of("x", wait=text).wait == wanted


@pytest.mark.parametrize("text", ["2 hours", "h", "-1h", "0s", 0, "1e3s"])
def test_what_is_no_duration_is_refused(text):
    with pytest.raises(ConfigError, match="wait"):
        of("x", wait=text)


def test_nothing_is_waited_for_unless_it_was_asked(tmp_path, meanwhile):
    awaited.await_input(of(tmp_path / "none"), str(tmp_path / "out"), overwrite=False)
    (tmp_path / "there").write_text("1,2")
    awaited.await_input(of(tmp_path / "there", wait="1h"), str(tmp_path / "out"), overwrite=False)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "_SUCCESS").write_text("")
    awaited.await_input(of(tmp_path / "none", wait="1h"), str(tmp_path / "out"), overwrite=False)
    assert meanwhile[1] == []


def test_what_is_made_anew_needs_its_input(tmp_path, meanwhile):
    happens, slept = meanwhile
    happens.append(lambda: (tmp_path / "day").write_text("1,2"))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "_SUCCESS").write_text("")
    awaited.await_input(of(tmp_path / "day", wait="1h"), str(tmp_path / "out"), overwrite=True)
    assert len(slept) == 1


@pytest.mark.parametrize("overwrite", [False, True])
def test_preprocess_says_whether_it_makes_its_output_anew(tmp_path, monkeypatch, overwrite):
    class Asked(Exception):
        pass

    def asked(*given):
        raise Asked(given)

    monkeypatch.setattr(preprocess, "await_input", asked)
    config = parse(PreprocessConfig, {"output": "o", "input": {"format": "csv", "path": "x"}})
    with pytest.raises(Asked) as caught:
        preprocess.preprocess(config, Options(overwrite=overwrite))
    assert caught.value.args == ((config.input, "o", overwrite),)


def test_nothing_is_looked_for_below_a_file(tmp_path, monkeypatch):
    # The NameNode refuses the question: "(is not a directory)".
    exists, file = awaited.filesystem.exists, tmp_path / "rows.csv"
    file.write_text("1,2")

    def as_on_hdfs(path):
        if path.startswith(f"{file}/"):
            raise InputError(f"{path}: cannot be read: {file} (is not a directory)")
        return exists(path)

    monkeypatch.setattr(awaited.filesystem, "exists", as_on_hdfs)
    awaited.await_input(of(file, wait="1h"), str(tmp_path / "out"), overwrite=False)


def test_a_folder_is_there_when_nobody_writes_into_it_any_more(tmp_path, meanwhile, capsys):
    folder, test = tmp_path / "day", tmp_path / "test.csv"
    happens, slept = meanwhile
    happens += [
        lambda: (folder / "_temporary").mkdir(parents=True),
        lambda: test.write_text("1,2"),
        lambda: (folder / "a.csv").write_text("1,2"),
        lambda: (folder / "b.csv._COPYING_").write_text("1,2"),
        (folder / "_temporary").rmdir,
        lambda: (folder / "b.csv._COPYING_").rename(folder / "b.csv"),
    ]
    awaited.await_input(of(folder, test=str(test), wait="2h"), str(tmp_path / "out"), overwrite=False)
    assert slept == [awaited.LOOK_SECONDS] * 6
    assert f"{folder}: no rows there yet; waiting for 120 min more at most (input.wait)" in capsys.readouterr().err


def test_what_is_empty_is_not_there_yet(tmp_path, meanwhile):
    happens, slept = meanwhile
    file = tmp_path / "day" / "rows.csv"
    happens += [file.parent.mkdir, file.touch, (tmp_path / "day" / "_SUCCESS").touch, lambda: file.write_text("1,2")]
    awaited.await_input(of(file.parent, wait="1h"), str(tmp_path / "out"), overwrite=False)
    assert len(slept) == 4


def test_what_is_written_below_or_beside_is_waited_for(tmp_path, meanwhile):
    happens, slept = meanwhile
    folder = tmp_path / "day"
    (folder / "sub").mkdir(parents=True)
    (folder / "sub" / "a.csv").write_text("1,2")
    copied, beside = folder / "sub" / "b.csv._COPYING_", folder / "c.csv._COPYING_"
    copied.write_text("1,2")
    happens += [lambda: copied.rename(folder / "sub" / "b.csv")]
    awaited.await_input(of(folder, wait="1h"), str(tmp_path / "out"), overwrite=False)
    beside.write_text("1,2")
    (folder / "a.csv").write_text("1,2")
    happens += [lambda: beside.rename(folder / "c.csv")]
    awaited.await_input(of(f"{folder}/*.csv", wait="1h"), str(tmp_path / "out"), overwrite=False)
    assert len(slept) == 2


def test_each_of_the_names_in_braces_is_waited_for(tmp_path, meanwhile):
    happens, slept = meanwhile
    (tmp_path / "mon-1.csv").write_text("1,2")
    happens += [lambda: (tmp_path / "tue-1.csv").write_text("1,2")]
    awaited.await_input(of(f"{tmp_path}/{{mon,tue}}-*.csv", wait="1h"), str(tmp_path / "out"), overwrite=False)
    assert len(slept) == 1


def test_when_the_time_is_over_the_path_is_named(tmp_path, monkeypatch):
    now = iter(range(0, 100, 5))
    replaced(monkeypatch, awaited, "time", monotonic=lambda: next(now), sleep=lambda _: None)
    with pytest.raises(InputError, match=re.escape(f"{tmp_path}/none: no rows there after 30 s (input.wait)")):
        awaited.await_input(of(tmp_path / "none", wait=30), str(tmp_path / "out"), overwrite=False)


def test_a_pattern_is_waited_for_until_it_matches(tmp_path, meanwhile):
    happens, slept = meanwhile
    happens += [lambda: None, lambda: (tmp_path / "a.parquet").write_text("x")]
    config = parse(InputConfig, {"format": "parquet", "path": f"{tmp_path}/*.{{orc,parquet}}", "wait": "1h"})
    awaited.await_input(config, str(tmp_path / "out"), overwrite=False)
    assert len(slept) == 2


@pytest.mark.parametrize("below", ["", "/*", "/*.{orc,parquet}"])
def test_every_folder_that_braces_name_is_waited_for(tmp_path, meanwhile, capsys, below):
    happens, slept = meanwhile

    def fill(day):
        (tmp_path / day).mkdir()
        (tmp_path / day / "a.parquet").write_text("x")

    happens += [lambda: fill("mon"), lambda: fill("tue")]
    keys = {"format": "parquet", "path": f"{tmp_path}/{{mon,tue}}{below}", "wait": "1h"}
    awaited.await_input(parse(InputConfig, keys), str(tmp_path / "out"), overwrite=False)
    assert len(slept) == 2
    (tmp_path / "tue" / "a.parquet").unlink()
    happens.append(lambda: (tmp_path / "tue" / "a.parquet").write_text("x"))
    awaited.await_input(parse(InputConfig, keys), str(tmp_path / "out"), overwrite=False)
    assert f"{tmp_path}/tue{below.replace('{orc,parquet}', 'orc')}: no rows there yet" in capsys.readouterr().err


def test_what_cannot_be_looked_at_is_not_waited_for(tmp_path):
    config = parse(InputConfig, {"format": "parquet", "path": "s3a://bucket/x", "wait": "1h"})
    with pytest.raises(ConfigError, match=r"wait: is only for local paths and paths on HDFS"):
        awaited.await_input(config, str(tmp_path / "out"), overwrite=False)


def test_a_wait_is_no_part_of_what_was_made():
    keys = {"output": "o", "input": {"format": "csv", "path": "x"}}
    waiting = {**keys, "input": {**keys["input"], "wait": "2h"}}
    assert parse(PreprocessConfig, keys).config_hash() == parse(PreprocessConfig, waiting).config_hash()
