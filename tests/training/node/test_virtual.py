"""What the process of virtual nodes reports to the driver."""

from types import SimpleNamespace

from sparksplit.training.display import RunDisplay
from sparksplit.training.node.virtual import VirtualMember
from tests.training.node.stand_ins import Member


class Process(Member):
    """The process's line to the driver. `reported`: the state that the next heartbeat carries."""

    payload = secret = network = tf_config = None

    @property
    def reported(self):
        return {name: value for state in self.states for name, value in state.items()}


def test_progress_is_that_of_all_and_what_is_reached_that_of_the_furthest():
    """The run's steps, by which a checkpoint counts, are those of one node."""
    process, stage, counts = Process(), SimpleNamespace(size=8), [{} for _ in range(8)]
    for rank in range(8):
        VirtualMember(process, rank, stage, counts).state(update=1000 - rank, rows=5, loss=float(rank))
    assert process.reported == {"update": 8000 - 28, "reached": 1000, "rows": 40, "loss": 0.0}
    display = RunDisplay(1)
    assert display.reached == 0
    display.states[0] = process.reported
    assert display.reached == 1000


def test_of_real_nodes_the_furthest_counts():
    display = RunDisplay(2)
    display.states[:] = [{"update": 9}, {"update": 7}]
    assert display.reached == 9
