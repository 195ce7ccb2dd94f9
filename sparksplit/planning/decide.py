"""The rows and the answer of a plan, from measurements. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparksplit.planning.plan_config import Candidate
from sparksplit.planning.plan_record import Answer, PlanRow, Worth
from sparksplit.planning.predicted import Predictor
from sparksplit.planning.workload import Workload, numbers, workload
from sparksplit.strategies import STRATEGIES
from sparksplit.training.choice import last_worth
from sparksplit.training.train_config import TrainConfig


class Planner:
    """Predict all runs of the candidates. single: the configuration on one node. lane_rows: the rows of each lane of
    the training split."""

    def __init__(self, predictor: Predictor, single: TrainConfig, lane_rows: Sequence[int]) -> None:
        self._predictor, self._config = predictor, single
        work = workload(single, STRATEGIES["single"], lane_rows)
        self.single = self._row(Candidate("single", STRATEGIES["single"], single, True), work, None)

    def by_nodes(self, candidate: Candidate, works: Mapping[int, Workload]) -> list[PlanRow]:
        """Return the rows of a strategy by number of nodes. One node is `single`."""
        return [self.single, *(self._row(candidate, work, self.single) for work in works.values())]

    def _row(self, candidate: Candidate, work: Workload, single: PlanRow | None) -> PlanRow:
        found = self._predictor.predicted(work, candidate.config.cache_mb << 20)
        seconds, is_as_measured = found.seconds.mean, candidate.config.batch_size == self._config.batch_size
        return PlanRow(
            name=candidate.name,
            nodes=work.nodes,
            seconds=found.seconds,
            speed_up=1.0 if single is None else single.seconds.mean / seconds,
            node_hours=work.nodes * seconds / 3600,
            sent_bytes=found.sent,
            memory_bytes=found.memory,
            passes=work.passes,
            extrapolated=not (is_as_measured and self._predictor.is_measured(work)),
        )


def planned(
    planner: Planner, works: Sequence[tuple[Candidate, Mapping[int, Workload]]], most: int
) -> tuple[list[PlanRow], list[Worth], Answer]:
    """Return the rows to show, the nodes that pay for each strategy, and the answer. works: of each candidate, by
    number of nodes up to `most`."""
    rows, worth, best = [planner.single], [], {}
    for candidate, by_number in works:
        by_nodes = planner.by_nodes(candidate, by_number)
        pays = last_worth({row.nodes: row.seconds.mean for row in by_nodes})
        worth.append(Worth(name=candidate.name, nodes=pays))
        best[candidate.name] = by_nodes[pays - 1]
        shown = {*numbers(most), pays} - {1}
        rows.extend(row for row in by_nodes if row.nodes in shown)
    return rows, worth, _answer(planner.single, [candidate for candidate, _ in works], best)


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
