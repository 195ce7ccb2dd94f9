"""The fresh interpreter: what it has found is kept, whatever becomes of it, and nothing of it stays."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from sparksplit.operations.devices import ask
from sparksplit.operations.devices.ask import Order

ORDER = Order(os.getpid(), 1, 1024, 1, {})


@pytest.fixture(autouse=True)
def works(monkeypatch, tmp_path):
    """Stand-ins for TensorFlow's interpreter, and a folder that Spark gives."""
    monkeypatch.setattr(ask, "MODULE", "tests.operations.devices.works")
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path}/local,{tmp_path}/other")
    yield
    assert list((tmp_path / "local").iterdir()) == []


@pytest.mark.parametrize(
    ("way", "problem", "usage"),
    [
        (1, None, False),
        (3, "products: ended by SIGKILL (its container's memory may be too small)", False),
        (4, "conf/x.yaml:3: model.build: no such layer", True),
        (5, "products: ResourceExhaustedError: OOM", False),
        (6, "products: ended with status 3: no such module", False),
        (7, None, False),
    ],
)
def test_what_was_found_is_kept_and_what_went_wrong_is_told(way, problem, usage):
    answer = ask._ask(replace(ORDER, threads=way), "3,4", 60)
    assert (answer.problem, answer.usage) == (problem, usage)
    assert answer.parts["products"] == [{"device": "CPU:0"}]
    assert answer.log[0] == "failed call to cuInit: no such driver"
    if way == 1:
        assert answer.parts["small_products"] == {"gpus": "3,4"}


def test_it_is_ended_at_its_limit():
    began = time.monotonic()
    answer = ask._ask(replace(ORDER, threads=2), None, 3)
    assert answer.problem == "products: stopped, because it took longer than 3 s"
    assert answer.parts == {"products": [{"device": "CPU:0"}]}
    assert time.monotonic() - began < 60


KILLED = """
import os, signal
from sparksplit.operations.devices import ask
ask._listen = lambda *arguments: os.kill(os.getpid(), signal.SIGKILL)
ask._ask(ask.Order(os.getpid(), 1, 1024, 1, {}), None, 60)
"""


def test_what_a_killed_process_has_left_goes_with_the_next(tmp_path):
    subprocess.run([sys.executable, "-c", KILLED], check=False)
    assert len(list((tmp_path / "local").iterdir())) == 1
    ask._ask(ORDER, None, 60)


def test_an_answer_without_a_gpu_says_why(monkeypatch):
    said = ["I0000 cudart_stub.cc:31] Could not find cuda drivers on your machine, GPU will not be used.", "more"]
    assert ask._why_no_gpu(said) == "Could not find cuda drivers on your machine, GPU will not be used"
    said.append("E0000 cuda_platform.cc:52] failed call to cuInit: INTERNAL: CUDA error")
    assert ask._why_no_gpu(said) == "failed call to cuInit: INTERNAL: CUDA error"
    assert ask._why_no_gpu([]) == "TensorFlow lists none"


def test_a_mistake_in_the_model_is_found_before_the_devices_are_measured(monkeypatch):
    asked = []

    def answered(order, *_):
        asked.append(order.training)
        return ask.Answer(problem="no such layer", usage=order.training == {"wrong": 1})

    monkeypatch.setattr(ask, "_ask", answered)
    assert ask.look("executor 0", 2, [], 1, {"wrong": 1})["usage"] == "no such layer"
    assert ask.look("executor 0", 2, [], 1, {"right": 1})["usage"] is None
    assert asked == [{"wrong": 1}, {"right": 1}, None]


def test_nothing_is_measured_where_it_would_be_killed():
    found = ask.look("driver", 2, [], 1, None, skip="not measured: its container is too small")
    assert found["notes"] == ["not measured: its container is too small"] and found["problems"] == []
    assert found["tensorflow"] is None and found["cpu"]["usable"] > 0


@pytest.fixture(autouse=True)
def local(tmp_path):
    """The first of Spark's folders."""
    (tmp_path / "local").mkdir()
