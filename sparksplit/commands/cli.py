"""The `sparksplit` command: `sparksplit COMMAND --config FILE [--set key.path=value ...]`."""

from __future__ import annotations

import importlib
import signal
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sparksplit.base.errors import Interrupted, did_you_mean
from sparksplit.base.version import __version__
from sparksplit.spark.interrupts import insistent

if TYPE_CHECKING:
    from sparksplit.commands.command import Command

COMMANDS = {
    "quickstart": "everything below on a small real data set, on this machine, without any service",
    "preprocess": "raw data to a prepared data set",
    "train": "train one model on the nodes of a Spark cluster",
    "compare": "several ways to split the work, side by side: which one to use, with evidence",
    "predict": "batch inference on Spark",
    "diagnose": "where the time of a training or a preparation goes, and what would help",
    "devices": "what each node's devices can do, and what a training step costs on them",
    "check": "is this cluster ready: folders, versions, memory, GPUs, ports, settings",
    "package": "the archives that spark-submit needs",
}
"""Name and summary of each; its module in this folder has the same name, and is imported only when it is called."""

STATUSES = (
    "exit status: 0 done, or nothing to do; 1 the run failed; 2 the command line, the configuration or the input is",
    "wrong; 3 another command that still runs fills the output; 128 + its number after a signal (Ctrl-C: 130)",
)
"""The contract with schedulers, as --help prints it."""


def main(argv: Sequence[str] | None = None) -> int:
    """Dispatch to the named command; exit status 2 for an unknown one."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in ("-h", "--help"):
        print(_help())
        return 0 if arguments else 2
    if arguments[0] == "--version":
        print(f"sparksplit {__version__}")
        return 0
    name = arguments[0]
    if name not in COMMANDS:
        hint = did_you_mean(name, COMMANDS) or f"; the commands are {', '.join(COMMANDS)}"
        print(f"sparksplit: {name}: unknown command{hint}", file=sys.stderr)
        return 2
    try:
        with insistent():
            command: Command = importlib.import_module(f"sparksplit.commands.{name}").COMMAND
    except KeyboardInterrupt:
        stopped = Interrupted(signal.SIGINT)
        print(f"sparksplit {name}: {stopped}", file=sys.stderr)
        return stopped.exit_status
    return command.main(arguments[1:])


def _help() -> str:
    lines = ["usage: sparksplit COMMAND [--config FILE] [--set key.path=value ...]", "", "commands:"]
    lines += [f"  {name:<12}{summary}" for name, summary in COMMANDS.items()]
    lines += ["", "`sparksplit COMMAND --help` lists the command's configuration keys with their defaults."]
    lines += ["", *STATUSES]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
