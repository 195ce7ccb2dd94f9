"""What a run's attempts have cost, over restarts and resumes."""

import pytest

from training import attempts
from training.attempts import Attempts
from training.checkpoints import Progress


def test_a_run_that_goes_on_counts_on(tmp_path):
    attempts.note(str(tmp_path), Attempts(2, 30.5))
    assert attempts.before(str(tmp_path), Progress("", 1, seconds=20.0)) == Attempts(2, 30.5)


def test_a_finished_run_leaves_none(tmp_path):
    attempts.note(str(tmp_path), Attempts(2, 30.5))
    attempts.forget(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_begins_has_cost_nothing(tmp_path):
    attempts.note(str(tmp_path), Attempts(2, 30.5))
    assert attempts.before(str(tmp_path), None) == Attempts()


def test_what_a_killed_driver_could_not_note_the_checkpoint_knows(tmp_path):
    attempts.note(str(tmp_path), Attempts(1, 0.5))
    assert attempts.before(str(tmp_path), Progress("", 1, seconds=20.0)) == Attempts(1, 20.0)


@pytest.mark.parametrize("text", [None, "", "[]", '{"restarts": 1}', '{"restarts": "x", "seconds": 1}'])
def test_figures_that_are_lost_stop_nobody(tmp_path, text):
    if text is not None:
        (tmp_path / "_ATTEMPTS").write_text(text)
    assert attempts.before(str(tmp_path), Progress("", 1, seconds=20.0)) == Attempts(0, 20.0)
