"""The jars that Spark and the dev cluster's broker need: pinned, fetched once, checked at every use.

Must not know: Spark sessions, brokers, jobs. It hands out paths of files whose SHA-256 is the pinned one.

``local/jars.toml`` holds complete lists (nothing is resolved transitively). What the cache lacks is fetched by
Apache Ivy, which PySpark ships; so no repository's address stands here, and a company's mirror takes
an ``ivysettings.xml`` of its own (``ONCEFLOW_IVY_SETTINGS``). Once everything is cached, neither Java nor
the network is touched.

The cache is ``$ONCEFLOW_CACHE``, else ``$XDG_CACHE_HOME/onceflow``, else ``~/.cache/onceflow``; a jar lies
in ``jars/<first 16 digits of its SHA-256>/<name>-<revision>.jar`` and gets there by a rename, so it is
there whole or not at all.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import logging
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources, util
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO
from xml.sax.saxutils import quoteattr

from onceflow.errors import SetupError
from onceflow.processes import others_may_write

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    Progress = Callable[[int, int], None]
    """Called with (jars fetched so far, jars to fetch)."""

log = logging.getLogger(__name__)

OLDEST_JAVA = 17  # both Spark 4 and Kafka 4's broker ask for 17

# Without POMs Ivy asks once for a jar instead of walking its parents: 12 s instead of 43 s for the broker's.
_CONNECTOR, _S3A = "spark-sql-kafka-0-10", "hadoop-aws"
_IVY_SETTINGS = """<ivysettings>
  <settings defaultResolver="public"/>
  <resolvers><ibiblio name="public" m2compatible="true" usepoms="false"/></resolvers>
