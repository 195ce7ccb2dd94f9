from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparksplit.base.config import load
from sparksplit.base.errors import ConfigError
from sparksplit.dataset.description import LabelSpec
from sparksplit.model.graphs import class_weights
from sparksplit.training.train_config import TrainConfig

LATE = LabelSpec(dtype="int64", classes=["no", "yes"])
DIGITS = LabelSpec(dtype="int64", classes=["0", "1", "7"])


def weights(text, tmp_path, label=LATE, counts=(30, 10), summed=None):
    (tmp_path / "c.yaml").write_text(f"data: d\noutput: o\nclass_weights: {text}\n")
    train = SimpleNamespace(label_counts=list(counts), label_weights=summed)
    manifest = SimpleNamespace(label=label, splits={"train": train})
    return class_weights.of(load(TrainConfig, str(tmp_path / "c.yaml")), manifest)


@pytest.mark.parametrize(
    ("text", "label", "expected"),
    [
        ("null", LATE, None),
        ("balanced", LATE, [40 / 60, 2.0]),
        ("{'yes': 5}", LATE, [1.0, 5.0]),
        ("{'no': 0.5, 'yes': 0}", LATE, [0.5, 0.0]),
        ("{7: 2, '1': 3.5}", DIGITS, [1.0, 3.5, 2.0]),
        ("{true: 4}", LabelSpec(dtype="int64", classes=["false", "true"]), [1.0, 4.0]),
    ],
)
def test_weights_by_the_labels_names(tmp_path, text, label, expected):
    assert weights(text, tmp_path, label) == expected


def test_balanced_classes_weigh_the_same_beside_weights_of_rows(tmp_path):
    """Ten rows of each class, of which those of the second weigh ten times as much."""
    summed = [75.0, 750.0]
    found = weights("balanced", tmp_path, counts=(10, 10), summed=summed)
    assert [weight * total for weight, total in zip(found, summed, strict=True)] == pytest.approx([412.5, 412.5])
    with pytest.raises(ConfigError, match="must be above 0 for at least one class of the training rows"):
        weights("{'no': 0}", tmp_path, summed=[3.0, 0.0])


def test_a_class_without_rows_is_not_enough_to_train_on(tmp_path):
    with pytest.raises(ConfigError, match="class_weights: must be above 0 for at least one class of the training rows"):
        weights("{'no': 0}", tmp_path, counts=(30, 0))


@pytest.mark.parametrize(
    ("text", "label", "message"),
    [
        (
            "{'yess': 2}",
            LATE,
            "class_weights.yess: is not one of the data set's classes (no, yes); did you mean 'yes'?",
        ),
        (
            "{yes: 2}",
            LATE,
            "class_weights.true: is not one of the data set's classes (no, yes); put it in quotes, because",
        ),
        ("{'no': 0, 'yes': 0}", LATE, "class_weights: must be above 0 for at least one class"),
        ("balanced", LabelSpec(dtype="float32"), "class_weights: needs labels that are classes"),
        ("balanced", LATE.model_copy(update={"shape": [40]}), "class_weights: needs one class per row"),
        ("balance", LATE, "class_weights"),
        ("{'no': -1}", LATE, "class_weights"),
    ],
)
def test_weights_that_will_not_do(tmp_path, text, label, message):
    with pytest.raises(ConfigError) as caught:
        weights(text, tmp_path, label)
    assert message in str(caught.value)
    assert str(caught.value).startswith(f"{tmp_path}/c.yaml:3: ")
    assert "\n" not in str(caught.value)


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=20).filter(any))
def test_balanced_classes_weigh_the_same_and_all_rows_as_many_as_there_are(counts):
    found = [weight * count for weight, count in zip(class_weights.balanced(counts), counts, strict=True) if count]
    assert found == pytest.approx([sum(counts) / len(found)] * len(found))
