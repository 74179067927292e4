"""The SparkSession: making one with what a job needs, or checking one that the user brings.

Must not know: sinks, the journal.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from onceflow import crash_points as crash
from onceflow.checkpoint.spark_files import SparkCheckpoint
from onceflow.errors import CheckpointConflictError, ConfigurationError, RefusedSettingError
from onceflow.local import class_archive
from onceflow.local.jars import java_executable, s3_jars, spark_jars
from onceflow.masking import NAMES
from onceflow.processes import umask
from onceflow.spark.internals import (
    class_here,
    is_classic,
    jar_of,
    java,
    java_runs_already,
    quiet,
    require,
    running_session,
    start_java,
)
from onceflow.spark.interpreter import path_of_tasks, take_the_drivers
from onceflow.spark.versions import NEWEST, TESTED, minor
from onceflow.storage.files import FILE_MANAGER, FILE_MANAGERS

log = logging.getLogger(__name__)

_CONNECTOR = "org.apache.spark.sql.kafka010.KafkaSourceProvider"
_OF_STREAMS = "spark.sql.streaming."
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"

PINNED: Mapping[str, str] = {
    # Each row must be of the same partition when an epoch runs again: by partitions two runs are compared.
    "spark.sql.adaptive.streaming.stateless.enabled": "false",
    # State of a run that was not recorded must never mix with state of the run that is: version 2 gives each run's
    # state files ids of their own, and only RocksDB has it.
    "spark.sql.streaming.stateStore.providerClass": _ROCKSDB,
    "spark.sql.streaming.stateStore.checkpointFormatVersion": "2",
    # The other form of offsets/N has its lines in no order, under numbers: here a position is told by its line.
    "spark.sql.streaming.offsetLog.formatVersion": "1",
    # Named sources stand in sources/<name>, where nobody here looks for where they begin.
    "spark.sql.streaming.queryEvolution.enableSourceEvolution": "false",
    # Spark looks for what its version 2 wrote, under the path's quoted name. Somebody's folder may have that name.
    "spark.sql.streaming.checkpoint.escapedPathCheck.enabled": "false",
    # Of two parts of a plan that shuffle the same rows Spark would run one for both. Behind it, when it asks whether an
    # epoch without records is due, it sees no watermark, keeps that for the next epoch, and the state below never ends.
    "spark.sql.exchange.reuse": "false",
    # Plans are printed in errors, logs and Spark's UI; its own patterns let a PEM key and JAAS text pass.
    "spark.sql.redaction.options.regex": r"(?i)url|secret|password|token|jaas|keystore[.]key|key[.]password",
}
"""What a query under onceflow always runs with."""

DEFAULTS: Mapping[str, str] = {
    # Rows go to the Python workers in Arrow batches, bounded by Spark's 64 MB or so many rows. With the memory limit
    # off, large records make batches that no Java can allocate; fewer rows than Spark's 10,000 suit the caches.
    "spark.sql.execution.arrow.maxBytesPerBatch": "67108864",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
    # offsets/N and commits/N: the same files by the same rename(2), on a local or shared POSIX file system. The
    # default manager asks for link targets by running `readlink`, sixteen processes for each epoch.
    FILE_MANAGER: FILE_MANAGERS + "FileSystemBasedCheckpointFileManager",
}
"""What a session that onceflow makes begins with; the user's settings go before."""

_LOG = Path(__file__).with_name("log4j2.properties").absolute()
_HUGE_PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")
JAVA_IS_TOLD_BY = (
    "JAVA_TOOL_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "_JAVA_OPTIONS",
    "SPARK_SUBMIT_OPTS",
    "PYSPARK_SUBMIT_ARGS",
)
"""Variables whose options reach the command line of Spark's Java."""


