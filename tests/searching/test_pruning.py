"""Trials that end early are those that Optuna's MedianPruner would end."""

from __future__ import annotations

import math
import warnings
from types import SimpleNamespace

import optuna
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.searching.pruning import Prune, bars
from sparksplit.searching.search_record import Trial
from sparksplit.training.callbacks.own import identity, is_changing

optuna.logging.set_verbosity(optuna.logging.WARNING)
VALUES = st.lists(st.one_of(st.none(), st.integers(0, 6).map(float)), min_size=1, max_size=4)


def complete(number: int, values: list[float | None]) -> Trial:
    epochs = {str(epoch): value for epoch, value in enumerate(values, start=1)}
    return Trial(number=number, keys={}, state="complete", value=values[-1], epochs=epochs)


def ended(prune: Prune, values: list[float | None]) -> int | None:
    """The epoch after which the callback ends the run; None if it does not."""
    model = SimpleNamespace(stop_training=False)
    prune.set_model(model)
    prune.on_train_begin({})
    for epoch, value in enumerate(values):
        prune.on_epoch_end(epoch, {"val_loss": math.nan if value is None else value})
        if model.stop_training:
            return epoch + 1
    return None


@given(st.lists(VALUES, max_size=8), VALUES, st.booleans())
def test_as_optunas_median_pruner(earlier: list[list[float | None]], values: list[float | None], higher: bool) -> None:
    study = optuna.create_study(direction="maximize" if higher else "minimize", pruner=optuna.pruners.MedianPruner())
    for one in earlier:
        known = {epoch: value for epoch, value in enumerate(one, start=1) if value is not None}
        study.add_trial(optuna.trial.create_trial(value=0.0, intermediate_values=known))
    trial = study.ask()
    expected = None
    for epoch, value in enumerate(values, start=1):
        trial.report(math.nan if value is None else value, epoch)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # a trial of which all values are missing
            if trial.should_prune():
                expected = epoch
                break
    limits = bars([complete(number, one) for number, one in enumerate(earlier, start=1)])
    assert ended(Prune("loss", higher, limits), values) == expected


def test_five_complete_trials_come_first() -> None:
    trials = [complete(number, [float(number)]) for number in range(1, 6)]
    pruned = Trial(number=9, keys={}, state="pruned", value=9.0, epochs={"1": 9.0})
    assert bars([*trials[:4], pruned]) == {} and bars([*trials, pruned]) == {1: 3.0}


def test_a_resumed_run_keeps_its_best_value() -> None:
    first = Prune("loss", False, {3: 2.0})
    assert ended(first, [1.0, 5.0]) is None
    model, second = SimpleNamespace(stop_training=False), Prune("loss", False, {3: 2.0})
    second.set_model(model)
    second.on_train_begin({})
    second.set_state(first.get_state())
    second.on_epoch_end(2, {"val_loss": 6.0})
    assert not model.stop_training
    assert is_changing(second) and identity(Prune("loss", False, {3: 2.0})) == identity(Prune("loss", False, {3: 2.0}))
    assert identity(Prune("loss", False, {3: 2.1})) != identity(Prune("loss", False, {3: 2.0}))
