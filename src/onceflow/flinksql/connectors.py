"""The options of each connector and format, as one table: what each does here, or why it is refused.

The docs' tables are made from it (``table_lines``), and all that a table of a script gives is looked up in it
(``checked``).
Must not know: what is made of the options, Spark, Kafka's clients.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from onceflow.errors import ConfigurationError
from onceflow.flinksql.problems import Position, meant, refused, wrong
from onceflow.flinksql.statements import Option
from onceflow.masking import shown
from onceflow.options.rules import Rule, Standing, no_effect, refuses, rule_for, takes

_TASKS = "Spark makes as many tasks as it has slots, or partitions of state (`spark.sql.shuffle.partitions`)"
_EPOCHS = "rows are written with their epoch: see `execution.checkpointing.interval`"
_KAFKA_COMMON = (
    takes("connector", "Which one."),
    takes("topic", "The topic; to read, several with `;` between them."),
    takes(
        "properties.bootstrap.servers", "The brokers. `onceflow.kafka.bootstrap.servers` goes before it in all tables."
    ),
    takes(
        "properties.group.id",
        "The group whose offsets show the job's progress to monitoring, and the prefix of Spark's own groups. Where "
        "the job goes on is the checkpoint's business.",
    ),
    takes("key.format", "How keys are written: `json`, `csv`, `avro`, `avro-confluent` or `raw`."),
    takes("key.fields-prefix", "A prefix of the key's columns, which the key itself does not have."),
    takes("value.format", "The same as `format`."),
    takes("value.fields-include", "Whether key columns are in the value, too.", "ALL", "EXCEPT_KEY"),
    takes(
        "scan.bounded.mode",
        "Where reading ends: `latest-offset`: at the end as it is at the start; then the job ends.",
        "unbounded",
        "latest-offset",
        not_taken={
            "group-offsets": "Spark ends at what is there",
            "timestamp": "Spark ends at what is there",
            "specific-offsets": "Spark ends at what is there",
        },
    ),
    refuses("scan.bounded.specific-offsets", "Spark ends at what is there", "use scan.bounded.mode = latest-offset"),
    refuses("scan.bounded.timestamp-millis", "Spark ends at what is there", "use scan.bounded.mode = latest-offset"),
    no_effect("scan.parallelism", _TASKS),
    no_effect("sink.parallelism", _TASKS),
    takes(
        "sink.delivery-guarantee",
        "As in Flink, but for the default: `exactly-once` here, unless `execution.checkpointing.mode` says "
        "AT_LEAST_ONCE; a start says so.",
        "exactly-once",
        "at-least-once",
        "none",
    ),
    takes(
        "sink.transactional-id-prefix",
        "First part of the transactional ids; one for all sinks of a job, that of its first INSERT. `onceflow` by "
        "default.",
    ),
)
_CHANGES = "Spark reads records, and no changes of earlier ones"
CHANGES = ("debezium-json", "debezium-avro-confluent")
"""The formats whose records are changes of another table's rows."""
FORMATS: Mapping[str, str] = {
    "json": "",
    "csv": "",
    "raw": "",
    "avro": "",
    "avro-confluent": "",
    "protobuf": "there is none here",
    "parquet": "it is a file's format",
    "orc": "it is a file's format",
    **dict.fromkeys(CHANGES, ""),
    "canal-json": _CHANGES,
    "maxwell-json": _CHANGES,
    "ogg-json": _CHANGES,
}
"""Each of Flink's formats; of one that is refused why."""
_THERE = ", ".join(form for form, why in FORMATS.items() if not why)

_IN_PYTHON = "write the job in Python: SchemaRegistry(…)"
_ELSEWHERE = dict.fromkeys(("URL", "SASL_INHERIT", "OAUTHBEARER", "CUSTOM"), "the login is taken from the table alone")


def _of_registry(form: str, subject: str) -> tuple[Rule, ...]:
    """The options of a format that asks a schema registry."""
    return (
        takes(f"{form}.url", "The schema registry's address; several of one registry with `,` between them."),
        takes(f"{form}.subject", subject),
        takes(
            f"{form}.schema", "The schema that is read by, or written; else what Flink makes of the table's columns."
        ),
        takes(f"{form}.basic-auth.credentials-source", "", "USER_INFO", not_taken=_ELSEWHERE),
        takes(f"{form}.basic-auth.user-info", "`user:password`"),
        takes(f"{form}.bearer-auth.credentials-source", "", "STATIC_TOKEN", not_taken=_ELSEWHERE),
        takes(f"{form}.bearer-auth.token", "A token that lasts."),
        refuses(f"{form}.ssl.*", "they are stores of Java's", _IN_PYTHON),
        refuses(f"{form}.properties.*", "they are settings of Java's client", _IN_PYTHON),
    )


