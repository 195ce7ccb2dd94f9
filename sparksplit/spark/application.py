"""The name and the YARN tags of a command's Spark application, for YARN's list and Spark's pages."""

from __future__ import annotations

from collections.abc import Mapping

TAGS = "spark.yarn.tags"


def called(command: str, output: str) -> str:
    """Return `sparksplit COMMAND NAME`, where NAME is the output's last folder."""
    return f"sparksplit {command} {output.rstrip('/').rpartition('/')[2]}".rstrip()


def tagged(name: str, configured: Mapping[str, str]) -> dict[str, str]:
    """Return YARN's tags for the application `name`: sparksplit, the command, and the user's own tags.

    Return {} if the master is not YARN. In YARN's cluster mode the tags come too late.
    """
    if configured.get("spark.master") != "yarn":
        return {}
    our_tags = name.split()[:2]
    return {TAGS: ",".join(dict.fromkeys([*our_tags, *filter(None, configured.get(TAGS, "").split(","))]))}
