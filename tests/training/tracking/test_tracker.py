"""What reaches MLflow of a run, in a store in a folder; and that nothing of MLflow ends a run."""

import contextlib
import os
import socket
import threading
import time
import traceback
from pathlib import Path

import mlflow
import pytest

from sparksplit.base.config import parse
from sparksplit.base.errors import ConfigError
from sparksplit.training.run_record import RunRecord
from sparksplit.training.tracking import tracker as module
from sparksplit.training.tracking.session import Session, limited
from sparksplit.training.tracking.tracker import Tracker, tracking
from sparksplit.training.train_config import TrainConfig
from tests.training.records import epoch

HASH, BEGUN = "962fb9a00bb6be14", "2026-11-22T08:24:12Z"
"""Of the finished run."""
pytestmark = pytest.mark.filterwarnings("ignore:.*Any type hint is inferred as AnyType")  # mlflow.pyfunc's own


def config(**keys):
    return parse(TrainConfig, {"data": "data", "output": "folder/run", **keys})


def tracker(active=None):
    return Tracker("folder/run", active)


def settled(one):
    """Wait until the thread has done what it has been given."""
    done = threading.Event()
    one._sender._acts.put(done.set)
    assert done.wait(60)


def runs():
    return mlflow.search_runs(output_format="list")


def steps(run, metric="train_loss"):
    return sorted(each.step for each in mlflow.MlflowClient().get_metric_history(run.info.run_id, metric))


def test_a_run_is_sent_as_it_trains_and_whole_at_its_end(store, finished):
    one = tracker()
    one.began(HASH, BEGUN, config())
    one.epoch(epoch(1))
    one.finished(str(finished), RunRecord.read(str(finished)))
    (run,) = runs()
    assert (run.info.run_name, run.info.status) == ("run", "FINISHED")
    assert (run.data.params["batch_size"], run.data.params["checkpoint.keep"]) == ("64", "3")
    assert steps(run) == [1, 2, 3]
    assert run.data.metrics["test_loss"] == 1.25
    assert run.data.tags["sparksplit.ledger.exact"] == "true"
    files = mlflow.artifacts.list_artifacts(f"runs:/{run.info.run_id}/model")
    assert {"MLmodel", "run.json", "saved_model", "_SUCCESS"} <= {file.path.rpartition("/")[2] for file in files}


def test_the_parameters_are_those_that_train(store, finished):
    """Not those of the command: a compiled model, a comparison or Spark's master may have changed them."""
    one = tracker()
    one.began(HASH, BEGUN, config(nodes=1, optimizer={"learning_rate": 0.5}))
    settled(one)
    (run,) = runs()
    assert (run.data.params["nodes"], run.data.params["optimizer.learning_rate"]) == ("1", "0.5")
    one.failed(KeyboardInterrupt())


def test_a_run_that_was_complete_already_has_the_parameters_of_its_record(store, finished):
    tracker().finished(str(finished), RunRecord.read(str(finished)))
    assert runs()[0].data.params == {
        "data": "/data/mnist",
        "model.build": "mlp",
        "model.params": "{}",
        "loss": "null",
        "nodes": "2",
    }


def test_limits_hold_until_the_last_of_several_threads_and_stay_out_of_the_environment(monkeypatch):
    from mlflow.environment_variables import MLFLOW_HTTP_REQUEST_MAX_RETRIES as RETRIES
    from mlflow.environment_variables import MLFLOW_HTTP_REQUEST_TIMEOUT as TIMEOUT

    for name in ("MLFLOW_HTTP_REQUEST_TIMEOUT", "MLFLOW_HTTP_REQUEST_MAX_RETRIES"):
        monkeypatch.delenv(name, raising=False)
    before, environment = (TIMEOUT.get(), RETRIES.get()), dict(os.environ)
    first, second = limited(), limited()
    with first:
        second.__enter__()  # as in another thread, which ends later
    assert (TIMEOUT.get(), RETRIES.get()) == (10, 0)
    assert dict(os.environ) == environment
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "33")
    assert TIMEOUT.get() == 33, "the user's own limit"
    monkeypatch.delenv("MLFLOW_HTTP_REQUEST_TIMEOUT")
    second.__exit__(None, None, None)
    assert (TIMEOUT.get(), RETRIES.get()) == before


