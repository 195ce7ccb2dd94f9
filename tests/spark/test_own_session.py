"""The settings of a session that sparksplit starts, before Spark reads them."""

from __future__ import annotations

import pytest

from sparksplit.spark import own_session
from sparksplit.spark.own_session import filter_settings, settings_for

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


PROXY_JAR, TOKENS_JAR = "hadoop-yarn-server-web-proxy-3.3.4.jar", "jjwt-impl-0.13.0.jar"


@pytest.mark.parametrize(
    ("jars", "name"),
    [
        (["spark-core_2.12-3.5.9.jar", PROXY_JAR, TOKENS_JAR], "AmIpFilter"),
        (["spark-core_2.13-4.3.0.jar", PROXY_JAR, TOKENS_JAR], "JWSFilter"),
        (["spark-core_2.13-10.0.0.jar", TOKENS_JAR], "JWSFilter"),
        (["spark-core_2.13-3.5.9.jar", TOKENS_JAR], None),
        (["spark-core_2.13-4.3.0.jar", PROXY_JAR], None),
        ([TOKENS_JAR, PROXY_JAR], None),
    ],
)
def test_sparks_pages_are_closed_by_the_filter_of_its_version(
    jars: list[str], name: str | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = filter_settings(jars)
    assert found.get("spark.ui.filters", "None").rpartition(".")[-1] == str(name)
    monkeypatch.setattr(own_session.packages, "spark_jars", lambda home: jars)
    assert found.keys() <= settings_for("x", 2, {}, {}, submitted=False).keys()
    said = capsys.readouterr().err
    assert ("other users of this machine can open Spark's pages: " in said) == (name is None)
    assert settings_for("x", 2, {}, {"spark.ui.enabled": "true"}, submitted=False)["spark.ui.enabled"] == "true"
    assert capsys.readouterr().err == ""


def test_what_the_user_has_set_for_a_local_cluster_stays() -> None:
    own = {**LOCAL, "spark.authenticate": "true", SECRET: "own", "spark.ui.enabled": "true"}
    found = settings_for("x", 2, {}, dict(own), submitted=True)
    assert {key: found[key] for key in own} == own and "spark.ui.filters" not in found


def test_a_session_on_spark_4_is_a_classic_one_whatever_the_default_is() -> None:
    assert settings_for("x", 2, {}, {"spark.api.mode": "connect"}, submitted=False)["spark.api.mode"] == "classic"


def test_the_driver_listens_where_executors_call_it() -> None:
    found = settings_for("x", 2, {}, {**LOCAL, "spark.driver.host": "10.1.2.3"}, submitted=True)
    assert found["spark.driver.host"] == "10.1.2.3" and "spark.driver.bindAddress" not in found
    both = {**LOCAL, "spark.driver.host": "h", "spark.driver.bindAddress": "0.0.0.0"}
    assert settings_for("x", 2, {}, dict(both), submitted=True)["spark.driver.bindAddress"] == "0.0.0.0"


@pytest.mark.parametrize("master", ["yarn", "spark://h:7077", "local[2]"])
def test_another_cluster_has_its_own_secrets(master: str) -> None:
    found = settings_for("x", 2, {}, {"spark.master": master}, submitted=True)
    assert not {"spark.authenticate", SECRET, "spark.ui.enabled", "spark.driver.host"} & {*found}
