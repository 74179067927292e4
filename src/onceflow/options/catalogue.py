"""The catalogue of settings: what the operator of a job may set, each with its type, default and meaning, as one tuple.

The checkpoint's, and the environment variables; what is a job's, a cluster's, a source's or a sink's stands at its
class, of which the page tells, too.
Must not know: what is done with them. The page of the docs is generated from SETTINGS and from the classes (``page``);
a class or a variable that takes one of SETTINGS takes its default from here, or a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

from onceflow.errors import ConfigurationError
from onceflow.options.keywords import table

Type = Literal["duration", "count", "number", "boolean", "choice", "path", "paths", "text", "flag"]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One setting.

    Attributes:
        name: Ours: who has it, a dot, and its keyword there.
        type: What its value is.
        default: What it is where nobody sets it; None where there is nothing then, or it must be given.
        doc: What it does, in a sentence.
        flink: Flink's key for the same thing, if there is one: then a flag, a variable and a file may give it, too.
        ours: The key by which these may give what Flink has not.
        becomes: The key, or the option, of Spark or Kafka that gets it, if there is one.
        environment: The environment variable that sets it, if there is one.
        choices: Of a choice, what it may be.
    """

    name: str
    type: Type
    default: Any
    doc: str
    flink: str | None = None
    ours: str | None = None
    becomes: str | None = None
    environment: str | None = None
    choices: tuple[str, ...] = ()

    @property
    def key(self) -> str | None:
        """The key by which a flag, a variable and a file may give it, if they may."""
        return self.flink or self.ours

    @property
    def variable(self) -> str | None:
        """The variable that gives it: its own, or the one that its key makes."""
        if self.key is None:
            return self.environment
        return LAYER + self.key.replace(".", "__").replace("-", "_").upper()


LAYER = "ONCEFLOW__"
"""How the variables begin that keys make."""