_WAITS = "spark.hadoop.dfs.client.block.write.locateFollowingBlock."
HDFS_CLIENT: Mapping[str, str] = {
    # A writer asks whether its file is complete, and again after 0.4 s, Hadoop's default: most of what a small file
    # takes, and an epoch writes half a dozen. Asked sooner, and twice as long after each time, for as long in all.
    _WAITS + "initial.delay.ms": "5",
    _WAITS + "retries": "12",
}
"""What Spark's Java begins with where it is started for a checkpoint on HDFS; the user's settings go before."""

_UMASK = "spark.hadoop.fs.permissions.umask-mode"

_begun: dict[str, str] = {}
"""What Java was started with where that came before the session."""


def begin_java(name: str, spark: Mapping[str, str]) -> None:
    """Start Java alone, as ``make_session`` would: a checkpoint on HDFS is read through it, before Spark is there.

    Args:
        name: As of ``make_session``.
        spark: As of ``make_session``.

    Raises:
        SetupError: Java or a jar is missing.
    """
    if java_runs_already() or _is_submitted():
        return
    settings = {**HDFS_CLIENT, **_settings(name, spark)}
    if _UMASK not in spark:
        settings.pop(_UMASK, None)  # HDFS has users of its own
    _start_java(settings)
    _begun.clear()
    _begun.update(settings)


def _start_java(settings: Mapping[str, str]) -> None:
    """Start Java, which starts Python in this working folder by variables of its own, too."""
    told = path_of_tasks()
    before = {name: os.environ.get(name) for name in told}
    os.environ.update(told)
    try:
        start_java(settings)
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _is_submitted() -> bool:
    """Whether spark-submit has started Java."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _settings(name: str, spark: Mapping[str, str], *, s3: bool = False) -> dict[str, str]:
    """Of a session that is made, and of its Java."""
    # Workers run another interpreter than this one unless they are told.
    os.environ["PYSPARK_PYTHON"] = spark.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON", sys.executable)
    armed = {f"spark.executorEnv.{variable}": value for variable, value in crash.announce_driver().items()}
    # Spark's own pattern, for its event log and its UI, lets keys of stores pass.
    masked = {"spark.redaction.regex": NAMES}
    settings = {"spark.app.name": name} | armed | masked | dict(PINNED) | dict(spark)
    if _begun and settings == {key: _begun.get(key) for key in settings}:
        return dict(_begun)
    if not _is_submitted():
        _local_defaults(settings, s3=s3)
    return settings


def make_session(
    name: str, spark: Mapping[str, str], begin: Callable[[str], None], *, s3: bool = False
) -> SparkSession:
    """The session that runs here, or a new one with the connector's jars.

    Args:
        name: The application's name.
        spark: The user's Spark settings, for a new session.
        begin: Told of each phase of it that takes its time.
        s3: It needs the jars of Hadoop's S3A as well.

    Raises:
        SetupError: Java or a jar is missing.
        ConfigurationError: The session that is there cannot do what the job needs.
    """
    active = running_session()
    if active is not None:
        require_session(active)
        return active
    submitted = _is_submitted()
    if not submitted:
        begin("jars")
    settings = _settings(name, spark, s3=s3)
    begin("Spark" if submitted or java_runs_already() else "Java and Spark")
    if not submitted and not java_runs_already():
        _start_java(settings)
    _make_context(settings)
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    told = session.sparkContext.getConf()
    for key, value in DEFAULTS.items():
        if not told.contains(key):  # neither by the user nor by spark-submit or spark-defaults.conf
            session.conf.set(key, class_here(session, value))
    if not submitted:
        # Spark's warnings about triggers and AQE would bury the epochs' lines; errors stay.
        quiet(session)
    require_session(session)
    if not os.environ.get("ONCEFLOW_DEBUG"):
        _silence_pyspark()
    return session


def _silence_pyspark() -> None:
    """Keep out what PySpark logs of an error that it raises as well: JSON with all of Java's trace, on one line."""
    for name in ("DataFrameQueryContextLogger", "SQLQueryContextLogger"):
        PySparkLogger.getLogger(name).disabled = True


