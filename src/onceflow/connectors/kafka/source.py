"""KafkaSource: Kafka topics as a streaming DataFrame, over Spark's own connector.

It chooses the connector's options and turns bytes into columns. RecordReading itself, and where reading goes on after a
restart, is Spark's: the offsets live in Spark's checkpoint.

Must not know: sinks, transactions, the journal, epochs.
"""

from __future__ import annotations

import json
import operator
import re
import uuid
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from datetime import datetime
from functools import reduce
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary

from pyspark import SparkContext
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it

from onceflow.connectors.kafka import login_refused, offsets
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.connectors.kafka.partition import Partition
from onceflow.connectors.kafka.source_checks import (
    SOURCE_OPTION,
    checked_choice,
    checked_format,
    checked_metadata,
    checked_options,
    checked_start,
    checked_topics,
    milliseconds,
    wrong,
)
from onceflow.connectors.source_contract import (
    Connector,
    DeadLetter,
    Malformed,
    Source,
    SourceConnection,
    present_limit,
)
from onceflow.errors import ConfigurationError, MalformedRecordError, OnceflowError, UnknownSchemaError
from onceflow.formats.contract import Format, PartOfRecord, RecordReading
from onceflow.formats.refused import refused_from
from onceflow.formats.registry import SchemaRegistry
from onceflow.formats.text_format import Raw
from onceflow.options.arguments import checked
from onceflow.options.durations import duration_ms
from onceflow.twophase.forms import OTHER_FORM

if TYPE_CHECKING:
    pass

__all__ = ["CONNECTOR", "KafkaSource", "find", "malformed_from"]

_MARKER = "onceflow-malformed-record"
_METRIC = "onceflow_malformed_"
_UNKNOWN = "onceflow-unknown-schema"
_PLACE = ("topic", "partition", "offset", "reason")
_OF_A_DEAD_LETTER = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
_FIRST = 3
"""Of so many malformed records of an epoch the log says where they are."""

# The consumer's 500 records a poll are the brake on this path; with these, reading alone took 1.0 s instead of
# 1.7 s for 2 million records. Bytes bound the memory: 8 MiB per partition and 64 MiB per fetch. CRC checks stay
# on: kafka.check.crcs=false saves a few per cent and lets damage on the wire or on a disk pass as data.
#
# A consumer that has read to the end of its partition asks for more at once, and the broker holds that request for
# fetch.max.wait.ms, Kafka's default is 500. Spark's connector then asks for the partition's offsets on the same
# connection, where a broker answers in order: so each partition of each epoch that was read to its end took half a
# second. Consumers ask only while a task reads, so a short wait costs an idle job nothing. It is not 0: where a record
# is not readable yet, a consumer would ask without a pause.
_CONSUMER_DEFAULTS = {
    "kafka.fetch.max.wait.ms": "1",
    "kafka.max.poll.records": "10000",
    "kafka.max.partition.fetch.bytes": str(8 * 1024 * 1024),
    "kafka.fetch.max.bytes": str(64 * 1024 * 1024),
}

# Which options Spark leaves out where it prints a plan. By its own patterns a PEM key is printed.
_HIDING = "spark.sql.redaction.options.regex"
_HIDDEN = "jaas|keystore[.]key|key[.]password"

_loaded: WeakKeyDictionary[SparkContext, dict[str, KafkaSource]] = WeakKeyDictionary()
"""Sources with their settings, secrets included, live as long as the Spark whose plans they are in."""


