"""One command: its arguments, its configuration, its exit status. Each command's module declares a Command."""

from __future__ import annotations

import argparse
import importlib
import json
import logging
import signal
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, get_args

from hdfs_io import ending
from sparksplit.base.complaints import all_required, missing_keys
from sparksplit.base.config import Config, documented_keys, load, top_keys
from sparksplit.base.errors import ConfigError, Interrupted, SparksplitError, exit_status, printable
from sparksplit.base.keys import keys_of
from sparksplit.base.options import Options
from sparksplit.base.progress import STAMP, LogHandler
from sparksplit.base.shown import ERR, finished
from sparksplit.commands.cli import COMMANDS
from sparksplit.spark.interrupts import insistent
from sparksplit.spark.left import remove_left
from sparksplit.spark.session import satisfy_yarn


@dataclass(frozen=True)
class Command:
    """A command of `sparksplit`, and of `spark-submit jobs/NAME.py`.

    run: takes the checked configuration and the options. Raises SparksplitError if it fails.
    default_config: the configuration file to use if the user names none. Without a default, --set may give all required
        keys.
    resumable: whether the command takes --resume and --restart.
    rehearses: whether the command takes --dry-run.
    flags: keys that have their own command-line option. A command with flags has no --overwrite.
    overwrites: whether the command takes --overwrite.
    applies: whether the command takes --apply.
    config_of: returns the kind of a configuration from its top keys, if a file may be of several kinds. `config` is the
        first kind.
    """

    name: str
    summary: str
    config: type[Config]
    run: Callable[[Any, Options], None]
    default_config: Callable[[], str] | None = None
    resumable: bool = False
    rehearses: bool = False
    flags: tuple[str, ...] = ()
    overwrites: bool = True
    applies: bool = False
    config_of: Callable[[Collection[str]], type[Config]] | None = None

    def main(self, argv: Sequence[str] | None = None) -> int:
        """Run the command with `argv` (sys.argv's by default) and return its exit status: 0 to 3, or 128 + signal."""
        try:
            parser = self._parser()
            arguments, others = parser.parse_known_args(argv)
            if others:
                file = next((each for each in others if each.endswith((".yaml", ".yml"))), None)
                hint = f"; did you mean --config {file.rpartition('=')[2]}?" if file else ""
                parser.error(f"unrecognized arguments: {' '.join(others)}{hint}")
        except SystemExit:  # --help has printed its text
            return finished(0, only_text=True)
        except ConfigError as error:
            print(f"sparksplit {self.name}: {error}", file=ERR)
            return finished(exit_status(error))
        return finished(self._status(arguments), only_text=getattr(arguments, "dry_run", False))

    def _status(self, arguments: argparse.Namespace) -> int:
        """Run the command. Print the line for its error, and return its exit status."""
        logging.basicConfig(
            level=logging.DEBUG if arguments.debug else logging.INFO,
            format=f"%(asctime)s %(levelname)s {'%(name)s: ' if arguments.debug else ''}%(message)s",
            datefmt=STAMP,
            handlers=[LogHandler()],
        )
        for noisy in ("py4j", "tensorflowonspark", "absl"):
            logging.getLogger(noisy).setLevel(logging.INFO if arguments.debug else logging.ERROR)
        given = ("overwrite", "resume", "restart", "debug", "dry_run", "apply")
        options = Options(**{name: getattr(arguments, name, False) for name in given})
        try:
            with ending.block(), _stopping_signals(), insistent():
                file = arguments.config or (self.default_config() if self.default_config else None)
                overrides = [*arguments.set, *self._flags_set(arguments)]
                required = missing_keys(self.config, {})
                if file is None and not overrides and required and not self.flags:
                    raise ConfigError(f"{all_required(required)}: give --config FILE, or --set KEY=VALUE for each")
                remove_left()
                kind = self.config if self.config_of is None else self.config_of(top_keys(file, overrides))
                self.run(self._load(kind, file, overrides), options)
                satisfy_yarn()
        except SparksplitError as error:
            if arguments.debug:
                traceback.print_exc(file=ERR)
            print(f"sparksplit {self.name}: {printable(' '.join(str(error).split()))}", file=ERR)
            return exit_status(error)
        except KeyboardInterrupt as error:
            if arguments.debug:
                traceback.print_exc(file=ERR)
            stopped = error if isinstance(error, Interrupted) else Interrupted(signal.SIGINT)
            print(f"sparksplit {self.name}: {stopped}", file=ERR)
            return stopped.exit_status
        except Exception as error:
            if arguments.debug:
                traceback.print_exc(file=ERR)
            text = printable(" ".join(str(error).split())) or "no message"
            print(f"sparksplit {self.name}: {type(error).__name__}: {text[:500]} (--debug shows where)", file=ERR)
            return 1
        return 0

    def _load(self, kind: type[Config], file: str | None, overrides: Sequence[str]) -> Config:
        """Return the configuration. Raise ConfigError if it is wrong, or if the file is for another command."""
        try:
            return load(kind, file, overrides)
        except ConfigError:
            keys: set[str] = set() if file is None else top_keys(file)
            if len(keys - {*kind.model_fields}) < 2:  # a single unknown key is probably a typing error
                raise
            others = {name: importlib.import_module(f"sparksplit.commands.{name}").COMMAND.config for name in COMMANDS}
            # A key that no run of a comparison has speaks for a file of `train`, although `compare` knows the key.
            foreign = {key for other in others.values() for key in keys_of(other, lambda mark: mark.refused)}
            known = len(keys & {*kind.model_fields, *(kind.refused.keys() - foreign)})
            fitting = {name: len(keys & {*other.model_fields}) for name, other in others.items()}
            best = max(fitting, key=lambda name: fitting[name])
            if fitting[best] < known + 2 or 2 * fitting[best] <= len(keys):
                raise
            raise ConfigError(f"{file}: this file is for `{best}`, not for `{self.name}`") from None

    def _parser(self) -> argparse.ArgumentParser:
        parser = _Parser(
            allow_abbrev=False,
            prog=f"sparksplit {self.name}",
            description=self.summary,
            epilog=self._keys(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.add_argument(
            "--config",
            metavar="FILE",
            help="configuration file (YAML)"
            + ("" if self.default_config else "; not needed if --set gives all required keys"),
        )
        parser.add_argument(
            "--set",
            metavar="KEY=VALUE",
            action="append",
            default=[],
            help="override one key, for example --set optimizer.learning_rate=0.05 (may be repeated)",
        )
        for key in self.flags:
            field = self.config.model_fields[key]
            text = " ".join((field.description or "").split()).replace("%", "%%")
            flag = f"--{key.replace('_', '-')}"
            if field.annotation is bool:
                parser.add_argument(flag, action="store_const", const="true", help=text)
            else:
                parser.add_argument(flag, metavar=key.upper(), help=text)
        if self.overwrites and not self.flags:
            parser.add_argument(
                "--overwrite",
                action="store_true",
                help="replace an earlier output of this command; a finished output stays until the new one is complete",
            )
        if self.resumable:
            unfinished = parser.add_mutually_exclusive_group()
            unfinished.add_argument(
                "--resume",
                action="store_true",
                help="continue an unfinished run, even with another number of nodes. Not needed with the same "
                "configuration and data: the run then continues from its last complete checkpoint",
            )
            unfinished.add_argument(
                "--restart",
                action="store_true",
                help="start an unfinished run again from the beginning, without its checkpoints",
            )
        if self.rehearses:
            parser.add_argument(
                "--dry-run",
                action="store_true",
                help="read a sample and print what the command would make of it; nothing is written",
            )
        if self.applies:
            parser.add_argument(
                "--apply",
                action="store_true",
                help="write the settings that help into the configuration file; only settings that "
                "leave the result the same",
            )
        parser.add_argument("--debug", action="store_true", help="log more, and show tracebacks")
        return parser

    def _flags_set(self, arguments: argparse.Namespace) -> Iterator[str]:
        """Yield the command's own options as overrides.

        A text value stays a text, even if YAML would read it as another type.
        """
        for key in self.flags:
            value = getattr(arguments, key)
            if value is not None:
                is_text = str in (
                    self.config.model_fields[key].annotation,
                    *get_args(self.config.model_fields[key].annotation),
                )
                yield f"{key}={json.dumps(value) if is_text else value}"

    def _keys(self) -> str:
        lines = ["configuration keys (key: type, default):"]
        for key, kind, default, text in documented_keys(self.config):
            lines.append(f"  {key}: {kind}{', ' + default if default else ''}")
            if text:
                lines.append(f"      {text}")
        return "\n".join(lines)


class _Parser(argparse.ArgumentParser):
    """Reports a mistake on the command line like any other mistake: in one line, by an exception."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message} (--help lists the arguments)")


@contextmanager
def _stopping_signals() -> Iterator[None]:
    """Turn SIGTERM into Interrupted, so that `finally` blocks run. Python turns SIGINT into KeyboardInterrupt itself.

    After a SIGTERM, any other error also ends in Interrupted, because the signal may reach Spark's processes, too.
    """
    came: list[int] = []

    def stop(signum: int, _frame: object) -> None:
        came.append(signum)
        raise Interrupted(signum)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    except Exception as error:
        if came:
            raise Interrupted(came[0]) from error
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
