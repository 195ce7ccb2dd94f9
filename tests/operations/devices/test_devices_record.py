"""devices.json and its tables, of a process with two GPUs and of one that failed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from sparksplit.base.errors import ConfigError, InputError
from sparksplit.operations.devices import devices as devices_module
from sparksplit.operations.devices import table
from sparksplit.operations.devices.devices_record import (
    Copy,
    Cpu,
    DevicesRecord,
    OnCpu,
    OperationTime,
    Powers,
    ProcessRecord,
    Product,
    Products,
    SmallProducts,
    Smi,
    SmiGpu,
    TensorFlow,
    TrainingStep,
)
from sparksplit.operations.operations_config import DevicesConfig

CPU = Cpu(
    model="EPYC",
    logical=64,
    usable=8,
    cores=4,
    quota=2.0,
    instructions=["sse2", "avx2", "fma"],
    gigahertz=2.5,
    clock="as the system gives it now",
)
STEP = TrainingStep(
    model="mlp",
    rows=64,
    milliseconds=0.25,
    placed={"CPU:0": {"Less": 3}, "GPU:0": {"MatMul": 5, "Relu": 1}},
    between_devices=2,
    on_cpu=[OnCpu(operation="Less", count=3, why="its GPU kernel works on the host's memory")],
    matrix_products=0.9,
    convolutions=0.0,
    busy=0.7,
    operations=[OperationTime(operation="MatMul", calls=5.0, share=0.9)],
)
FIRST = ProcessRecord(
    who="executor 0",
    host="gpu-1",
    threads=2,
    cpu=CPU,
    memory_mebibytes=64000,
    free_mebibytes=32000,
    given=["0", "1"],
    nvidia_smi=Smi(
        driver="550.54.15",
        gpus=[SmiGpu(index=0, name="K80", uuid="GPU-1", mebibytes=11441.0, used_mebibytes=None)],
    ),
    tensorflow=TensorFlow(
        version="2.21.0",
        keras="3.15",
        devices=["CPU:0", "GPU:0", "GPU:1"],
        gpus=["K80, compute capability 3.7", "K80, compute capability 3.7"],
        visible="0,1",
        cuda="12.5.1",
        cudnn="9",
        tensor_float_32=True,
    ),
    products=[
        Products(
            device="GPU:0",
            sizes=[Product(n=1024, milliseconds=1.0, gflops=2147.0, of_best=1.0)],
            best=2147.0,
            peak=None,
            peak_is="not known",
            of_peak=None,
        )
    ],
    copies=[
        Copy(source="host", target="GPU:0", bytes=1 << 20, microseconds=100.0, gigabytes_per_second=10.5),
        Copy(source="GPU:0", target="GPU:1", bytes=1 << 20, microseconds=90.0, gigabytes_per_second=None),
    ],
    small_products=SmallProducts(device="GPU:0", products=1000, n=100, fetched_each=0.3, fetched_once=0.1, ratio=3.0),
    powers=Powers(
        n=10000,
        exponent=10,
        devices=["GPU:0", "GPU:1"],
        logical=False,
        one_device=11.28,
        two_devices=7.13,
        ratio=1.58,
    ),
    step=STEP,
    notes=[],
    problems=[],
)
LOST = replace(
    FIRST,
    who="executor 1",
    tensorflow=None,
    nvidia_smi=Smi(problem="nvidia-smi not found"),
    products=[],
    copies=[],
    small_products=None,
    powers=None,
    step=None,
    problems=["copies: ended by SIGKILL"],
)
RECORD = DevicesRecord(
    command="devices",
    format=1,
    version="0.1",
    made="2026-01-01T00:00:00+00:00",
    master="yarn",
    application_id="application_1",
    train=None,
    seconds=12.5,
    processes=[FIRST, LOST],
)


def test_a_record_is_read_as_it_was_written(tmp_path):
    path = devices_module.leave(RECORD, f"{tmp_path}/found/devices.json")
    assert DevicesRecord.parse(Path(path).read_text(), path) == RECORD
    assert json.loads(json.dumps(RECORD.to_json()))["processes"][0]["powers"]["ratio"] == 1.58


def test_the_tables(capsys):
    table.show(RECORD)
    out = capsys.readouterr().out
    words = [
        "devices: yarn",
        "at most 2",
        "GPU: K80, compute capability 3.7",
        "nvidia-smi: 0 K80",
        "550.54.15",
    ]
    words += ["2,147 (100%)", "not known", "10.5 (100 us)", "same memory (90 us)", "n = 10,000, on GPU:0 and GPU:1"]
    words += ["11.3 s", "1.58", "250 us, 64 rows", "MatMul 90%", "GPU:0: 6", "executor 1: copies: ended by SIGKILL"]
    words += ["on the CPU: 3 x Less: its GPU kernel works on the host's memory", "copies 2 tensors between devices"]
    assert [word for word in words if word not in out] == []


def test_only_an_output_of_its_own_is_replaced(tmp_path):
    own, other, folder = tmp_path / "own.json", tmp_path / "other.json", tmp_path
    devices_module.leave(RECORD, str(own))
    other.write_text('{"command": "train"}')
    devices_module._check_output(DevicesConfig(output=str(own)))
    devices_module._check_output(DevicesConfig(output=str(tmp_path / "none" / "yet.json")))
    with pytest.raises(ConfigError, match=r"output: .*other\.json: is not a record of .*; choose another file"):
        devices_module._check_output(DevicesConfig(output=str(other)))
    with pytest.raises(ConfigError, match=r"is a folder; name a file in it, such as .*/devices\.json"):
        devices_module._check_output(DevicesConfig(output=str(folder)))
    with pytest.raises(InputError):
        DevicesRecord.parse("[]", "x")


def test_the_drivers_container_on_yarn():
    settings = {"spark.master": "yarn", "spark.submit.deployMode": "cluster"}
    assert "(is 384m)" in devices_module._too_small(settings)
    assert devices_module._too_small({**settings, "spark.driver.memoryOverhead": "1g"}) is None
    assert devices_module._too_small({**settings, "spark.submit.deployMode": "client"}) is None
    assert devices_module._threads({"spark.master": "local-cluster[2, 3, 1024]"}) == 3
    assert devices_module._threads({"spark.master": "yarn", "spark.executor.cores": "4"}) == 4
    assert devices_module._threads({"spark.master": "spark://here:7077", "spark.task.cpus": "3"}) == 3
