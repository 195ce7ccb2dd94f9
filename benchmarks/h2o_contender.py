"""H2O Deep Learning on MNIST, for benchmarks/h2o.py: it runs in an environment of its own, which has `h2o` alone.

    python -P benchmarks/h2o_contender.py FOLDER --threads T --l1 L --target A --cap S --epochs E

(-P: benchmarks/h2o.py would hide the package.) Reads FOLDER/train.csv and test.csv, 784 pixels and the label, prints
"ready", and for each line "HIDDEN SEED" on stdin trains 784-HIDDEN-10 with rectifiers until the test accuracy is A, for
at most S seconds or E passes, and prints a JSON line {"points", "ended"}: for each pass [rows trained on, seconds,
test accuracy], and why it ended: target, cap or epochs.

All else is H2O's default: ADADELTA, one row a mini-batch, columns standardised, threads that update without locks.
Its own clock counts the seconds: all but scoring and setting up, as its column training_speed has it.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

PIXELS, ROWS = 784, 60_000
POLL_SECONDS = 0.5
MEMORY = "2g"


def main() -> None:
    """Start H2O, train once for each line, and leave nothing running."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--l1", type=float, required=True)
    parser.add_argument("--target", type=float, required=True)
    parser.add_argument("--cap", type=float, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    # It prints whatever it likes.
    answers, sys.stdout = sys.stdout, sys.stderr
    import h2o

    h2o.init(
        nthreads=arguments.threads,
        max_mem_size=MEMORY,
        ice_root=str(arguments.folder),
        bind_to_localhost=True,
        strict_version_check=False,
        verbose=False,
    )
    try:
        h2o.no_progress()
        frames = [h2o.import_file(str(arguments.folder / f"{name}.csv"), header=-1) for name in ("train", "test")]
        for frame in frames:
            frame[PIXELS] = frame[PIXELS].asfactor()
        print("ready", file=answers, flush=True)
        for line in sys.stdin:
            hidden, seed = map(int, line.split())
            print(json.dumps(train(arguments, frames, hidden, seed)), file=answers, flush=True)
    finally:
        h2o.cluster().shutdown()


def train(arguments: argparse.Namespace, frames: list[Any], hidden: int, seed: int) -> dict[str, Any]:
    """The points of one training, and why it ended."""
    import h2o
    from h2o.estimators import H2ODeepLearningEstimator

    name = f"hu{hidden}-{seed}"
    learner = H2ODeepLearningEstimator(
        model_id=name,
        hidden=[hidden],
        activation="Rectifier",
        l1=arguments.l1,
        seed=seed,
        epochs=arguments.epochs,
        # Scored on all test rows after each pass, and never ended before the target is reached.
        train_samples_per_iteration=ROWS,
        score_interval=0,
        score_duty_cycle=1,
        score_training_samples=1000,
        score_validation_samples=0,
        stopping_rounds=0,
        classification_stop=-1,
        overwrite_with_best_model=False,
        variable_importances=False,
    )
    began = time.monotonic()
    learner.start(list(range(PIXELS)), PIXELS, frames[0], validation_frame=frames[1])
    (job,) = (job for job in h2o.api("GET /3/Jobs")["jobs"] if (job["dest"] or {}).get("name") == name)
    path, ended = job["key"]["name"], "epochs"
    found: list[tuple[int, float, float]] = []
    while True:
        time.sleep(POLL_SECONDS)
        status = h2o.api(f"GET /3/Jobs/{path}")["jobs"][0]["status"]
        found = points(name) or found
        if status not in ("CREATED", "RUNNING"):
            break
        reached = any(accuracy >= arguments.target for _, _, accuracy in found)
        if reached or time.monotonic() - began > arguments.cap:
            ended = "target" if reached else "cap"
            h2o.api(f"POST /3/Jobs/{path}/cancel")
            while h2o.api(f"GET /3/Jobs/{path}")["jobs"][0]["status"] == "RUNNING":
                time.sleep(POLL_SECONDS)
            break
    if status == "FAILED":
        raise RuntimeError(f"H2O failed: {h2o.api(f'GET /3/Jobs/{path}')['jobs'][0]['exception']}")
    h2o.remove(name)
    return {"points": found, "ended": ended}


def points(model: str) -> list[tuple[int, float, float]]:
    """(rows, seconds, test accuracy) after each pass of the model in training; none before its first."""
    import h2o

    try:
        table = h2o.api(f"GET /3/Models/{model}")["models"][0]["output"]["scoring_history"]
    except h2o.exceptions.H2OResponseError:
        return []
    return [] if table is None else points_of(table.col_header, table.cell_values)


def points_of(header: list[str], rows: list[list[Any]]) -> list[tuple[int, float, float]]:
    """The points in H2O's scoring history, whose first row is of the untrained network.

    training_speed is "5123 obs/sec": rows by the seconds spent on nothing but training.
    """
    speed, samples, error = (
        header.index(name) for name in ("training_speed", "samples", "validation_classification_error")
    )
    return [
        (int(row[samples]), round(row[samples] / float(row[speed].split()[0]), 3), round(1 - row[error], 4))
        for row in rows
        if row[speed] and row[samples]
    ]


if __name__ == "__main__":
    main()
