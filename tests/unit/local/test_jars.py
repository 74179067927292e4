"""The jar cache: what is fetched, what is refused, and what works without Java and network."""

import hashlib
import io
import multiprocessing
import os
import tomllib
from pathlib import Path

import pytest

from onceflow.errors import SetupError
from onceflow.local import jars
from onceflow.spark.versions import TESTED, minor

PINNED = [
    jars.Jar("org.example", name, "1.0", len(body), hashlib.sha256(body).hexdigest())
    for name, body in (("first", b"the first jar"), ("second", b"the second jar"))
]


@pytest.fixture
def cache(tmp_path, monkeypatch):
    """An empty cache, and a pinned list of two little jars."""
    for name in ("ONCEFLOW_JARS", "ONCEFLOW_IVY_SETTINGS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ONCEFLOW_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(jars, "_listed", lambda _group: PINNED)
    return tmp_path / "cache"


@pytest.fixture
def mirror(tmp_path, monkeypatch):
    """A repository in a folder, reached by the real Ivy through ONCEFLOW_IVY_SETTINGS, as a company's is."""
    folder = tmp_path / "mirror"
    folder.mkdir()
    (folder / "first-1.0.jar").write_bytes(b"the first jar")
    (folder / "second-1.0.jar").write_bytes(b"the second jar")
    settings = tmp_path / "own-settings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="own"/><resolvers><filesystem name="own">'
        f'<artifact pattern="{folder}/[artifact]-[revision].[ext]"/></filesystem></resolvers></ivysettings>'
    )
    monkeypatch.setenv("ONCEFLOW_IVY_SETTINGS", str(settings))
    return folder


@pytest.fixture
def no_java(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.delenv("JAVA_HOME", raising=False)


def _fill(cache: Path, jar: jars.Jar, body: bytes) -> Path:
    path = jar.path_in(cache)
    path.parent.mkdir(parents=True)
    path.write_bytes(body)
    return path


def _java_that_says(folder: Path, text: str) -> Path:
    folder.mkdir(parents=True)
    java = folder / "java"
    java.write_text(f"#!/bin/sh\necho '{text}' >&2\n")
    java.chmod(0o755)
    return java


def test_fetched_from_a_mirror_with_progress(cache, mirror):
    """An empty cache is filled through the user's own Ivy settings, jar by jar; no work files stay."""
    steps = []
    found = jars.spark_jars(lambda done, total: steps.append((done, total)))
    assert [path.read_bytes() for path in found] == [b"the first jar", b"the second jar"]
    assert [path.name for path in found] == ["first-1.0.jar", "second-1.0.jar"]
    assert steps == [(0, 2), (1, 2), (2, 2)]
    assert sorted(path.name for path in cache.iterdir()) == ["fetch.lock", "jars"]


class Out(io.StringIO):
    """A stream that may be a terminal."""

    watched = False

    def isatty(self):
        return self.watched


def test_progress_is_one_line(cache, mirror):
    """On a terminal it is written over until all are there; in a log it says once that jars are fetched."""
    out = Out()
    jars.spark_jars(jars.on_one_line(out))
    assert out.getvalue() == "fetching 2 jars, once\n"
    out.watched = True
    for done in range(3):
        jars.on_one_line(out)(done, 2)
    assert out.getvalue().splitlines()[1:] == ["", *(f"fetching jars: {n} of 2" for n in range(3))]


def test_cached_jars_need_neither_java_nor_network(cache, no_java):
    """Once all jars are cached, nothing is started and nothing is asked for."""
    _fill(cache, PINNED[0], b"the first jar")
    _fill(cache, PINNED[1], b"the second jar")
    assert jars.broker_jars() == [jar.path_in(cache) for jar in PINNED]


def test_only_what_is_missing_is_fetched(cache, mirror):
    """A cache that lacks one jar asks the repository for that one only."""
    _fill(cache, PINNED[0], b"the first jar")
    (mirror / "first-1.0.jar").unlink()
    assert len(jars.spark_jars()) == 2


def test_an_altered_jar_in_the_cache_is_refused(cache, no_java):
    """A jar whose SHA-256 is not the pinned one is not handed out; the message names file and both hashes."""
    _fill(cache, PINNED[0], b"the first jar")
    path = _fill(cache, PINNED[1], b"something else")
    with pytest.raises(SetupError) as refused:
        jars.spark_jars()
    for word in (str(path), PINNED[1].sha256, hashlib.sha256(b"something else").hexdigest(), "delete"):
        assert word in str(refused.value)


def test_a_mirror_that_serves_another_jar_is_refused(cache, mirror):
    """A fetched jar with a wrong hash never reaches its place in the cache."""
    (mirror / "second-1.0.jar").write_bytes(b"something else")
    with pytest.raises(SetupError, match="not the one that onceflow was tested with"):
        jars.spark_jars()
    assert not PINNED[1].path_in(cache).exists()


def test_the_home_folder_may_be_written_short(cache, mirror, monkeypatch, tmp_path):
    """A unit file or a container's settings write ~ and no shell replaces it."""
    settings = Path(os.environ["ONCEFLOW_IVY_SETTINGS"])
    monkeypatch.setenv("HOME", str(settings.parent))
    monkeypatch.setenv("ONCEFLOW_IVY_SETTINGS", f"~/{settings.name}")
    jars.spark_jars()
    assert PINNED[0].path_in(cache).is_file()


def test_a_failed_fetch_says_what_and_names_no_address(cache, mirror, monkeypatch, tmp_path):
    """A jar that cannot be fetched is one clear error: which jar, which setting; no host, no password."""
    settings = tmp_path / "dead.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="own"/><resolvers>'
        '<ibiblio name="own" m2compatible="true" usepoms="false" '
        'root="http://user:secret@localhost:1/repository"/></resolvers></ivysettings>'
    )
    monkeypatch.setenv("ONCEFLOW_IVY_SETTINGS", str(settings))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dhttp.proxyPassword=secret")
    with pytest.raises(SetupError) as failed:
        jars.spark_jars()
    assert "first-1.0.jar" in str(failed.value)
    assert f"ONCEFLOW_IVY_SETTINGS={settings}" in str(failed.value)
    assert "localhost" not in str(failed.value)
    assert "secret" not in str(failed.value)


