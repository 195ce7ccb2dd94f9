"""The numbers of nodes that a strategy fits."""

from __future__ import annotations

from collections.abc import Sequence

from sparksplit.base.progress import say
from sparksplit.base.user_functions import is_own
from sparksplit.planning.plan_config import Candidate
from sparksplit.planning.workload import Workload, workload
from sparksplit.training.inputs import check_split

_SHOWN = 9


def works(candidate: Candidate, lane_rows: Sequence[int], most: int) -> dict[int, Workload]:
    """Return the work of the runs of a strategy, by number of nodes from 2 to `most`.

    A user's own split may not fit each number of nodes. Those that it does not fit are left out, and a line says so.
    lane_rows: the rows of each lane of the training split.
    """
    found: dict[int, Workload] = {}
    unfit: dict[int, str] = {}
    for nodes in range(2, most + 1):
        config = candidate.config.model_copy(update={"nodes": nodes})
        try:
            if is_own(config.strategy):
                check_split(config, candidate.strategy, len(lane_rows))
            found[nodes] = workload(config, candidate.strategy, lane_rows)
        except Exception as error:  # a user's own split may fail in any way
            if not is_own(config.strategy):
                raise
            unfit[nodes] = f"{type(error).__name__}: {error}"
    if unfit:
        numbers = ", ".join(map(str, [*unfit][:_SHOWN])) + (", ..." if len(unfit) > _SHOWN else "")
        say(
            f"{candidate.name} is not planned for {numbers} nodes: its split does not fit: {next(iter(unfit.values()))}"
        )
    return found