def test_a_resumed_run_goes_on_in_the_same_run_with_each_epoch_once(store, finished):
    first = tracker()
    first.began(HASH, BEGUN, config())
    first.epoch(epoch(1))
    first.epoch(epoch(2))
    first.failed(KeyboardInterrupt())
    assert [run.info.status for run in runs()] == ["KILLED"]
    again = tracker()
    again.began(HASH, BEGUN, config())
    again.epoch(epoch(2))  # from a checkpoint before it
    again.epoch(epoch(3))
    again.finished(str(finished), RunRecord.read(str(finished)))
    (run,) = runs()
    assert run.info.status == "FINISHED" and steps(run) == [1, 2, 3]
    other = tracker()
    other.finished(str(finished), RunRecord.read(str(finished)))
    assert len(runs()) == 1 and steps(runs()[0], "test_loss") == [3]


def test_an_onnx_file_that_a_complete_run_gets_later_is_sent_once_and_the_run_stays_ended(store, finished):
    record = RunRecord.read(str(finished))
    tracker().finished(str(finished), record)
    (before,) = runs()
    (finished / "model.onnx").write_bytes(b"onnx")
    for _ in range(2):
        tracker().finished(str(finished), record)
    (after,) = runs()
    assert (after.info.end_time, after.info.status) == (before.info.end_time, "FINISHED")
    local = mlflow.artifacts.download_artifacts(f"runs:/{after.info.run_id}/model/model.onnx")
    assert Path(local).read_bytes() == b"onnx"
    assert len(after.outputs.model_outputs) == 1


def test_a_metric_is_sent_once_at_each_step_though_a_request_fails_after_it_has_arrived(store, monkeypatch):
    session = Session("h@t", "run")
    real = session.client.log_batch
    values = {step: {f"m{place}": 1.0 for place in range(70)} for step in (1, 2)}  # the second request begins within 2

    def arrives(*arguments, **more):
        real(*arguments, **more)
        raise OSError("timed out")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="timed out"):
        patch.setattr(session.client, "log_batch", arrives)
        session.send_metrics(values)
    other = Session("h@t", "run")  # as the next command
    for one in (session, other):
        one.send_metrics(values)
    for name in ("m0", "m29", "m30", "m69"):
        history = session.client.get_metric_history(session.run_id, name)
        assert [each.step for each in history] == [1, 2]


def test_an_active_run_is_used_once_and_goes_on(store, finished):
    record = RunRecord.read(str(finished))
    with mlflow.start_run() as mine:
        assert tracking(config()) == (True, mine.info.run_id)
        assert tracking(config(mlflow=False)) == (False, None)
        tracker(mine.info.run_id).finished(str(finished), record)
        assert mlflow.active_run().info.run_id == mine.info.run_id
        other = tracker(mine.info.run_id)
        other.began("another", BEGUN, config())
        other.failed(ValueError("no rows\nat all"))
    by_id = {run.info.run_id: run for run in runs()}
    assert len(by_id) == 2 and by_id[mine.info.run_id].data.metrics["test_loss"] == 1.25
    (child,) = (run for key, run in by_id.items() if key != mine.info.run_id)
    assert child.data.tags["mlflow.parentRunId"] == mine.info.run_id
    assert (child.info.status, child.data.tags["sparksplit.error"]) == ("FAILED", "no rows at all")


def test_without_the_key_and_an_active_run_nothing_is_tracked(store):
    assert tracking(config()) == (False, None)


def test_a_store_that_mlflow_cannot_use_is_an_error_before_anything_starts(store, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "false")
    with pytest.raises(ConfigError, match=r"mlflow: MLflow cannot use file:.*MLFLOW_TRACKING_URI"):
        tracking(config(mlflow=True))


