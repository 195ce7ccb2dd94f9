"""The GPU of a node beside the driver. A script stands in for nvidia-smi."""

from __future__ import annotations

import pytest

from sparksplit.cluster.one_gpu import environment


@pytest.mark.parametrize(
    ("listed", "found"),
    [
        ("GPU-a, 3000\nGPU-b, 4\nGPU-c, 4\n", {"CUDA_VISIBLE_DEVICES": "GPU-b"}),
        ("GPU-a, 3000\nGPU-b, [N/A]\n", {"CUDA_VISIBLE_DEVICES": "GPU-b"}),
        ("GPU-a, 3000\n", {}),
        ("No devices were found\n", {}),
    ],
)
def test_a_node_sees_the_gpu_with_the_least_used_memory(
    monkeypatch: pytest.MonkeyPatch, listed: str, found: dict[str, str]
) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert environment(["printf", listed]) == found
    assert environment(["false"]) == environment(["/nowhere/nvidia-smi"]) == {}


@pytest.mark.parametrize("users", ["", "1", "0,1"])
def test_what_the_user_has_set_stays(monkeypatch: pytest.MonkeyPatch, users: str) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", users)
    assert environment(["printf", "GPU-a, 1\nGPU-b, 2\n"]) == {}
