"""What SET may set: the settings of a job, those of SQL itself, and Flink's others with what becomes of them.

Must not know: Spark, tables. A job's settings are layered by ``options.layers``, where a script stands between file and
environment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from onceflow.errors import ConfigurationError
from onceflow.flinksql.problems import Position, meant, refused, wrong
from onceflow.masking import shown
from onceflow.options.catalogue import SETTINGS
from onceflow.options.durations import duration_ms
from onceflow.options.rules import Rule, no_effect, refuses, rule_for, takes

SERVERS = "onceflow.kafka.bootstrap.servers"
AHEAD = "onceflow.source.max-ahead"
NAME = "pipeline.name"
MODE = "execution.checkpointing.mode"
FOLDER = "execution.checkpointing.dir"
_OLD_FOLDER = "state.checkpoints.dir"

_WHOLE = "Spark has its own way"
RULES: tuple[Rule, ...] = (
    takes(SERVERS, "The brokers of every kafka table, in the place of those that its WITH names."),
    takes(AHEAD, "How far a time may be ahead of its epoch's; `none` for any. A record with a later one is malformed."),
    takes(NAME, "The name of the jobs that follow: who they are, see below."),
    takes(MODE, "EXACTLY_ONCE or AT_LEAST_ONCE: the guarantee of sinks that name none."),
    takes(FOLDER, "The folder in which each job has its checkpoint, under its name; `checkpoints` by default."),
    takes(_OLD_FOLDER, f"The same as {FOLDER}."),
    takes("execution.runtime-mode", "`streaming`; a job over bounded tables ends by itself."),
    takes("table.local-time-zone", "`UTC`."),
    takes("spark.*", "A setting of the Spark session that is made for the jobs."),
    no_effect("table.exec.source.idle-timeout", "a partition without records holds no watermark back here"),
    no_effect("table.exec.mini-batch.*", "an epoch is a batch"),
    no_effect("table.optimizer.*", _WHOLE),
    no_effect("table.dml-sync", "the command waits for its jobs"),
    no_effect("table.exec.sink.*", "rows of a key keep their order"),
    no_effect("sql-client.*", "the client is another"),
    no_effect("execution.attached", "the command waits for its jobs"),
    no_effect("execution.checkpointing.unaligned.*", "an epoch has no barriers"),
    no_effect("state.backend", "state is kept in RocksDB"),
    no_effect("state.backend.incremental", "state is kept incrementally"),
    no_effect("state.savepoints.dir", "a savepoint is named when it is made"),
    no_effect("taskmanager.*", "Spark has its own processes"),
    no_effect("jobmanager.*", "Spark has its own processes"),
    no_effect("rest.*", "Spark has its own processes"),
    refuses("table.exec.state.ttl", "Spark keeps state until a watermark passes it", "group in windows"),
    refuses(
        "table.exec.sink.not-null-enforcer",
        "a null in a NOT NULL column stops the job",
        "filter it out: WHERE c IS NOT NULL",
    ),
    refuses("table.sql-dialect", "there is one dialect", "remove it"),
    refuses("pipeline.jars", "jars are Spark's", "name them in ONCEFLOW_JARS"),
    refuses("execution.savepoint.path", "a savepoint is no setting", "see onceflow run --help"),
    refuses("python.*", "functions run in the interpreter of the job", "start onceflow with another Python"),
)
"""Settings of SQL itself, and what each does; Flink's without effect; those that are refused."""

RUNS_CODE = (
    "spark.*.extrajavaoptions",
    "spark.*.defaultjavaoptions",
    "spark.*.extraclasspath",
    "spark.*.extralibrarypath",
    "spark.*.userclasspathfirst",
    "spark.*listeners",
    "spark.archives",
    "spark.authenticate*",
    "spark.executorenv.*",
    "spark.files",
    "spark.hadoop.*.impl",
    "spark.jars*",
    "spark.onceflow.*",
    "spark.plugins*",
    "spark.pyspark.*",
    "spark.r.*",
    "spark.redaction.*",
    "spark.sql.catalog.*",
    "spark.sql.extensions",
    "spark.sql.warehouse.dir",
    "spark.submit.*",
)
"""Settings by which a script would bring code along, or open the job to others: only who starts it says them."""