_FORMAT_OPTIONS = (
    takes("json.fail-on-missing-field", "A record without one of the fields is malformed.", "true", "false"),
    takes(
        "json.ignore-parse-errors",
        "A record that cannot be read is left out, counted and warned of. Flink keeps it with the field as NULL.",
        "true",
        "false",
    ),
    takes(
        "json.timestamp-format.standard",
        "How times are written: `2026-01-31 23:59:59.5` (SQL) or with a T (ISO-8601). Both are read in either.",
        "SQL",
        "ISO-8601",
    ),
    takes(
        "json.map-null-key.mode",
        "A MAP has no null key in Spark.",
        "FAIL",
        not_taken={"DROP": "a MAP has no null key in Spark", "LITERAL": "a MAP has no null key in Spark"},
    ),
    refuses("json.map-null-key.literal", "a MAP has no null key in Spark", "remove it"),
    no_effect(
        "json.encode.decimal-as-plain-number", "what is below 0.000001 has an exponent, as Spark writes it: 1E-7"
    ),
    takes("json.encode.ignore-null-fields", "Null fields are left out.", "true", "false"),
    no_effect("json.decode.json-parser.enabled", "Spark has one parser"),
    takes("debezium-json.schema-include", "Records with their schema are read as those without.", "true", "false"),
    takes("debezium-json.ignore-parse-errors", "As json.ignore-parse-errors.", "true", "false"),
    takes("debezium-json.timestamp-format.standard", "Both are read in either.", "SQL", "ISO-8601"),
    refuses("debezium-json.map-null-key.*", "changes are read only", "remove it"),
    refuses("debezium-json.encode.*", "changes are read only", "remove it"),
    takes("csv.field-delimiter", "One character."),
    takes("csv.quote-character", "One character."),
    takes("csv.escape-character", "One character; without it a quote in quotes is doubled."),
    takes("csv.null-literal", "The text that is NULL."),
    takes("csv.ignore-parse-errors", "As json.ignore-parse-errors.", "true", "false"),
    refuses("csv.disable-quote-character", "Spark always quotes what needs it", "remove it"),
    refuses("csv.allow-comments", "a record is a row", "filter them out before"),
    refuses("csv.array-element-delimiter", "an ARRAY is no field of CSV here", "use json"),
    no_effect(
        "csv.write-bigdecimal-in-scientific-notation",
        "what is below 0.000001 has an exponent, as Spark writes it: 1E-7",
    ),
    takes("raw.charset", "The bytes of text.", "UTF-8", not_taken={"UTF-16": "text is UTF-8 here"}),
    takes("avro.encoding", "Of the records.", "binary", not_taken={"json": "Spark reads binary Avro"}),
    takes(
        "avro.timestamp_mapping.legacy",
        "A TIMESTAMP is Avro's `timestamp`; read are both, it and `local-timestamp`.",
        "true",
        not_taken={"false": "it is not taken yet"},
    ),
    no_effect("avro.codec", "it is of files"),
    *_of_registry("avro-confluent", "Whose schema; by default `<topic>-value` or `<topic>-key`."),
    takes(
        "avro-confluent.auto.register.schemas",
        "Whether a start registers what is written; before that the registry is asked whether it is compatible.",
        "true",
        "false",
    ),
    *_of_registry("debezium-avro-confluent", "Whose versions are read ahead; by default `<topic>-value`."),
    refuses("debezium-avro-confluent.auto.register.schemas", "changes are read only", "remove it"),
    refuses("raw.endianness", "numbers are no raw column here", "use json, or a STRING"),
)