</ivysettings>
"""


@dataclass(frozen=True)
class Jar:
    """One pinned jar, or archive: Maven coordinates, size in bytes, SHA-256 in hex."""

    org: str
    name: str
    rev: str
    size: int
    sha256: str
    classifier: str = ""
    ext: str = "jar"

    @property
    def file_name(self) -> str:
        """``name-revision.jar``, with a classifier before the dot where it has one."""
        behind = f"-{self.classifier}" if self.classifier else ""
        return f"{self.name}-{self.rev}{behind}.{self.ext}"

    def path_in(self, cache: Path) -> Path:
        """Where the jar lies in ``cache``, whether it is there or not."""
        return cache / "jars" / self.sha256[:16] / self.file_name


def spark_jars(progress: Progress | None = None) -> list[Path]:
    """The jars of Spark's Kafka connector, of the minor release of the Spark that is installed.

    Jars of the user's own (``ONCEFLOW_JARS``: files or folders, separated by ``os.pathsep`` or by commas) stand behind
    the pinned ones. Where the connector is among them they are the whole list.

    Raises:
        SetupError: A jar is missing and cannot be fetched, or is not the pinned one; or none is pinned for this Spark.
    """
    own = _own_jars()
    return own if _have(own, _CONNECTOR) else [*_pinned("spark", progress), *own]


def missing_spark_jars() -> list[str]:
    """Which of the connector's jars a start would fetch first; none where ``ONCEFLOW_JARS`` names another connector.

    Raises:
        SetupError: ``ONCEFLOW_JARS`` names what is no jar, or no connector is pinned for this Spark.
    """
    if _have(_own_jars(), _CONNECTOR):
        return []
    return [jar.file_name for jar in _listed("spark") if not jar.path_in(cache_folder()).exists()]


def broker_jars(progress: Progress | None = None, *, version: str | None = None) -> list[Path]:
    """The class path of a Kafka broker with its storage tool.

    Args:
        progress: Told of each jar that is fetched.
        version: One of the older brokers of ``local/jars.toml``; None is the one that the dev cluster runs.

    Raises:
        SetupError: A jar is missing and cannot be fetched, a jar is not the pinned one, or no such version is pinned.
    """
    return _pinned("broker" if version is None else f"broker-{version}", progress)


def tools_jars() -> list[Path]:
    """The class path of Kafka's console tools, of the version of ``broker_jars``.

    Raises:
        SetupError: As of ``broker_jars``.
    """
    return [*_pinned("tools", None), *broker_jars()]


def s3_jars(progress: Progress | None = None) -> list[Path]:
    """The jars of Hadoop's S3A, of the version of PySpark's Hadoop client; none where ``ONCEFLOW_JARS`` has them.

    Raises:
        SetupError: As of ``spark_jars``, or Spark's Hadoop client is of another version than the pinned S3A.
    """
    if _have(_own_jars(), _S3A):
        return []
    _require_hadoop_of(_S3A)
    return _pinned("s3", progress)


def registry_home(progress: Progress | None = None) -> Path:
    """The folder of a schema registry's program, unpacked from its archive once.

    Raises:
        SetupError: As of ``broker_jars``, or the cache cannot be written.
    """
    (archive,) = _pinned("registry", progress)
    home = archive.with_suffix("").with_suffix("")
    if not home.exists():
        with one_at_a_time("unpack"), tempfile.TemporaryDirectory(prefix="unpack-", dir=archive.parent) as name:
            with tarfile.open(archive) as packed:
                packed.extractall(Path(name, "whole"), filter="data")
            if not home.exists():
                Path(name, "whole").rename(home)
    return home


def debezium_jars() -> list[Path]:
    """The class path of Kafka Connect with Debezium's connector for PostgreSQL, for tests.

    Raises:
        SetupError: As of ``broker_jars``.
    """
    return [*_pinned("debezium", None), *broker_jars()]


def debezium_binlog_jars() -> list[Path]:
    """The class path of Kafka Connect with Debezium's connector for MySQL, which reads MariaDB's binlog too, for tests.

    Raises:
        SetupError: As of ``broker_jars``.
    """
    return [*_pinned("debezium-binlog", None), *debezium_jars()]


def connect_avro_jars() -> list[Path]:
    """What lets Kafka Connect write Avro by a schema registry, for the class path of ``debezium_jars``, for tests.

    Raises:
        SetupError: As of ``broker_jars``.
    """
    return _pinned("debezium-avro", None)


def hdfs_jars() -> list[Path]:
    """The class path of a small HDFS, of the version of PySpark's Hadoop client, and beside PySpark's own jars.

    Raises:
        SetupError: As of ``broker_jars``.
    """
    return [*_pinned("hdfs", None), *spark_home_jars()]


def on_one_line(out: TextIO) -> Progress:
    """Progress as one line that is written over while it lasts; where nobody watches, only that it begins."""

    def show(done: int, total: int) -> None:
        if out.isatty():
            out.write(f"\rfetching jars: {done} of {total}" + ("\n" if done == total else ""))
        elif done == 0:
            out.write(f"fetching {total} jars, once\n")
        out.flush()

    return show


def java_executable() -> str:
    """The Java to start: ``$JAVA_HOME/bin/java`` if ``JAVA_HOME`` is set, else the first ``java`` on PATH.

    Spark and Ivy look in the same order.

    Raises:
        SetupError: There is none, it does not run, or it is older than Java 17.
    """
    needed = f"Java {OLDEST_JAVA} or 21 is needed"
    home = os.environ.get("JAVA_HOME", "")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    action = "install a Java 17 or 21 runtime and put it on PATH, or set JAVA_HOME to it"
    if java is None:
        raise SetupError(f"{needed}, and no java was found on PATH (JAVA_HOME is not set)", action=action)
    if shutil.which(java) is None:
        raise SetupError(f"{needed}, and JAVA_HOME={home} has no bin/java that can be run", action=action)
    found = _java_version(java)
    if found is None:
        raise SetupError(f"{needed}, and {java} did not tell its version", action=action, java=java)
    if found < OLDEST_JAVA:
        raise SetupError(f"{needed}, and {java} is Java {found}", action=action, java=java, version=found)
    return java


def java_build() -> str:
    """Version, build and vendor of that Java: what its ``java -version`` tells, less what options add to it.

    Raises:
        SetupError: As ``java_executable``.
    """
    lines = [line for line in _told_by(java_executable()).splitlines() if "Picked up " not in line]
    return "\n".join(lines[:2])  # the third says how code is run: "mixed mode, emulated-client"


def _java_version(java: str) -> int | None:
    """The major version that ``java -version`` tells (8 for "1.8.0"), or None."""
    version = re.search(r'version "(?:1\.)?(\d+)', _told_by(java))
    return int(version.group(1)) if version else None


@functools.cache
def _told_by(java: str) -> str:
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return told.stderr + told.stdout


def _have(jars: Sequence[Path], artifact: str) -> bool:
    return any(jar.name.startswith(artifact) for jar in jars)


def _own_jars() -> list[Path]:
    setting = os.environ.get("ONCEFLOW_JARS", "")
    jars: list[Path] = []
    for entry in filter(None, setting.replace(",", os.pathsep).split(os.pathsep)):
        path = Path(entry).expanduser()
        found = sorted(path.glob("*.jar")) if path.is_dir() else [path] if path.is_file() else []
        if not found:
            raise SetupError(
                f"ONCEFLOW_JARS names {path}, which is neither a jar nor a folder with jars",
                harmless="always: nothing was started",
                cause=f"ONCEFLOW_JARS={setting}",
                action="correct the path (a colon or a comma stands between two), or unset ONCEFLOW_JARS",
            )
        jars += [jar.resolve() for jar in found]
    return jars


def _pinned(group: str, progress: Progress | None) -> list[Path]:
    """The paths of a list of ``local/jars.toml``, each checked; what the cache lacks is fetched first."""
    pinned = _listed(group)
    cache = cache_folder()
    if not all(jar.path_in(cache).exists() for jar in pinned):
        with one_at_a_time("fetch"):
            missing = [jar for jar in pinned if not jar.path_in(cache).exists()]
            if missing:  # else another process fetched them while this one waited
                _fetch(missing, cache, progress or (lambda _done, _total: None))
    for jar in pinned:
        _require_whole(jar, jar.path_in(cache), action=f"delete {jar.path_in(cache)}; it is fetched again")
    _tell_of_others(cache, pinned)
    return [jar.path_in(cache) for jar in pinned]


def _tell_of_others(cache: Path, pinned: Sequence[Jar]) -> None:
    """Warn where another user may lay another jar into the place of one that was checked, before Java reads it."""
    paths = (jar.path_in(cache) for jar in pinned)
    looked_at = {cache, cache / "jars", *(part for path in paths for part in (path, path.parent))}
    of_others = sorted(path for path in looked_at if others_may_write(path))
    if of_others:
        _warn_of(of_others[0])


@functools.cache
def _warn_of(path: Path) -> None:
    log.warning(
        "others may write to %s: they can have Java run their code as this user. "
        "ONCEFLOW_CACHE names another folder, and `onceflow jars` fills it",
        path,
    )


def _listed(group: str) -> list[Jar]:
    lists = tomllib.loads(resources.files("onceflow").joinpath("local/jars.toml").read_text("utf-8"))
    connectors = lists.pop("spark-connectors")
    lists |= {f"broker-{version}": jars for version, jars in lists.pop("older-brokers").items()}
    if group == "spark":
        lists[group] += _of_this_spark(connectors)
    if group not in lists:
        raise SetupError(
            f"there is no list of jars named {group}",
            action=f"choose one of {', '.join(sorted(lists))}; a new one goes into local/jars.toml",
        )
    return [Jar(**entry) for entry in lists[group]]


def _of_this_spark(of_minor: Mapping[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    release = _release_of("spark-core_2.13")
    found = of_minor.get(".".join(release.split(".")[:2]))
    if found is None:
        raise SetupError(
            f"no jar of the Kafka connector is pinned for Spark {release or 'of an unknown version'}",
            harmless="always: nothing was started",
            cause=f"onceflow is tested with Spark {', '.join(of_minor)}"
            + (f"; SPARK_HOME={home} is what runs" if (home := os.environ.get("SPARK_HOME")) else ""),
            action=f"pip install 'pyspark=={list(of_minor)[-1]}.*'; or name a connector of its version in "
            "ONCEFLOW_JARS, untested",
        )
    return found


def _release_of(artifact: str) -> str:
    """The version of one of the jars that Spark brings itself; empty where it has none."""
    home = os.environ.get("SPARK_HOME")
    jars = [*(Path(home, "jars").glob("*.jar") if home else ()), *spark_home_jars()]  # as PySpark looks for them
    found = [jar.stem.removeprefix(f"{artifact}-") for jar in jars if jar.name.startswith(f"{artifact}-")]
    return found[0] if found else ""


def _require_hadoop_of(artifact: str) -> None:
    """Hadoop's parts are of one version, or fail by classes that they miss of one another."""
    found = _release_of("hadoop-client-api")
    for jar in _listed("s3"):
        if jar.name != artifact or jar.rev == found:
            continue
        raise SetupError(
            f"a checkpoint in S3 needs {artifact} {found} with this Spark, and onceflow has {jar.rev}",
            harmless="always: nothing was started",
            cause=f"Spark {_release_of('spark-core_2.13')} brings Hadoop's client {found}",
            action="take a Spark with that client (pyspark 4.2), name the jars of S3A of its version in ONCEFLOW_JARS, "
            "untested, or keep the checkpoint on POSIX or HDFS",
        )


