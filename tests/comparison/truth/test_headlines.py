"""Every headline, read back for truth: what was tuned, of which strategies, and of which not."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from sparksplit.comparison.numbers import compact
from sparksplit.comparison.tuning.headline import headline
from sparksplit.comparison.tuning.record import Tried, TunedStrategy, Tuning

RATE, MOMENTUM, EVERY = "optimizer.learning_rate", "optimizer.momentum", "sync.every"
NAMES = {RATE: "learning rate", MOMENTUM: "momentum", EVERY: "H"}
ALSO = ["`batch` on 2", "`batch` on 4"]


def tuned(name, nodes, keys, tries, chosen, also):
    values = dict.fromkeys(keys, 0.5)
    return TunedStrategy(name=name, nodes=nodes, virtual=False, ranges={key: [0.1, 1.0] for key in keys}, chosen=chosen,
                         tries=[Tried(values=values, metric=0.5, loss=1.0)] * tries, edges=[], also=also)  # fmt: skip


@st.composite
def tunings(draw):
    tries = draw(st.integers(2, 16))
    keys = [RATE, *draw(st.sampled_from([[], [MOMENTUM]]))]
    found = [("single", 1, keys, draw(st.sampled_from([[], ALSO[:1], ALSO])))]
    found += [("epoch", nodes, keys, []) for nodes in draw(st.sampled_from([[], [2], [2, 4]]))]
    found += [("local", 2, [*keys, EVERY], [])] if draw(st.booleans()) else []
    strategies = [
        tuned(name, nodes, own, tries, draw(st.sampled_from([0, 1, None])), also) for name, nodes, own, also in found
    ]
    return Tuning(
        metric="accuracy", tries=tries, seeds=[1], strategies=strategies, runs=9, diverged=0, passes=9, node_seconds=1.0
    )


def where(tuned):
    return f"`{tuned.name}` on {tuned.nodes}"


@settings(max_examples=500, deadline=None)
@given(tunings())
def test_a_tuned_headline_is_true(tuning):
    text = headline(tuning, {})
    done = [tuned for tuned in tuning.strategies if tuned.chosen is not None]
    lost = [tuned for tuned in tuning.strategies if tuned.chosen is None]
    assert text.startswith("Tuned: " if done else "Untuned: all tries diverged, so that every strategy has")
    if not done:
        return
    keys = {key for tuned in done for key in tuned.ranges}
    said = re.search(
        rf"the best of {tuning.tries} (?:(learning rates)|tries \(([^)]*)\)), by the validation rows", text
    )
    assert (said[1] is not None) == (keys == {RATE})
    for name in [] if said[2] is None else said[2].split(", "):
        key = next(key for key, own in NAMES.items() if name.startswith(own))
        assert key in keys and name.endswith("where a strategy has it") == any(
            key not in tuned.ranges for tuned in done
        )
    # Who is tuned by whose tries, and whose tries were of no use.
    assert ("tuned once" in text) == any(tuned.also for tuned in done)
    assert {one for one in ALSO if one in text} == {one for tuned in done for one in tuned.also}
    gone = re.search(r"; of (.*) all tries diverged, so that the values that were given are kept", text)
    assert (gone[1].split(", ") if gone else []) == list(map(where, lost))
    assert ("each strategy has" in text) == (len(tuning.strategies) > 1 and not lost)
    if len(tuning.strategies) == 1:
        assert where(done[0]) in text and "each" not in text


ENTRIES = st.sampled_from(
    ["single", "batch", "epoch", "epoch-delayed", "local", "my.py:mine", {"strategy": "batch"},
     {"strategy": "batch", "collective": "ring"}, {"strategy": "batch", "batch_size": 9},
     {"strategy": "epoch", "optimizer": {"name": "adam"}}, {"strategy": "local", "optimizer": {"learning_rate": 0.2}}]
)  # fmt: skip
RATES = st.sampled_from([0.1, 0.03, {"name": "CosineDecay"}])


@settings(max_examples=500, deadline=None)
@given(st.lists(ENTRIES, min_size=1, max_size=4), RATES)
def test_an_untuned_headline_is_true(entries, rate):
    text = headline(None, {"strategies": entries, "optimizer": {"name": "sgd", "learning_rate": rate}})
    named = [entry if isinstance(entry, str) else entry["strategy"] for entry in entries]
    assert text.startswith("Untuned: ") and "`tune: 8`" in text
    own = any(isinstance(entry, dict) and "learning_rate" in entry.get("optimizer", {}) for entry in entries)
    assert ("the rates as they were given" in text) == own and ("rate for all" in text) != own
    if not own:
        assert ("schedule" in text) == isinstance(rate, dict)
        assert isinstance(rate, dict) or compact(rate) in text
        assert ("`epoch` multiplies it by the nodes" in text) == ("epoch" in named)
    # `single` and `batch` with the same keys make the same updates, so that no rate suits one of them better.
    plain = [isinstance(entry, str) or set(entry) <= {"strategy", "collective"} for entry in entries]
    alike = all(plain) and set(named) <= {"single", "batch"}
    assert ("so that the rate favours none" in text) == alike and ("Strategies want different rates" in text) != alike
    assert ("`single` and `batch` make their updates of the same mini-batches" in text) == (alike and "batch" in named)
    assert ("`single` is the only strategy here" in text) == (set(named) == {"single"} and alike)