_COMMIT = "with checkpoints they have none: offsets are published after each epoch"
_OURS = "the two-phase commit needs it to be as it sets it"
_KEYS = "write the job in Python: KafkaCluster(ssl_key=…)"
_JAVA_ONLY = "no producer of Java's runs here"
PROPERTIES = (
    no_effect("properties.enable.auto.commit", _COMMIT),
    no_effect("properties.auto.commit.interval.ms", _COMMIT),
    takes(
        "properties.auto.offset.reset",
        "Where `group-offsets` finds none: `earliest`. Elsewhere it has no effect, as in Flink.",
        "earliest",
        not_taken={"latest": "records would be passed over in silence", "none": "a partition may be new"},
    ),
    takes(
        "properties.isolation.level",
        "`read_committed` is the default here; Flink's is `read_uncommitted`, which an exactly-once job refuses.",
        "read_committed",
        "read_uncommitted",
    ),
    takes("properties.transaction.timeout.ms", "How long the broker keeps an undecided transaction."),
    takes("properties.client.id", "A name for the brokers' logs and quotas."),
    takes("properties.security.protocol", "As in Java's clients."),
    takes("properties.sasl.mechanism", "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; OAUTHBEARER in Python only."),
    takes("properties.sasl.jaas.config", "User and password of a PlainLoginModule or a ScramLoginModule."),
    takes("properties.ssl.truststore.location", "A PEM file."),
    takes("properties.ssl.truststore.type", "", "PEM", not_taken={"JKS": "two of three clients read PEM only"}),
    refuses("properties.ssl.truststore.password", "a PEM file has none", "make a PEM file of the store"),
    refuses("properties.ssl.keystore.*", "two of three clients read PEM only", _KEYS),
    refuses("properties.ssl.key.password", "a key is given in Python", _KEYS),
    refuses("properties.sasl.*", "it is not one that all three clients have", "see docs/security.md"),
    refuses("properties.ssl.*", "it is not one that all three clients have", "see docs/security.md"),
    # Java's producer, and librdkafka, which writes here.
    takes("properties.linger.ms", "librdkafka's `linger.ms`."),
    takes("properties.batch.size", "librdkafka's `batch.size`."),
    takes("properties.buffer.memory", "librdkafka's `queue.buffering.max.kbytes`, in bytes as in Java."),
    takes("properties.max.request.size", "librdkafka's `message.max.bytes`."),
    takes("properties.compression.type", "librdkafka's `compression.type`."),
    takes("properties.delivery.timeout.ms", "librdkafka's `delivery.timeout.ms`."),
    takes("properties.request.timeout.ms", "The consumer's, and librdkafka's."),
    takes("properties.send.buffer.bytes", "librdkafka's `socket.send.buffer.bytes`, and the consumer's."),
    takes("properties.receive.buffer.bytes", "librdkafka's `socket.receive.buffer.bytes`, and the consumer's."),
    takes("properties.retry.backoff.ms", "The consumer's, and librdkafka's."),
    takes("properties.retry.backoff.max.ms", "The consumer's, and librdkafka's."),
    takes("properties.reconnect.backoff.ms", "The consumer's, and librdkafka's."),
    takes("properties.reconnect.backoff.max.ms", "The consumer's, and librdkafka's."),
    takes("properties.metadata.max.age.ms", "The consumer's, and librdkafka's."),
    takes("properties.connections.max.idle.ms", "The consumer's, and librdkafka's."),
    takes("properties.client.dns.lookup", "The consumer's, and librdkafka's."),
    takes("properties.client.rack", "The consumer's, and librdkafka's."),
    takes("properties.acks", "", "all", "-1", not_taken={"0": _OURS, "1": _OURS}),
    takes("properties.enable.idempotence", "", "true", not_taken={"false": _OURS}),
    refuses("properties.transactional.id", _OURS, "use sink.transactional-id-prefix"),
    refuses("properties.retries", _OURS, "remove it; properties.delivery.timeout.ms bounds it"),
    refuses("properties.max.in.flight.requests.per.connection", _OURS, "remove it"),
    refuses("properties.max.block.ms", _JAVA_ONLY, "use properties.delivery.timeout.ms"),
    refuses("properties.partitioner.*", "it is murmur2, as in every Java producer", "remove it"),
    refuses("properties.interceptor.classes", "code on the way could drop or change records", "remove it"),
    refuses("properties.key.serializer", _JAVA_ONLY, "use key.format"),
    refuses("properties.value.serializer", _JAVA_ONLY, "use format"),
    refuses("properties.key.deserializer", "Spark reads bytes", "use key.format"),
    refuses("properties.value.deserializer", "Spark reads bytes", "use format"),
    refuses("properties.partition.assignment.strategy", "Spark assigns partitions by itself", "remove it"),
    refuses("properties.group.instance.id", "Spark assigns partitions by itself", "remove it"),
    no_effect("properties.partition.discovery.interval.ms", "each epoch looks for new partitions"),
    # Java's consumer, which reads here.
    *(
        takes(f"properties.{name}", "The consumer's.")
        for name in (
            "fetch.min.bytes", "fetch.max.bytes", "fetch.max.wait.ms", "max.partition.fetch.bytes", "max.poll.records",
            "max.poll.interval.ms", "session.timeout.ms", "heartbeat.interval.ms", "default.api.timeout.ms",
            "check.crcs",
            "allow.auto.create.topics", "exclude.internal.topics", "socket.connection.setup.timeout.ms",
            "socket.connection.setup.timeout.max.ms",
        )
    ),
)  # fmt: skip