def test_two_processes_that_fetch_at_once_do_not_disturb_each_other(cache, mirror):
    """The second waits for the first, and finds the jars in place."""
    with multiprocessing.get_context("fork").Pool(2) as pool:
        both = [pool.apply_async(jars.spark_jars) for _ in range(2)]
        assert both[0].get(60) == both[1].get(60) == [jar.path_in(cache) for jar in PINNED]
    assert sorted(path.name for path in cache.iterdir()) == ["fetch.lock", "jars"]


@pytest.mark.parametrize("how", ["as it is", "its folder is of all", "the jar is another user's"])
def test_a_jar_that_another_user_may_replace_behind_its_check_is_told(cache, caplog, how):
    """Its SHA-256 is right when it is looked at; Java reads it seconds later."""
    path = _fill(cache, PINNED[0], b"the first jar")
    _fill(cache, PINNED[1], b"the second jar")
    if "folder" in how:
        path.parent.chmod(0o777)
    elif "user" in how and os.getuid() == 0:
        os.chown(path, 65534, 65534)
    elif "user" in how:
        pytest.skip("only root can give a file to another user")
    for _ in range(2):
        jars.broker_jars()
    assert caplog.text.count("can have Java run their code as this user") == (how != "as it is")


def test_own_jars_stand_beside_the_pinned_ones(cache, tmp_path, monkeypatch):
    """A driver alone takes nothing away; files and folders are taken, with a colon or a comma between them."""
    for jar, body in zip(PINNED, (b"the first jar", b"the second jar"), strict=True):
        _fill(cache, jar, body)
    pinned = [jar.path_in(cache) for jar in PINNED]
    (tmp_path / "own").mkdir()
    for name in ("b.jar", "a.jar", "notes.txt"):
        (tmp_path / "own" / name).touch()
    (tmp_path / "one.jar").touch()
    for sign in (os.pathsep, ","):
        monkeypatch.setenv("ONCEFLOW_JARS", f"{tmp_path / 'own'}{sign}{tmp_path / 'one.jar'}")
        assert jars.spark_jars()[:2] == jars.s3_jars() == pinned
        assert [path.name for path in jars.spark_jars()[2:]] == ["a.jar", "b.jar", "one.jar"]
    assert jars.missing_spark_jars() == []


