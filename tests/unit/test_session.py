"""What a session begins with."""

import pytest

from onceflow.runtime.session import _JAVA_IS_TOLD_BY, _has_chosen_collector

NAMES = ("SPARK_CONF_DIR", "SPARK_HOME", *_JAVA_IS_TOLD_BY)


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch):
    """An environment without settings for Java."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def test_a_collector_is_chosen_only_where_nobody_else_chose_one(monkeypatch):
    """Java does not start with two garbage collectors."""
    assert not _has_chosen_collector({"spark.driver.memory": "2g"})
    assert _has_chosen_collector({"spark.driver.extraJavaOptions": "-Da=b -XX:+UseZGC"})
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xmx1g")
    assert not _has_chosen_collector({})
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "@options.txt")
    assert _has_chosen_collector({})


@pytest.mark.parametrize("name", _JAVA_IS_TOLD_BY)
def test_every_variable_that_java_or_spark_reads_counts(monkeypatch, name):
    """Each of them reaches Java's command line."""
    monkeypatch.setenv(name, "-XX:+UseSerialGC")
    assert _has_chosen_collector({})


def test_a_spark_with_settings_of_its_own_is_left_alone(monkeypatch):
    """Its spark-defaults.conf may name a collector."""
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert _has_chosen_collector({})
