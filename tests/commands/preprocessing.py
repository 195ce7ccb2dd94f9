"""How the tests call `preprocess`."""

from __future__ import annotations

from pathlib import Path

from sparksplit.commands import preprocess

CSV = "id,a,b,kind\nr1,1.5,2,cat\nr2,,4,dog\nr3,3.5,6,cat\n"


def run(tmp_path: Path, *settings: str, config: str = "", options: tuple[str, ...] = ()) -> int:
    """Run the command with its output in tmp_path/out."""
    file = tmp_path / "preprocess.yaml"
    file.write_text(config)
    arguments = ["--config", f"{file}", *options]
    for setting in (f"output={tmp_path}/out", *settings):
        arguments += ["--set", setting]
    return preprocess.main(arguments)
