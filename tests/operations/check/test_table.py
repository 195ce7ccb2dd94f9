"""What `check` prints."""

from dataclasses import replace

import pytest

from sparksplit.operations.check.check import Report
from sparksplit.operations.check.table import show
from tests.operations.check.test_judge import DRIVER, FIRST, GOOD


def test_executors_that_were_not_asked_for_a_folder_have_not_written_there(capsys: pytest.CaptureFixture[str]) -> None:
    """Where the driver cannot write, executors are not asked."""
    driver = replace(DRIVER, folder="/nowhere is not there")
    show(Report(GOOD, driver, [FIRST]), "/nowhere")
    printed = capsys.readouterr().out
    assert "not asked" in printed and "written" not in printed
    show(Report(GOOD, DRIVER, [FIRST]), "/nowhere")
    assert capsys.readouterr().out.count("read, written") == 2


def test_whose_the_files_are_that_the_driver_and_executors_write(capsys: pytest.CaptureFixture[str]) -> None:
    show(Report(GOOD, replace(DRIVER, writes_as="alice"), [replace(FIRST, writes_as="bob")]), "/there")
    printed = capsys.readouterr().out
    assert "alice" in printed and "bob" in printed
