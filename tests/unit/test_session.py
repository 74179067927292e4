"""What a session begins with."""

import pytest

from onceflow.runtime import session

DRIVER_MEMORY, JAVA = "spark.driver.memory", "spark.driver.defaultJavaOptions"
NAMES = ("SPARK_CONF_DIR", "SPARK_HOME", "SPARK_DRIVER_MEMORY", *session._JAVA_IS_TOLD_BY)


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch):
    """An environment without settings for Java."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def defaults(**given):
    """What is set for Java beside what the user set."""
    settings = {name.replace("_", "."): value for name, value in given.items()}
    session._java_defaults(settings)
    return settings


def test_what_the_user_sets_stays():
    """Memory and options are defaults."""
    assert defaults(spark_driver_memory="5g")[DRIVER_MEMORY] == "5g"
    assert defaults(spark_driver_defaultJavaOptions="-Da=b")[JAVA] == "-Da=b"


def test_a_collector_is_chosen_only_where_nobody_else_chose_one(monkeypatch):
    """Java does not start with two garbage collectors."""
    assert "-XX:+UseParallelGC" in defaults(spark_driver_memory="5g")[JAVA]
    assert JAVA not in defaults(spark_driver_extraJavaOptions="-Da=b -XX:+UseZGC")
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xmx1g")
    assert "-XX:+UseParallelGC" in defaults()[JAVA]
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "@options.txt")
    assert JAVA not in defaults()


@pytest.mark.parametrize("name", session._JAVA_IS_TOLD_BY)
def test_every_variable_that_java_or_spark_reads_counts(monkeypatch, name):
    """Each of them reaches Java's command line."""
    monkeypatch.setenv(name, "-XX:+UseSerialGC")
    assert JAVA not in defaults()


@pytest.mark.parametrize(
    ("name", "value"), [("SPARK_DRIVER_MEMORY", "1g"), ("PYSPARK_SUBMIT_ARGS", "--driver-memory 1g pyspark-shell")]
)
def test_memory_that_is_told_elsewhere_counts(monkeypatch, name, value):
    """A setting of the session would go before it."""
    monkeypatch.setenv(name, value)
    assert DRIVER_MEMORY not in defaults()


def test_a_spark_with_settings_of_its_own_is_left_alone(monkeypatch):
    """Its spark-defaults.conf may name a collector and a size."""
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert defaults() == {}


@pytest.mark.parametrize(
    ("told", "asked"), [("always [madvise] never", True), ("[always] madvise never", True), ("always [never]", False)]
)
def test_huge_pages_are_asked_for_only_where_linux_gives_them(monkeypatch, tmp_path, told, asked):
    """Java on another system does not know the option, and warns of it where they are switched off."""
    said = tmp_path / "enabled"
    monkeypatch.setattr(session, "_HUGE_PAGES", said)
    assert "HugePages" not in defaults()[JAVA]
    said.write_text(told)
    assert ("HugePages" in defaults()[JAVA]) is asked