def test_a_connector_of_ones_own_comes_alone(cache, no_java, tmp_path, monkeypatch):
    """Two versions of the connector would meet: with one in ONCEFLOW_JARS Spark's list is it, the broker's is not."""
    (tmp_path / "spark-sql-kafka-0-10_2.13-4.1.0.jar").touch()
    monkeypatch.setenv("ONCEFLOW_JARS", str(tmp_path / "spark-sql-kafka-0-10_2.13-4.1.0.jar"))
    assert [path.name for path in jars.spark_jars()] == ["spark-sql-kafka-0-10_2.13-4.1.0.jar"]
    assert jars.missing_spark_jars() == []
    with pytest.raises(SetupError):
        jars.broker_jars()
    with pytest.raises(SetupError):
        jars.s3_jars()


def test_own_jars_that_are_not_there_are_refused(tmp_path, monkeypatch):
    """A path without a jar is an error that names the path and the variable."""
    monkeypatch.setenv("ONCEFLOW_JARS", str(tmp_path / "missing.jar"))
    with pytest.raises(SetupError, match=r"ONCEFLOW_JARS names .*missing\.jar"):
        jars.spark_jars()


def test_no_java_is_one_clear_line(no_java):
    """Without any Java the first line says what is needed and where was looked."""
    with pytest.raises(SetupError) as missing:
        jars.java_executable()
    assert missing.value.what == "Java 17 or 21 is needed, and no java was found on PATH (JAVA_HOME is not set)"


def test_a_wrong_java_home_is_named(monkeypatch, tmp_path):
    """JAVA_HOME goes before PATH, as it does for Spark; if it has no java, that is said."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SetupError, match=f"JAVA_HOME={tmp_path} has no bin/java"):
        jars.java_executable()


@pytest.mark.parametrize(("said", "version"), [("1.8.0_402", 8), ("11.0.22", 11), ("16.0.2", 16)])
def test_an_old_java_is_refused(monkeypatch, tmp_path, said, version):
    """Java 8 to 16 is refused with the version found and the one needed."""
    java = _java_that_says(tmp_path / "bin", f'openjdk version "{said}" 2024-01-16')
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", str(java.parent))
    with pytest.raises(SetupError) as old:
        jars.java_executable()
    assert old.value.what == f"Java 17 or 21 is needed, and {java} is Java {version}"


@pytest.mark.parametrize("said", ["17.0.15", "21", "25.0.1"])
def test_a_new_enough_java_is_taken(monkeypatch, tmp_path, said):
    """Java 17 and every newer one is taken, from JAVA_HOME first."""
    java = _java_that_says(tmp_path / "bin", f'openjdk version "{said}" 2025-01-01')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert jars.java_executable() == str(java)


def test_a_java_that_does_not_tell_its_version_is_refused(monkeypatch, tmp_path):
    """A program named java that is none is refused and named."""
    java = _java_that_says(tmp_path / "bin", "hello")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SetupError, match=f"{java} did not tell its version"):
        jars.java_executable()


def test_the_pinned_lists_are_complete_and_unambiguous():
    """Every entry has coordinates and a whole SHA-256, and no list holds a file name twice."""
    for group, size in (("spark", 5), ("broker", 46), ("tools", 1)):
        listed = jars._listed(group)
        assert len(listed) == len({jar.file_name for jar in listed}) == size
        assert all(len(jar.sha256) == 64 and jar.size > 0 for jar in listed)


def spark_of(monkeypatch, *names):
    """The Spark that PySpark brings has these jars."""
    monkeypatch.setattr(jars, "spark_home_jars", lambda: [Path("/pyspark/jars", f"{name}.jar") for name in names])
    monkeypatch.delenv("SPARK_HOME", raising=False)


@pytest.mark.parametrize(
    ("release", "taken"),
    [("4.0.0", "4.0.0"), ("4.0.5", "4.0.0"), ("4.1.4", "4.1.0"), ("4.2.0", "4.2.0"), ("4.2.1", "4.2.0")],
)
def test_each_spark_gets_the_connector_of_its_minor_release(monkeypatch, release, taken):
    """A patch release takes the jar of its minor's first release, for which alone there is one."""
    spark_of(monkeypatch, f"spark-core_2.13-{release}")
    assert [jar.rev for jar in jars._listed("spark") if jar.name.startswith("spark-sql-kafka")] == [taken]


