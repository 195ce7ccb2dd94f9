"""What only a GPU can show, and TensorFlow's own table of kernels."""

from __future__ import annotations

import pytest

from sparksplit.operations.devices import devices as devices_module
from sparksplit.operations.devices.ask import look
from sparksplit.operations.operations_config import DevicesConfig


def test_tensorflow_tells_the_kernels_of_an_operation():
    from sparksplit.operations.devices.node.step import kernels_of

    on_cpu = [kernel for kernel in kernels_of("MatMul") if kernel.device == "CPU" and kernel.types]
    assert any("float32" in kernel.types["T"] for kernel in on_cpu)
    assert kernels_of("NoSuchOperation") == []


@pytest.mark.gpu
@pytest.mark.slow
def test_a_gpu_is_measured_and_takes_the_products_of_a_training_step(digits, tmp_path):
    train = tmp_path / "train.yaml"
    train.write_text(f"data: {digits}\noutput: never\n")
    config = DevicesConfig(train=str(train))
    found = look("driver", 2, [], 280, devices_module._training(config, str(train)))
    assert found["problems"] == [] and found["usage"] is None
    smi, tensorflow = found["nvidia_smi"], found["tensorflow"]
    assert smi["driver"] and smi["problem"] is None and tensorflow["no_gpu"] is None
    assert 0 < len(tensorflow["gpus"]) <= len(smi["gpus"])
    assert [each["device"] for each in found["products"]] == [f"GPU:{n}" for n in range(len(tensorflow["gpus"]))]
    assert all(each["peak"] is None and each["best"] > 0 for each in found["products"])
    assert {("host", "GPU:0"), ("GPU:0", "host")} <= {(each["source"], each["target"]) for each in found["copies"]}
    assert all(each["gigabytes_per_second"] > 0 for each in found["copies"])
    if len(tensorflow["gpus"]) > 1:
        assert found["powers"]["devices"] == ["GPU:0", "GPU:1"] and not found["powers"]["logical"]
        assert ("GPU:0", "GPU:1") in {(each["source"], each["target"]) for each in found["copies"]}
    step = found["step"]
    assert sum(count for name, count in step["placed"]["GPU:0"].items() if "MatMul" in name) == 5
    assert all("MatMul" not in each["operation"] and each["why"] for each in step["on_cpu"])
    assert 0 < step["matrix_products"] <= 1 and step["busy"] > 0
