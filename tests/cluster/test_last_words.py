"""Which of a failed node's lines are errors; without nodes."""

from __future__ import annotations

import logging

import pytest

from sparksplit.cluster.last_words import level_of


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
    assert level_of(line) == logging.INFO


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
    assert level_of(line) == logging.ERROR