@pytest.fixture
def silent():
    """A server that accepts connections and never answers; its address."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = []

        def take():
            try:
                while True:
                    taken.append(server.accept()[0])
            except OSError:  # closed
                return

        thread = threading.Thread(target=take)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        thread.join()
        for each in taken:
            each.close()


@pytest.mark.parametrize("hangs", [False, True])
def test_a_server_that_is_away_costs_two_lines_and_little_time(hangs, silent, finished, store, monkeypatch, capsys):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", silent if hangs else "http://127.0.0.1:9")
    began, one = time.monotonic(), tracker()
    one.began(HASH, BEGUN, config())
    for number in range(1, 40):
        one.epoch(epoch(number))
    assert time.monotonic() - began < 1
    settled(one)
    one.finished(str(finished), RunRecord.read(str(finished)))
    assert time.monotonic() - began < 15
    told = [line for line in capsys.readouterr().err.splitlines() if "MLflow:" in line]
    assert len(told) == 2
    assert "train goes on" in told[0] and "the same train command sends" in told[1]


@pytest.fixture
def dripping():
    """A server that sends a space from time to time, and never an answer; its address."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = threading.Event()

        def drip(connection):
            with connection, contextlib.suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
                while not closed.wait(0.1):
                    connection.sendall(b" ")

        def take():
            with contextlib.suppress(OSError):  # closed
                while True:
                    threading.Thread(target=drip, args=[server.accept()[0]]).start()

        thread = threading.Thread(target=take)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        closed.set()
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.parametrize("end", ["finished", "failed"])
def test_a_server_that_never_ends_its_answer_holds_the_command_up_for_the_time_in_a_line(
    end, dripping, finished, store, monkeypatch, capsys
):
    for name, seconds in {"_SILENT": 0.2, "_LONGEST": 1.0, "_LONGEST_FAILED": 1.0}.items():
        monkeypatch.setattr(module, name, seconds)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", dripping)
    began, one = time.monotonic(), tracker()
    one.began(HASH, BEGUN, config())
    one.epoch(epoch(1))
    assert time.monotonic() - began < 1
    if end == "finished":
        one.finished(str(finished), RunRecord.read(str(finished)))
    else:
        one.failed(KeyboardInterrupt())
    assert 1 <= time.monotonic() - began < 5
    told = [line for line in capsys.readouterr().err.splitlines() if "MLflow:" in line]
    assert len(told) == 2
    assert told[0].endswith("waiting for the tracking server, at most 1 s")
    assert "not done after 1 s; the" in told[1]
    assert one._sender._thread.daemon


@pytest.mark.parametrize("token", ["", "t0ken-of-a-user\n"])  # requests shows a token that ends with a line's end
def test_no_password_or_token_is_shown(token, finished, store, monkeypatch, capsys):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://a-user:pass/w@rd@127.0.0.1:9" if not token else "http://[::1]:9")
    if token:
        monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", token)
    one = tracker()
    one.began(HASH, BEGUN, config())
    settled(one)
    one.finished(str(finished), RunRecord.read(str(finished)))
    told = capsys.readouterr().err
    failures = [line for line in told.splitlines() if "MLflow:" in line and "waiting for" not in line]
    assert len(failures) == 2 and "***" in told
    assert "a-user" not in told and "pass" not in told and "t0ken" not in told


def test_the_error_of_a_store_shows_no_password(store, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "nothing://user:secret@host/x")
    with pytest.raises(ConfigError, match=r"MLflow cannot use nothing://\*\*\*@host/x") as caught:
        tracking(config(mlflow=True))
    assert "secret" not in "".join(traceback.format_exception(caught.value))


def test_a_server_that_comes_back_gets_everything_at_the_end(store, finished, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    one = tracker()
    one.began(HASH, BEGUN, config())
    one.epoch(epoch(1))
    settled(one)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    one.epoch(epoch(2))
    one.finished(str(finished), RunRecord.read(str(finished)))
    (run,) = runs()
    assert run.info.status == "FINISHED" and steps(run) == [1, 2, 3]
