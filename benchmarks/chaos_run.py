"""One run of benchmarks/chaos.py: the command as users call it, what befalls it, and what it leaves."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from benchmarks.chaos_plan import DRIVERS, SHARES, Event, Fault, Outcome, Plan, Timeline, event
from hdfs_io import fence, filesystem

ROOT = Path(__file__).resolve().parent.parent
TIME_LIMIT = 400.0
"""Seconds for one run, with all faults and resumes; past them it hangs."""
GONE = 10.0
"""Seconds after the command's end until what is still there was left behind."""
FOLDER = "SPARKSPLIT_CHAOS"
"""The variable by which benchmarks/chaos_model.py knows where to note; it marks a run's processes, too."""
POLL = 0.01
_SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


@dataclass
class Place:
    """work: a folder for the runs' files. data: the prepared data set. runs: where the runs' folders are, local or on
    HDFS. settings: of `train`. kill_datanode: by its number. mended: starts again what was killed, after a run."""

    work: Path
    data: str
    runs: str
    settings: dict[str, str]
    kill_datanode: Callable[[int], None] = lambda number: None
    mended: Callable[[], None] = lambda: None

    @property
    def is_local(self) -> bool:
        return "://" not in self.runs


class Run:
    """`sparksplit train` with the faults of a plan. like: the undisturbed run; None: this is one."""

    def __init__(self, place: Place, plan: Plan, name: str, like: Run | None = None) -> None:
        self._place, self._plan, self._like = place, plan, like
        self.output = f"{place.runs}/{name}/run"
        self.folder = place.work / name  # of its log, its notes and its temporary files
        self._notes, self._temporary = self.folder / "notes", self.folder / "tmp"
        for made in (self._notes, self._temporary):
            made.mkdir(parents=True)
        if place.is_local:
            Path(self.output).parent.mkdir(parents=True, exist_ok=True)
        self._events: list[Event] = []
        self._read: dict[Path, int] = {}
        self._far, self._phase = 0.0, ""
        self._begun: dict[str, float] = {}
        self._faults: list[tuple[float, Fault]] = []
        self._calls = 0
        self.timeline = Timeline(0.0, 0.0, [], plan.nodes)

    # What it does.

    def play(self) -> Outcome:
        """Call the command, do to it what the plan says, call it again where its driver was ended."""
        outcome, began = Outcome(self._plan), time.time()
        self._deadline = time.monotonic() + TIME_LIMIT
        self._waiting, self._since = list(self._plan.faults), began
        self._call()
        try:
            while (status := self._command.poll()) is None or status:
                if status is not None and not self._go_on(status):
                    outcome.problem = f"exit status {status}"
                    break
                if time.monotonic() > self._deadline:
                    outcome.problem = f"still running after {TIME_LIMIT:.0f} s"
                    break
                if self._waiting and self._has_come(self._waiting[0]) and self._befalls(self._waiting[0]):
                    self._waiting.pop(0)
                time.sleep(POLL)
            self._follow()
            ended = time.time()
            self.timeline = Timeline(began, ended, self._events, self._plan.nodes, self._faults)
            if outcome.problem is None:
                self._judge(outcome)
            outcome.left = self._left(outcome.problem is not None)
        finally:
            for process in self._own():
                with suppress(psutil.Error):
                    process.kill()
        for fault in self._waiting:
            self.say(f"did not come to pass: {fault}")
        if self._like is not None:
            outcome.costs = self.timeline.costs(self._like.timeline)
        return outcome

    def say(self, text: str) -> None:
        """A line on stderr, and in the run's log."""
        print(f"    {text}", file=sys.stderr, flush=True)
        with (self.folder / "log").open("a") as log:
            log.write(f"{time.time():.3f} CHAOS {text}\n")

    def _call(self) -> None:
        settings = {**self._place.settings, "data": self._place.data, "output": self.output}
        settings |= {"strategy": self._plan.strategy, "nodes": str(self._plan.nodes), "input_mode": self._plan.mode}
        if self._plan.strategy not in ("batch", "epoch", "single"):
            settings["checkpoint.every"] = "epoch"  # the least that nodes which differ can go on from
        command = [str(Path(sys.executable).with_name("sparksplit")), "train"]
        for key, value in settings.items():
            command += ["--set", f"{key}={value}"]
        environment = {**os.environ, FOLDER: str(self._notes)}
        environment |= {"TMPDIR": str(self._temporary), "PYTHONUNBUFFERED": "1"}
        self._calls += 1
        with (self.folder / "log").open("ab") as log:
            self._command = subprocess.Popen(
                command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _go_on(self, status: int) -> bool:
        """Call the command again if it was its driver that a fault has ended; whether it was."""
        drivers = sum(fault.target in DRIVERS for _, fault in self._faults)
        if self._calls > drivers:
            return False
        self._call()
        self.say(f"the driver has ended with {status}; called again")
        return True

    # When.

    def _follow(self) -> None:
        """Read what the nodes have noted meanwhile."""
        for path in self._notes.iterdir():
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                text = file.read()
            whole = text[: text.rfind(b"\n") + 1]
            self._read[path] = self._read.get(path, 0) + len(whole)
            pid = int(path.name.partition("-")[2])
            for each in (event(line, pid) for line in whole.decode().splitlines()):
                self._events.append(each)
                if each.what == "update":
                    self._far = max(self._far, float(each.value))
                elif each.what == "phase":
                    self._phase = each.value
                    self._begun.setdefault(each.value, each.time)

    def _has_come(self, fault: Fault) -> bool:
        now = time.time()
        if fault.at == "start":
            return now - self._since >= fault.value
        if fault.at == "restart":
            return bool(self._faults) and now - self._faults[-1][0] >= fault.value
        if fault.at == "end":
            return filesystem.exists(f"{self.output}/run.json")
        self._follow()
        if fault.at not in SHARES:
            return fault.at in self._begun and now - self._begun[fault.at] >= fault.value
        assert self._like is not None
        return self._far >= fault.value * self._like.steps and self._is_at(fault.at)

    def _is_at(self, what: str) -> bool:
        if what == "checkpoint" and self._place.is_local:
            return any(Path(self.output).glob(f"{fence.PREFIX}*/update-*"))
        return what in ("update", self._phase)

    @property
    def steps(self) -> float:
        """How many it has made."""
        return self._far

    # To whom.

    def _befalls(self, fault: Fault) -> bool:
        """Let it happen; whether there was somebody."""
        if fault.target == "datanode":
            self._place.kill_datanode(fault.rank)
            self._faults.append((time.time(), fault))
            self.say(str(fault))
            return True
        with suppress(psutil.Error):
            found, meant = self._target(fault)
            # Spark has no executor to put in the place of one that it does not know yet: the start would time out.
            action = fault.action if meant else "kill"
            found.send_signal(_SIGNALS[action])
            self._faults.append((time.time(), fault if meant else replace(fault, action=action)))
            self._follow()
            self.say(f"{fault}: {action}, process {found.pid}, {found.name()}, after step {self._far:.0f}")
            return True
        time.sleep(0.1)
        return False

    def _target(self, fault: Fault) -> tuple[psutil.Process, bool]:
        """(the process that is meant, True), or where there is none yet (one that may start it, False). Raises
        psutil.Error where there is neither."""
        driver, tree = psutil.Process(self._command.pid), []
        for process in driver.children(recursive=True):
            with suppress(psutil.Error):  # it has ended meanwhile
                tree.append((process, process.cmdline()))
        nodes = {line[-1]: process for process, line in tree if "sparksplit.cluster.node_main" in line}
        executors = [process for process, line in tree if any("ExecutorBackend" in word for word in line)]
        holding = {rank: _parents(process) for rank, process in nodes.items()}
        rank = f"rank={fault.rank}"
        found: list[psutil.Process] = []
        if fault.target == "driver":
            found = [driver]
        elif fault.target == "jvm":
            found = [process for process, line in tree if "SparkSubmit" in " ".join(line)]
        elif fault.target == "feeder":
            found = [each for each in executors if not any(each in parents for parents in holding.values())]
        elif rank in nodes:
            above = holding[rank]
            found = {"node": [nodes[rank]], "worker": above[:1]}.get(fault.target) or [
                each for each in executors if each in above
            ]
        if not (found or executors):
            raise psutil.NoSuchProcess(self._command.pid)
        return (found or executors)[0], bool(found)

    # What came of it.

    def record(self) -> dict[str, Any]:
        """The content of run.json."""
        return dict(json.loads(filesystem.read_bytes(f"{self.output}/run.json")))

    def weights(self) -> list[Any]:
        """The trained model's, as arrays."""
        from sparksplit.model import initial_weights

        return weights_of(initial_weights.weights_in(f"{self.output}/model.keras"))

    def _judge(self, outcome: Outcome) -> None:
        record = self.record()
        outcome.exact = (
            bool(record["ledger"]["exact"]) and record["ledger"]["rows"] == record["rows"] * record["passes"]
        )
        if self._like is None:
            return
        pairs = zip(self.weights(), self._like.weights(), strict=True)
        outcome.difference = max(float(np.abs(one - other).max(initial=0)) for one, other in pairs)
        if record["weights"] != self._like.record()["weights"] and not outcome.difference:
            outcome.problem = "the digest of the weights differs, and the weights do not"

    def _own(self) -> list[psutil.Process]:
        """All processes that the command has started, wherever they are now: they inherit its environment."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get(FOLDER) == str(self._notes) and process.status() != "zombie":
                    found.append(process)
        return found

    def _left(self, failed: bool) -> list[str]:
        """What is there that should not be, by name. failed: processes are not waited for."""
        end = time.monotonic() + (0 if failed else GONE)
        while (processes := self._own()) and time.monotonic() < end:
            time.sleep(0.1)
        left = []
        for process in processes:
            with suppress(psutil.Error):
                left.append(f"process {process.name()}: {' '.join(process.cmdline())[-60:]}")
                listening = [each for each in process.net_connections("inet") if each.status == psutil.CONN_LISTEN]
                left += [f"port of {process.name()}"] * len(listening)
        left += [f"temporary: {_stem(each.name)}" for each in self._temporary.iterdir()]
        beside = filesystem.listing(self.output.rpartition("/")[0])
        left += [f"beside the output: {_stem(name)}" for name in beside if name != "run"]
        if self._like is not None and not failed:
            left += [f"in the output: {name}" for name in self.names() - self._like.names()]
        return left

    def names(self) -> set[str]:
        """Of what is in the run's folder, and of the kinds of checkpoints."""
        within = filesystem.listing(f"{self.output}/checkpoints")
        return {*filesystem.listing(self.output), *(f"checkpoints/{name.partition('-')[0]}" for name in within)}


def _parents(process: psutil.Process) -> list[psutil.Process]:
    parents: list[psutil.Process] = []
    with suppress(psutil.Error):
        parents = process.parents()
    return parents


def _stem(name: str) -> str:
    """A name without what is drawn by chance."""
    return name if name.startswith(".run") else name.rpartition("-")[0] + "-*" if "-" in name else name


def weights_of(content: bytes) -> list[Any]:
    """The arrays of a Keras weights file, by name."""
    import h5py

    found: dict[str, Any] = {}
    with h5py.File(io.BytesIO(content)) as opened:
        opened.visititems(lambda name, each: found.update({name: each[()]}) if isinstance(each, h5py.Dataset) else None)
    return [np.asarray(found[name], np.float64) for name in sorted(found)]
