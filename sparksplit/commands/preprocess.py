"""`preprocess`: turns raw data (IDX, CSV, text) into a prepared data set, on Spark."""

from __future__ import annotations

from collections.abc import Sequence

from sparksplit.base.options import Options
from sparksplit.base.shown import OUT
from sparksplit.commands.command import Command
from sparksplit.dataset.description import TOKENS, UNKNOWN
from sparksplit.dataset.prepared import PreparedDataSet
from sparksplit.prepare.bad_rows import FOLDER, said
from sparksplit.prepare.dry_run import dry_run
from sparksplit.prepare.durations import written
from sparksplit.prepare.preprocess import preprocess
from sparksplit.prepare.preprocess_config import PreprocessConfig
from sparksplit.prepare.windows_config import said as said_windows


def run(config: PreprocessConfig, options: Options) -> None:
    """Prepare the data set, unless it is up to date, and print its content on standard output.

    For a dry run, print the result for a sample.
    """
    print(dry_run(config) if options.dry_run else summary(preprocess(config, options)), file=OUT)


def summary(data: PreparedDataSet) -> str:
    """Return the content of a prepared data set, as text for people."""
    manifest = data.manifest
    lines = [
        f"{name:<11}{split.rows:>12,} rows in {sum(rows > 0 for rows in split.lane_rows)} of {manifest.lanes} lanes,"
        f" {split.files:,} file{'' if split.files == 1 else 's'}, {split.bytes:,} bytes"
        for name, split in manifest.splits.items()
    ]
    tensors = ", ".join(f"{tensor.name}: {tensor.dtype} {tensor.shape}" for tensor in manifest.tensors)
    label = manifest.label
    kind = "none" if label is None else f"{len(label.classes)} classes" if label.classes is not None else "a number"
    kind = f"{label.shape[0]} numbers" if label is not None and label.classes is None and label.shape else kind
    scaled = ", scaled in training" if label is not None and label.is_scaled else ""
    lines.append(f"tensors    {tensors}; label: {kind}{scaled}")
    if label is not None and label.classes is not None and label.kind in TOKENS:
        counts = [(name, split.label_counts) for name, split in manifest.splits.items() if split.label_counts]
        unknown = ", ".join(f"{rows[0]:,} of {sum(rows):,} in {name}" for name, rows in counts if sum(rows))
        lines.append(f"vocabulary {len(label.classes) - 1:,} {label.kind}; unknown: {unknown}")
    if (windows := manifest.windows) is not None:
        by = f" of each {', '.join(windows.by)}" if windows.by else ""
        step = written(windows.step, time=windows.time)
        left = said_windows(manifest.windows_left_out) or "none"
        lines.append(f"windows    {windows.window} rows{by} and the next {windows.horizon} of {windows.label}")
        lines.append(f"           no window spans rows more than {step} apart; left out: {left}")
    if manifest.unseen_labels:
        unseen = ", ".join(f"{rows:,} rows of {name}" for name, rows in manifest.unseen_labels.items())
        became = f"have the class {UNKNOWN}" if label is not None and label.unknown else "were left out"
        lines.append(f"unseen     {unseen} with labels that no training row has {became}")
    if bad := said(manifest.bad_rows):
        lines.append(f"bad rows   {bad}; they are in {data.path}/{FOLDER}")
    return "\n".join([*lines, f"prepared   {data.path}"])


COMMAND = Command(
    name="preprocess",
    summary="Turn raw data into a prepared data set: Parquet files, manifest and fitted preprocessing.",
    config=PreprocessConfig,
    run=run,
    rehearses=True,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit status."""
    return COMMAND.main(argv)
