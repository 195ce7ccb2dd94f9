"""What can be seen of the input's files without opening them."""

from __future__ import annotations

from hdfs_io.listing import find
from sparksplit.diagnosis.preprocess.record import Files
from sparksplit.prepare.config import InputConfig
from sparksplit.prepare.formats import format_of

_WHOLE = (".gz", ".snappy", ".zst", ".deflate", ".lz4")
"""How files of text end that are compressed as one stream."""
_TEXTS = ("csv", "hive-text", "json", "text", "idx", "tfrecord")


def files_of(config: InputConfig) -> Files | None:
    """The input's files; None where these are no files, or only Spark reaches them."""
    if not config.listed:
        return None
    format_ = format_of(config.format)
    found = [
        (path, facts.bytes)
        for paths in filter(None, map(config.paths_of, ("path", "validation", "test")))
        for path, facts in (find(paths).files if format_.patterns else format_.load().facts(paths[0], config))
    ]
    if not found:
        return None
    largest = max(found, key=lambda file: file[1])
    return Files(
        files=len(found),
        bytes=sum(size for _, size in found),
        largest=largest[0],
        largest_bytes=largest[1],
        whole=sum(is_whole(config, path) for path, _ in found),
    )


def is_whole(config: InputConfig, path: str) -> bool:
    """Whether one task reads a file, however large it is."""
    text = config.format in _TEXTS
    return (text and path.endswith(_WHOLE)) or config.multiline or config.format == "tfrecord"
