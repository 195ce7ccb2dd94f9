"""A diagnosis of a preparation that nobody measured, for the page and texts: every number is another one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sparksplit.diagnosis.answer import Advice, Answer, Cost, Gain, Limit
from sparksplit.diagnosis.preprocess.preprocess_record import Files, Part, PreprocessDiagnosis, Trouble


def preparation(**changes: Any) -> PreprocessDiagnosis:
    """The record, with other parts."""
    return replace(_RECORD, **changes)


def answer(**changes: Any) -> Answer:
    """The record's answer, with other parts."""
    return replace(_RECORD.answer, **changes)


_RECORD = PreprocessDiagnosis(
    version="0.2.0",
    made="2026-11-23T09:30:00+00:00",
    master="spark://driver:7077",
    application_id="app-7",
    output="prepared/clients",
    answer=Answer(
        decision="set",
        limit=Limit(
            name="skew",
            costs=[Cost(name="skew", share=6.1 / 21.5, gain=Gain(21.5 / 15.4, None, None))],
            places=["parse", "count"],
        ),
        keeping=[
            Advice(
                settings={"spark.sql.files.maxPartitionBytes": 1048576},
                why="one task has more rows than the others",
                gain=Gain(1.37, 1.31, 1.43),
                helps=True,
            )
        ],
        changing=[],
        rounds=3,
        notes=["more memory", "disks"],
    ),
    config={"input": {"format": "csv", "path": "clients"}, "output": "prepared/clients"},
    config_file="conf/mine.yaml",
    versions={"sparksplit": "0.2.0", "pyspark": "3.5.9"},
    seconds=21.5,
    slots=2,
    rows=300_123,
    prepared_bytes=72_000_000,
    files=Files(files=8, bytes=52_000_000, largest="/raw/large.csv.gz", largest_bytes=39_000_000, whole=8),
    parts=[
        Part(name="open", seconds=0.9),
        Part(name="parse", seconds=12.0, waiting=4.5, tasks=2),
        Part(name="write", seconds=8.0, waiting=0.25, tasks=4),
        Part(name="publish", seconds=0.6),
    ],
    troubles=[
        Trouble(
            kind="skew",
            parts=["parse", "count"],
            seconds=6.1,
            why="in parse, the slowest of 2 tasks took 11.5 s",
            help=["`spark.sql.files.maxPartitionBytes` cuts the files into more pieces"],
            settings={"spark.sql.files.maxPartitionBytes": 1048576},
        ),
        Trouble(kind="spill", parts=["write"], seconds=None, why="3.3 MB on disks", help=["more memory", "disks"]),
    ],
)