def _make_context(settings: Mapping[str, str]) -> None:
    """Make the SparkContext in a thread of its own: in the main one PySpark takes SIGINT for itself."""
    failure: list[BaseException] = []

    def make() -> None:
        try:
            SparkContext.getOrCreate(SparkConf().setAll(list(settings.items())))
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is raised below
            failure.append(error)

    thread = threading.Thread(target=make, name="onceflow-spark", daemon=True)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]


def _local_defaults(settings: dict[str, str], *, s3: bool = False) -> None:
    """What `python job.py` needs and `spark-submit` brings itself."""
    java_executable()
    master = settings.setdefault("spark.master", os.environ.get("SPARK_MASTER", "local[*]"))
    settings.setdefault("spark.ui.showConsoleProgress", "false")
    settings.setdefault("spark.ui.enabled", "false")  # it asks nobody who he is, and listens on all addresses
    on_class_path: Sequence[Path] = ()
    if "spark.jars" not in settings and "spark.jars.packages" not in settings:
        jars = [*spark_jars(), *(s3_jars() if s3 else [])]
        if not java_runs_already() and may_start_java_with(jars, settings):
            on_class_path = jars
            settings["spark.driver.extraClassPath"] = ":".join(map(str, jars))
        else:
            settings["spark.jars"] = ",".join(map(str, jars))
    if master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        settings.setdefault("spark.driver.host", "127.0.0.1")
        settings.setdefault("spark.driver.bindAddress", "127.0.0.1")
        if not master.startswith("local-cluster"):  # of which Spark makes no secret itself
            # Tasks carry passwords. Without it any user of the machine fetches tasks, and puts others in their place.
            settings.setdefault("spark.authenticate", "true")
        _java_defaults(settings, on_class_path)
        # Hadoop gives each file that it makes on a disk, state among them, a mode of its own: by 022 unless it is told.
        settings.setdefault(_UMASK, f"{umask():03o}")
        # Two hundred shuffle partitions, Spark's default, are two hundred state stores for a laptop.
        settings.setdefault("spark.sql.shuffle.partitions", str(max(2, os.cpu_count() or 2)))


def may_start_java_with(jars: Sequence[Path], settings: Mapping[str, str]) -> bool:
    """Whether the jars can go on Java's class path: one Java for driver and executor, and nobody else's class path.

    From there its archive of classes has them too, and Spark need not copy them. They come before Spark's own jars
    then, which only those that we pinned may: others could hold another version of what Spark has.
    """
    master = settings["spark.master"]
    return (
        (master == "local" or master.startswith("local["))
        and not _has_settings_of_its_own()
        and "PYSPARK_SUBMIT_ARGS" not in os.environ
        and not os.environ.get("ONCEFLOW_JARS")
        and "spark.driver.extraClassPath" not in settings
        # An archive of the user's own fits the user's class path.
        and not any(re.search("Archive|-Xshare|AOT", text) for text in _told_to_java(settings))
        and not any(":" in str(jar) for jar in jars)
    )


def _java_defaults(settings: dict[str, str], on_class_path: Sequence[Path]) -> None:
    """Memory and options of a Java that is driver and executor in one, where nobody has chosen them."""
    if _has_settings_of_its_own():
        return
    if "SPARK_DRIVER_MEMORY" not in os.environ and "PYSPARK_SUBMIT_ARGS" not in os.environ:
        # Spark gives a driver 1 GB, of which from_json alone fills 8 kB with each record.
        settings.setdefault("spark.driver.memory", "2g")
    told = _told_to_java(settings)
    if any("@" in text for text in told):  # a file of options
        return
    options = []
    if not any("log4j" in text for text in told) and not os.environ.get("ONCEFLOW_DEBUG"):
        options.append(shlex.quote(f"-Dlog4j2.configurationFile={_LOG.as_uri()}"))
    if not any("arrow.enable_unsafe" in text for text in told):
        # Arrow compares each write of a value with its buffer's end, which Spark's writers have made large enough
        # before. Without the comparison a copy costs with Spark's limit on bytes what it costs with neither changed.
        options.append("-Darrow.enable_unsafe_memory_access=true")
    if not any("GC" in text for text in told):  # with two collectors Java does not start
        # An epoch makes much garbage and keeps little: G1, Java's choice, took up to a tenth more processor time. All
        # that garbage is new memory each time, and pages of 2 MB make it cheaper to reach: another three percent.
        options += ["-XX:+UseParallelGC", *(["-XX:+UseTransparentHugePages"] if _has_huge_pages() else [])]
    archive = class_archive.find(on_class_path) if on_class_path else None
    if archive is not None:
        options += map(shlex.quote, class_archive.options(archive))
    if options:
        settings.setdefault("spark.driver.defaultJavaOptions", " ".join(options))


