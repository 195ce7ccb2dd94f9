"""Descriptors, of which a process that serves many others needs more than the usual 1,024."""

from __future__ import annotations

import resource


def ask(count: int) -> int:
    """Have the system allow this process `count` open descriptors; returns how many it allows.

    Fewer than asked for where its hard limit is lower; a higher limit stays.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    wanted = count if hard == unlimited else min(count, hard)
    if soft == unlimited or wanted <= soft:
        return count if soft == unlimited else soft
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return wanted
