"""What all tests share: one Spark session, the real data, and that nothing is left running at the end."""

from __future__ import annotations

import ast
import functools
import os
import shutil
import signal
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import psutil
import pytest
from pyspark.sql import SparkSession

from sparksplit.spark.session import spark_session
from tests.forked import Zygote, nodes_of
from tests.java import use_shared_classes
from tests.standalone import StandaloneCluster

# What a shell starts in the background ignores Ctrl-C, and hands that on to what tests start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine makes no test fail.
hypothesis.settings.register_profile("tests", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("tests")

_MARK = "SPARKSPLIT_TESTS"
_LEAVE_SECONDS = 10.0
_COMMANDS = Path(__file__).parent / "commands"

# Tests play several nodes as threads of one process, and a node that waits for its peers keeps one of these.
os.environ.setdefault("TF_NUM_INTEROP_THREADS", "8")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
use_shared_classes()


def _one_at_a_time(function: Callable[..., ast.AST]) -> Callable[..., ast.AST]:
    """Tests play several nodes as threads, and NumPy parses each header of a file. Python 3.11.7 sometimes raises
    SystemError ("AST constructor recursion depth mismatch") if two threads parse at the same time."""
    lock = threading.RLock()

    @functools.wraps(function)
    def locked(*arguments: Any, **named: Any) -> ast.AST:
        with lock:
            return function(*arguments, **named)

    return locked


ast.parse = _one_at_a_time(ast.parse)


@pytest.fixture(scope="session", autouse=True)
def temporary_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep temporary files in a folder of the run's own, and remove it: TensorFlow and killed processes leave theirs.

    Where the run itself is killed, pytest removes the folder with that run's others, some runs later.
    """
    folder = tmp_path_factory.mktemp("temporary")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TMPDIR", str(folder))  # for the processes that tests start
        patched.setattr(tempfile, "tempdir", None)  # for this one: found anew
        yield
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session", autouse=True)
def nothing_left_running(temporary_files: None) -> Iterator[None]:
    """Fail the run where a process that it started, at any depth, outlives it; and end that process."""
    mark = os.environ[_MARK] = uuid.uuid4().hex
    yield
    _, left = psutil.wait_procs(list(_processes(mark)), timeout=_LEAVE_SECONDS)
    names = [_describe(process) for process in left]
    for process in left:
        process.kill()
    if names:
        pytest.fail(f"processes left running after the tests: {'; '.join(names)}", pytrace=False)


@pytest.fixture(scope="session")
def spark(nothing_left_running: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A Spark session with four executors of one task slot: three nodes, and what feeds them. Its catalog is a Hive
    metastore in a folder of the run's own, which is made when a test asks for a table.

    Commands that a test calls in this process use it too.

    Tests that use it carry the marker `cluster`.
    """
    hive = tmp_path_factory.mktemp("hive")
    settings = {
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": (hive / "warehouse").as_uri(),
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={hive}/metastore;create=true",
        "spark.python.daemon.module": "tests.executors",
    }
    with spark_session("tests", executors=4, settings=settings) as session:
        session._jvm.java.lang.System.setProperty("derby.system.home", str(hive))  # its log
        yield session


@pytest.fixture(scope="session")
def standalone_cluster(nothing_left_running: None) -> Iterator[StandaloneCluster]:
    """What `standalone` gives."""
    with StandaloneCluster() as cluster:
        yield cluster


@pytest.fixture
def standalone(standalone_cluster: StandaloneCluster) -> Iterator[StandaloneCluster]:
    """A Spark standalone cluster with three workers of one core; whole again after the test, however it ends."""
    yield standalone_cluster
    standalone_cluster.restore()


@pytest.fixture(scope="session")
def zygote(nothing_left_running: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Zygote]:
    """What `forked` nodes are forked from."""
    zygote = Zygote(tmp_path_factory.mktemp("nodes"))
    yield zygote
    zygote.end()


@pytest.fixture
def forked(zygote: Zygote) -> Iterator[None]:
    """Runs of this test take nodes without Spark, which begin at once (tests/forked.py)."""
    with nodes_of(zygote):
        yield


@pytest.fixture
def fed(spark: SparkSession, zygote: Zygote) -> Iterator[None]:
    """As `forked`, with a Spark session, which can feed the nodes."""
    with nodes_of(zygote, spark=True):
        yield


@pytest.fixture
def floats(request: pytest.FixtureRequest) -> Iterator[float]:
    """Keras with the float type that is the parameter, by its name; the tolerance of invariant 1."""
    import keras

    before = keras.config.floatx(), keras.config.dtype_policy()
    keras.config.set_floatx(request.param)
    keras.config.set_dtype_policy(request.param)
    yield 1e-9 if request.param == "float64" else 1e-4
    keras.config.set_floatx(before[0])
    keras.config.set_dtype_policy(before[1])


@pytest.fixture(scope="session")
def data() -> Path:
    """The folder of real data (MNIST, text) that SPARKSPLIT_DATA names."""
    named = os.environ.get("SPARKSPLIT_DATA")
    if not named:
        pytest.skip("SPARKSPLIT_DATA is not set: this test needs the real MNIST files (docs/testing.md)")
    folder = Path(named).resolve()
    if not (folder / "mnist").is_dir():
        pytest.skip(f"SPARKSPLIT_DATA={named} holds no folder mnist/: this test needs its files (docs/testing.md)")
    return folder


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes are named by their number: packed ones hold a clock, and each worker must give a test the same name."""
    return f"{argname}-{len(val)}-bytes" if isinstance(val, bytes) else None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark every test that uses the session, directly or through a fixture; tell xdist's workers what to do together.

    A worker has a Hadoop, a Spark session and fixtures of its own. So all tests on Hadoop are one group, as are those
    on a standalone cluster, and those of a file that share a module's fixture. The tests of the Spark session, whose
    JVMs take a minute of computing to start and to get warm, are two groups of about the same length: one group took
    longer than everything else, and a single worker was busy at the end. Any other test may run anywhere. (xdist reads
    the groups before the hook that sees all tests at once.)
    """
    if {"spark", "standalone"} & set(getattr(item, "fixturenames", ())):
        item.add_marker(pytest.mark.cluster)
    if hasattr(item.config, "workerinput") and (group := _group(item)):
        item.add_marker(pytest.mark.xdist_group(group))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a worker, what takes longest begins first."""
    if hasattr(config, "workerinput"):
        items.sort(key=_turn)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse a pytest and a pytest-xdist that do not go together: each worker would start a Hadoop for some tests."""
    if hasattr(session.config, "workerinput") and session.config.getvalue("loadgroup"):
        loose = [item for item in session.items if item.get_closest_marker("xdist_group") and "@" not in item.nodeid]
        if loose:
            raise pytest.UsageError(f"pytest-xdist did not put {loose[0].nodeid} into its group")


def _group(item: pytest.Item) -> str | None:
    for shared_by_all in ("hadoop", "standalone", "spark"):
        if shared_by_all in getattr(item, "fixturenames", ()):
            is_half = shared_by_all == "spark" and _COMMANDS in item.path.parents
            return "spark-commands" if is_half else shared_by_all
    used = getattr(item, "_fixtureinfo").name2fixturedefs.values()  # noqa: B009 (pytest's own way is private too)
    shared = any(definitions[-1].scope == "module" for definitions in used)
    return str(item.path.relative_to(item.config.rootpath)) if shared else None


def _turn(item: pytest.Item) -> int:
    """A test's place in the order: Hadoop's first, since one worker has to do them alone; quick ones last."""
    fixtures = getattr(item, "fixturenames", ())
    marks = {mark.name for mark in item.iter_markers()}
    if "hadoop" in fixtures:
        return 0
    return 1 if "slow" in marks else 2 if "cluster" in marks else 3


def _processes(mark: str) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(_MARK) == mark:
                yield process
        except psutil.Error:
            continue


def _describe(process: psutil.Process) -> str:
    try:
        return f"{process.pid} {' '.join(process.cmdline())[:200]}"
    except psutil.Error:
        return str(process.pid)


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """scikit-learn's digits, prepared: 1300 training rows in 96 lanes of uneven length, validation, test."""
    from sklearn.datasets import load_digits

    from sparksplit.dataset.arrays import from_arrays

    images, labels = load_digits(return_X_y=True)
    images, labels = images.reshape(-1, 8, 8).astype("u1"), labels.astype("i8")
    folder = tmp_path_factory.mktemp("digits") / "data"
    from_arrays(
        str(folder),
        {
            "train": (images[:1300], labels[:1300]),
            "validation": (images[1300:1450], labels[1300:1450]),
            "test": (images[1450:], labels[1450:]),
        },
        scaling="unit",
    )
    return folder
