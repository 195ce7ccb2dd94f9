"""Hive's metastore for a session that sparksplit starts: the user's own, or a temporary one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

_URL = "javax.jdo.option.ConnectionURL"
_FOLDERS = ("HIVE_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")


def temporary(settings: Mapping[str, str], conf: Path, folder: Path) -> dict[str, str]:
    """Return the settings that put a metastore into `folder` if the user has none. Otherwise Spark would make one in
    the working folder.

    settings: of a session. Without Hive, no metastore is needed. conf: the folder of Spark's configuration files.
    """
    if settings.get("spark.sql.catalogImplementation") != "hive" or _has_one(settings, conf):
        return {}
    return {f"spark.hadoop.{_URL}": f"jdbc:derby:;databaseName={folder}/metastore;create=true"}


def _has_one(settings: Mapping[str, str], conf: Path) -> bool:
    folders = [conf, *(Path(os.environ[name]) for name in _FOLDERS if os.environ.get(name))]
    return (
        any(key.endswith((_URL, "hive.metastore.uris")) for key in settings)
        or any((folder / "hive-site.xml").is_file() for folder in folders)
        or Path("metastore_db").is_dir()  # Spark has made one here earlier
    )
