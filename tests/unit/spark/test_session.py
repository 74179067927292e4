"""What a session begins with."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark import SparkContext

from onceflow.checkpoint.spark_files import SparkCheckpoint
from onceflow.errors import CheckpointConflictError, RefusedSettingError, SetupError
from onceflow.local import class_archive
from onceflow.spark import internals, session
from onceflow.spark.versions import NEWEST, minor

DRIVER_MEMORY, JAVA = "spark.driver.memory", "spark.driver.defaultJavaOptions"
NAMES = (
    *("ONCEFLOW_JARS", "ONCEFLOW_DEBUG", "SPARK_CONF_DIR", "SPARK_HOME", "SPARK_DRIVER_MEMORY"),
    *session.JAVA_IS_TOLD_BY,
)


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch):
    """An environment without settings for Java."""
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)


def defaults(**given):
    """What is set for Java beside what the user set."""
    settings = {name.replace("_", "."): value for name, value in given.items()}
    session._java_defaults(settings, ())
    return settings


def test_what_the_user_sets_stays():
    """Memory and options are defaults."""
    assert defaults(spark_driver_memory="5g")[DRIVER_MEMORY] == "5g"
    assert defaults(spark_driver_defaultJavaOptions="-Da=b")[JAVA] == "-Da=b"


def test_a_collector_is_chosen_only_where_nobody_else_chose_one(monkeypatch):
    """Java does not start with two garbage collectors."""
    assert "-XX:+UseParallelGC" in defaults(spark_driver_memory="5g")[JAVA]
    assert "GC" not in defaults(spark_driver_extraJavaOptions="-Da=b -XX:+UseZGC")[JAVA]
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xmx1g")
    assert "-XX:+UseParallelGC" in defaults()[JAVA]
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "@options.txt")
    assert JAVA not in defaults()


@pytest.mark.parametrize("name", session.JAVA_IS_TOLD_BY)
def test_every_variable_that_java_or_spark_reads_counts(monkeypatch, name):
    """Each of them reaches Java's command line."""
    own = "-XX:+UseSerialGC -Darrow.enable_unsafe_memory_access=false -Dlog4j.configurationFile=own.xml"
    monkeypatch.setenv(name, own)
    assert JAVA not in defaults()


def test_spark_logs_by_our_configuration_unless_it_has_one_or_all_is_asked_for(monkeypatch):
    """What comes back to Python as an error is told once; ONCEFLOW_DEBUG shows Spark's log as it is."""
    assert f"-Dlog4j2.configurationFile={session._LOG.as_uri()}" in defaults()[JAVA]
    assert "log4j2.configurationFile" not in defaults(spark_driver_extraJavaOptions="-Dlog4j.debug=1")[JAVA]
    monkeypatch.setenv("ONCEFLOW_DEBUG", "1")
    assert "log4j" not in defaults()[JAVA]


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


@pytest.mark.parametrize("release", ["4.0.0", "4.0.5", "4.1.4", "4.2.0", "4.2.1"])
def test_a_release_of_a_tested_minor_is_taken_without_a_word(release):
    """With the connector of its minor release, whichever patch release that is of."""
    for patch in ("0", release.rpartition(".")[2]):
        connector = f"spark-sql-kafka-0-10_2.13-{minor(release)}.{patch}.jar"
        assert session.untested(release, release, connector) is None


def test_what_was_not_tested_is_said():
    """PySpark, the Spark behind it, and the connector's jar each count, and must be of one minor release."""
    tested, connector = NEWEST, f"spark-sql-kafka-0-10_2.13-{NEWEST}.jar"
    assert session.untested(tested, tested, connector) is None
    older = "spark-sql-kafka-0-10_2.13-4.1.0.jar"
    for other in (
        *(("4.3.0", tested, connector), (tested, "4.1.4", connector), (tested, tested, older)),
        *((tested, tested, "mine.jar"), ("3.5.9", "3.5.9", connector), ("4.20.1", "4.20.1", connector)),
    ):
        said = session.untested(*other)
        assert next(each for each in other if each not in (tested, connector)) in said
        assert f"pip install pyspark=={NEWEST}" in said
    assert "unknown jar" in session.untested(tested, tested, "")


JARS = [Path("/jars/a.jar"), Path("/jars/b.jar")]


@pytest.fixture
def local(monkeypatch):
    """What is set for ``python job.py``, with two jars and nothing running yet."""
    monkeypatch.setattr(session, "spark_jars", lambda: JARS)
    monkeypatch.setattr(session, "java_executable", lambda: "java")
    monkeypatch.setattr(class_archive, "find", lambda _: Path("/cache/with space.jsa"))
    monkeypatch.setattr(SparkContext, "_gateway", None)
    monkeypatch.delenv("SPARK_MASTER", raising=False)

    def settings(**given):
        made = {name.replace("_", "."): value for name, value in given.items()}
        session._local_defaults(made)
        return made

    return settings


def test_a_java_that_is_started_here_has_the_jars_on_its_class_path_and_the_archive_of_classes(local):
    """Only what is on the class path comes out of the archive."""
    found = local()
    assert found["spark.driver.extraClassPath"] == "/jars/a.jar:/jars/b.jar"
    assert "spark.jars" not in found
    assert "'-XX:SharedArchiveFile=/cache/with space.jsa'" in found[JAVA]
    assert "-XX:+UseParallelGC" in found[JAVA]