def test_the_spark_of_spark_home_is_the_one_that_counts(monkeypatch, tmp_path):
    """PySpark starts that one."""
    spark_of(monkeypatch, "spark-core_2.13-4.2.0")
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.13-4.0.2.jar").touch()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert [jar.rev for jar in jars._listed("spark") if jar.name.startswith("spark-sql-kafka")] == ["4.0.0"]


@pytest.mark.parametrize("release", ["3.5.9", "4.3.0", "4.20.0", "5.0.0"])
def test_a_spark_without_a_connector_is_refused_with_those_that_have_one(monkeypatch, tmp_path, release):
    """In one line, before anything is fetched; with a connector of one's own it is the start that warns."""
    monkeypatch.delenv("ONCEFLOW_JARS", raising=False)
    spark_of(monkeypatch, f"spark-core_2.13-{release}")
    for ask in (jars.spark_jars, jars.missing_spark_jars):
        with pytest.raises(SetupError) as told:
            ask()
        assert told.value.what == f"no jar of the Kafka connector is pinned for Spark {release}"
        assert ", ".join(TESTED) in told.value.cause
    (tmp_path / "spark-sql-kafka-0-10_2.13-mine.jar").touch()
    monkeypatch.setenv("ONCEFLOW_JARS", str(tmp_path))
    assert len(jars.spark_jars()) == 1


def test_s3a_is_of_the_version_of_sparks_hadoop_client(monkeypatch):
    """Another one is refused by both versions: it would miss classes, in the middle of a start."""
    monkeypatch.delenv("ONCEFLOW_JARS", raising=False)
    spark_of(monkeypatch, "spark-core_2.13-4.0.5", "hadoop-client-api-3.4.1")
    with pytest.raises(SetupError, match=r"hadoop-aws 3\.4\.1 with this Spark, and onceflow has 3\.5\.0") as told:
        jars.s3_jars()
    assert "Spark 4.0.5 brings Hadoop's client 3.4.1" in told.value.cause


def test_a_connector_is_pinned_for_each_spark_that_is_tested():
    """What the tests ran on, and what can be fetched for it, are told in two places."""
    pinned = tomllib.loads(Path(jars.__file__).with_name("jars.toml").read_text())["spark-connectors"]
    assert tuple(pinned) == TESTED
    assert all(minor(each[0]["rev"]) == name for name, each in pinned.items())


def test_options_do_not_make_another_java(monkeypatch):
    """The real Java, told to run in another mode: it is the same build."""
    monkeypatch.delenv("JAVA_TOOL_OPTIONS", raising=False)
    jars._told_by.cache_clear()
    build = jars.java_build()
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Xint")
    jars._told_by.cache_clear()
    assert jars.java_build() == build
    assert build.count("\n") == 1


@pytest.mark.parametrize("version", ["3.1", "3.7", "3.9", "4.0"])
def test_an_older_brokers_list_is_of_that_version(version):
    """All of Kafka's own jars in the list are of one release of it, the broker's first; each jar is there once."""
    listed = jars._listed(f"broker-{version}")
    assert listed[0].name == "kafka_2.13"
    assert {jar.rev for jar in listed if jar.org == "org.apache.kafka"} == {listed[0].rev}
    assert listed[0].rev.startswith(f"{version}.")
    assert len({jar.file_name for jar in listed}) == len(listed)


def test_a_version_that_is_not_pinned_is_named():
    """There is no list for it: refused before anything is fetched, with those that there are."""
    with pytest.raises(SetupError, match=r"(?s)broker-2\.8.*broker-3\.1"):
        jars.broker_jars(version="2.8")
