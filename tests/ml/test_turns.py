"""Trainings in several threads: side by side if there are executors for all of them, otherwise in turns."""

from __future__ import annotations

import queue
import threading
import time

import pytest

from sparksplit.ml.turns import Turns, settings


def most_at_once(fits: int, needed: int, there: int) -> int:
    """How many of the fits trained at the same time."""
    turns, lock = Turns(), threading.Lock()
    now = [0, 0]

    def fit() -> None:
        with turns.turn(needed, lambda: there):
            with lock:
                now[0] += 1
                now[1] = max(now)
            time.sleep(0.05)
            with lock:
                now[0] -= 1

    threads = [threading.Thread(target=fit) for _ in range(fits)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return now[1]


@pytest.mark.parametrize(
    ("needed", "there", "expected"),
    [(2, 4, 2), (2, 3, 1), (1, 3, 3), (1, 0, 1), (5, 4, 1)],
)
def test_no_more_train_than_executors_are_there_for(needed: int, there: int, expected: int) -> None:
    """Without executors (a local master), or if they never suffice, one trains at a time."""
    assert most_at_once(3, needed, there) == expected


def test_a_wait_is_said_once_and_a_failure_frees_the_turn(capsys: pytest.CaptureFixture[str]) -> None:
    turns = Turns()
    with pytest.raises(RuntimeError), turns.turn(2, lambda: 3):
        raise RuntimeError
    with turns.turn(2, lambda: 3):
        other = threading.Thread(target=lambda: turns.turn(2, lambda: 3).__enter__())
        other.start()
        time.sleep(0.1)
    other.join(5)
    assert not other.is_alive()
    said = [line for line in capsys.readouterr().err.splitlines() if "waits" in line]
    assert len(said) == 1 and said[0].endswith("it needs 2 executors, and the other uses 2 of 3")


def test_a_wait_for_another_preparation_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    said: queue.Queue[str] = queue.Queue()
    monkeypatch.setattr("sparksplit.base.progress.LINE_SECONDS", 0.01)
    monkeypatch.setattr("sparksplit.base.progress.say", said.put)

    def wait() -> None:
        with settings():
            pass

    with settings(), settings():
        other = threading.Thread(target=wait)
        other.start()
        assert said.get(timeout=60).startswith("waiting for another fit to prepare its rows, ")
    other.join(60)
    assert not other.is_alive()
