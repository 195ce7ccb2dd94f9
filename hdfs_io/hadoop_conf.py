"""Read Hadoop's configuration folder: the default file system, the name services and the umask. Also set the user name
for requests to HDFS.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from xml.etree import ElementTree

from hdfs_io.errors import InputError, file_error

DEFAULT_PORT = 8020
"""The NameNode port for a URI that gives only a host."""

_USER, _SPARK_USER = "HADOOP_USER_NAME", "SPARK_USER"
_UMASK, _UMASK_KEY = "SPARKSPLIT_HDFS_UMASK", "fs.permissions.umask-mode"
_DEFAULT_UMASK = "022"
_OCTAL, _CLAUSE = re.compile(r"[0-7]{1,4}"), re.compile(r"([ugoa]*)([=+-])([rwx]*)")
_BITS, _PLACES = {"r": 4, "w": 2, "x": 1}, {"u": 6, "g": 3, "o": 0}


def default_authority() -> str:
    """Return the authority of the default file system, which `hdfs:///` names.

    Raise InputError if HADOOP_CONF_DIR is missing or names a file system that is not HDFS.
    """
    uri = _settings("core-site.xml").get("fs.defaultFS", "")
    if uri.startswith("hdfs://") and uri[7:].strip("/"):
        return with_port(uri[7:].strip("/"))
    folder = _folder()
    if folder is None:
        raise InputError(
            "HADOOP_CONF_DIR is not set. Set it to the folder of core-site.xml, or write paths as hdfs://HOST:PORT/..."
        )
    problem = f"is {uri}, not hdfs://..." if uri else "is missing"
    raise InputError(f"{folder}/core-site.xml: fs.defaultFS {problem}. Set it, or write paths as hdfs://HOST:PORT/...")


def with_port(authority: str) -> str:
    """Return `host:port` and name services unchanged. Add HDFS's default port to a bare host."""
    if ":" in authority or f"dfs.ha.namenodes.{authority}" in _settings("hdfs-site.xml"):
        return authority
    return f"{authority}:{DEFAULT_PORT}"


def service_of(authority: str) -> str:
    """Return the name service of the NameNode `authority`. Without a name service, return `authority` in lower case."""
    authority = authority.lower()
    for key, address in _settings("hdfs-site.xml").items():
        if key.startswith("dfs.namenode.rpc-address.") and address.lower() == authority:
            service, _, node = key.removeprefix("dfs.namenode.rpc-address.").rpartition(".")
            if service and node:
                return service.lower()
    return authority


def ask_as_the_submitter() -> None:
    """Make this process, and every process that it starts, send HDFS requests as the user who submitted the job.

    Without Kerberos, HDFS trusts HADOOP_USER_NAME, or else the process's user. In a container, the process's user is
    YARN's. Spark sets SPARK_USER to the submitting user in every process of a job, and itself acts as that user.
    """
    if os.environ.get(_SPARK_USER):
        os.environ.setdefault(_USER, os.environ[_SPARK_USER])


def umask() -> int:
    """Return the permission bits to remove from files written to HDFS: the driver's `fs.permissions.umask-mode`. If the
    driver sent none, use this host's value; the default is 0o022.

    Raise InputError for an invalid mask.
    """
    text = os.environ.get(_UMASK) or _settings("hdfs-site.xml").get(_UMASK_KEY)
    text = text or _settings("core-site.xml").get(_UMASK_KEY) or _DEFAULT_UMASK
    mask = int(text, 8) if _OCTAL.fullmatch(text) else _symbolic(text)
    if mask is None:
        raise InputError(f"{_UMASK_KEY}: must be octal such as 027, or u=rwx,g=rx,o= (is {text!r})")
    return mask


def _symbolic(text: str) -> int | None:
    """Return the mask for the permissions that `text` allows. None if `text` is not in chmod(1) syntax."""
    allowed = 0
    for part in text.split(","):
        clause = _CLAUSE.fullmatch(part.strip())
        if clause is None:
            return None
        who, sign, what = clause.groups()
        bits = sum(_BITS[letter] for letter in set(what))
        for whose, shift in _PLACES.items():
            if not who or whose in who or "a" in who:
                before = allowed >> shift & 7
                after = {"=": bits, "+": before | bits, "-": before & ~bits}[sign]
                allowed = allowed & ~(7 << shift) | after << shift
    return 0o777 & ~allowed


def for_executors() -> dict[str, str]:
    """Return the environment variables that make executors write to HDFS with this process's umask and user."""
    variables = {_UMASK: f"{umask():03o}"}
    return variables | ({_USER: os.environ[_USER]} if os.environ.get(_USER) else {})


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