@pytest.mark.parametrize(
    "given",
    [
        {"spark_driver_extraClassPath": "/own.jar"},
        {"spark_master": "local-cluster[1,1,1024]"},
        {"spark_master": "yarn"},
    ],
)
def test_a_class_path_that_is_not_ours_alone_is_left_as_it_is(local, given):
    """Executors of their own, and a class path that somebody chose: Spark hands the jars out as before."""
    found = local(**given)
    assert found["spark.jars"] == "/jars/a.jar,/jars/b.jar"
    assert found.get("spark.driver.extraClassPath") == given.get("spark_driver_extraClassPath")
    assert "SharedArchiveFile" not in found.get(JAVA, "")


def test_a_java_that_runs_already_gets_the_jars_from_spark(local, monkeypatch):
    """Its class path cannot be changed any more."""
    monkeypatch.setattr(SparkContext, "_gateway", object())
    assert local()["spark.jars"] == "/jars/a.jar,/jars/b.jar"


@pytest.mark.parametrize("name", ["SPARK_HOME", "PYSPARK_SUBMIT_ARGS", "ONCEFLOW_JARS"])
def test_a_class_path_may_be_told_elsewhere(local, monkeypatch, name):
    """By spark-defaults.conf or --driver-class-path; and jars of one's own may be other versions of what Spark has."""
    monkeypatch.setenv(name, "something")
    assert "spark.driver.extraClassPath" not in local()


@pytest.mark.parametrize("own", ["-XX:SharedArchiveFile=own.jsa", "-Xshare:off", "-XX:AOTCache=own.aot"])
def test_an_archive_of_ones_own_goes_before(local, own):
    """Java takes one, and it fits one class path."""
    found = local(spark_driver_extraJavaOptions=own)
    assert "spark.jars" in found
    assert "SharedArchiveFile" not in found[JAVA]


def test_jars_of_ones_own_stay(local):
    """Whoever names jars or packages names the connector too."""
    found = local(spark_jars_packages="a:b:1")
    assert "spark.jars" not in found
    assert "spark.driver.extraClassPath" not in found


@pytest.mark.parametrize(("form", "refused"), [("v1", True), ("v2", False)])
def test_state_without_ids_of_its_own_is_refused(tmp_path, form, refused):
    """Spark's first format of a checkpoint: under the second one, which names states, it fails in its first epoch."""
    for name, text in (("offsets", f"v1\n{{{session._ROCKSDB!r}}}\n-\n"), ("commits", f"{form}\n{{}}\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "3").write_text(text)
    (tmp_path / "state").mkdir()
    checkpoint = SparkCheckpoint.at(tmp_path)
    if refused:
        with pytest.raises(RefusedSettingError, match="has no ids of its own") as told:
            session.require_isolated_state(checkpoint)
        assert "checkpointFormatVersion=1" in told.value.cause
    else:
        session.require_isolated_state(checkpoint)


def test_a_pyspark_of_before_spark_4_is_refused_in_one_line():
    """Where it lacks a name that Spark 4 brought, before anything that needs it is imported."""
    program = (
        "import sys, pyspark.sql.streaming; sys.modules['pyspark.sql.streaming.stateful_processor'] = None\n"
        "import onceflow as of; of.Job"
    )
    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert told.returncode == 1
    assert "is refused: it lacks StatefulProcessor, which came with Spark 4" in told.stderr
    assert f"pip install pyspark=={NEWEST}" in told.stderr


def test_a_form_of_state_that_this_spark_has_no_setting_for_is_refused(tmp_path):
    """A newer Spark began it, and Spark would pass over the setting; without state there is nothing to read wrongly."""

    def get(name):
        if "merge" in name:
            raise KeyError(name)
        return "5"

    asked = SimpleNamespace(conf=SimpleNamespace(get=get), version="4.1.4")
    conf = {"spark.sql.streaming.stateStore.rocksdb.formatVersion": "5"}
    (tmp_path / "offsets").mkdir()
    checkpoint = SparkCheckpoint.at(tmp_path)
    for more, state in (
        ({}, False),
        ({"spark.sql.streaming.merge": "2"}, False),
        ({}, True),
        ({"spark.sql.streaming.merge": "2"}, True),
    ):
        (tmp_path / "offsets" / "0").write_text(f"v1\n{json.dumps({'conf': conf | more})}\n-\n")
        if state:
            (tmp_path / "state").mkdir(exist_ok=True)
        if not (more and state):
            session.require_known_form(asked, checkpoint)
    with pytest.raises(CheckpointConflictError, match=r"none that Spark 4\.1\.4 knows") as told:
        session.require_known_form(asked, checkpoint)
    assert "goes on with spark.sql.streaming.merge=2, which" in told.value.cause


def test_a_java_that_spark_cannot_start_is_told_with_what_to_look_at(monkeypatch, capfd):
    """A Java without a module that Spark asks for ends at once; its own words stay, and ours say what they mean."""
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "--add-modules=not.there")
    with pytest.raises(SetupError, match="ended before anything could be asked") as ended:
        internals.start_java({})
    assert "jdk.incubator.vector" in ended.value.cause
    assert "not.there" in capfd.readouterr().err
