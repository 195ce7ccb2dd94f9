"""Commands: exit statuses, one line for an error, help that lists every key."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from sparksplit.base.config import Config
from sparksplit.base.errors import ConfigError, InputError, NodeFailed, RunError
from sparksplit.base.options import Options
from sparksplit.commands import cli
from sparksplit.commands.command import Command
from tests.logs import without_times


class Inner(Config):
    rate: float = 0.5
    """How fast."""


class Keys(Config):
    epochs: int = 1
    """How often."""
    inner: Inner = Inner()
    """More."""


class Strategy(Config):
    name: str
    """Which."""
    every: int = 1
    """How often."""


Run = Callable[[Keys, Options], None]


def command(run: Run, **more: object) -> Command:
    return Command(
        name="try",
        summary="Tries.",
        config=Keys,
        run=run,
        default_config=lambda: os.devnull,
        **more,  # type: ignore[arg-type]
    )


def fails_with(error: BaseException) -> Run:
    def run(_config: Keys, _options: Options) -> None:
        raise error

    return run


def test_a_command_that_ends_is_0(capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[tuple[Keys, Options]] = []
    tried = command(lambda config, options: seen.append((config, options)), resumable=True)
    assert tried.main(["--set", "epochs=3", "--set", "inner.rate=0.1", "--overwrite", "--resume"]) == 0
    assert seen == [(Keys(epochs=3, inner=Inner(rate=0.1)), Options(overwrite=True, resume=True))]
    assert tried.main(["--restart"]) == 0 and seen[1][1] == Options(restart=True)
    seen.clear()
    assert tried.main(["--resume", "--restart"]) == 2 and not seen
    text = "sparksplit try: argument --restart: not allowed with argument --resume (--help lists the arguments)\n"
    assert capsys.readouterr() == ("", text)
    assert tried.main([]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("error", "status", "line"),
    [
        (ConfigError("c.yaml:3: epochs: no"), 2, "sparksplit try: c.yaml:3: epochs: no\n"),
        (InputError("x.gz: is\n  truncated"), 2, "sparksplit try: x.gz: is truncated\n"),
        (
            InputError("a.csv: no number: '\x1b[2J\x01\x00ä'"),
            2,
            r"sparksplit try: a.csv: no number: '\x1b[2J\x01\x00ä'" "\n",
        ),
        (RunError("it failed"), 1, "sparksplit try: it failed\n"),
        (NodeFailed("node 1 on h ended", rank=1), 1, "sparksplit try: node 1 on h ended\n"),
        (KeyError("x"), 1, "sparksplit try: KeyError: 'x' (--debug shows where)\n"),
        (ValueError(), 1, "sparksplit try: ValueError: no message (--debug shows where)\n"),
        (ValueError("many\nlines"), 1, "sparksplit try: ValueError: many lines (--debug shows where)\n"),
        (KeyboardInterrupt(), 130, "sparksplit try: stopped by SIGINT\n"),
    ],
)
def test_an_error_is_one_line_and_a_status(
    error: BaseException, status: int, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(fails_with(error)).main([]) == status
    assert capsys.readouterr() == ("", line)


def test_a_configuration_file_without_its_flag_is_recognized(capsys: pytest.CaptureFixture[str]) -> None:
    tried = command(lambda config, options: None)
    assert tried.main(["--overwrite", "conf/a.yaml", "x"]) == tried.main(["--bogus"]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "sparksplit try: unrecognized arguments: conf/a.yaml x; did you mean --config conf/a.yaml? "
        "(--help lists the arguments)",
        "sparksplit try: unrecognized arguments: --bogus (--help lists the arguments)",
    ]


@pytest.mark.parametrize(
    ("name", "file", "owner"),
    [
        ("train", "preprocess-table.yaml", "preprocess"),
        ("train", "compare-mlp.yaml", "compare"),
        ("train", "predict.yaml", "predict"),
        ("preprocess", "train-table.yaml", "train"),
        ("predict", "quickstart.yaml", "quickstart"),
        ("check", "train-mlp.yaml", "train"),
        ("compare", "train-mlp.yaml", "train"),
    ],
)
def test_a_file_for_another_command_is_named(
    name: str, file: str, owner: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(Path(__file__).parent.parent.parent / "conf" / file)
    assert cli.main([name, "--config", path]) == 2
    expected = f"sparksplit {name}: {path}: this file is for `{owner}`, not for `{name}`\n"
    assert capsys.readouterr() == ("", expected)


def test_a_file_with_an_unknown_key_is_still_the_commands_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.yaml").write_text("data: d\noutput: o\nstrategies: batch\n")
    assert cli.main(["train", "--config", f"{tmp_path}/t.yaml"]) == 2
    assert "t.yaml:3: strategies: unknown key; did you mean 'strategy'?" in capsys.readouterr().err
    (tmp_path / "c.yaml").write_text("data: d\noutput: o\nstrategy: batch\ninit: x\n")
    assert cli.main(["compare", "--config", f"{tmp_path}/c.yaml"]) == 2
    assert "c.yaml:3: strategy: unknown key; did you mean 'strategies'?" in capsys.readouterr().err


@pytest.mark.parametrize("error", [ConfigError("no"), KeyError("x"), KeyboardInterrupt()])
def test_debug_shows_where(error: BaseException, capsys: pytest.CaptureFixture[str]) -> None:
    plain = command(fails_with(error)).main([])
    assert "Traceback" not in capsys.readouterr().err
    assert command(fails_with(error)).main(["--debug"]) == plain
    assert "Traceback" in (shown := capsys.readouterr().err) and "in run" in shown


@pytest.mark.parametrize(("signum", "name"), [(signal.SIGTERM, "SIGTERM"), (signal.SIGINT, "SIGINT")])
def test_a_signal_stops_in_order(signum: int, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    cleaned = []

    def run(_config: Keys, _options: Options) -> None:
        try:
            os.kill(os.getpid(), signum)
            signal.pause()
        except Exception:
            cleaned.append("a library swallowed it")
        finally:
            cleaned.append("finally")

    before = signal.getsignal(signum)
    assert command(run).main([]) == 128 + signum
    assert cleaned == ["finally"]
    assert capsys.readouterr().err == f"sparksplit try: stopped by {name}\n"
    assert signal.getsignal(signum) is before


def test_what_fails_in_the_course_of_a_signal_does_not_hide_it(capsys: pytest.CaptureFixture[str]) -> None:
    """SIGTERM to the whole process group ends Spark's JVM, too, and whatever cleans up may need that."""

    def run(_config: Keys, _options: Options) -> None:
        try:
            os.kill(os.getpid(), signal.SIGTERM)
            signal.pause()
        finally:
            raise RunError(
                "Spark: the application ended by itself: its master, or the connection to the master, was lost"
            )

    assert command(run).main([]) == 128 + signal.SIGTERM
    assert capsys.readouterr().err == "sparksplit try: stopped by SIGTERM\n"


