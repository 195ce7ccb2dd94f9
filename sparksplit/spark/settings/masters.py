"""Check that a standalone master answers before Spark tries: Spark takes a minute and then does not name the master."""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Mapping

from sparksplit.base.errors import ConfigError, RunError

MASTER_SECONDS = 10.0
"""Seconds to wait for a master that cannot be reached: it may be starting."""
_PAUSE = 0.5


def await_master(master: str, seconds: float | None = None) -> None:
    """Return as soon as one of the standalone masters in `master` (spark://HOST:PORT,...) accepts a connection.

    Spark itself checks any other kind of master, and any malformed text. seconds: None for MASTER_SECONDS. Raise
    RunError if no master answers in time, ConfigError if the host name does not exist.
    """
    addresses = addresses_of(master)
    end = time.monotonic() + (MASTER_SECONDS if seconds is None else seconds)
    while addresses:
        problems = []
        for host, port in addresses:
            try:
                socket.create_connection((host, port), max(0.1, end - time.monotonic())).close()
                return
            except socket.gaierror as error:
                if error.errno == socket.EAI_NONAME and len(addresses) == 1:
                    raise ConfigError(f"spark.master: {master}: unknown host {host!r}") from None
                problems.append(f"{host}:{port}: {error.strerror}")
            except UnicodeError:
                raise ConfigError(f"spark.master: {master}: {host!r} is not a host name") from None
            except OSError as error:
                problems.append(f"{host}:{port}: {error.strerror or error}")
        if time.monotonic() + _PAUSE > end:
            raise RunError(f"spark.master: {master} cannot be reached: {'; '.join(problems)}")
        time.sleep(_PAUSE)


def check_known(settings: Mapping[str, str], environment: Mapping[str, str] | None) -> None:
    """Raise ConfigError if Spark could not find its cluster: unknown host name of the driver, or YARN without its
    configuration.

    environment: None if spark-submit has checked it.
    """
    host = settings.get("spark.driver.host", "localhost")
    try:
        socket.getaddrinfo(host.strip("[]"), None)
    except (OSError, UnicodeError):
        raise ConfigError(f"spark.driver.host: unknown host {host!r}") from None
    if environment is None or settings.get("spark.master") != "yarn":
        return
    if not {"HADOOP_CONF_DIR", "YARN_CONF_DIR"} & environment.keys():
        raise ConfigError(
            "HADOOP_CONF_DIR: must be the folder of the cluster's configuration, because spark.master is yarn"
        )


def addresses_of(master: str) -> list[tuple[str, int]]:
    """Return (host, port) of each standalone master. Empty for another kind of master or a malformed address."""
    if not master.startswith("spark://"):
        return []
    matches = [
        re.fullmatch(r"\[?([^\[\]/]+?)]?:(\d{1,5})", part) for part in master.removeprefix("spark://").split(",")
    ]
    addresses = [(match[1], int(match[2])) for match in matches if match]
    return addresses if len(addresses) == len(matches) and all(port < 65536 for _, port in addresses) else []