_OF_JOBS = {each.flink: each for each in SETTINGS if each.flink is not None}


class ScriptSettings:
    """What a script has SET so far.

    Args:
        flags: What the command line says, which goes before.

    Raises:
        ConfigurationError: A key is unknown, or refused, or a value is not taken.
    """

    def __init__(self, flags: Mapping[str, str]) -> None:
        self._flags: dict[str, str] = {}
        self._said: dict[str, str] = {}
        self.notes: list[str] = []
        for key, value in flags.items():
            try:
                self._flags[_folder(key)] = self._checked(Position(1, 1), key, value)
            except ConfigurationError as error:
                what = error.what.removeprefix("line 1, column 1: ")
                raise ConfigurationError(f"-D: {what}", harmless=error.harmless, action=error.action) from None

    def set(self, at: Position, key: str, value: str) -> None:
        """SET."""
        if any(fnmatchcase(key.lower(), pattern) for pattern in RUNS_CODE):
            raise refused(
                at,
                f"the setting '{key}' in a script",
                "it runs code, or opens the job to others",
                f"say -D {key}=… where the script is started",
            )
        self._said[_folder(key)] = self._checked(at, key, value)

    def reset(self, at: Position, key: str | None) -> None:
        """RESET of one, or of all."""
        if key is None:
            self._said.clear()
            return
        if _folder(key) not in self._said:
            raise wrong(at, f"{key!r} is not set", action=meant(key, self._said, "SET shows all"))
        del self._said[_folder(key)]

    def get(self, key: str) -> str | None:
        """What it is, or None."""
        return self._flags.get(key, self._said.get(key))

    def of_jobs(self) -> tuple[dict[str, str], dict[str, str]]:
        """What flags and what the script say to ``options.layers``."""
        flags = {key: value for key, value in self._flags.items() if key in _OF_JOBS}
        return flags, {key: value for key, value in self._said.items() if key in _OF_JOBS}

    def of_spark(self) -> dict[str, str]:
        """Settings of the session."""
        return {key: value for key, value in (self._said | self._flags).items() if key.startswith("spark.")}

    def shown(self) -> Iterator[tuple[str, str, str]]:
        """Every setting that is not a job's: its key, its value, who said it."""
        for key in sorted({*self._said, *self._flags}):
            yield key, shown(key, str(self.get(key))), "-D" if key in self._flags else "SET"

    @property
    def max_ahead(self) -> str | None:
        """See ``AHEAD``."""
        found = self.get(AHEAD)
        return "1 h" if found is None else None if found.lower() == "none" else found

    def _checked(self, at: Position, key: str, value: str) -> str:
        rule = rule_for(key, RULES)
        if rule is not None and rule.standing == "refused":
            raise refused(at, f"the setting '{key}'", rule.doc, rule.instead)
        if key in _OF_JOBS:
            return value
        if rule is None:
            known = [*(each.key for each in RULES), *_OF_JOBS]
            raise wrong(at, f"there is no setting {key!r}", action=meant(key, known, "docs/sql-options.md has all"))
        if rule.standing == "said":
            self.notes.append(f"'{key}' has no effect: {rule.doc}")
            return value
        return _value(at, key, value)


def _folder(key: str) -> str:
    return FOLDER if key == _OLD_FOLDER else key


def _value(at: Position, key: str, value: str) -> str:
    if key == MODE and value.upper() not in ("EXACTLY_ONCE", "AT_LEAST_ONCE"):
        raise wrong(at, f"{key} is no {value!r}", action="take EXACTLY_ONCE or AT_LEAST_ONCE")
    if key == "execution.runtime-mode" and value.lower() not in ("streaming", "automatic"):
        raise refused(at, f"{key} = {value}", "a job here is a stream", "bound the tables: scan.bounded.mode")
    if key == "table.local-time-zone" and value.upper() not in ("UTC", "GMT", "ETC/UTC", "+00:00", "Z"):
        raise refused(
            at,
            f"{key} = {value}",
            "local times of a zone with summer time are not all there, and a stream has them as UTC",
            "set UTC, and convert where a time is shown",
        )
    if key == AHEAD and value.lower() != "none":
        try:
            duration_ms(value)
        except ConfigurationError:
            raise wrong(at, f"{key}: {value!r} is no duration", action="write '1 h', or 'none'") from None
    return value
