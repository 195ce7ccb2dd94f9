"""Which of a failed node's lines are errors; without nodes."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from sparksplit.cluster import NodeCluster
from sparksplit.cluster.failures import Failure
from sparksplit.cluster.faults import Fault
from sparksplit.cluster.last_words import level_of
from sparksplit.cluster.node_record import NodeRecord


@pytest.mark.parametrize(
    "line",
    [
        "WARNING: All log messages before absl::InitializeLog() is called are written to STDERR",
        "I0000 00:00:1795632534.421825   11346 port.cc:153] oneDNN custom operations are on.",
        "E0000 00:00:1795632536.865132   11346 cuda_platform.cc:52] failed call to cuInit: INTERNAL: CUDA error",
        "2026-11-25 18:49:01.123456: I tensorflow/core/platform/cpu_feature_guard.cc:210] This TensorFlow binary is",
        "2026-11-25 18:49:01.123456: E external/local_xla/xla/stream_executor/cuda/cuda_platform.cc:51] failed call",
        "To enable the following instructions: AVX2 FMA, in other operations, rebuild TensorFlow with the appropriate",
        "WARNING:tensorflow:AutoGraph could not transform <function build at 0x7f> and will run it as-is.",
        "2026-11-25 18:49:01,123 INFO sparksplit.training.node.worker: resumed",
    ],
)
def test_what_a_library_logs_is_no_error(line: str) -> None:
    assert level_of(line, Failure.OWN, True) == logging.INFO


@pytest.mark.parametrize(
    "line",
    [
        "Traceback (most recent call last):",
        '  File "mine.py", line 3, in build',
        "ValueError: E0000 is no layer",
        "F0000 00:00:1795632536.865132   11346 coordination_service_agent.cc:52] Terminating process",
        "2026-11-25 18:49:01.123456: F tensorflow/core/framework/tensor.cc:733] Check failed: dtype() == expected",
        "2026-11-25 18:49:01,123 ERROR sparksplit.cluster.member: this node ends: the driver closed its connection",
        "what the user's own code prints",
    ],
)
def test_all_else_may_be_why_it_failed(line: str) -> None:
    assert level_of(line, Failure.OWN, True) == logging.ERROR


@pytest.mark.parametrize(
    ("failure", "reported", "level"),
    [
        (Failure.USAGE, True, logging.DEBUG),
        (Failure.DIVERGED, True, logging.DEBUG),
        (Failure.PASSING, True, logging.DEBUG),
        (Failure.PASSING, False, logging.ERROR),  # it ended without a result, and nothing else says why
        (Failure.KILLED, False, logging.ERROR),
    ],
)
def test_a_traceback_is_for_debug_where_the_error_says_it_all(failure: Failure, reported: bool, level: int) -> None:
    assert level_of("Traceback (most recent call last):", failure, reported) == level


def test_the_driver_logs_no_traceback_of_a_full_disk(caplog: pytest.LogCaptureFixture) -> None:
    record = NodeRecord(0, error=(1.0, Failure.PASSING, "/x: No space left on device"), output=["Traceback"])
    cluster: Any = SimpleNamespace(_fault=Fault(Failure.PASSING, 1.0, 0, "host", "/x: No space left on device"))
    channel: Any = SimpleNamespace(records=[record])
    with caplog.at_level(logging.DEBUG):
        NodeCluster._log_last_words(cluster, channel)
    assert [(each.levelno, each.getMessage()) for each in caplog.records] == [(logging.DEBUG, "node 0| Traceback")]