CONNECTORS: Mapping[str, tuple[Rule, ...]] = {
    "kafka": (
        *_KAFKA_COMMON,
        takes("topic-pattern", "Topics by a pattern of Java's, against whole names; to read only."),
        takes("format", "How values are written: `json`, `csv`, `avro`, `avro-confluent` or `raw`."),
        takes("key.fields", "The columns of the key, with `;` between them; `key.format` must be given, too."),
        takes(
            "scan.startup.mode",
            "Where a job without a checkpoint begins. `group-offsets`, the default in Flink, needs a group; without "
            "one the default here is `earliest-offset`.",
            "earliest-offset",
            "latest-offset",
            "group-offsets",
            "timestamp",
            "specific-offsets",
        ),
        takes("scan.startup.specific-offsets", "`partition:0,offset:42;partition:1,offset:300`"),
        takes("scan.startup.timestamp-millis", "Milliseconds since 1970."),
        no_effect("scan.topic-partition-discovery.interval", "each epoch looks for new partitions"),
        takes(
            "sink.partitioner",
            "By the key with murmur2, and without one any partition.",
            "default",
            not_taken={
                "fixed": "a task has no partition of its own here",
                "round-robin": "an epoch that is run again would choose others",
            },
        ),
        refuses("sink.semantic", "it is of an older Flink", "write sink.delivery-guarantee"),
        no_effect("sink.transaction-naming-strategy", "transactions are named by job, sink, epoch and task"),
    ),
    "upsert-kafka": (
        *_KAFKA_COMMON,
        no_effect("sink.buffer-flush.max-rows", _EPOCHS),
        no_effect("sink.buffer-flush.interval", _EPOCHS),
    ),
    "print": (
        takes("connector", "Which one."),
        takes("print-identifier", "Stands before each row."),
        takes("standard-error", "Rows go to stderr.", "true", "false"),
        no_effect("sink.parallelism", _TASKS),
    ),
    "datagen": (
        takes("connector", "Which one."),
        takes("rows-per-second", "How fast; 10000 by default."),
        takes("number-of-rows", "How many in all. Behind the last the job waits, where Flink's ends: stop it."),
        no_effect("scan.parallelism", _TASKS),
        takes(
            "fields.*.kind", "Of a column. Values follow from the row's number, in every run.",
            "random", "sequence",
        ),
        takes("fields.*.min", "Of numbers, the least."),
        takes("fields.*.max", "Of numbers, the greatest."),
        takes("fields.*.length", "Of text, how many characters."),
        takes("fields.*.start", "Of a sequence, its first."),
        takes("fields.*.end", "Of a sequence, its last; then there are no more rows."),
        takes("fields.*.max-past", "Of times, how far they may lie before the present: milliseconds, or with a unit."),
        refuses("fields.*.null-rate", "it is not taken yet", "remove it"),
        refuses("fields.*.var-len", "it is not taken yet", "remove it"),
    ),
    "jdbc": (
        takes("connector", "Which one."),
        takes("url", "JDBC's, of PostgreSQL, MySQL, MariaDB or SQLite."),
        takes("table-name", "The table, with its schema if need be."),
        takes(
            "onceflow.schema",
            "Where onceflow's own tables are, if not where the connection looks first. The table itself is looked for "
            "there, too, unless `table-name` has its schema.",
        ),
        takes("username", ""),
        takes("password", ""),
        no_effect("driver", "it follows from the URL; to read, its jar must be one of ONCEFLOW_JARS"),
        no_effect("connection.max-retry-timeout", "without an answer the epoch ends, and the job is started again"),
        takes("scan.fetch-size", "Rows in a fetch."),
        no_effect("scan.auto-commit", "Spark reads in a transaction of its own"),
        refuses("scan.partition.*", "it is not taken yet", "remove it"),
        no_effect("lookup.cache", "each epoch reads the table anew"),
        no_effect("lookup.cache.*", "each epoch reads the table anew"),
        no_effect("lookup.partial-cache.*", "each epoch reads the table anew"),
        no_effect("lookup.max-retries", "an epoch that fails is run again"),
        no_effect("sink.buffer-flush.max-rows", _EPOCHS),
        no_effect("sink.buffer-flush.interval", _EPOCHS),
        no_effect("sink.max-retries", "an epoch that fails is run again"),
        no_effect("sink.parallelism", _TASKS),
    ),
    "iceberg": (
        takes("connector", "Which one."),
        takes("catalog-name", "The catalog's name, as pyiceberg's settings know it."),
        takes(
            "catalog-type", "`rest`, `hive`, `glue` or pyiceberg's `sql`.", "rest", "hive", "glue", "sql",
            not_taken={"hadoop": "a folder of files has no commit that is safe", "nessie": "use its rest catalog",
                       "jdbc": "it is sql in pyiceberg"},
        ),
        refuses("catalog-impl", "it is a class of Java's", "use catalog-type"),
        takes("catalog-database", "The namespace; `default` by default."),
        takes("catalog-table", "The table; the name of the SQL table by default."),
        takes("uri", "The catalog's address."),
        takes("warehouse", "Where tables lie."),
        takes("s3.*", "Pyiceberg's settings of the store."),
        takes("credential", "Of a rest catalog."),
        takes("token", "Of a rest catalog."),
        no_effect("write.*", "they are properties of the table: set them there"),
    ),
}  # fmt: skip
"""The options of each connector that there is."""

