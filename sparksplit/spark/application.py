"""What a command's Spark application is called, in the list of YARN and on Spark's pages."""

from __future__ import annotations

from collections.abc import Mapping

TAGS = "spark.yarn.tags"


def called(command: str, output: str) -> str:
    """`sparksplit COMMAND NAME`, NAME being the output's last folder."""
    return f"sparksplit {command} {output.rstrip('/').rpartition('/')[2]}".rstrip()


def tagged(name: str, configured: Mapping[str, str]) -> dict[str, str]:
    """YARN's tags of an application that is called so: sparksplit, the command, and what the user has set; {} where
    there is no YARN. In YARN's cluster mode it is too late for them."""
    if configured.get("spark.master") != "yarn":
        return {}
    own = name.split()[:2]
    return {TAGS: ",".join(dict.fromkeys([*own, *filter(None, configured.get(TAGS, "").split(","))]))}