class Doomed:
    """Where Python drops what is raised: as this goes."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.act = act

    def __del__(self) -> None:
        self.act()


def wait() -> None:
    """For what ends it; as long as a call that hangs, for a test."""
    threading.Event().wait(60)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("then", ["waits", "loses it again", "fails", "ends"])
def test_a_signal_that_python_drops_is_not_lost(
    signum: signal.Signals, then: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(_config: Keys, _options: Options) -> None:
        Doomed(lambda: signal.raise_signal(signum))
        if then == "loses it again":
            Doomed(wait)
        if then == "fails":
            raise RunError("a connection that the signal had closed")
        if then != "ends":
            wait()

    before = sys.unraisablehook, signal.getsignal(signum)
    assert command(run).main([]) == 128 + signum
    assert capsys.readouterr() == ("", f"sparksplit try: stopped by {signum.name}\n")
    assert (sys.unraisablehook, signal.getsignal(signum)) == before
    assert "dropped signals" not in [thread.name for thread in threading.enumerate()]


def test_other_errors_that_python_drops_are_told_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_config: Keys, _options: Options) -> None:
        Doomed(lambda: 1 // 0)

    told: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda dropped: told.append(dropped.exc_type))
    assert command(run).main([]) == 0
    assert told == [ZeroDivisionError]


def test_the_configuration_is_checked_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("c.yaml").write_text("# a comment\nepocs: 3\n")
    ran: list[Keys] = []
    tried = command(lambda config, options: ran.append(config))
    assert tried.main(["--config", "c.yaml"]) == 2
    assert capsys.readouterr().err == "sparksplit try: c.yaml:2: epocs: unknown key; did you mean 'epochs'?\n"
    assert tried.main(["--config", "none.yaml"]) == 2
    assert capsys.readouterr().err == "sparksplit try: none.yaml: cannot be read: No such file or directory\n"
    assert ran == []


@pytest.mark.parametrize("arguments", [["--nonsense"], ["--set"], ["--resume"], ["--over"], ["stray"]])
def test_a_wrong_command_line_is_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert command(fails_with(AssertionError())).main(arguments) == 2
    line = capsys.readouterr().err
    assert line.startswith("sparksplit try: ") and arguments[0] in line
    assert line.endswith(" (--help lists the arguments)\n") and line.count("\n") == 1


class Needy(Config):
    """Keys of which some must be given."""

    data: str
    """Where from."""
    strategy: Strategy
    """How."""
    keys: Keys = Keys()
    """More."""


def test_what_is_required_may_come_from_set_alone(capsys: pytest.CaptureFixture[str]) -> None:
    ran: list[Needy] = []
    needy = Command(name="try", summary="Tries.", config=Needy, run=lambda config, _: ran.append(config))
    assert needy.main([]) == 2
    line = "sparksplit try: data, strategy.name: are required: give --config FILE, or --set KEY=VALUE for each\n"
    assert capsys.readouterr().err == line
    assert needy.main(["--set", "keys.epochs=3"]) == 2
    assert capsys.readouterr().err == "sparksplit try: data, strategy.name: are required\n"
    assert needy.main(["--set", "data=x"]) == 2
    assert capsys.readouterr().err == "sparksplit try: strategy.name: is required\n"
    assert needy.main(["--set", "data=x", "--set", "strategy.every=2"]) == 2
    assert capsys.readouterr().err == "sparksplit try: strategy.name: is required\n"
    assert ran == []
    assert needy.main(["--set", "data=x", "--set", "strategy.name=local"]) == 0
    assert ran == [Needy(data="x", strategy=Strategy(name="local"))]
    bare = Command(name="try", summary="Tries.", config=Keys, run=lambda *_: None)
    assert bare.main([]) == 0


def test_help_lists_every_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert command(fails_with(AssertionError())).main(["--help"]) == 0
    shown = capsys.readouterr().out
    for text in ("epochs: whole number, 1", "How often.", "inner: mapping", "inner.rate: number, 0.5", "How fast."):
        assert text in shown
    assert "--resume" not in shown and "--restart" not in shown


def test_logging_goes_to_stderr_and_libraries_keep_quiet(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the time as in the lines of progress."""
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [])  # pytest's own
    monkeypatch.setattr(root, "level", root.level)

    def run(_config: Keys, _options: Options) -> None:
        logging.getLogger("training").info("said")
        logging.getLogger("py4j.java_gateway").warning("unsaid")

    assert command(run).main([]) == 0
    printed = capsys.readouterr()
    assert printed.out == "" and without_times(printed.err).splitlines()[-1] == "INFO said"
