"""The `sparksplit` command: `sparksplit COMMAND --config FILE [--set key.path=value ...]`."""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Sequence
from typing import NoReturn

from sparksplit.base.errors import Interrupted, did_you_mean
from sparksplit.base.shown import ERR, OUT, finished
from sparksplit.base.version import __version__
from sparksplit.commands.ending import end
from sparksplit.spark.interrupts import insistent

COMMANDS = {
    "quickstart": "try preprocess, train, predict and compare on a small real data set, on this machine",
    "preprocess": "turn raw data into a prepared data set",
    "train": "train one Keras model on the nodes of a Spark cluster",
    "compare": "compare strategies for distributed training, and recommend one with evidence",
    "search": "search for good values of keys, by trials that Optuna proposes",
    "plan": "predict time, cost and memory on up to 64 nodes, from half a minute on one machine",
    "predict": "run batch inference on Spark",
    "diagnose": "measure where the time of `train` or `preprocess` goes, and what would help",
    "devices": "measure what each node's devices can do, and the time of a training step",
    "check": "check that a cluster is ready: folders, versions, memory, GPUs, ports, settings",
    "package": "build the archives that spark-submit needs",
}
"""Name and summary of each command. The module in this folder has the same name. It is imported only when called."""

STATUSES = (
    "exit status: 0 success, or nothing to do; 1 the run failed; 2 wrong command line, configuration or input;",
    "3 another running command writes to the output; 128 + signal number after a signal (Ctrl-C: 130)",
)
"""The contract with schedulers, printed by --help."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the named command, and return its exit status. Return 2 for an unknown command."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_help(), file=OUT)
        return finished(0 if arguments else 2, only_text=True)
    if arguments[0] == "--version":
        print(f"sparksplit {__version__}", file=OUT)
        return finished(0, only_text=True)
    name = arguments[0]
    if name not in COMMANDS:
        hint = did_you_mean(name, COMMANDS) or f"; the commands are {', '.join(COMMANDS)}"
        print(f"sparksplit: {name}: unknown command{hint}", file=ERR)
        return finished(2)
    try:
        with insistent():
            command = importlib.import_module(f"sparksplit.commands.{name}").COMMAND
    except KeyboardInterrupt:
        stopped = Interrupted(signal.SIGINT)
        print(f"sparksplit {name}: {stopped}", file=ERR)
        return finished(stopped.exit_status)
    status: int = command.main(arguments[1:])
    return status


def program() -> NoReturn:
    """Run `main` as a program of its own: end this process with the exit status."""
    end(main())


def _help() -> str:
    lines = ["usage: sparksplit COMMAND [--config FILE] [--set key.path=value ...]", "", "commands:"]
    lines += [f"  {name:<12}{summary}" for name, summary in COMMANDS.items()]
    lines += ["", "`sparksplit COMMAND --help` lists the command's configuration keys with their defaults."]
    lines += ["", *STATUSES]
    return "\n".join(lines)


if __name__ == "__main__":
    program()