class KafkaSource(Source):
    """Kafka topics as a streaming DataFrame.

    Columns: the fields of ``value`` for Json, Avro, Csv and Debezium, else one column ``value`` (Text: string, Raw:
    binary); then ``key`` if it is asked for; then the metadata, in the order given: ``headers``
    array<struct<key: string, value: binary>> (null where there are none), ``topic`` string, ``partition`` int,
    ``offset`` bigint, ``timestamp`` timestamp (exact from 1900 on: Spark's connector moves earlier ones between
    calendars, by days before 1582).

    Partitions that are added to a topic later are found by Spark, and read from their first record. Lost records
    (deleted by retention before they were read) always stop the query.

    Args:
        cluster: Where.
        topics: A name, several names, or a compiled pattern, which Java's regex engine matches against whole
            names; topics that match later are found, too.
        value: How to read values: Json(schema), Avro(…), Csv(schema), Debezium(…), Text() or Raw().
        key: How to read keys, likewise; None: no column ``key``.
        metadata: Further columns, any of key (as bytes, unless ``key`` says otherwise), headers, topic, partition,
            offset, timestamp.
        start: Where a query without a checkpoint begins; **a checkpoint always goes before it**. ``"earliest"``;
            ``"latest"``; ``"group-offsets"``: what ``group`` has committed, partitions without a commit from
            their earliest; an aware ``datetime``: the first record of each partition at or after it, or the end
            of the partition; ``{topic: {partition: offset}}``: those, other partitions from their earliest.
        group: The consumer group whose offsets show the job's progress to monitoring, and the prefix of the
            group ids that Spark makes for itself (for brokers with ACLs: READ on this prefix).
        isolation: ``"read_committed"`` (aborted records are never seen, open transactions hold the end of an
            epoch back) or ``"read_uncommitted"`` (refused by exactly-once jobs).
        max_records_per_epoch: At most so many offsets per epoch over all partitions. None: so many that an epoch
            takes a quarter of its transactions' time-out at the rate that was measured; before anything was, and
            outside of a ``Job``, 900,000. An epoch is never without a limit: what arrived in a weekend would take
            longer than its transactions live.
        on_malformed: ``"fail"``: a record that the format cannot read stops the query with topic, partition, offset,
            and the field and what is wrong with it (never with its content). ``"skip"``: it is left out and counted; a
            warning after each epoch says how many, and of the first few where they are and why. ``DeadLetter(sink)``:
            it goes to that sink, once, as the epoch's rows go to theirs; counted and warned of likewise. A job writes
            them, and ``start``; a query of your own over ``load`` leaves them out.
        max_ahead: How far a time in a value or a key may be ahead of its epoch's own time: ``"1 h"``, seconds, or None
            for any. A record with a later one is malformed: it would move a watermark so far that all after it are
            late. A field that may well lie ahead (when something is due, or ends) is a ``date`` or a ``string``.
        options: More settings of the Java consumer (``kafka.…``) and a few of Spark's connector.

    Raises:
        RefusedSettingError: An option would break the guarantee.
        ConfigurationError: An argument that cannot work.
    """

    @checked
    def __init__(
        self,
        cluster: KafkaCluster,
        topics: str | Sequence[str] | re.Pattern[str],
        *,
        value: Format,
        key: Format | None = None,
        metadata: Sequence[str] = (),
        start: Literal["earliest", "latest", "group-offsets"] | datetime | Mapping[str, Mapping[int, int]] = "earliest",
        group: str | None = None,
        isolation: Literal["read_committed", "read_uncommitted"] = "read_committed",
        max_records_per_epoch: int | None = None,
        on_malformed: Literal["fail", "skip"] | DeadLetter = "fail",
        max_ahead: str | float | None = "1 h",
        options: Mapping[str, str | float | bool] | None = None,
    ) -> None:
        self.source_id = ""
        self.cluster = cluster
        self.topics = checked_topics(topics)
        self.value = checked_format(value)
        self.key = None if key is None else checked_format(key)
        self.metadata = checked_metadata(metadata)
        self.start = checked_start(start, group)
        self.group = group
        self.isolation = checked_choice("isolation", isolation, ("read_committed", "read_uncommitted"))
        self.max_records_per_epoch = max_records_per_epoch
        self.dead_letter = on_malformed if isinstance(on_malformed, DeadLetter) else None
        self.fails_on_malformed = on_malformed == "fail"
        self.malformed_records: DataFrame | None = None
        self.max_ahead_ms = None if max_ahead is None else duration_ms(max_ahead)
        self.options = checked_options(options or {})
        if "key" in self.metadata and self.key is None:
            self.key = Raw()
        if max_records_per_epoch is not None and max_records_per_epoch < 1:
            wrong("max_records_per_epoch", max_records_per_epoch, "a positive number, or None for no limit")

    def describe(self) -> str:
        """The topics."""
        if isinstance(self.topics, re.Pattern):
            return f"topics like {self.topics.pattern}"
        return f"{'topic' if len(self.topics) == 1 else 'topics'} {', '.join(self.topics)}"

    def __repr__(self) -> str:
        topics = self.topics.pattern if isinstance(self.topics, re.Pattern) else ",".join(self.topics)
        return f"KafkaSource({self.cluster.bootstrap_servers}, {topics})"

    @property
    def system(self) -> KafkaCluster:
        """The cluster."""
        return self.cluster

    def connect(self) -> SourceConnection:
        """As the contract says."""
        from onceflow.connectors.kafka.client import KafkaClient  # noqa: PLC0415 - a description needs no client
        from onceflow.connectors.kafka.source_connection import KafkaSourceConnection  # noqa: PLC0415 - it knows this one

        return KafkaSourceConnection(KafkaClient(self.cluster))

    @property
    def registries(self) -> Sequence[SchemaRegistry]:
        """As the contract says."""
        return [form.registry for form in (self.value, self.key) if form is not None and form.registry is not None]

    def malformed(self, observed: Mapping[str, Any]) -> Malformed:
        """As the contract says."""
        row = observed.get(_METRIC + self.source_id)
        if row is None:
            return Malformed()
        first = (
            "topic {}, partition {}, offset {}: {}".format(*(at[name] for name in _PLACE)) for at in row["first"] or ()
        )
        return Malformed(int(row["records"]), tuple(first), int(row["read"]))

    def dead_letters(self) -> DataFrame | None:
        """As the contract says."""
        return self.malformed_records

    def reads(self, topic: str) -> bool:
        """Whether the source reads a topic of this name."""
        if isinstance(self.topics, re.Pattern):
            return self.topics.fullmatch(topic) is not None
        return topic in self.topics

    def overlaps(self, other: Source) -> bool:
        """Whether both read a topic; of two patterns that is known only where they are the same."""
        if not isinstance(other, KafkaSource) or other.cluster != self.cluster:
            return False
        if isinstance(other.topics, re.Pattern):
            if isinstance(self.topics, re.Pattern):
                return self.topics.pattern == other.topics.pattern
            return other.overlaps(self)
        return any(map(self.reads, other.topics))

    @checked
    def load(self, spark: SparkSession) -> DataFrame:
        """The DataFrame; every call makes a source of its own in the plan.

        Raises:
            ConfigurationError: Two columns would have the same name, or Spark cannot read with the schema of Json.
            KafkaUnavailableError: No broker answered (asked for ``group-offsets`` and specific offsets only).
            KafkaRightsError: The broker refused the login, likewise.
            RegistryError: A format's registry did not answer, or does not have what it is asked for.
        """
        value = self.value.reading(self._part("value"))
        key = None if self.key is None else self.key.reading(self._part("key"))
        self._require_names(value)
        hidden = str(spark.conf.get(_HIDING))
        if _HIDDEN not in hidden:
            spark.conf.set(_HIDING, f"{hidden}|{_HIDDEN}")
        source_id = uuid.uuid4().hex[:12]
        records = spark.readStream.format("kafka").options(**self.connector_options(), **{SOURCE_OPTION: source_id})
        raw = records.load()
        try:
            frame, dead_letters = self._decode(raw, source_id, value, key)
        except AnalysisException as error:
            raise ConfigurationError(
                f"{self!r} cannot be read with its formats: {str(error).splitlines()[0]}",
                cause=f"value={self.value}, key={self.key}",
                action="correct the schema: each field has a name of its own (of which Spark ignores the case; "
                "_onceflow_corrupt is taken), and a type that Spark's from_json reads",
            ) from error
        loaded = copy(self)
        loaded.source_id = source_id
        loaded.malformed_records = dead_letters
        _loaded.setdefault(spark.sparkContext, {})[source_id] = loaded
        return frame

    def connector_options(self) -> dict[str, str]:
        """What Spark's connector is told. Asks the broker where ``start`` needs it (see ``load``). Has secrets."""
        options = _CONSUMER_DEFAULTS | self.options | self.cluster.for_spark()
        options["kafka.isolation.level"] = self.isolation
        options["failOnDataLoss"] = "true"
        if isinstance(self.topics, re.Pattern):
            # Spark takes every topic that has a match anywhere in its name.
            options["subscribePattern"] = f"^(?:{self.topics.pattern})$"
        else:
            options["subscribe"] = ",".join(self.topics)
        if isinstance(self.start, datetime):
            options["startingTimestamp"] = str(milliseconds(self.start))
            options["startingOffsetsByTimestampStrategy"] = "latest"
        elif self.start in ("earliest", "latest"):
            options["startingOffsets"] = str(self.start)
        else:
            options["startingOffsets"] = self._resolved_start()
        if self.group is not None:
            options.setdefault("groupIdPrefix", self.group)
        options["maxOffsetsPerTrigger"] = str(present_limit().of(self.max_records_per_epoch))
        if "headers" in self.metadata or self.dead_letter is not None:
            options["includeHeaders"] = "true"
        return options

    def _resolved_start(self) -> str:
        """Spark wants an offset for every partition that exists now; -2 means earliest."""
        admin = self.cluster.admin()
        try:
            wanted: dict[Partition, int]
            if self.start == "group-offsets" and self.group is not None:
                wanted = offsets.committed(admin, self.group)
            else:
                wanted = offsets.flat(self.start)  # type: ignore[arg-type]  # checked_start leaves only a dict
            partitions = offsets.partitions(admin, self.topics)
        finally:
            admin.close()
        unknown = sorted(set(wanted) - set(partitions))
        if unknown and self.start != "group-offsets":
            wrong("start", self.start, f"offsets of partitions that exist; there is no {unknown}")
        return offsets.to_json({partition: wanted.get(partition, -2) for partition in partitions})

    def _part(self, part: Literal["key", "value"]) -> PartOfRecord:
        topics = (self.topics.pattern,) if isinstance(self.topics, re.Pattern) else self.topics
        return PartOfRecord(topics, part, self.fails_on_malformed)

    def _require_names(self, value: RecordReading) -> None:
        fields = value.fields()
        names = ["value"] if fields is None else list(fields.names)
        extra = [*(["key"] if self.key is not None else []), *(name for name in self.metadata if name != "key")]
        taken = {name.lower() for name in names}
        if clash := [name for name in extra if name in taken]:
            raise ConfigurationError(
                f"{self!r} would have two columns of the name {', '.join(clash)}: one of the value's fields and one "
                "of the record's metadata",
                cause=f"metadata={list(self.metadata)}, key={self.key}, value={self.value}",
                action="leave the metadata column out, or read the value as Text() and take it apart yourself",
                columns=clash,
            )

    def _decode(
        self, records: DataFrame, source_id: str, value: RecordReading, key: RecordReading | None
    ) -> tuple[DataFrame, DataFrame | None]:
        """From the connector's columns to ours; and what cannot be read, where that is asked for.

        Parsing must happen once per record, and a malformed record must not slip past the check. Spark's
        optimizer endangers both: it pushes filters below a projection (and then parses again in the filter), and
        it merges a user's filter with ours and tests its null checks first (the fields of a malformed record are
        null, so it would be dropped in silence). It does neither across expressions that it takes for
        non-deterministic, and spark_partition_id() is one that costs nothing.
        """
        parsed_value, parsed_key, barrier = "_onceflow_value", "_onceflow_key", "_onceflow_barrier"
        verdict, where = "_onceflow_malformed", "_onceflow_where"
        keys = [] if key is None else [key.parsed(F.col("key")).alias(parsed_key)]
        frame = records.select(
            "*",
            value.parsed(F.col("value")).alias(parsed_value),
            *keys,
            F.spark_partition_id().alias(barrier),
        )
        # Spark keeps an epoch's time in offsets/N: whoever runs it again finds the same records malformed.
        ahead = self.max_ahead_ms
        latest = None if ahead is None else F.current_timestamp() + F.expr(f"INTERVAL {ahead} MILLISECOND")
        read = [("value", value, parsed_value), *([] if key is None else [("key", key, parsed_key)])]
        seen = F.spark_partition_id() == F.col(barrier)
        for name, form, _ in read:
            unknown = form.unknown(frame[name])
            if unknown is not None:
                told = F.struct("topic", "partition", "offset", unknown.alias("schema"))
                failure = F.raise_error(F.concat(F.lit(_UNKNOWN), F.to_json(told))).cast("boolean")
                frame = frame.where(F.when(unknown.isNotNull(), failure).otherwise(seen))
        for name, form, _ in read:
            nothing = form.nothing(frame[name])
            if nothing is not None:
                frame = frame.where(F.when(nothing, F.lit(False)).otherwise(seen))
        checks = [
            (name, form, parsed, check)
            for name, form, parsed in read
            if (check := form.malformed(frame[name], frame[parsed], latest)) is not None
        ]
        dead_letters = None
        if checks:
            malformed = reduce(operator.or_, (check for *_, check in checks))
            reasons = [
                F.when(check, F.concat(F.lit(f"its {name}: "), form.reason(frame[name], frame[parsed], latest)))
                for name, form, parsed, check in checks
            ]
            place = F.struct("topic", "partition", "offset", F.concat_ws("; ", *reasons).alias("reason"))
            if self.fails_on_malformed:
                failure = F.raise_error(F.concat(F.lit(_MARKER), F.to_json(place))).cast("boolean")
                frame = frame.where(F.when(malformed, failure).otherwise(seen))
            else:
                # Columns of their own: the check is not cheap, and is used twice.
                frame = frame.withColumn(verdict, malformed).withColumn(where, F.when(F.col(verdict), place))
                order = F.when(F.col(verdict), F.struct(f"{where}.topic", f"{where}.partition", f"{where}.offset"))
                first = F.min_by(where, order, _FIRST)
                counts = F.count_if(verdict).alias("records"), F.count(F.lit(1)).alias("read"), first.alias("first")
                counted = frame.observe(_METRIC + source_id, *counts)
                frame = counted.where(~F.col(verdict))
                if self.dead_letter is not None:
                    dead_letters = counted.where(verdict).select(f"{where}.reason", *_OF_A_DEAD_LETTER)
        elif self.dead_letter is not None:
            raise ConfigurationError(
                f"{self!r} has no malformed records: its formats read any bytes",
                cause=f"on_malformed={self.dead_letter!r}, value={self.value}, key={self.key}",
                action="leave on_malformed away, or say what is to be read: Json(schema) or Text()",
            )
        of_value, partition = F.col(parsed_value), F.concat_ws("/", "topic", "partition")
        columns = value.columns(of_value)
        if value.fields() is None:
            columns = [columns[0].alias("value")]
        columns += value.placed(of_value, partition, F.col("offset"))
        if key is not None:
            of_key = key.columns(F.col(parsed_key))
            columns.append((of_key[0] if key.fields() is None else F.struct(*of_key)).alias("key"))
        return frame.select(*columns, *(name for name in self.metadata if name != "key")), dead_letters


