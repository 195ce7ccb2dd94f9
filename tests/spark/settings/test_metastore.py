"""Where a session with Hive keeps its metastore."""

from __future__ import annotations

import pytest

from sparksplit.spark.settings.metastore import temporary

HIVE = {"spark.sql.catalogImplementation": "hive"}


def test_a_metastore_that_nobody_has_is_temporary_and_the_users_is_left(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("HIVE_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)
    conf, folder = tmp_path / "conf", tmp_path / "session"
    url = f"jdbc:derby:;databaseName={folder}/metastore;create=true"
    assert temporary(HIVE, conf, folder) == {"spark.hadoop.javax.jdo.option.ConnectionURL": url}
    assert temporary({}, conf, folder) == {}
    for key in (
        "spark.hadoop.hive.metastore.uris",
        "spark.hive.metastore.uris",
        "spark.hadoop.javax.jdo.option.ConnectionURL",
    ):
        assert temporary({**HIVE, key: "theirs"}, conf, folder) == {}
    (tmp_path / "metastore_db").mkdir()
    assert temporary(HIVE, conf, folder) == {}


@pytest.mark.parametrize("variable", [None, "HIVE_CONF_DIR", "HADOOP_CONF_DIR"])
def test_hive_site_names_the_users(tmp_path, monkeypatch, variable):
    monkeypatch.chdir(tmp_path)
    conf = tmp_path / "conf"
    conf.mkdir()
    (conf / "hive-site.xml").write_text("<configuration/>")
    if variable:
        monkeypatch.setenv(variable, f"{conf}")
    assert temporary(HIVE, tmp_path / "other" if variable else conf, tmp_path) == {}