_NO_CONNECTORS: Mapping[str, str] = {
    "filesystem": "to read, take a topic, or a jdbc table beside a stream; to write, kafka or iceberg",
    "blackhole": "use print",
    "elasticsearch-7": "write a sink in Python: docs/sinks.md",
    "elasticsearch-8": "write a sink in Python: docs/sinks.md",
    "opensearch": "write a sink in Python: docs/sinks.md",
    "hbase-2.2": "write a sink in Python: docs/sinks.md",
    "kinesis": "write a sink in Python: docs/sinks.md",
    "mongodb": "write a sink in Python: docs/sinks.md",
    "pulsar": "write a sink in Python: docs/sinks.md",
    "mysql-cdc": "send changes to a topic",
    "postgres-cdc": "send changes to a topic",
    "hudi": "use iceberg",
    "paimon": "use iceberg",
    "delta": "write the job in Python: DeltaSink",
}


@dataclass(frozen=True, slots=True)
class TakenOptions:
    """A table's options, each of which is taken.

    Attributes:
        connector: Which.
        values: By key.
        notes: What is to be said of those without effect.
        positions: Where each stands.
        unwritable: What refuses to write the table, which may be read.
    """

    connector: str
    values: Mapping[str, str]
    notes: tuple[str, ...]
    positions: Mapping[str, Position]
    unwritable: ConfigurationError | None = None


