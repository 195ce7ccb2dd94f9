"""File descriptors: a process that serves many others needs more than the usual 1,024."""

from __future__ import annotations

import resource


def ask(count: int) -> int:
    """Ask the system for `count` open descriptors for this process. Return how many it allows.

    Return fewer if the hard limit is lower. Keep a limit that is already higher.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    wanted = count if hard == unlimited else min(count, hard)
    if soft == unlimited or wanted <= soft:
        return count if soft == unlimited else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
