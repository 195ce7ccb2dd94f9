"""`preprocess`: raw data (IDX, CSV, text) to a prepared data set, on Spark."""

from __future__ import annotations

from collections.abc import Sequence

from hdfs_io.config import PreprocessConfig
from hdfs_io.prepare import prepare
from hdfs_io.prepared import PreparedDataSet
from hdfs_io.preprocessing import TOKENS
from hdfs_io.publish import Output
from hdfs_io.sources import Source, open_source, raw_digest
from sparksplit.base.command import Command, Options
from sparksplit.base.progress import spark_progress
from sparksplit.base.session import spark_session


def run(config: PreprocessConfig, options: Options) -> None:
    """Prepare the data set, unless it is there already; print what it holds."""
    config.check()
    inputs = {**config.input.paths(), **config.own_file}
    output = Output(config.output, config.config_hash(), "preprocess", inputs, raw_digest(config.input))
    # What is wrong with the input is told before anything is written, the claim on the output included.
    source = None if output.decide(options.overwrite) == "done" else _open(config)
    with output.claimed(options.overwrite) as decision:
        if decision == "done":
            print(f"{output.path}: is complete, made with the same configuration; nothing was done")
            return
        source = source or _open(config)
        # Published, or removed, when Spark has stopped and nothing writes any more.
        with (
            output.staging() as folder,
            spark_session("sparksplit preprocess", config.executors, nodes=False) as spark,
            spark_progress(spark, "preprocess"),
        ):
            output.lease.tell(spark.sparkContext.applicationId)
            manifest = prepare(spark, config, source, folder)
    print(summary(PreparedDataSet(output.path, manifest)))


def _open(config: PreprocessConfig) -> Source:
    """The source of raw rows. Raises ConfigError and InputError for what is wrong with it as far as the driver sees."""
    source = open_source(config.input, validation=config.validation, test=config.test)
    if source.has_test and config.test > 0:
        raise config.error("test", f"must be 0: the source brings a test split (is {config.test})")
    return source


def summary(data: PreparedDataSet) -> str:
    """What a prepared data set holds, for people."""
    manifest = data.manifest
    lines = [
        f"{name:<11}{split.rows:>12,} rows in {sum(rows > 0 for rows in split.lane_rows)} of {manifest.lanes} lanes,"
        f" {len(split.files)} file{'' if len(split.files) == 1 else 's'},"
        f" {sum(file.bytes for file in split.files):,} bytes"
        for name, split in manifest.splits.items()
    ]
    tensors = ", ".join(f"{tensor.name}: {tensor.dtype} {tensor.shape}" for tensor in manifest.tensors)
    label = manifest.label
    kind = "none" if label is None else f"{len(label.classes)} classes" if label.classes is not None else "a number"
    lines.append(f"tensors    {tensors}; label: {kind}")
    if label is not None and label.classes is not None and label.kind in TOKENS:
        counts = [(name, split.label_counts) for name, split in manifest.splits.items() if split.label_counts]
        unknown = ", ".join(f"{found[0]:,} of {sum(found):,} in {name}" for name, found in counts if sum(found))
        lines.append(f"vocabulary {len(label.classes) - 1:,} {label.kind}; unknown: {unknown}")
    return "\n".join([*lines, f"prepared   {data.path}"])


COMMAND = Command(
    name="preprocess",
    summary="Raw data to a prepared data set: Parquet, manifest and fitted preprocessing.",
    config=PreprocessConfig,
    run=run,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit status."""
    return COMMAND.main(argv)