def find(kind: str, options: Mapping[str, str]) -> KafkaSource | None:
    """The source of a plan that ``KafkaSource.load`` made in this process; one object for each call of ``load``.

    Args:
        kind: Spark's name of the source.
        options: Its options, with lower-case names.
    """
    source_id = options.get(SOURCE_OPTION, "")
    return next((of[source_id] for of in _loaded.values() if source_id in of), None) if kind == "kafka" else None


def malformed_in(observed: Mapping[str, Any]) -> Iterator[tuple[KafkaSource, Malformed]]:
    """What an epoch has left out, by the sources of its plan that were loaded in this process.

    Args:
        observed: As of ``KafkaSource.malformed``.
    """
    for source in (each for of in _loaded.values() for each in of.values()):
        found = source.malformed(observed)
        if found.records:
            yield source, found


def malformed_from(message: str) -> MalformedRecordError | None:
    """The malformed record that a failed query's message speaks of, if it does."""
    at = message.find(_MARKER + '{"topic":')
    if at < 0:
        return None
    try:
        told, _ = json.JSONDecoder().raw_decode(message, at + len(_MARKER))
        topic, partition, offset = str(told["topic"]), int(told["partition"]), int(told["offset"])
        reason = str(told["reason"])
    except OTHER_FORM:  # cut off on its way, or a record's own text
        return None
    return MalformedRecordError(
        f"the record at topic {topic}, partition {partition}, offset {offset} cannot be read: {reason}",
        harmless="for what is visible: it stays as it is; but every start meets the record again",
        cause="the source's on_malformed=fail, and its format or schema does not fit this record",
        action="correct the schema (timestamp_format, or the source's max_ahead, for a time); or set "
        'on_malformed="skip", which leaves such records out and counts them',
        topic=topic,
        partition=partition,
        offset=offset,
        reason=reason,
    )


