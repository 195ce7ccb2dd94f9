"""The settings of a session that sparksplit starts, before Spark reads them."""

from __future__ import annotations

import pytest

from sparksplit.spark.own_session import settings_for

LOCAL = {"spark.master": "local-cluster[2,4,2048]"}
SECRET = "spark.authenticate.secret"


@pytest.mark.parametrize(("configured", "submitted"), [({}, False), (LOCAL, False), (LOCAL, True)])
def test_a_local_cluster_is_closed_to_other_users_whoever_has_started_its_jvm(
    configured: dict[str, str], submitted: bool
) -> None:
    found, other = (settings_for("x", 2, {}, dict(configured), submitted) for _ in range(2))
    assert found["spark.authenticate"] == "true" and len(found[SECRET]) == 64 and found[SECRET] != other[SECRET]
    assert found["spark.driver.host"] == found["spark.driver.bindAddress"] == "127.0.0.1"
    assert found["spark.ui.enabled"] == "false" and found["spark.ui.filters"].endswith(("AmIpFilter", "JWSFilter"))


def test_what_the_user_has_set_for_a_local_cluster_stays() -> None:
    own = {**LOCAL, "spark.authenticate": "true", SECRET: "own", "spark.ui.enabled": "true"}
    found = settings_for("x", 2, {}, dict(own), submitted=True)
    assert {key: found[key] for key in own} == own and "spark.ui.filters" not in found


def test_the_driver_listens_where_executors_call_it() -> None:
    found = settings_for("x", 2, {}, {**LOCAL, "spark.driver.host": "10.1.2.3"}, submitted=True)
    assert found["spark.driver.host"] == "10.1.2.3" and "spark.driver.bindAddress" not in found
    both = {**LOCAL, "spark.driver.host": "h", "spark.driver.bindAddress": "0.0.0.0"}
    assert settings_for("x", 2, {}, dict(both), submitted=True)["spark.driver.bindAddress"] == "0.0.0.0"


@pytest.mark.parametrize("master", ["yarn", "spark://h:7077", "local[2]"])
def test_another_cluster_has_its_own_secrets(master: str) -> None:
    found = settings_for("x", 2, {}, {"spark.master": master}, submitted=True)
    assert not {"spark.authenticate", SECRET, "spark.ui.enabled", "spark.driver.host"} & {*found}