SETTINGS = (
    Setting(
        name="checkpointing.location",
        type="path",
        default=None,
        doc="Where the checkpoint is: a path on a local or shared POSIX file system, ``hdfs://nn:8020/folder`` or "
        "``s3://bucket/folder``.",
        flink="execution.checkpointing.dir",
        becomes="checkpointLocation",
    ),
    Setting(
        name="checkpointing.interval",
        type="duration",
        default="1s",
        doc="Time between the beginnings of two epochs; 0 is one after the other without a pause.",
        flink="execution.checkpointing.interval",
        becomes="processingTime",
    ),
    Setting(
        name="checkpointing.timeout",
        type="duration",
        default="10 min",
        doc="An epoch that is not ready for its decision after so long is cancelled and counts as failed.",
        flink="execution.checkpointing.timeout",
    ),
    Setting(
        name="checkpointing.mode",
        type="choice",
        default="EXACTLY_ONCE",
        doc="The guarantee of sinks that name none and know both: ``EXACTLY_ONCE`` or ``AT_LEAST_ONCE``.",
        flink="execution.checkpointing.mode",
        choices=("EXACTLY_ONCE", "AT_LEAST_ONCE"),
    ),
    Setting(
        name="checkpointing.max_concurrent",
        type="count",
        default=1,
        doc="Epochs at a time: 1, since Spark begins one when the one before is recorded.",
        flink="execution.checkpointing.max-concurrent-checkpoints",
    ),
    Setting(
        name="checkpointing.min_pause",
        type="duration",
        default="0 s",
        doc="The least time between the end of an epoch and the beginning of the next.",
        flink="execution.checkpointing.min-pause",
    ),
    Setting(
        name="checkpointing.retain",
        type="count",
        default=100,
        doc="Epochs whose files are kept, at least 2.",
        flink="execution.checkpointing.num-retained",
        becomes="spark.sql.streaming.minBatchesToRetain",
    ),
    Setting(
        name="checkpointing.tolerable_failures",
        type="count",
        default=0,
        doc="Epochs in a row that may fail before their decision, each followed by a restart that the restart "
        "strategy does not count.",
        flink="execution.checkpointing.tolerable-failed-checkpoints",
    ),
    Setting(
        name="checkpointing.publish_offsets",
        type="boolean",
        default=True,
        doc="After each epoch the offsets of a ``KafkaSource`` are written to a consumer group, which shows the job's "
        "lag: its ``group``, or ``onceflow-lag-`` and the job's name.",
        flink="commit.offsets.on.checkpoint",
    ),
    Setting(
        name="checkpointing.on_cancel",
        type="choice",
        default="RETAIN_ON_CANCELLATION",
        doc="What ``onceflow cancel`` leaves of the job: ``RETAIN_ON_CANCELLATION``, or with "
        "``DELETE_ON_CANCELLATION`` neither checkpoint nor marks, once what is decided is committed.",
        flink="execution.checkpointing.externalized-checkpoint-retention",
        choices=("RETAIN_ON_CANCELLATION", "DELETE_ON_CANCELLATION"),
    ),
    Setting(
        name="checkpointing.incremental",
        type="boolean",
        default=True,
        doc="Of state an epoch writes what it has changed (RocksDB's changelogs), and now and then all of it; else "
        "all, each time.",
        flink="execution.checkpointing.incremental",
        becomes="spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled",
    ),
    Setting(
        name="checkpointing.compression",
        type="boolean",
        default=True,
        doc="Whether RocksDB compresses state (lz4).",
        flink="execution.checkpointing.snapshot-compression",
        becomes="spark.sql.streaming.stateStore.rocksdb.compression",
    ),
    Setting(
        name="job.state_backend",
        type="choice",
        default="rocksdb",
        doc="What keeps state: ``rocksdb``. ``hashmap`` is known and refused: only RocksDB keeps the state of a run "
        "that was not recorded apart from that of the run that is.",
        flink="state.backend.type",
        becomes="spark.sql.streaming.stateStore.providerClass",
        choices=("rocksdb", "hashmap"),
    ),
    Setting(
        name="job.parallelism",
        type="count",
        default=None,
        doc="Partitions of a shuffle, and so of state. A stateful job keeps for good what it had at its first start, "
        "and says so.",
        flink="parallelism.default",
        becomes="spark.sql.shuffle.partitions",
    ),
    Setting(
        name="restart.type",
        type="choice",
        default="exponential-delay",
        doc="What follows a failure that passes, once the job has done an epoch: ``none``, ``fixed-delay``, "
        "``exponential-delay`` or ``failure-rate``.",
        flink="restart-strategy.type",
        choices=("none", "fixed-delay", "exponential-delay", "failure-rate"),
    ),
    Setting(
        name="restart.fixed_delay.attempts",
        type="count",
        default=1,
        doc="How many restarts there are, over the life of the process, or of its parent with ``--supervise``.",
        flink="restart-strategy.fixed-delay.attempts",
    ),
    Setting(
        name="restart.fixed_delay.delay",
        type="duration",
        default="1s",
        doc="The time before each restart.",
        flink="restart-strategy.fixed-delay.delay",
    ),
    Setting(
        name="restart.exponential_delay.initial_backoff",
        type="duration",
        default="1s",
        doc="The time before the first restart.",
        flink="restart-strategy.exponential-delay.initial-backoff",
    ),
    Setting(
        name="restart.exponential_delay.max_backoff",
        type="duration",
        default="1 min",
        doc="The time before a restart is never longer.",
        flink="restart-strategy.exponential-delay.max-backoff",
    ),
    Setting(
        name="restart.exponential_delay.backoff_multiplier",
        type="number",
        default=1.5,
        doc="How much longer each time is than the one before.",
        flink="restart-strategy.exponential-delay.backoff-multiplier",
    ),
    Setting(
        name="restart.exponential_delay.reset_backoff_threshold",
        type="duration",
        default="1 h",
        doc="After so long without a failure the next one is a first one again.",
        flink="restart-strategy.exponential-delay.reset-backoff-threshold",
    ),
    Setting(
        name="restart.exponential_delay.jitter_factor",
        type="number",
        default=0.1,
        doc="By how much of itself a time is moved at random, so that jobs that failed together do not come back "
        "together.",
        flink="restart-strategy.exponential-delay.jitter-factor",
    ),
    Setting(
        name="restart.exponential_delay.attempts_before_reset_backoff",
        type="count",
        default=None,
        doc="So many restarts before the failure that ends the job; there is no such number where none is given.",
        flink="restart-strategy.exponential-delay.attempts-before-reset-backoff",
    ),
    Setting(
        name="restart.failure_rate.max_failures_per_interval",
        type="count",
        default=1,
        doc="So many failures are borne within the interval.",
        flink="restart-strategy.failure-rate.max-failures-per-interval",
    ),
    Setting(
        name="restart.failure_rate.failure_rate_interval",
        type="duration",
        default="1 min",
        doc="The interval.",
        flink="restart-strategy.failure-rate.failure-rate-interval",
    ),
    Setting(
        name="restart.failure_rate.delay",
        type="duration",
        default="1s",
        doc="The time before each restart.",
        flink="restart-strategy.failure-rate.delay",
    ),
    Setting(
        name="preset",
        type="choice",
        default=None,
        doc="Values that go together for a kind of job, just above the defaults: ``finance``, ``balanced``, ``logs`` "
        "or ``warehouse`` (docs/choosing.md).",
        ours="preset",
        choices=("finance", "balanced", "logs", "warehouse"),
    ),
    Setting(
        name="audit.retention",
        type="duration",
        default="7 d",
        doc="How long receipts of decided epochs are kept for ``onceflow audit``, whatever the journal keeps; by "
        "default as long as Kafka keeps records: what is gone from the topic cannot be compared any more.",
        environment="ONCEFLOW_AUDIT_RETENTION",
    ),
    Setting(
        name="audit.key_file",
        type="path",
        default=None,
        doc="A file with the key (at least 16 bytes) of each receipt's signature and of keyed digests: HMAC-SHA-256.",
        environment="ONCEFLOW_AUDIT_KEY_FILE",
    ),
    Setting(
        name="audit.forward_key_file",
        type="path",
        default=None,
        doc="A file with the key that seals the next receipt, which the job replaces by the one behind it: whoever "
        "takes it seals none of before. For the auditor, the file as it was at the beginning.",
        environment="ONCEFLOW_AUDIT_FORWARD_KEY_FILE",
    ),
    Setting(
        name="audit.anchor",
        type="path",
        default=None,
        doc="A place that only grows, where the newest receipt's hash is told twice a minute: a file's path, or "
        "``topic:NAME`` in the cluster of the job's first Kafka sink. The "
        "audit finds what was cut or written anew up to there.",
        environment="ONCEFLOW_AUDIT_ANCHOR",
    ),
    Setting(
        name="metrics.port",
        type="count",
        default=None,
        doc="The port at which a job tells its figures and its health (docs/metrics.md); 0 is any that is free, and "
        "without one nothing listens. It takes the extra ``[metrics]``.",
        ours="metrics.port",
    ),
    Setting(
        name="metrics.bind_host",
        type="text",
        default="127.0.0.1",
        doc="The address of this machine at which it does so; whoever reaches it may read.",
        ours="metrics.bind-host",
    ),
    Setting(
        name="session.master",
        type="text",
        default="local[*]",
        doc="Where Spark runs, for a session that onceflow makes and whose settings do not say it.",
        becomes="spark.master",
        environment="SPARK_MASTER",
    ),
    Setting(
        name="session.jars",
        type="paths",
        default=None,
        doc="Jars of your own, or folders of them, beside the pinned ones of Spark's Kafka connector; in their place "
        "where `spark-sql-kafka-0-10` is among them.",
        becomes="spark.jars",
        environment="ONCEFLOW_JARS",
    ),
    Setting(
        name="cli.config",
        type="path",
        default=None,
        doc="A TOML file with settings under Flink's keys.",
        environment="ONCEFLOW_CONFIG",
    ),
    Setting(
        name="process.umask",
        type="text",
        default="077",
        doc="What others get of the files that `job.main()` and the command line write: nothing, or with `027` the "
        "group reads them. A stricter one that the process has already stays.",
        environment="ONCEFLOW_UMASK",
    ),
    Setting(
        name="control.runtime_dir",
        type="path",
        default=None,
        doc="The folder, of mode 0700, in which running jobs are found; by default ``$XDG_RUNTIME_DIR/onceflow``, or "
        "``onceflow-UID`` in the folder for temporary files.",
        environment="ONCEFLOW_RUNTIME_DIR",
    ),
    Setting(
        name="local.cache",
        type="path",
        default="~/.cache/onceflow",
        doc="Where jars and the archive of classes are kept; ``$XDG_CACHE_HOME/onceflow`` goes before the default.",
        environment="ONCEFLOW_CACHE",
    ),
    Setting(
        name="local.ivy_settings",
        type="path",
        default=None,
        doc="An ``ivysettings.xml`` that says where jars are fetched from, for a mirror.",
        environment="ONCEFLOW_IVY_SETTINGS",
    ),
    Setting(
        name="dev.data_dir",
        type="path",
        default="~/.local/share/onceflow/dev",
        doc="Where the Kafka of ``onceflow dev`` has its data, ports and logs.",
        environment="ONCEFLOW_DEV_DIR",
    ),
    Setting(
        name="cli.debug",
        type="flag",
        default=False,
        doc="Errors of ``onceflow`` and of ``job.main()`` come with their traceback.",
        environment="ONCEFLOW_DEBUG",
    ),
)