def _told_to_java(settings: Mapping[str, str]) -> list[str]:
    """Options that others give to Java."""
    told = [os.environ.get(name, "") for name in JAVA_IS_TOLD_BY]
    return told + [value for name, value in settings.items() if name.endswith("JavaOptions")]


def _has_settings_of_its_own() -> bool:
    """Whether a Spark is used that may have a spark-defaults.conf."""
    return (
        "SPARK_CONF_DIR" in os.environ
        or "SPARK_HOME" in os.environ
        or (Path(pyspark.__file__).parent / "conf").exists()
    )


def _has_huge_pages() -> bool:
    """Whether Linux gives transparent huge pages to who asks; where it does not, the option warns or is unknown."""
    try:
        return "[never]" not in _HUGE_PAGES.read_text()
    except OSError:
        return False


def require_session(session: Any) -> None:
    """Check a session that somebody else made.

    Raises:
        ConfigurationError: It is Spark Connect, or lacks the connector.
        RefusedSettingError: A setting of it breaks the guarantee.
    """
    if not is_classic(session):
        raise ConfigurationError(
            "Spark Connect is refused: its foreachBatch runs in another process than the driver",
            cause=f"the session is a {type(session).__module__}.{type(session).__name__}",
            action="use a classic session (SparkSession.builder without remote())",
        )
    jvm = java(session)
    try:
        jvm.java.lang.Class.forName(_CONNECTOR, False, jvm.java.lang.Thread.currentThread().getContextClassLoader())
    except Exception:  # noqa: BLE001 - py4j wraps the ClassNotFoundException
        raise ConfigurationError(
            "the SparkSession lacks Spark's Kafka connector",
            cause="it was made without the jar spark-sql-kafka-0-10",
            action='start it with the jars that `onceflow jars` prints: spark-submit --jars "$(onceflow jars)", or let '
            "onceflow make the session",
        ) from None
    require(session)
    take_the_drivers(session)
    warning = untested(pyspark.__version__, session.version, jar_of(session, _CONNECTOR))
    if warning is not None:
        log.warning("%s", warning)
    if str(session.conf.get("spark.speculation", "false")).lower() == "true":
        raise RefusedSettingError(
            "spark.speculation=true is refused: two attempts of one task would write at the same time",
            cause="spark.speculation is true",
            action="set spark.speculation=false for this application",
        )


def untested(pyspark_version: str, spark_version: str, connector: str) -> str | None:
    """What to warn of where their minor releases were not tested, or not together; None where they were.

    Args:
        pyspark_version: PySpark's.
        spark_version: Of the Spark behind it, another one with SPARK_HOME.
        connector: The connector's jar.
    """
    found = re.fullmatch(r"spark-sql-kafka-0-10_2\.13-(\d+\.\d+)\.\d+\.jar", connector)
    release = minor(pyspark_version)
    if release in TESTED and release == minor(spark_version) and found is not None and found[1] == release:
        return None
    return (
        f"PySpark {pyspark_version} with Spark {spark_version} and the connector {connector or 'of an unknown jar'} is "
        f"none that onceflow was tested with: {', '.join(TESTED)}, all three of one minor release. "
        f"`pip install pyspark=={NEWEST}` is tested"
    )


