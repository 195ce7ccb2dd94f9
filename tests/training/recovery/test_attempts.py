"""What a run's attempts have cost, over restarts and resumes."""

import pytest

from hdfs_io import filesystem
from sparksplit.base.errors import NodeFailed
from sparksplit.training.progress_record import Progress
from sparksplit.training.recovery import attempts
from sparksplit.training.recovery.attempts import Attempts
from sparksplit.training.run_record import Cause
from tests.hdfs_io.outputs import fenced
from tests.training.records import epoch
from tests.training.runs import describe


def note(folder, cost):
    with fenced(folder) as run:
        attempts.note(run, cost)


@pytest.fixture
def checkpoint(tmp_path):
    """The path of one that was written after three epochs and 20 seconds."""
    progress = Progress("", 1, seconds=20.0, history=[epoch(number) for number in (1, 2, 3)])
    path = tmp_path / "checkpoints" / "update-000000009"
    describe(path, progress)
    return str(path)


def test_a_run_that_goes_on_counts_on(tmp_path, checkpoint):
    note(tmp_path, Attempts(2, 30.5))
    assert attempts.before(str(tmp_path), checkpoint) == (Attempts(2, 30.5), 3)


def test_a_finished_run_leaves_none(tmp_path):
    note(tmp_path, Attempts(2, 30.5))
    with fenced(tmp_path) as run:
        attempts.forget(run)
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_driver_could_not_note_the_checkpoint_knows(tmp_path, checkpoint):
    note(tmp_path, Attempts(1, 0.5))
    assert attempts.before(str(tmp_path), checkpoint) == (Attempts(1, 20.0), 3)


@pytest.mark.parametrize(
    "text", [None, "", "[]", '{"restarts": 1, "seconds": null}', '{"restarts": "x", "seconds": 1}']
)
def test_figures_that_are_lost_stop_nobody(tmp_path, checkpoint, text):
    if text is not None:
        (tmp_path / "_ATTEMPTS").write_text(text)
    assert attempts.before(str(tmp_path), checkpoint) == (Attempts(0, 20.0), 3)


def test_a_damaged_checkpoint_is_left_to_who_reads_it(tmp_path, checkpoint):
    note(tmp_path, Attempts(1, 0.5))
    filesystem.write_bytes(f"{checkpoint}/checkpoint.json", b"{")
    assert attempts.before(str(tmp_path), checkpoint) == (Attempts(1, 0.5), 0)


def test_the_story_goes_on_over_a_killed_driver(tmp_path, checkpoint):
    first = Attempts().begun("start", 2, None)
    lost = first.ended(12.34567, NodeFailed("node 1 on h: was killed", 1, host="h")).begun("restart", 2, checkpoint)
    note(tmp_path, lost)
    known, _ = attempts.before(str(tmp_path), checkpoint)
    assert known.story == lost.story
    resumed = known.begun("resume", 3, checkpoint).ended(1.0, None)
    assert [(each.how, each.nodes, each.update, each.seconds) for each in resumed.story] == [
        ("start", 2, 0, 12.346),
        ("restart", 2, 9, None),
        ("resume", 3, 9, 1.0),
    ]
    assert [each.cause for each in resumed.story] == [Cause("node 1 on h: was killed", 1, "h"), None, None]
    assert resumed.story[1].ended is None and resumed.ended(2.0, None) == resumed
    assert Attempts().ended(1.0, None) == Attempts()


@pytest.mark.parametrize(("error", "text"), [(KeyboardInterrupt(), "interrupted"), (ValueError("a\nb"), "a b")])
def test_what_ended_an_attempt_is_one_line(error, text):
    assert Attempts().begun("start", 1, None).ended(1.0, error).story[0].cause == Cause(text)
