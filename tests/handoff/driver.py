"""A training run that is fed without an end, in a process of its own; arguments: data set, output, mark.

The file `mark` appears when the first rows are on their way.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

from sparksplit.base.config import parse
from sparksplit.base.options import Options
from sparksplit.spark.session import spark_session
from sparksplit.training.train import train
from sparksplit.training.train_config import TrainConfig


def main() -> int:
    data, output, mark = sys.argv[1:]

    def endlessly(batches):  # type: ignore[no-untyped-def]
        for batch in batches:
            while True:
                yield batch
                Path(mark).touch()
                time.sleep(0.1)

    keys = {"data": data, "output": output, "input_mode": "spark", "strategy": "single"}
    with spark_session("fed without an end", 2) as spark:
        rows = spark.read.parquet(f"{data}/train")
        train(parse(TrainConfig, keys), Options(), rows.mapInArrow(endlessly, rows.schema))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
