"""What an application is called; without Spark."""

from __future__ import annotations

import pytest

from sparksplit.spark.application import called, tagged


@pytest.mark.parametrize(
    ("output", "name"),
    [
        ("runs/mnist", "sparksplit train mnist"),
        ("hdfs:///data/runs/2026-11-25/", "sparksplit train 2026-11-25"),
        ("first run", "sparksplit train first run"),
        ("/", "sparksplit train"),
    ],
)
def test_an_application_has_the_name_of_its_output(output: str, name: str) -> None:
    assert called("train", output) == name


def test_on_yarn_it_has_tags_beside_the_users() -> None:
    name, yarn = "sparksplit train mnist", {"spark.master": "yarn"}
    assert tagged(name, yarn) == {"spark.yarn.tags": "sparksplit,train"}
    assert tagged(name, yarn | {"spark.yarn.tags": "sparksplit,nightly"}) == {
        "spark.yarn.tags": "sparksplit,train,nightly"
    }
    assert tagged("sparksplit", yarn) == {"spark.yarn.tags": "sparksplit"}
    assert tagged(name, {"spark.master": "spark://host:7077"}) == tagged(name, {}) == {}
