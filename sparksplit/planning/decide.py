"""The rows and the answer of a plan, from measurements. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from sparksplit.planning.plan_config import Candidate
from sparksplit.planning.plan_record import Answer, PlanRow, Worth
from sparksplit.planning.predicted import Predictor
from sparksplit.planning.workload import numbers, workload
from sparksplit.strategies import STRATEGIES
from sparksplit.training.choice import last_worth
from sparksplit.training.train_config import TrainConfig


class Planner:
    """Predict all runs of the candidates. lane_rows: the rows of each lane of the training split."""

    def __init__(self, predictor: Predictor, single: TrainConfig, lane_rows: Sequence[int], most: int) -> None:
        self._predictor, self._lane_rows, self._most = predictor, lane_rows, most
        self.single = self._row(Candidate("single", STRATEGIES["single"], single, True), 1, None)

    def by_nodes(self, candidate: Candidate) -> list[PlanRow]:
        """Return the rows of a strategy on 1, 2, 3, ... nodes. One node is `single`."""
        return [self.single, *(self._row(candidate, nodes, self.single) for nodes in range(2, self._most + 1))]

    def _row(self, candidate: Candidate, nodes: int, single: PlanRow | None) -> PlanRow:
        config = candidate.config.model_copy(update={"nodes": nodes})
        work = workload(config, candidate.strategy, self._lane_rows)
        found = self._predictor.predicted(work, config.cache_mb << 20)
        seconds = found.seconds.mean
        return PlanRow(
            name=candidate.name,
            nodes=nodes,
            seconds=found.seconds,
            speed_up=1.0 if single is None else single.seconds.mean / seconds,
            node_hours=nodes * seconds / 3600,
            sent_bytes=found.sent,
            memory_bytes=found.memory,
            passes=work.passes,
            extrapolated=not self._predictor.is_measured(work),
        )


def planned(planner: Planner, candidates: Sequence[Candidate], most: int) -> tuple[list[PlanRow], list[Worth], Answer]:
    """Return the rows to show, the nodes that pay for each strategy, and the answer."""
    rows, worth, best = [planner.single], [], {}
    for candidate in candidates:
        by_nodes = planner.by_nodes(candidate)
        pays = last_worth({row.nodes: row.seconds.mean for row in by_nodes})
        worth.append(Worth(name=candidate.name, nodes=pays))
        best[candidate.name] = by_nodes[pays - 1]
        shown = {*numbers(most), pays} - {1}
        rows.extend(row for row in by_nodes if row.nodes in shown)
    return rows, worth, _answer(planner.single, candidates, best)


def _answer(single: PlanRow, candidates: Sequence[Candidate], best: dict[str, PlanRow]) -> Answer:
    same = [each for each in candidates if each.strategy.any_nodes and each.is_plain]
    choice = min([single, *(best[each.name] for each in same)], key=lambda row: (row.seconds.mean, row.nodes))
    others = [best[each.name] for each in candidates if each not in same]
    faster = sorted((row for row in others if row.seconds.mean < choice.seconds.mean), key=lambda row: row.seconds.mean)
    name = "single" if choice.nodes == 1 else next(each.config.strategy for each in same if each.name == choice.name)
    return Answer(
        decision="use" if choice.nodes > 1 else "stay",
        choice=choice,
        others=faster,
        settings={"strategy": name, "nodes": choice.nodes},
    )