def setting(name: str) -> Setting:
    """The setting of this name.

    Raises:
        ConfigurationError: There is none; the message says which one may have been meant.
    """
    found = {each.name: each for each in SETTINGS}
    if name in found:
        return found[name]
    # It may have been called as elsewhere: by its keyword alone, by Flink's key, by its variable.
    words = {
        word: each.name
        for each in SETTINGS
        for word in (each.name, each.name.rpartition(".")[2], each.key, each.variable)
        if word is not None
    }
    meant = get_close_matches(name, words, n=1)
    raise ConfigurationError(
        f"there is no setting {name!r}",
        action=f"did you mean {words[meant[0]]}?" if meant else f"choose one of {', '.join(found)}",
    )


_WRITTEN = {
    "number": "a number",
    "boolean": "`true` or `false`",
    "choice": "one of those that its description names",
    "duration": '`"200 ms"`, `"5s"`, `"10 min"`, `"2 h"`, or a number of seconds',
    "count": "a whole number",
    "path": "a path",
    "paths": "paths, with `:` between them",
    "text": "text",
    "flag": "on with any text in the variable, off without",
}


def page(*classes: type) -> str:
    """The page of the docs that is made from the catalogue.

    Args:
        classes: Those whose keywords it tells as well.
    """
    lines = [
        "# Settings",
        "",
        "Generated from `src/onceflow/options/catalogue.py`, and from signatures and docstrings of the classes, by",
        "`make settings`; a test holds them together.",
        "",
        "## What the operator of a job sets",
        "",
        "A job's author writes `Checkpointing(…)` and `Job(restart=…)`. Before that goes what its operator says under",
        "a key, Flink's where Flink has one: in a TOML file that `--config` or `ONCEFLOW_CONFIG` names; before it the",
        "variable; before all `onceflow run -D key=value`. A duration has a unit there. What has no key has a variable",
        "only.",
        "`onceflow config JOB.py` shows what each setting of a job is, and who said it.",
        "",
        "`-D` and the file take Spark's own keys, too (`-D spark.master=spark://master:7077`, or `[spark]`), for",
        "the session that onceflow makes; they go before `Job(spark=…)` ([clusters.md](clusters.md)).",
        "",
        "| setting | type | default | what it is | key | becomes, in Spark | variable |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in SETTINGS:
        keys = [f"`{key}`" if key else "" for key in (each.key, each.becomes, each.variable)]
        cells = [each.name, each.type, _default(each), each.doc.replace("``", "`"), *keys]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", "| type | how it is written |", "|---|---|"]
    lines += [f"| {name} | {how} |" for name, how in _WRITTEN.items()]
    lines += ["", "## What the author of a job writes", ""]
    lines += ['A `GivenSecret` is the secret itself, or where it is: `{"env": NAME}` or `{"file": PATH}`.']
    for of in classes:
        lines += ["", f"### {of.__name__}", "", *table(of)]
    return "\n".join(lines) + "\n"


def _default(of: Setting) -> str:
    if of.type == "boolean":
        return f"`{str(of.default).lower()}`"
    return "" if of.default is None else "off" if of.default is False else f"`{of.default}`"
