"""A training run on forked nodes, in a process of its own; arguments: data set, output, a folder for the nodes."""

from __future__ import annotations

import sys
from pathlib import Path

from sparksplit.base.config import parse
from sparksplit.base.errors import SparksplitError, exit_status
from sparksplit.base.options import Options
from sparksplit.training.train import train
from sparksplit.training.train_config import TrainConfig
from tests.forked import Zygote, nodes_of

KEYS = {
    "strategy": "single",
    "nodes": 1,
    "epochs": 4,
    "checkpoint": {"every": "epoch"},
    "transform": f"{Path(__file__).with_name('held.py')}:after_a_checkpoint",
}


def main() -> int:
    data, output, folder = sys.argv[1:]
    zygote = Zygote(Path(folder))
    try:
        with nodes_of(zygote):
            train(parse(TrainConfig, {"data": data, "output": output, **KEYS}), Options())
    except SparksplitError as error:
        print(error, file=sys.stderr)
        return exit_status(error)
    finally:
        zygote.end()
    return 0


if __name__ == "__main__":
    sys.exit(main())
