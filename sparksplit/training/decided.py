"""What a run with `strategy: auto` trains on: an earlier command's choice, a comparison's, or none yet."""

from __future__ import annotations

from collections.abc import Callable

from sparksplit.base.progress import say
from sparksplit.training.choice import Choice, noted
from sparksplit.training.inputs import RunInputs

Follow = Callable[[RunInputs], Choice]
"""Returns the choice of the comparison that a run names."""


def decided(inputs: RunInputs, run: str | None, follow: Follow | None) -> tuple[RunInputs, Choice | None]:
    """Return the choice of a run, and its inputs with the keys of that choice. The choice is None if the nodes must
    measure, or if the strategy chooses nothing. run: the folder of an unfinished run, whose choice holds."""
    choice = noted(run) if run is not None and inputs.strategy.chooses else None
    again = None if choice is None else choice.told_again(inputs.config.processes)
    if choice is None and inputs.config.comparison is not None and follow is not None:
        choice = follow(inputs)
    if choice is not None and choice.settings is not None:
        inputs = RunInputs.of(choice.taken(inputs.config), inputs.data, inputs.has_frame)
    if again is not None:
        say(again)
    return inputs, choice
