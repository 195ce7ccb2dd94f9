"""What MLflow is told of a run, without MLflow."""

from hypothesis import given
from hypothesis import strategies as st

from sparksplit.training.tracking import facts
from tests.training.records import epoch, run_record


def test_every_key_is_a_parameter_under_its_dotted_name():
    config = {"loss": None, "nodes": 2, "optimizer": {"name": "sgd", "nesterov": True}, "model": {"params": {}}}
    assert facts.params(config) == {
        "loss": "null",
        "nodes": "2",
        "optimizer.name": "sgd",
        "optimizer.nesterov": "true",
        "model.params": "{}",
    }


@given(st.text(), st.text(max_size=7000))
def test_names_and_values_are_such_that_mlflow_takes_them(name, value):
    ((key, text),) = facts.params({f"k{name}": value}).items()
    assert len(key) <= 250 and len(text) <= 6000
    assert all(letter.isalnum() or letter in "_-. :/" for letter in key)


def test_a_value_that_is_not_finite_is_left_out():
    record = epoch(3)
    assert record.train["auc"] is None
    assert facts.of_epoch(record) == {"train_loss": 2.0, "validation_loss": 1.0, "rows_per_second": 80.5}


def test_a_finished_run_has_its_test_metrics_and_facts():
    record = run_record()
    assert facts.at_end(record) == {"test_loss": 1.25, "seconds": 5.25}
    tags = facts.tags(record)
    assert tags["sparksplit.ledger.exact"] == "true"
    assert (tags["sparksplit.strategy"], tags["sparksplit.nodes"]) == ("batch", "2")
