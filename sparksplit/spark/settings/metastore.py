"""Hive's metastore, for a session of our own: the user's, or none that is left behind."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

_URL = "javax.jdo.option.ConnectionURL"
_FOLDERS = ("HIVE_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR")


def temporary(settings: Mapping[str, str], conf: Path, folder: Path) -> dict[str, str]:
    """The settings that put a metastore into `folder` where the user has none: Spark would make one in the working
    folder.

    settings: of a session; none are needed unless it has Hive. conf: the folder of Spark's configuration files
    """
    if settings.get("spark.sql.catalogImplementation") != "hive" or _has_one(settings, conf):
        return {}
    return {f"spark.hadoop.{_URL}": f"jdbc:derby:;databaseName={folder}/metastore;create=true"}


def _has_one(settings: Mapping[str, str], conf: Path) -> bool:
    folders = [conf, *(Path(os.environ[name]) for name in _FOLDERS if os.environ.get(name))]
    return (
        any(key.endswith((_URL, "hive.metastore.uris")) for key in settings)
        or any((folder / "hive-site.xml").is_file() for folder in folders)
        or Path("metastore_db").is_dir()  # Spark's own, made here earlier
    )
