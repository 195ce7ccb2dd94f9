"""When a run stops and which validation was the best, from the values alone."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.base.config import digest, parse
from sparksplit.base.errors import ConfigError, exit_status
from sparksplit.base.keys import unhashed
from sparksplit.dataset.description import LabelSpec
from sparksplit.strategies import STRATEGIES
from sparksplit.strategies.splits import BatchSplit, EpochSplit, LaneSplit, check_rounds
from sparksplit.training.inputs import RunInputs
from sparksplit.training.progress_record import Progress
from sparksplit.training.run_record import Best, StoppedEarly
from sparksplit.training.stopping import Watch, best_of, stopped_early, watch_of
from sparksplit.training.train_config import TrainConfig
from tests.training.records import epoch

VALUES = st.lists(st.floats(allow_subnormal=False), min_size=1, max_size=30)
NAN = math.nan


def seen(watch, values, watched=None, first=1):
    """What has been seen after each of `values`, up to the one that ends the run. Round n ends at update 10 n."""
    found = []
    for number, value in enumerate(values, start=first):
        watched = watch.after(watched, value, number, 10 * number)
        found.append(watched)
        if watch.ends(watched):
            break
    return found


@given(VALUES, st.booleans())
def test_the_best_is_the_first_of_the_best_finite_values(values, higher):
    finite = [value for value in values if math.isfinite(value)]
    last = seen(Watch("m", higher), values)[-1]
    best = (max if higher else min)(finite, default=None)
    assert last.best == best
    assert last.epoch == (values.index(best) + 1 if finite else 0)
    assert last.update == 10 * last.epoch


@given(VALUES, st.booleans(), st.integers(1, 5))
def test_it_ends_once_the_last_validations_have_not_been_better_than_all_before(values, higher, patience):
    def best(part):
        finite = [value if higher else -value for value in part if math.isfinite(value)]
        return max(finite, default=-math.inf)

    ends = [
        end
        for end in range(patience, len(values) + 1)
        if best(values[:end]) == best(values[: end - patience])
    ]  # fmt: skip
    found = seen(Watch("m", higher, patience), values)
    assert len(found) == (ends[0] if ends else len(values))


@given(VALUES, st.booleans(), st.integers(1, 4), st.floats(0, 10), st.data())
def test_what_is_kept_of_it_in_a_checkpoint_leads_to_the_same_end(values, higher, patience, min_delta, data):
    watch = Watch("m", higher, patience, min_delta)
    straight = seen(watch, values)
    until = data.draw(st.integers(1, len(straight)))
    kept = Progress.from_json(Progress("", 1, watched=straight[until - 1]).to_json(), "a test").watched
    assert kept == straight[until - 1]
    again = [] if watch.ends(kept) else seen(watch, values[until:], kept, until + 1)
    assert straight[:until] + again == straight


@given(VALUES, st.integers(1, 4), st.floats(0, 10))
def test_the_two_directions_mirror_each_other(values, patience, min_delta):
    up = seen(Watch("m", True, patience, min_delta), values)
    down = seen(Watch("m", False, patience, min_delta), [-value for value in values])
    assert [(one.epoch, one.waited) for one in up] == [(one.epoch, one.waited) for one in down]


@given(
    st.lists(st.integers(-9, 9), min_size=1, max_size=30), st.sampled_from(["min", "max"]), st.integers(1, 4),
    st.integers(0, 3),
)  # fmt: skip
def test_it_ends_where_keras_would(values, mode, patience, min_delta):
    import keras

    theirs = keras.callbacks.EarlyStopping("m", min_delta=min_delta, patience=patience, mode=mode)
    model = SimpleNamespace(stop_training=False)
    theirs.set_model(model)
    theirs.on_train_begin()
    done = 0
    for value in values:
        if model.stop_training:
            break
        theirs.on_epoch_end(done, {"m": value})
        done += 1
    found = seen(Watch("m", mode == "max", patience, float(min_delta)), [float(value) for value in values])
    assert len(found) == done
    assert Watch("m", mode == "max", patience).ends(found[-1]) == model.stop_training


def test_small_steps_lead_to_the_best_but_end_the_run():
    found = seen(Watch("loss", False, 3, 0.5), [2.0, 1.75, 1.625, 1.5625, 1.0])
    assert [each.waited for each in found] == [0, 1, 2, 3]
    assert (found[-1].best, found[-1].epoch, found[-1].reference) == (1.5625, 4, 2.0)
    # Together they can be an improvement.
    assert seen(Watch("loss", False, 3, 0.5), [2.0, 1.75, 1.25])[-1].waited == 0


def test_values_that_are_not_finite_only_wait():
    found = seen(Watch("auc", True, 3), [NAN, math.inf, 0.5, NAN, -math.inf, NAN])
    assert [each.waited for each in found] == [1, 2, 0, 1, 2, 3]
    assert (found[-1].best, found[-1].epoch) == (0.5, 3)
    assert seen(Watch("auc", True, 2), [NAN, NAN])[-1].best is None


def test_without_patience_it_runs_to_its_end():
    assert len(seen(Watch("loss", False), [1.0] * 50)) == 50


def watching(classes=("a", "b"), validation=50, **keys):
    config = parse(TrainConfig, {"data": "d", "output": "o", **keys})
    label = LabelSpec(dtype="int64", classes=None if classes is None else list(classes))
    return watch_of(config, SimpleNamespace(label=label, splits={"validation": SimpleNamespace(rows=validation)}))


def test_what_is_watched_is_what_the_keys_say():
    assert watching() is None and watching(validation=0) is None and watching(keep_best=False) is None
    assert watching(keep_best=True) == Watch("loss", False)
    assert watching(early_stop={}) == Watch("loss", False, 3, 0.0)
    stop = {"metric": "accuracy", "patience": 5, "min_delta": 0.01}
    assert watching(early_stop=stop) == Watch("accuracy", True, 5, 0.01)
    assert watching(classes=None, early_stop={"metric": "mean_absolute_error"}).higher is False
    assert watching(metrics=["Mean"], early_stop={"metric": "Mean", "mode": "max"}).higher is True
    assert watching(metrics=["auc"], early_stop={"metric": "auc", "mode": "max"}).higher is True


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"early_stop": {}, "validation": 0}, "early_stop: needs validation rows, and d has none; prepare it with"),
        ({"keep_best": True, "validation": 0}, "keep_best: needs validation rows, and d has none; prepare it with"),
        ({"early_stop": {"metric": "auc"}}, "early_stop.metric: must be one of loss, accuracy (is 'auc'), or be added"),
        ({"early_stop": {"metric": "accuracy"}, "classes": None}, "early_stop.metric: must be one of loss, mean_abs"),
        ({"early_stop": {"metric": "Mean"}, "metrics": ["Mean"]}, "early_stop.mode: must be min or max: whether a"),
        ({"early_stop": {"mode": "max"}}, "early_stop.mode: is max, but a lower loss is better"),
    ],
)
def test_what_cannot_be_watched_is_refused_with_the_key(keys, problem):
    with pytest.raises(ConfigError) as caught:
        watching(**keys)
    assert str(caught.value).startswith(problem) and exit_status(caught.value) == 2


@pytest.mark.parametrize(("given", "kept"), [(None, True), (True, True), (False, False)])
def test_the_best_weights_are_kept_where_a_run_may_stop_early_unless_told_otherwise(given, kept):
    keys = {"data": "d", "output": "o", "keep_best": given}
    assert parse(TrainConfig, {**keys, "early_stop": {}}).keeps_best is kept
    assert parse(TrainConfig, keys).keeps_best is bool(given)


def hash_of(**keys):
    config = parse(TrainConfig, {"data": "d", "output": "o", **keys})
    return RunInputs(config, SimpleNamespace(digest="digest"), {}, STRATEGIES["single"]).hash()


def test_only_what_changes_the_result_changes_the_hash():
    values = parse(TrainConfig, {"data": "d", "output": "o"}).model_dump(mode="json")
    added = {
        "accumulate",
        "class_weights",
        "deterministic",
        "device",
        "early_stop",
        "jit_compile",
        "keep_best",
        "metric_weights",
        "reduction",
        "threads",
    }
    left_out = {*unhashed(TrainConfig), "nodes", *added}
    before = {key: value for key, value in values.items() if key not in left_out}
    before["collective"] = "ring"  # the default then, whose bits today's has
    before["order"] = "exact"  # a key of then: what it named is the only way now
    hashed = {"command": "train", "config": before, "data": "digest", "sources": {}}
    assert hash_of() == hash_of(keep_best=False) == digest(hashed), "as before there were such keys"
    others = [
        {"keep_best": True},
        {"early_stop": {}},
        {"early_stop": {}, "keep_best": False},
        {"early_stop": {"patience": 4}},
        {"early_stop": {"min_delta": 0.5}},
        {"early_stop": {"metric": "accuracy"}},
    ]
    assert len({hash_of(), *(hash_of(**keys) for keys in others)}) == 1 + len(others)
    assert hash_of(early_stop={}, keep_best=True) == hash_of(early_stop={})


def test_what_run_json_tells_of_it():
    watch = Watch("auc", True, 2)
    watched = seen(watch, [0.5, 0.75, 0.5, 0.5])[-1]
    progress = Progress("", 1, update=40, history=[epoch(4)], watched=watched)
    assert stopped_early(watch, progress, 9) == StoppedEarly(4, 40, "auc", 0.75)
    assert best_of(watch, progress, True) == Best("auc", 0.75, 2, 20, True)
    # Its patience ended with its last epoch, which it ran anyway.
    assert stopped_early(watch, progress, 4) is None
    assert stopped_early(Watch("auc", True), progress, 9) is None
    assert stopped_early(None, Progress("", 1), 9) is best_of(None, Progress("", 1), False) is None
    nothing = Progress("", 1, history=[epoch(2)], watched=seen(watch, [NAN, NAN])[-1])
    assert stopped_early(watch, nothing, 9) == StoppedEarly(2, 0, "auc", None)
    assert best_of(watch, nothing, True) is None


class Blocks(EpochSplit):
    """Each node runs its own half of the epochs, one after the other."""

    def epochs(self, done, epochs, rank, nodes):
        own = epochs // nodes
        return range(rank * own, (rank + 1) * own)


@given(st.integers(1, 30), st.integers(1, 6))
def test_the_epochs_of_ones_own_split_must_come_round_by_round(epochs, nodes):
    for split in (BatchSplit(), EpochSplit(), LaneSplit()):
        check_rounds(split, epochs, nodes)
    check_rounds(Blocks(), epochs, 1)
    with pytest.raises(
        ValueError, match=r"the epochs of a round must follow those of the round before \(are 0, 4, 1, 5"
    ):
        check_rounds(Blocks(), 8, 2)
