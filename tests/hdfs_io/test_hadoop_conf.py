"""In whose name HDFS is asked, and what nobody else may do with what is written there."""

from __future__ import annotations

import os

import pytest

from hdfs_io import hadoop_conf
from sparksplit.base.errors import InputError


@pytest.fixture
def site(tmp_path, monkeypatch):
    """Writes files of HADOOP_CONF_DIR: (name, settings)."""
    for name in ("HADOOP_USER_NAME", "SPARK_USER", "SPARKSPLIT_HDFS_UMASK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))

    def write(name, settings):
        properties = (f"<property><name>{key}</name><value>{value}</value></property>" for key, value in settings)
        (tmp_path / name).write_text(f"<configuration>{''.join(properties)}</configuration>")

    return write


@pytest.mark.parametrize(
    ("text", "mask"),
    [
        ("022", 0o022),
        ("27", 0o027),
        ("0077", 0o077),
        ("u=rwx,g=rx,o=", 0o027),
        ("u=rwx,go=", 0o077),
        ("a=rwx, o-wx", 0o003),
        ("+rx,u+w", 0o022),
    ],
)
def test_a_mask_is_octal_or_what_it_allows(site, text, mask):
    site("core-site.xml", [("fs.permissions.umask-mode", text)])
    assert hadoop_conf.umask() == mask


def test_a_mask_is_hdfs_sites_then_core_sites_then_hadoops(site):
    assert hadoop_conf.umask() == 0o022
    site("core-site.xml", [("fs.permissions.umask-mode", "007")])
    assert hadoop_conf.umask() == 0o007
    site("hdfs-site.xml", [("fs.permissions.umask-mode", "077")])
    assert hadoop_conf.umask() == 0o077


@pytest.mark.parametrize("text", ["999", "u=rwz", "rwxr-x---", "0o27"])
def test_what_is_no_mask_is_refused(site, text):
    site("core-site.xml", [("fs.permissions.umask-mode", text)])
    with pytest.raises(InputError, match=r"fs\.permissions\.umask-mode: must be octal"):
        hadoop_conf.umask()


def test_executors_write_as_the_driver_does(site, monkeypatch):
    assert hadoop_conf.for_executors() == {"SPARKSPLIT_HDFS_UMASK": "022"}
    site("core-site.xml", [("fs.permissions.umask-mode", "027")])
    monkeypatch.setenv("HADOOP_USER_NAME", "alice")
    told = hadoop_conf.for_executors()
    assert told == {"HADOOP_USER_NAME": "alice", "SPARKSPLIT_HDFS_UMASK": "027"}
    # There another site is configured, or none.
    monkeypatch.delenv("HADOOP_CONF_DIR")
    monkeypatch.setenv("SPARKSPLIT_HDFS_UMASK", told["SPARKSPLIT_HDFS_UMASK"])
    assert hadoop_conf.umask() == 0o027


def test_a_process_asks_as_itself_as_the_submitter_or_as_it_was_told(site, monkeypatch):
    monkeypatch.setenv("HADOOP_USER_NAME", "")  # so that it is put back
    monkeypatch.delenv("HADOOP_USER_NAME")
    hadoop_conf.ask_as_the_submitter()
    assert "HADOOP_USER_NAME" not in os.environ
    monkeypatch.setenv("SPARK_USER", "alice")
    hadoop_conf.ask_as_the_submitter()
    assert os.environ["HADOOP_USER_NAME"] == "alice"
    monkeypatch.setenv("SPARK_USER", "bob")
    hadoop_conf.ask_as_the_submitter()
    assert os.environ["HADOOP_USER_NAME"] == "alice"
