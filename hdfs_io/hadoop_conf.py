"""What Hadoop's configuration folder says about file systems: the default one, and its name services."""

from __future__ import annotations

import os
from pathlib import Path
from xml.etree import ElementTree

from sparksplit.base.errors import InputError, file_error

DEFAULT_PORT = 8020
"""A NameNode's port, where a URI gives only a host."""


def default_authority() -> str:
    """The authority of the default file system: what `hdfs:///` stands for.

    Raises InputError where HADOOP_CONF_DIR is missing, or names another kind of file system.
    """
    uri = _settings("core-site.xml").get("fs.defaultFS", "")
    if uri.startswith("hdfs://") and uri[7:].strip("/"):
        return with_port(uri[7:].strip("/"))
    folder = _folder()
    if folder is None:
        raise InputError(
            "HADOOP_CONF_DIR is not set: set it to the folder of core-site.xml, or write hdfs://HOST:PORT/"
        )
    found = f"is {uri}" if uri else "is not there"
    raise InputError(f"{folder}/core-site.xml: fs.defaultFS {found}: it must be hdfs://..., or write hdfs://HOST:PORT/")


def with_port(authority: str) -> str:
    """`host:port` or a name service unchanged; a bare host with HDFS's usual port."""
    if ":" in authority or f"dfs.ha.namenodes.{authority}" in _settings("hdfs-site.xml"):
        return authority
    return f"{authority}:{DEFAULT_PORT}"


def service_of(authority: str) -> str:
    """The name service that the NameNode `authority` belongs to; where there is none, `authority` in lower case."""
    authority = authority.lower()
    for key, address in _settings("hdfs-site.xml").items():
        if key.startswith("dfs.namenode.rpc-address.") and address.lower() == authority:
            service, _, node = key.removeprefix("dfs.namenode.rpc-address.").rpartition(".")
            if service and node:
                return service.lower()
    return authority


def _folder() -> Path | None:
    named, home = os.environ.get("HADOOP_CONF_DIR"), os.environ.get("HADOOP_HOME")
    if named:
        return Path(named)
    return Path(home) / "etc" / "hadoop" if home else None


def _settings(name: str) -> dict[str, str]:
    folder = _folder()
    if folder is None or not (folder / name).is_file():
        return {}
    try:
        properties = ElementTree.parse(folder / name).getroot().iter("property")
    except (OSError, ElementTree.ParseError) as error:
        if isinstance(error, OSError):
            raise file_error(str(folder / name), "cannot be read", error) from None
        raise InputError(f"{folder / name}: cannot be read: {error}") from None
    return {(item.findtext("name") or "").strip(): (item.findtext("value") or "").strip() for item in properties}