def checked(table: str, at: Position, options: Sequence[Option]) -> TakenOptions:
    """Look up every option of a table.

    Raises:
        ConfigurationError: One is unknown, refused, or has a value that is not taken.
    """
    given = {option.key: option for option in options}
    if "connector" not in given:
        legacy = given.get("connector.type")
        if legacy is not None:
            raise refused(
                legacy.at,
                "'connector.type'",
                "it is of an older Flink",
                f"write 'connector' = '{legacy.value}', with that connector's own options",
            )
        raise wrong(at, f"table {table} has no connector", action="write WITH ('connector' = 'kafka', …)")
    connector = given["connector"]
    if connector.value in _NO_CONNECTORS:
        raise refused(
            connector.at, f"connector {connector.value!r}", "there is none here", _NO_CONNECTORS[connector.value]
        )
    if connector.value not in CONNECTORS:
        known = (*CONNECTORS, *_NO_CONNECTORS)
        action = meant(connector.value, known, f"there are {', '.join(CONNECTORS)}")
        raise wrong(connector.at, f"there is no connector {connector.value!r}", action=action)
    rules = rules_of(connector.value)
    notes, unwritable = [], None
    for option in options:
        rule = _rule(option, rules)
        if rule.standing == "refused":
            raise refused(option.at, f"the option '{option.key}'", rule.doc, rule.instead)
        if rule.standing == "said":
            notes.append(f"table {table}: '{option.key}' has no effect: {rule.doc}")
        try:
            _require_value(option, rule)
        except ConfigurationError as error:
            if not option.key.startswith("sink.") or "refused" not in error.facts:
                raise
            unwritable = error  # a table that is only read has no use for it
            notes.append(f"table {table}: '{option.key}' = '{option.value}' has no effect: the table is only read")
    values = {option.key: option.value for option in options}
    positions = {option.key: option.at for option in options}
    return TakenOptions(connector.value, values, tuple(notes), positions, unwritable)


def rules_of(connector: str) -> tuple[Rule, ...]:
    """Every rule that options of a connector are looked up in."""
    if connector in ("kafka", "upsert-kafka"):
        parts = [_prefixed(part, rule) for part in ("", "key.", "value.") for rule in _FORMAT_OPTIONS]
        return (*CONNECTORS[connector], *PROPERTIES, *parts)
    return CONNECTORS[connector]


def _prefixed(prefix: str, rule: Rule) -> Rule:
    return Rule(prefix + rule.key, rule.standing, rule.doc, rule.instead, rule.values, rule.not_taken)


def _rule(option: Option, rules: Sequence[Rule]) -> Rule:
    found = rule_for(option.key, rules)
    if found is not None:
        return found
    known = [rule.key for rule in rules if "*" not in rule.key]
    raise wrong(
        option.at, f"there is no option {option.key!r}", action=meant(option.key, known, "docs/sql-options.md has all")
    )


def _require_value(option: Option, rule: Rule) -> None:
    taken = {value.lower() for value in rule.values}
    if not taken or option.value.lower() in taken:
        return
    why = {value.lower(): why for value, why in (rule.not_taken or {}).items()}.get(option.value.lower())
    if why is not None:
        raise refused(option.at, f"'{option.key}' = '{option.value}'", why, f"take {' or '.join(rule.values)}")
    action = meant(option.value, rule.values, f"take {' or '.join(rule.values)}")
    raise wrong(option.at, f"'{option.key}' has no value {shown(option.key, option.value)!r}", action=action)


def checked_format(key: str, value: str, at: Position) -> str:
    """A format by its name.

    Raises:
        ConfigurationError: There is none, or it is refused.
    """
    why = FORMATS.get(value)
    if why is None:
        raise wrong(at, f"there is no format {value!r}", action=meant(value, FORMATS, f"there are {_THERE}"))
    if why:
        raise refused(at, f"'{key}' = '{value}'", why, f"there are {_THERE}")
    return value


def table_lines() -> Iterator[str]:
    """The tables of the docs' page: each option, and what it does here."""
    groups: Iterable[tuple[str, Sequence[Rule]]] = (
        *((f"`{name}`", rules) for name, rules in CONNECTORS.items()),
        ("`properties.*` of `kafka` and `upsert-kafka`", PROPERTIES),
        ("formats, also behind `key.` and `value.`", _FORMAT_OPTIONS),
    )
    for title, rules in groups:
        yield from (f"### {title}", "", "| option | | what it does here |", "|---|---|---|")
        for rule in rules:
            told = rule.doc + (f": {rule.instead}" if rule.instead else "")
            values = "" if not rule.values else " Values: " + ", ".join(f"`{value}`" for value in rule.values) + "."
            values += (
                "" if not rule.not_taken else " Refused: " + ", ".join(f"`{each}`" for each in rule.not_taken) + "."
            )
            yield f"| `{rule.key}` | {_STANDS[rule.standing]} | {(told + values).strip().replace('|', chr(92) + '|')} |"
        yield ""


_STANDS: Mapping[Standing, str] = {"taken": "taken", "said": "no effect, and a start says so", "refused": "refused"}
