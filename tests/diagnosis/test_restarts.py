"""What becomes of a diagnosis whose nodes fail with what they try; without nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sparksplit.base.errors import Cancelled, NodeFailed
from sparksplit.diagnosis.diagnose import Ended, gone_on
from sparksplit.diagnosis.measured import Failed, Measured, Readers
from sparksplit.diagnosis.messages import DiagnosisPayload, Effort
from tests.diagnosis.pipelines import Pipeline

KNOWN = Pipeline().measured(np.random.default_rng(0))
PAYLOAD = DiagnosisPayload(
    config={},
    places={},
    run="",
    output="",
    owner="",
    writing="",
    sources={},
    config_hash="",
    threads=1,
    effort=Effort(),
)


class Nodes:
    """Nodes that fail as they are told, one attempt after the other, and then return what they know."""

    def __init__(self, *ends: Ended) -> None:
        self.ends, self.given = list(ends), []

    def __call__(self, payload: DiagnosisPayload) -> Measured:
        self.given.append(payload.known)
        if self.ends:
            raise self.ends.pop(0)
        assert payload.known is not None
        return payload.known


def ended(trying: Any, found: Measured | None = KNOWN) -> Ended:
    return Ended(NodeFailed("node 0 on a:\n out of memory", 0), found, trying)


def test_other_nodes_go_on_without_what_failed() -> None:
    swept = replace(KNOWN, readers=[Readers(1, [1.0])], failed=[Failed({"readers": 8}, "node 0 on a: out of memory")])
    nodes = Nodes(ended({"readers": 8}), ended({"batch_size": 512}, swept))
    found = gone_on(nodes, PAYLOAD, 3)
    assert [each.settings for each in found.failed] == [{"readers": 8}, {"batch_size": 512}]
    assert {each.error for each in found.failed} == {"node 0 on a: out of memory"}
    assert nodes.given[0] is None and nodes.given[1].failed == swept.failed and found.readers == swept.readers
    again = DiagnosisPayload.from_json(replace(PAYLOAD, known=found).to_json(), "this")
    assert again.known == found


def test_there_are_only_so_many_restarts() -> None:
    found = gone_on(Nodes(*(ended({"readers": number}) for number in range(9))), PAYLOAD, 0)
    assert [each.settings for each in found.failed] == [{"readers": 0}, {}]
    assert "max_restarts" in found.failed[-1].error


def test_a_failure_for_no_setting_ends_it_with_what_is_known() -> None:
    assert gone_on(Nodes(ended(None)), PAYLOAD, 3).failed == [Failed({}, "node 0 on a: out of memory")]
    # Those that were to go on have not even begun.
    found = gone_on(Nodes(ended({"readers": 8}), ended(None, None)), PAYLOAD, 3)
    assert [each.settings for each in found.failed] == [{"readers": 8}, {}] and found.seconds == KNOWN.seconds


def test_without_the_step_there_is_nothing_to_go_on_from() -> None:
    with pytest.raises(NodeFailed, match="out of memory"):
        gone_on(Nodes(ended(None, None)), PAYLOAD, 3)


def test_what_someone_has_cancelled_does_not_go_on_without_the_setting() -> None:
    nodes = Nodes(Ended(Cancelled("Job 3 cancelled"), KNOWN, {"readers": 8}))
    with pytest.raises(Cancelled, match="someone has cancelled the nodes' Spark job: Job 3 cancelled"):
        gone_on(nodes, PAYLOAD, 3)
    assert len(nodes.given) == 1
