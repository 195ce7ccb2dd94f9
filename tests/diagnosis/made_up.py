"""A diagnosis that nobody measured, for pages and texts: every number is another one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sparksplit.diagnosis.answer import Advice, Answer, Cost, Gain, Limit
from sparksplit.diagnosis.diagnosis_record import FORMAT, Diagnosis, ReadersRow, ReadersTable
from sparksplit.diagnosis.measured import Facts, Measured, Readers
from sparksplit.diagnosis.verdict import Part, Share

SECONDS = {
    "full": [1.02e-4, 1.0e-4, 0.98e-4],
    "repeated": [4.1e-5, 4.0e-5, 3.9e-5],
    "compute": [3.3e-5, 3.1e-5, 3.2e-5],
}


def diagnosis(**changes: Any) -> Diagnosis:
    """The record, with other parts."""
    return replace(_RECORD, **changes)


def answer(**changes: Any) -> Answer:
    """The record's answer, with other parts."""
    return replace(_RECORD.answer, **changes)


_RECORD = Diagnosis(
    format=FORMAT,
    version="0.2.0",
    command="diagnose",
    made="2026-11-23T09:30:00+00:00",
    seconds=73.4,
    config_file="conf/mine.yaml",
    config={"data": "prepared/mnist", "model": {"build": "cnn", "params": {}}, "readers": 1},
    hosts=["worker-one", "worker-two", "worker-one"],
    versions={"tensorflow": "2.21.0"},
    answer=Answer(
        decision="set",
        limit=Limit(name="reading", costs=[Cost(name="reading", share=0.591, gain=Gain(2.51, 2.32, 2.71))]),
        keeping=[
            Advice(
                settings={"readers": 4, "checkpoint.seconds": 300},
                why="4 readers per node, the fewest that are about as fast as any number",
                gain=Gain(1.87, 1.79, 1.95),
                helps=True,
            )
        ],
        changing=[
            Advice(
                settings={"strategy": "local", "sync.every": 16},
                why="nodes train on their own rows, and agree every 16 steps",
                gain=Gain(1.07, 0.98, 1.17),
                helps=False,
            ),
            Advice(settings={"batch_size": 256}, why="4 times the rows in each update", gain=None, helps=False),
        ],
        next='sparksplit compare --set data=prepared/mnist --set \'strategies=[{"strategy": "batch"}]\'',
        rounds=3,
        notes=["a faster `network` would help too"],
    ),
    rows_per_second=10_003.0,
    parts=[
        Part(
            name="reading",
            gain=Gain(2.51, 2.32, 2.71),
            rows_per_second=12_345.0,
            reached=0.81,
            low=11_777.0,
            high=12_888.0,
        ),
        Part(name="copy", gain=Gain(1.01, 0.97, 1.06), rows_per_second=None, reached=None),
        Part(name="synchronise", gain=Gain(1.09, 1.03, 1.14), rows_per_second=140_449.0, reached=0.0712),
        Part(name="compute", gain=Gain(1.21, 1.17, 1.26), rows_per_second=31_250.0, reached=0.32),
    ],
    shares=[
        Share("rows", 0.591),
        Share("copy", 0.0),
        Share("synchronise", 0.083),
        Share("optimizer", 0.044),
        Share("forward and backward", 0.282),
    ],
    readers=ReadersTable(
        now=1,
        knee=4,
        rows=[
            ReadersRow(readers=0, rows_per_second=8_111.0, gain=Gain(0.81, 0.78, 0.84)),
            ReadersRow(readers=1, rows_per_second=10_007.0, gain=Gain(1.0, 1.0, 1.0)),
            ReadersRow(readers=2, rows_per_second=15_222.0, gain=Gain(1.52, 1.46, 1.58)),
            ReadersRow(readers=4, rows_per_second=19_333.0, gain=Gain(1.93, 1.88, 1.99)),
            ReadersRow(readers=8, rows_per_second=19_444.0, gain=Gain(1.94, 1.87, 2.01)),
        ],
    ),
    measured=Measured(
        facts=Facts(
            nodes=2,
            rows=60_000,
            row_bytes=793,
            own_rows=30_000,
            kept=True,
            first_reading=1.7,
            free_mb=5_120,
            cores=6,
            threads=3,
            devices=["CPU:0"],
            sync_bytes=1_730_000,
            model_bytes=1_700_000,
            held_out_bytes=7_930_000,
        ),
        seconds=SECONDS,
        readers=[Readers(readers=1, seconds=SECONDS["full"])],
        checkpoint=0.31,
    ),
)
