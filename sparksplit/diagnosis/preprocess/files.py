"""Facts about the input's files, found without opening them."""

from __future__ import annotations

from hdfs_io.listing import find
from sparksplit.diagnosis.preprocess.preprocess_record import Files
from sparksplit.prepare.formats import format_of
from sparksplit.prepare.preprocess_config import InputConfig

_COMPRESSED = (".gz", ".snappy", ".zst", ".deflate", ".lz4")
"""The name endings of text files that are compressed as one stream."""
_TEXTS = ("csv", "hive-text", "json", "text", "idx")


def files_of(config: InputConfig) -> Files | None:
    """The input's files; None where the rows are not in files, or only Spark can reach the files."""
    if not config.listed:
        return None
    format_ = format_of(config.format)
    files = [
        (facts.bytes, path)
        for paths in filter(None, map(config.paths_of, ("path", "validation", "test")))
        for path, facts in (find(paths).files if format_.patterns else format_.load().facts(paths[0], config))
    ]
    if not files:
        return None
    ends = _COMPRESSED if config.format in _TEXTS else ()
    all_whole = config.multiline or config.format == "tfrecord"
    largest_bytes, largest = max(files)
    return Files(
        files=len(files),
        bytes=sum(size for size, _ in files),
        largest=largest,
        largest_bytes=largest_bytes,
        whole=sum(all_whole or path.endswith(ends) for _, path in files),
    )
