"""The nodes' part of a plan, from their start to their result. `measuring` is what they measure."""

from __future__ import annotations

from sparksplit.base.memory import most_memory
from sparksplit.base.records import JsonObject
from sparksplit.cluster import Member
from sparksplit.collectives.ring import Ring
from sparksplit.planning.messages import PlanPayload
from sparksplit.training.node.kernels import naming_keys
from sparksplit.training.node.main import configure, connect
from sparksplit.training.node.process import Process


def work(member: Member) -> JsonObject:
    """Measure the configuration of the PlanPayload on one of two nodes. Return the Measured on the first node."""
    with member.phase("start"):
        payload = PlanPayload.from_json(member.payload, "what the driver gave")
        config = payload.train_config()
        configure(config, payload.threads)
        collective = connect(member, config, payload.sources)
        assert isinstance(collective, Ring)  # as `plan` configures it
        process = Process(member, payload, config)
    try:
        with member.phase("start"), naming_keys(config):
            process.build()
            before = most_memory()
            # Imported now, to see how much memory it takes: SciPy and others, which `train` does not import.
            from sparksplit.planning.measuring import Measuring

            imports = most_memory() - before
        with member.phase("measuring"):
            measured = Measuring(process, member, collective, payload, imports).measured()
        return measured.to_json() if member.rank == 0 else {}
    finally:
        process.close()
        collective.close()