def spark_path(session: SparkSession, checkpoint: SparkCheckpoint) -> str:
    """The folder as Spark takes it literally: a path is no URI to it, which Hadoop would not unquote.

    Raises:
        ConfigurationError: Java cannot have a file of this name.
    """
    folder = checkpoint.where
    if not isinstance(folder, Path):
        return folder
    jvm = java(session)
    text = f"file:{folder}"
    try:
        jvm.java.io.File(str(folder)).toPath()  # raises for letters that its encoding of names does not have
        taken = jvm.org.apache.hadoop.fs.Path(text).toUri().getPath()
    except Exception:  # noqa: BLE001 - py4j wraps what Java raises, and raises for what is no text
        taken = None
    if taken != str(folder):
        encoding = jvm.java.lang.System.getProperty("sun.jnu.encoding")
        raise ConfigurationError(
            f"the checkpoint {str(folder)!r} is refused: Spark cannot have files there",
            cause=f"its name holds bytes that are no text, or letters that Java, whose file names are {encoding}, does "
            "not have",
            action="give a checkpoint with another name, or start with a UTF-8 locale (LC_ALL=C.UTF-8)",
            checkpoint=str(folder),
        )
    return text


def require_isolated_state(checkpoint: SparkCheckpoint) -> None:
    """Check the state of a checkpoint that was made without onceflow.

    Spark goes on with the state store that ``offsets/`` names, whatever the session says.

    Raises:
        RefusedSettingError: State of a run that was not recorded could mix with state of the run that is.
    """
    newest = checkpoint.newest_offsets()
    if newest is not None and checkpoint.is_stateful() and _ROCKSDB not in checkpoint.offsets(newest):
        raise RefusedSettingError(
            f"the state in {checkpoint.where} is not kept by RocksDB",
            cause="the query ran with another spark.sql.streaming.stateStore.providerClass before, and Spark keeps it",
            action="start with a new checkpoint",
            checkpoint=str(checkpoint.where),
        )
    if newest is not None and checkpoint.is_stateful() and checkpoint.has_state_without_ids():
        raise RefusedSettingError(
            f"the state in {checkpoint.where} has no ids of its own, so that of a run that was not recorded could be "
            "taken for that of the run that is",
            cause="the query ran with spark.sql.streaming.stateStore.checkpointFormatVersion=1, Spark's default, and "
            "Spark cannot go on with such state under 2",
            action="start with a new checkpoint, from where this one stands: docs/existing-programs.md",
            checkpoint=str(checkpoint.where),
        )


def require_known_form(session: SparkSession, checkpoint: SparkCheckpoint) -> None:
    """Refuse the state of a state class that a newer Spark has begun in a form that this one does not know.

    Spark goes on with the forms that ``offsets/`` names, and passes over those that it has no name for: values of a
    list would be read as others.

    Raises:
        CheckpointConflictError: By which setting that form is told.
    """
    told = checkpoint.settings().items()
    unknown = [
        f"{name}={value}" for name, value in told if name.startswith(_OF_STREAMS) and not _is_known(session, name)
    ]
    if unknown and checkpoint.is_stateful():
        raise CheckpointConflictError(
            f"the state in {checkpoint.where} was begun by another Spark, whose form of it is none that "
            f"Spark {session.version} knows",
            harmless="always: the state is as it was, and no epoch was run; what was decided before is committed",
            cause="the job keeps state in a class (transformWithState), and the checkpoint goes on with "
            f"{', '.join(unknown)}, which this Spark has no setting for",
            action="start it with the PySpark that began the checkpoint, or a newer one; or begin with empty state "
            "(docs/savepoints.md)",
            checkpoint=str(checkpoint.where),
        )


def _is_known(session: SparkSession, name: str) -> bool:
    try:
        session.conf.get(name)
    except Exception:  # noqa: BLE001 - PySpark's class for it has moved between releases
        return False
    return True


def pin(session: SparkSession, settings: Mapping[str, str]) -> None:
    """Set what a query under onceflow always runs with, and what the job's settings become."""
    for key, value in {**PINNED, **settings}.items():
        session.conf.set(key, class_here(session, value))
