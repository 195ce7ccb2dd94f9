"""A node's own error, the kernel's kills and YARN's, told apart."""

from __future__ import annotations

import signal

import pytest

from sparksplit.cluster import memory
from sparksplit.cluster.failures import Failure
from sparksplit.cluster.faults import culprit, kind_and_text
from sparksplit.cluster.node_record import NodeRecord


class ResourceExhaustedError(Exception):
    """TensorFlow's, by name."""


def test_a_nodes_own_error_says_what_helps():
    kind, text = kind_and_text(MemoryError("Unable to allocate 1 TiB"))
    assert kind is Failure.MEMORY
    assert text.startswith("ran out of memory (MemoryError: Unable to allocate 1 TiB); more spark.executor.memoryOver")
    assert kind_and_text(ResourceExhaustedError("OOM when allocating tensor on /CPU:0"))[1].endswith("may help")
    kind, text = kind_and_text(ResourceExhaustedError("OOM when allocating tensor on /device:GPU:0"))
    assert text.startswith("ran out of GPU memory") and text.endswith("; a smaller batch_size may help")


@pytest.mark.parametrize(
    ("killed", "expected", "for_memory"),
    [
        (True, "was ended by SIGKILL, by the kernel for lack of memory; more spark.executor.memoryOverhead", True),
        (False, "was ended by SIGKILL (from outside: the kernel ended nothing for lack of memory)", False),
        (None, "was ended by SIGKILL (from outside, or by the kernel for lack of memory)", False),
    ],
)
def test_a_kill_says_whether_it_was_the_kernels(killed, expected, for_memory):
    record = NodeRecord(1, ended=(100.0, -signal.SIGKILL), killed_for_memory=killed)
    fault = culprit([record], 110.0)
    assert fault is not None and fault.follows.may_pass
    assert fault.failure is (Failure.KILLED_FOR_MEMORY if for_memory else Failure.KILLED)
    assert fault.text.startswith(expected) and fault.error().memory is for_memory
    record.ended = (100.0, -signal.SIGTERM)
    assert culprit([record], 110.0).text == "was ended by SIGTERM"


def tree(tmp_path, cgroup, **files):
    """A /proc and a /sys/fs/cgroup with these files."""
    (tmp_path / "proc" / "self").mkdir(parents=True)
    (tmp_path / "proc" / "self" / "cgroup").write_text(cgroup)
    for name, text in files.items():
        file = tmp_path / name.replace("__", "/").replace("--", ".")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path / "proc", tmp_path / "cgroup"


def test_the_kernels_count_is_that_of_the_own_control_group_or_the_hosts(tmp_path):
    host = {"proc__vmstat": "nr_free_pages 7\noom_kill 5\n"}
    two = {"cgroup__a__b__memory.events": "low 0\noom 3\noom_kill 2\n"}
    one = {"cgroup__memory__a__b__memory.oom_control": "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n"}
    assert memory.kills(*tree(tmp_path / "v2", "0::/a/b\n", **host, **two)) == 2
    assert memory.kills(*tree(tmp_path / "v1", "4:memory:/a/b\n1:cpu:/\n0::/\n", **host, **one)) == 4
    assert memory.kills(*tree(tmp_path / "host", "0::/\n", **host)) == 5
    assert memory.kills(*tree(tmp_path / "none", "0::/\n")) is None


@pytest.mark.parametrize(
    ("reason", "is_memory"),
    [
        ("Container killed by YARN for exceeding physical memory limits. 1 GB of 1 GB", True),
        ("Container killed by YARN for exceeding memory limits. 1 GB of 1 GB", True),
        ("is running beyond the 'PHYSICAL' memory limit. Current usage: 1 GB", True),
        ("is running beyond virtual memory limits", True),
        ("Container was preempted.", False),
        ("Remote RPC client disassociated", False),
    ],
)
def test_what_spark_says_of_a_lost_executor(reason, is_memory):
    text, for_memory = memory.executor_text(reason)
    assert for_memory is is_memory and text.startswith(reason) and ("memoryOverhead" in text) is is_memory