def cache_folder() -> Path:
    """Where jars, and what is made from them, are kept for this user."""
    if own := os.environ.get("ONCEFLOW_CACHE", ""):
        return Path(own).expanduser().absolute()
    if xdg := os.environ.get("XDG_CACHE_HOME", ""):
        return Path(xdg).absolute() / "onceflow"
    return Path.home() / ".cache" / "onceflow"


@contextmanager
def one_at_a_time(what: str) -> Iterator[None]:
    """Hold a lock in the cache folder, which is made if need be; other processes wait for it.

    Raises:
        SetupError: The cache cannot be written.
    """
    cache = cache_folder()
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with (cache / f"{what}.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # freed when the file is closed, also by the process's death
            yield
    except OSError as error:
        raise SetupError(
            f"the cache {cache} cannot be written: {error}",
            action="make room or give rights there, or set ONCEFLOW_CACHE to another folder",
        ) from error


def _require_whole(jar: Jar, path: Path, action: str) -> None:
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise SetupError(f"the jar {path} cannot be read: {error}", action=action) from error
    if found != jar.sha256:
        raise SetupError(
            f"the jar {path} is not the one that onceflow was tested with, and is not used: "
            f"its SHA-256 is {found}, expected was {jar.sha256}",
            cause="a damaged or altered file, or a mirror that serves another one",
            action=action,
            path=str(path),
            expected=jar.sha256,
            found=found,
        )


def _fetch(jars: list[Jar], cache: Path, progress: Progress) -> None:
    """Fetch ``jars`` into a folder of this process, check them there, and move them to their places."""
    megabytes = sum(jar.size for jar in jars) / 1e6
    log.info("fetching %d jars (%.0f MB) into %s", len(jars), megabytes, cache / "jars")
    with tempfile.TemporaryDirectory(prefix="fetch-", dir=cache) as name:
        work = Path(name)
        _run_ivy(jars, work, progress)
        for jar in jars:
            taken = work / "taken" / jar.file_name
            _require_whole(jar, taken, action="check what the mirror or proxy between you and the repository serves")
            jar.path_in(cache).parent.mkdir(parents=True, exist_ok=True)
            taken.replace(jar.path_in(cache))
    log.info("fetched %d jars", len(jars))


def _run_ivy(jars: list[Jar], work: Path, progress: Progress) -> None:
    """Let Ivy put ``jars`` into ``work/taken``. Its output names hosts, so it is read here and not shown."""
    dependencies = "\n".join(
        f"<dependency org={quoteattr(jar.org)} name={quoteattr(jar.name)} rev={quoteattr(jar.rev)} "
        f'conf="default->default" transitive="false"><artifact name={quoteattr(jar.name)} type={quoteattr(jar.ext)} '
        f"ext={quoteattr(jar.ext)}"
        + (f" m:classifier={quoteattr(jar.classifier)}" if jar.classifier else "")
        + "/></dependency>"
        for jar in jars
    )
    (work / "ivy.xml").write_text(
        '<ivy-module version="2.0" xmlns:m="urn:maven">'
        '<info organisation="onceflow" module="jars"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>\n{dependencies}\n'
        "</dependencies></ivy-module>\n"
    )
    own = os.environ.get("ONCEFLOW_IVY_SETTINGS", "")
    settings = str(Path(own).expanduser()) if own else ""
    if not settings:
        (work / "ivysettings.xml").write_text(_IVY_SETTINGS)
    command = [java_executable(), "-jar", str(_ivy_jar())]
    command += ["-settings", settings or str(work / "ivysettings.xml")]
    command += ["-cache", str(work / "ivy"), "-ivy", str(work / "ivy.xml")]
    command += ["-retrieve", f"{work}/taken/[artifact]-[revision](-[classifier]).[ext]"]
    last: deque[str] = deque(maxlen=400)
    done = 0
    progress(done, len(jars))
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as ivy:
        assert ivy.stdout is not None  # noqa: S101 - PIPE was asked for
        for line in ivy.stdout:
            last.append(line.rstrip())
            if "[SUCCESSFUL ]" in line:
                done += 1
                log.debug("fetched %d of %d jars", done, len(jars))
                progress(done, len(jars))
    missing = [jar.file_name for jar in jars if not (work / "taken" / jar.file_name).is_file()]
    if ivy.returncode != 0 or missing:
        raise SetupError(
            f"{len(missing)} of {len(jars)} jars could not be fetched: {', '.join(missing[:5])}"
            f"{', …' if len(missing) > 5 else ''}. Ivy ended with\n    " + "\n    ".join(_worth_reading(last)),
            cause="no network, a proxy that Java does not know of, or a repository that lacks them "
            f"(ONCEFLOW_IVY_SETTINGS={settings or 'not set'})",
            action="for a proxy set JAVA_TOOL_OPTIONS='-Dhttps.proxyHost=… -Dhttps.proxyPort=…'; for a mirror "
            "set ONCEFLOW_IVY_SETTINGS to your ivysettings.xml; or copy a filled cache (ONCEFLOW_CACHE)",
            missing=missing,
        )


def _worth_reading(lines: deque[str]) -> list[str]:
    """What of Ivy's output says why, each once, without what may hold hosts or passwords.

    Those are addresses, and Java's own line about ``JAVA_TOOL_OPTIONS``.
    """
    hidden = re.compile(r"\S+://\S+|(?<=\bHost )\S+|(?<=HostException: )\S+")
    reason = re.compile(r"\bHost\b|error |exception|proxy|status|denied", re.IGNORECASE)
    own = (line for line in lines if re.search(r"\w", line) and not line.startswith("Picked up "))
    once = list(dict.fromkeys(hidden.sub("…", line).strip() for line in own))
    return ([line for line in once if reason.search(line)] or once)[-6:]


def spark_home_jars() -> list[Path]:
    """Spark's own jars, which PySpark ships, found without importing PySpark."""
    pyspark = util.find_spec("pyspark")
    folders = pyspark.submodule_search_locations if pyspark else None
    return [jar for folder in folders or [] for jar in sorted(Path(folder, "jars").glob("*.jar"))]


def _ivy_jar() -> Path:
    """The Ivy that PySpark ships."""
    found = [jar for jar in spark_home_jars() if jar.name.startswith("ivy-")]
    if not found:
        raise SetupError(
            "PySpark's own jars (pyspark/jars/ivy-*.jar) are not there, so nothing can be fetched",
            action="install pyspark with pip, or fill the jar cache from another machine (ONCEFLOW_CACHE)",
        )
    return found[-1]


def main() -> int:
    """``python -m onceflow.local.jars``: fetch Spark's and the broker's list ahead, with a line of progress."""
    show = on_one_line(sys.stdout)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
    try:
        java_executable()
        spark, broker = spark_jars(show), broker_jars(show)
    except SetupError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 1
    log.info("jars for Spark: %d, for the broker: %d; all are in place", len(spark), len(broker))
    return 0


if __name__ == "__main__":
    sys.exit(main())