def unknown_from(message: str) -> UnknownSchemaError | None:
    """The schema that a failed query's message says is not known yet, if it does."""
    at = message.find(_UNKNOWN + '{"topic":')
    if at < 0:
        return None
    try:
        told, _ = json.JSONDecoder().raw_decode(message, at + len(_UNKNOWN))
        topic, partition, offset = str(told["topic"]), int(told["partition"]), int(told["offset"])
        registry, _, number = str(told["schema"]).rpartition("/")
        schema_id = int(number)
    except OTHER_FORM:  # as above
        return None
    return UnknownSchemaError(
        f"the record at topic {topic}, partition {partition}, offset {offset} is of schema {schema_id}, which the "
        f"checkpoint does not have yet (registry {registry})",
        harmless="always: nothing of the epoch is visible; the query begins again and looks the schema up",
        cause="records are written by a schema that is new in this topic",
        action="nothing",
        topic=topic,
        partition=partition,
        offset=offset,
        registry=registry,
        schema=schema_id,
    )


def explain(message: str) -> OnceflowError | None:
    """Unknown schemas, malformed, refused or lost records, a refused login: what a failed query's message tells."""
    told = unknown_from(message) or malformed_from(message) or refused_from(message) or offsets.data_lost_from(message)
    return told or login_refused.in_spark(message) or offsets.no_topic_from(message)


CONNECTOR = Connector(find, explain)
