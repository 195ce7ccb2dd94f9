"""`package` on the command line."""

from __future__ import annotations

from sparksplit.commands.package import COMMAND


def test_the_last_lines_are_the_command_to_copy(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    # A folder's name is text, whatever YAML would make of it.
    assert COMMAND.main(["--output", "2024"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{tmp_path}/2024/sparksplit.zip: written"
    assert lines[-1].strip().startswith(f"{tmp_path}/2024/jobs/train.py --config train-mlp.yaml")
    assert any(line.startswith("spark-submit --master yarn") for line in lines)


def test_wrong_arguments_are_one_line(tmp_path, capsys):
    (tmp_path / "file").touch()
    for arguments, said in (
        ([], "output: is required"),
        (["--output", f"{tmp_path}/file/x"], f"{tmp_path}/file/x: cannot be made: Not a directory"),
    ):
        assert COMMAND.main(arguments) == 2
        captured = capsys.readouterr()
        assert said in captured.err and captured.err.count("\n") == 1 and captured.out == ""
