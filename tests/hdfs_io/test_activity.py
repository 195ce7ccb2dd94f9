"""What a process counts of its work."""

from __future__ import annotations

import threading

from hdfs_io import activity


def test_steps_of_all_threads_count() -> None:
    before = activity.count()
    threads = [threading.Thread(target=lambda: [activity.note() for _ in range(1000)]) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert activity.count() == before + 4000
