"""What `preprocess` says of what is wrong with its configuration and its input, before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparksplit.commands import preprocess
from sparksplit.dataset.description import (
    Description,
    FittedPreprocessing,
    LabelSpec,
    TensorPreprocessing,
    TensorSpec,
)
from tests.commands.preprocessing import run
from tests.prepare.idx_files import digits, write_folder


@pytest.mark.usefixtures("no_spark")
class TestBeforeSparkStarts:
    """Bad input that is known early: exit status 2, one line, nothing left."""

    def check(self, tmp_path: Path, capsys: pytest.CaptureFixture[str], status: int, message: str) -> None:
        printed = capsys.readouterr()
        assert status == 2
        assert message in printed.err and printed.err.count("\n") == 1 and printed.out == ""
        assert not [path for path in tmp_path.iterdir() if "out" in path.name]

    def test_missing_input(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        status = run(tmp_path, f"input.path={tmp_path}/none")
        self.check(tmp_path, capsys, status, f"{tmp_path}/none: folder not found")
        status = run(tmp_path, f"input.path={tmp_path}/none", "input.format=csv")
        self.check(tmp_path, capsys, status, f"{tmp_path}/none: does not exist")
        (tmp_path / "raw" / "a").mkdir(parents=True)
        status = run(tmp_path, f"input.path={tmp_path}/raw", "input.format=parquet")
        self.check(tmp_path, capsys, status, f"{tmp_path}/raw: the folder holds no rows")
        status = run(tmp_path, f"input.path=[{tmp_path}/raw, {tmp_path}/x*]", "input.format=hive-text")
        self.check(tmp_path, capsys, status, f"{tmp_path}/x*: no file or folder matches this pattern")
        status = run(tmp_path, "input.path=ftp://host/x")
        self.check(tmp_path, capsys, status, "unknown scheme ftp://")

    def test_unreadable_input(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = write_folder(tmp_path / "raw", digits(5))
        (folder / "train-images-idx3-ubyte").unlink()
        (folder / "train-images-idx3-ubyte").symlink_to(folder / "train-images-idx3-ubyte")
        status = run(tmp_path, f"input.path={folder}")
        self.check(tmp_path, capsys, status, f"sparksplit preprocess: {folder}")

    def test_truncated_and_other_files(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        folder = write_folder(tmp_path / "raw", digits(50), compressed=True)
        file = folder / "train-images-idx3-ubyte.gz"
        file.write_bytes(file.read_bytes()[:-20])
        status = run(tmp_path, f"input.path={folder}")
        self.check(tmp_path, capsys, status, f"{file}: is truncated: the gzip stream has no end")
        folder = write_folder(tmp_path / "plain", digits(50))
        file = folder / "train-images-idx3-ubyte"
        content = file.read_bytes()
        file.write_bytes(content[:-1])
        status = run(tmp_path, f"input.path={folder}")
        self.check(tmp_path, capsys, status, f"{file}: is truncated: it has 615 bytes, but its header announces 616")
        file.write_bytes(b"GIF89a" + content)
        status = run(tmp_path, f"input.path={folder}")
        self.check(tmp_path, capsys, status, f"{file}: is not an IDX file: it begins with the bytes 47 49 46 38")

    def test_different_counts(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        images, labels = digits(50)
        folder = write_folder(tmp_path / "raw", (images, labels[:49]))
        status = run(tmp_path, f"input.path={folder}")
        message = f"{folder}/train-images-idx3-ubyte: 50 images, but 49 labels in {folder}/train-labels-idx1-ubyte"
        self.check(tmp_path, capsys, status, message)

    @pytest.mark.parametrize(
        ("config", "message"),
        [
            ("lans: 5\n", ":1: lans: unknown key; did you mean 'lanes'?"),
            ("seed: 1\ninput:\n  pat: x\n", ":3: input.pat: unknown key; did you mean 'path'?"),
            ("input: {path: x}\nlanes: many\n", ':2: lanes: must be a whole number (is "many")'),
            ("input: {path: x}\nlanes: 0\n", ":2: lanes: must be at least 1 (is 0)"),
            ("input: {path: x}\nvalidation: 1.5\n", ":2: validation: must be below 1 (is 1.5)"),
            ("input: {path: x}\nscaling: log\n", ":2: scaling: must be one of 'none', 'unit' or 'standard'"),
            ("input: {path: x}\nvalidation: 0.6\ntest: 0.5\n", ":2: validation: must be below 1 together with test"),
            ("input: {path: x, format: csv, test: y}\ntest: 0.5\n", ":2: test: must be 0, because input.test is"),
            ("input: {path: x}\nscaling_by: feature\n", ":2: scaling_by: has no effect with scaling: none; remove it"),
            ("lanes: 5\n", "input.path: is required"),
        ],
    )
    def test_configuration(self, tmp_path: Path, capsys: pytest.CaptureFixture[str], config: str, message: str) -> None:
        status = run(tmp_path, config=config)
        self.check(tmp_path, capsys, status, message)

    def test_a_test_share_beside_a_test_set(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        folder = write_folder(tmp_path / "raw", digits(9), digits(9))
        status = run(tmp_path, f"input.path={folder}", "test=0.1")
        self.check(
            tmp_path, capsys, status, "--set test=0.1: test: must be 0, because the input has its own test split"
        )

    @pytest.mark.parametrize("options", [(), ("--dry-run",)])
    def test_missing_values_that_the_fitted_data_has_no_means_for(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
    ) -> None:
        (tmp_path / "rows.csv").write_text("a,b,label\n1,2,0\n,4,1\n")
        (tmp_path / "first").mkdir()
        Description(
            tensors=[TensorSpec(name="x", dtype="float32", shape=[2])],
            label=LabelSpec(dtype="int64", kind="integer", classes=["0", "1"]),
            preprocessing=FittedPreprocessing(tensors={"x": TensorPreprocessing()}),
        ).write(f"{tmp_path}/first")
        (tmp_path / "first" / "_SUCCESS").touch()
        settings = ("input.format=csv", f"input.path={tmp_path}/rows.csv", f"fitted={tmp_path}/first")
        status = run(tmp_path, *settings, "input.missing=mean", options=options)
        message = (
            f"missing: must be error: {tmp_path}/first was fitted on data without missing values, so it has no means"
        )
        self.check(tmp_path, capsys, status, message)

    def test_a_folder_of_someone_else_as_output(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        folder = write_folder(tmp_path / "raw", digits(9))
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "thesis").write_text("x")
        for options in ((), ("--overwrite",)):
            assert run(tmp_path, f"input.path={folder}", options=options) == 2
            assert f"{tmp_path}/out: exists and is not an output of sparksplit" in capsys.readouterr().err
        assert (tmp_path / "out" / "thesis").read_text() == "x"

    @pytest.mark.parametrize("options", [(), ("--overwrite",)])
    def test_an_output_that_is_or_lies_in_what_is_read(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
    ) -> None:
        folder = write_folder(tmp_path / "raw", digits(9), digits(9))
        before = sorted(folder.rglob("*"))
        for output, message in (
            (folder, "raw: exists and is not an output of sparksplit; choose another folder"),
            (folder / "prepared", f"raw/prepared: lies within what the command reads (input.path: {folder}); choose"),
            (tmp_path, f"{tmp_path}: exists and is not an output of sparksplit; choose another folder"),
        ):
            assert run(tmp_path, f"input.path={folder}", f"output={output}", options=options) == 2
            assert message in capsys.readouterr().err
        assert sorted(folder.rglob("*")) == before


def test_what_is_wrong_with_the_input_leaves_no_folder_behind(no_spark: None, tmp_path: Path) -> None:
    (tmp_path / "a.csv").touch()
    settings = ("input.format=csv", f"input.path={tmp_path}/a.csv", "input.header=false")
    arguments = [word for setting in settings for word in ("--set", setting)]
    assert preprocess.COMMAND.main([*arguments, "--set", f"output={tmp_path}/by/date/out"]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]
