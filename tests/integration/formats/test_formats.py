"""docs/formats.md, line by line: what is read, what is written and what is malformed, on real Spark."""

import datetime as dt
import json
import re
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F  # noqa: N812 - what every PySpark program calls it
from pyspark.sql.types import IntegerType, StructField, StructType

import onceflow as of
from onceflow.connectors.kafka.cluster import KafkaCluster
from onceflow.connectors.kafka.source import explain
from onceflow.errors import ConfigurationError
from onceflow.flinksql import records
from onceflow.flinksql.kinds import INT, STRING, TIMESTAMP
from onceflow.formats.contract import PartOfRecord
from onceflow.formats.json_format import Json
from onceflow.formats.text_format import Raw, Text
from tests.support.harness import read_topic

pytestmark = pytest.mark.spark

PAGE = (Path(__file__).parents[3] / "docs" / "formats.md").read_text()
PART = PartOfRecord(("t",), "value")
NOWHERE = KafkaCluster("localhost:1")
NAMES = {"KafkaSink": of.KafkaSink, "Text": Text, "Raw": Raw, "Json": Json, "kafka": NOWHERE}


def table(head):
    """The rows of the page's table that begins with this column, as lists of cells."""
    rows = PAGE[PAGE.index(f"\n| {head}") + 1 :].partition("\n\n")[0].splitlines()
    return [[cell.strip() for cell in re.split(r"\s\|\s", row.strip("| "))] for row in rows[2:]]


def bare(cell):
    """What stands in back-ticks at a cell's beginning, else the cell."""
    found = re.match(r"`([^`]*)`", cell)
    return found[1] if found else None if cell in ("null", "none") else cell


@pytest.fixture
def in_zone(spark):
    """``in_zone(name)`` sets the session's time zone for the rest of the test."""
    yield lambda zone: spark.conf.set("spark.sql.session.timeZone", zone)
    spark.conf.set("spark.sql.session.timeZone", "UTC")


def read(spark, form, values, latest=None):
    """(malformed, reason, fields) of each value, as a source has it."""
    frame = spark.createDataFrame([(None if v is None else bytearray(v.encode()),) for v in values], "value binary")
    frame = frame.select("value", form.parsed(F.col("value")).alias("it"))
    found = frame.select(
        form.malformed(F.col("value"), F.col("it"), latest).alias("malformed"),
        form.reason(F.col("value"), F.col("it"), latest).alias("reason"),
        *form.columns(F.col("it")),
    )
    return found.collect()


def shown(spark, schema, texts, **settings):
    """What each text is as field ``t``, as the page shows it."""
    form = Json(schema, **settings)
    frame = spark.createDataFrame([(bytearray(f'{{"t":{text}}}'.encode()),) for text in texts], "value binary")
    frame = frame.select("value", form.parsed(F.col("value")).alias("it"))
    bad = form.malformed(F.col("value"), F.col("it"), None)
    time = form.columns(F.col("it"))[0]
    if schema == "t timestamp":
        time = F.unix_micros(time)
    rows = frame.select(
        bad.alias("bad"), (time if schema == "t timestamp" else time.cast("string")).alias("t")
    ).collect()
    return ["malformed" if row.bad else "null" if row.t is None else _spelt(row.t) for row in rows]


def _spelt(found):
    if isinstance(found, int):
        at = dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=found)  # noqa: DTZ001 - it is UTC, and shown as such
        return at.isoformat() + "Z"
    return found.replace(" ", "T")


def test_texts_that_are_times(spark, in_zone):
    """Each line of the table, as each of the three types."""
    in_zone("Europe/Berlin")
    rows = [row for row in table("in the record | `timestamp`") if len(row) == 4]
    assert len(rows) > 30
    texts = [bare(row[0]) for row in rows]
    for at, kind in enumerate(["timestamp", "timestamp_ntz", "date"], 1):
        found = shown(spark, f"t {kind}", texts)
        assert dict(zip(texts, found, strict=True)) == {text: row[at] for text, row in zip(texts, rows, strict=True)}


def test_numbers_that_are_times(spark, in_zone):
    """Each line of the table, in each unit, whatever the session's time zone is."""
    in_zone("Europe/Berlin")
    rows = table('in the record | `"epoch-seconds"`')
    texts = [bare(row[0]) for row in rows]
    for at, unit in enumerate(["epoch-seconds", "epoch-millis", "epoch-micros"], 1):
        found = shown(spark, "t timestamp", texts, timestamp_format=unit)
        assert dict(zip(texts, found, strict=True)) == {text: row[at] for text, row in zip(texts, rows, strict=True)}


@pytest.mark.parametrize("unit", ["iso-8601", "epoch-millis"])
def test_times_deeper_down(spark, unit):
    """In structs, lists and maps they are read, and found malformed, as at the top; what is null stays null."""
    good, bad = (
        ('"2026-01-01T12:00:00Z"', '"10:00:00"') if unit == "iso-8601" else ("1767268800000", "1767268800000000")
    )
    shapes = {
        "s struct<t: timestamp, n: int>": '{"s":{"t":?,"n":1}}',
        "a array<timestamp>": '{"a":[null,?]}',
        "m map<string,timestamp>": '{"m":{"k":?}}',
        "d array<struct<m: map<string,array<timestamp>>>>": '{"d":[{"m":{"k":[?]}},null]}',
    }
    for schema, shape in shapes.items():
        form = Json(schema, timestamp_format=unit)
        values = [shape.replace("?", good), shape.replace("?", bad), shape.replace("?", "null"), "{}"]
        rows = read(spark, form, values)
        assert [row.malformed for row in rows] == [False, True, False, False], schema
        assert "2026, 1, 1" in str(rows[0]), schema
        assert rows[3][-1] is None
        typed = spark.range(0).select(*form.columns(form.parsed(F.lit("").cast("binary")))).schema
        assert typed.simpleString() == form.fields().simpleString()


def test_a_time_too_far_ahead(spark):
    """Of timestamps, with and without a zone, in the present epoch's eyes; a date may be of any day."""
    latest = F.lit("2026-01-01T11:00:00Z").cast("timestamp")
    for kind, written in (("timestamp", '"2026-01-01T11:00:00{}Z"'), ("timestamp_ntz", '"2026-01-01T11:00:00{}"')):
        values = [f'{{"t":{written.format(more)}}}' for more in ("", ".000001")]
        assert [row.malformed for row in read(spark, Json(f"t {kind}"), values, latest)] == [False, True]
        assert not any(row.malformed for row in read(spark, Json(f"t {kind}"), values))
    assert not read(spark, Json("t date"), ['{"t":"9999-12-31"}'], latest)[0].malformed


def test_reasons(spark):
    """Each line of the table: field and reason, nothing of the content."""
    rows = table("value, of ")
    form = Json("amount decimal(18,2), at timestamp, of struct<n: int>")
    values = [None if row[0] == "null" else row[0].strip("`") for row in rows]
    found = read(spark, form, values, F.current_timestamp())
    assert all(row.malformed for row in found)
    assert {v: row.reason for v, row in zip(values, found, strict=True)} == {
        v: row[1] for v, row in zip(values, rows, strict=True)
    }


def test_bytes_that_are_not_utf8_have_their_reason(spark):
    """In JSON as in text."""
    frame = spark.createDataFrame([(bytearray(b'{"a":"\xff"}'),)], "value binary")
    for form in (Json("a string"), Text()):
        it = frame.select("value", form.parsed(F.col("value")).alias("it"))
        assert it.select(form.malformed(F.col("value"), F.col("it"), None)).first()[0]
        assert it.select(form.reason(F.col("value"), F.col("it"), None)).first()[0] == "its bytes are not UTF-8"


@pytest.mark.parametrize("name", ["a.b", "a`b", "a b", 'a"b', "ü", ""])
def test_a_field_of_any_name_is_named(spark, name):
    """As it stands in the schema."""
    form = Json(StructType([StructField(name, IntegerType())]))
    assert read(spark, form, [json.dumps({name: "x"})])[0].reason == f"field {name} is no int"


ROW = (
    "SELECT 'u-7' AS user_id, CAST(1.10 AS DECIMAL(18,2)) AS amount, 0.5D AS ratio, "
    "timestamp'2026-01-01 10:00:00.123456 UTC' AS at, date'2026-01-01' AS day, array('a', null) AS tags, "
    "CAST(NULL AS STRING) AS note"
)


def test_samples(spark):
    """What each sink of the table sends of the row, byte for byte."""
    frame = spark.sql(ROW)
    rows = table("sink | key")
    assert len(rows) >= 6
    for given, key, value in rows:
        sink = eval(bare(given), dict(NAMES))  # noqa: S307 - our own page
        sent = frame.select(*sink.columns(frame.schema)).first().asDict()
        as_text = {name: None if sent.get(name) is None else bytes(sent[name]).decode() for name in ("key", "value")}
        assert as_text == {"key": bare(key), "value": bare(value)}, given


def test_times_that_are_written(spark, in_zone):
    """Each line of the table, in the zone that it names."""
    columns = {
        "timestamp": "timestamp'2026-01-01 10:00:00.123456 UTC'",
        "the same": "timestamp'2026-01-01 10:00:00.123456 UTC'",
        "timestamp_ntz": "timestamp_ntz'2026-01-01 10:00:00.123456'",
        "date": "date'2026-01-01'",
    }
    for what, json_text, text in table("column | `Json()`"):
        in_zone("Europe/Berlin" if "Berlin" in what else "UTC")
        kind = bare(what) if what.startswith("`") else "the same"
        frame = spark.sql(f"SELECT {columns[kind]} AS t")
        fields = frame.schema.fields
        row = frame.select(Json().encode(fields, PART).alias("json"), Text().encode(fields, PART).alias("text")).first()
        assert bytes(row.json).decode() == f'{{"t":{bare(json_text)}}}'
        assert bytes(row.text).decode() == bare(text)


def test_what_is_written_is_read_again(spark):
    """To the millisecond by Json; a sink refuses a format that it could not write."""
    frame = spark.sql("SELECT timestamp'2026-01-01 10:00:00.123456 UTC' AS t")
    encoded = frame.select(Json().encode([frame.schema["t"]], PART).alias("value"))
    form = Json("t timestamp")
    read_again = encoded.select(form.parsed(F.col("value")).alias("it")).select(*form.columns(F.col("it")))
    assert read_again.select(F.unix_micros("t")).first()[0] % 1_000_000 == 123_000
    with pytest.raises(of.errors.ConfigurationError, match="Json writes times as ISO 8601 only"):
        of.KafkaSink(NOWHERE, "t", value=Json(timestamp_format="epoch-millis")).columns(frame.schema)


NOT_UTF8 = {
    "t": "cast(unhex('61FF') as string)",
    "s": "named_struct('t', cast(unhex('EDA080') as string), 'n', 1)",
    "a": "array('a', cast(unhex('FF') as string))",
    "k": "map(cast(unhex('FF') as string), 1)",
    "v": "map('a', named_struct('t', cast(unhex('C0AF') as string)))",
}


@pytest.mark.parametrize("column", NOT_UTF8)
@pytest.mark.parametrize("sink", ["kafka", "postgresql"])
def test_a_text_that_is_not_utf_8_is_not_written_as_json(spark, sink, column):
    """Spark would put U+FFFD into the record without a word: the row is refused by its column and type."""
    frame = spark.sql(f"SELECT id, if(id = 7, {NOT_UTF8[column]}, null) AS `{column}` FROM range(9)")
    to = of.KafkaSink(NOWHERE, "t") if sink == "kafka" else of.DatabaseSink("postgresql://user@nowhere/db", "t")
    if (sink, column) == ("postgresql", "t"):
        pytest.skip("it is no JSON there: the task looks at it")
    with pytest.raises(Exception, match="onceflow") as told:
        frame.select(*to.columns(frame.schema)).collect()
    refused = explain(str(told.value))
    assert isinstance(refused, of.errors.RowRefusedError)
    assert not refused.retriable
    kind = dict(frame.dtypes)[column]
    assert f"column {column} ({kind}) of a row has a text that is not UTF-8" in str(refused)


def test_a_plan_that_would_refuse_a_row_is_not_taken_for_a_refused_row(spark):
    """Spark prints the plan behind whatever ended a query: the words in it say nothing of what happened."""
    frame = spark.sql("SELECT cast(id AS string) AS t FROM range(9)")
    written = frame.select(*of.KafkaSink(NOWHERE, "t").columns(frame.schema))
    plan = written._jdf.queryExecution().toString()
    assert "onceflow-row-refused" in plan
    assert explain(f"the broker was away\n=== Streaming Query ===\n{plan}") is None


def test_texts_that_are_utf_8_are_written_as_they_are(spark):
    """Also the letter that others put for what they cannot read; and where there is no row of the output."""
    texts = "array('\ufffd', 'a\\u0000', '\U0001f600', null) AS a, '\ufffd' AS t, cast(null AS string) AS n"
    frame = spark.sql(f"SELECT {texts}")
    row = frame.select(*of.KafkaSink(NOWHERE, "t").columns(frame.schema)).first()
    assert json.loads(bytes(row.value)) == {"a": ["\ufffd", "a\0", "\U0001f600", None], "t": "\ufffd", "n": None}


def test_a_row_of_many_texts_is_written_as_json(spark):
    """Each is looked at, and the plan is no deeper for it."""
    frame = spark.range(1).select(*(F.lit("a").alias(f"c{i}") for i in range(600)))
    row = frame.select(*of.KafkaSink(NOWHERE, "t").columns(frame.schema)).first()
    assert len(json.loads(bytes(row.value))) == 600


def test_a_time_from_when_clocks_had_seconds_of_their_own(spark, in_zone):
    """Berlin was 53 minutes and 28 seconds ahead until 1893: the text is the same moment's, and is read as it."""
    in_zone("Europe/Berlin")
    frame = spark.sql("SELECT timestamp'1850-01-01 00:00:00.5 UTC' AS t")
    encoded = frame.select(*of.KafkaSink(NOWHERE, "t").columns(frame.schema))
    assert json.loads(bytes(encoded.first().value)) == {"t": "1850-01-01T00:53:28.500+00:53:28"}
    form = Json("t timestamp")
    read_again = encoded.select(form.parsed(F.col("value")).alias("it")).select(*form.columns(F.col("it")))
    assert read_again.select(F.unix_millis("t")).first()[0] == -3786825599500


@pytest.mark.parametrize("options", [{}, {"csv.quote-character": "'"}, {"csv.null-literal": "none"}])
def test_an_empty_text_in_csv_is_one_behind_it(spark, options):
    """Written in the table's own quotes; and Spark would read it as what is missing."""
    texts = ["", None, " ", '""', "''", "a"]
    frame = spark.createDataFrame(list(enumerate(texts)), "n int, t string")
    value = records.written("csv", {"t": ("t", STRING), "n": ("n", INT)}, options)
    form = records.reader("csv", {"t": STRING, "n": INT}, options).reading(PART)
    read = frame.select(value.alias("value")).select("value", form.parsed(F.col("value")).alias("it"))
    read = read.select(form.malformed(F.col("value"), F.col("it"), None).alias("bad"), *form.columns(F.col("it")))
    found = sorted(read.collect(), key=lambda row: row[1].n)
    assert [None if row.bad else row[1].t for row in found] == texts
    assert not any(row.bad for row in found)


def test_headers_are_told_by_the_names_of_their_fields(spark):
    """In whatever order they stand: a CAST goes by places, and would write a header's value as its name."""
    other = "named_struct('value', CAST('v' AS BINARY), 'key', 'k')"
    frame = spark.sql(
        f"SELECT 1 AS a, array({other}) AS h UNION ALL SELECT 2, NULL UNION ALL "
        "SELECT 3, array(named_struct('value', CAST(NULL AS BINARY), 'key', 'n'))"
    )
    rows = frame.select("a", *of.KafkaSink(NOWHERE, "t", headers="h").columns(frame.schema)).orderBy("a").collect()
    assert [row.headers and [(h.key, h.value) for h in row.headers] for row in rows] == [
        [("k", b"v")],
        None,
        [("n", None)],
    ]


def test_times_in_csv_are_read_as_those_in_json(spark):
    """Spark makes of a time of day alone one of the day on which it is read; and a far one moves a watermark."""
    form = records.reader("csv", {"k": STRING, "at": TIMESTAMP}, {}).reading(PART)
    texts = {
        "a,2026-01-01 10:00:00.5": None,
        "a,2026-01-01T10:00:00.5Z": None,
        "a,": None,
        "a,10:30:00": "field at is no time",
        "a,T10:30": "field at is no time",
        "a,2026": "field at is no time",
        "a,soon": "field at is no time",
        "a,2999-01-01 00:00:00": "field at is no plausible time",
        "a,10000-01-01 00:00:00": "field at is no plausible time",
        "a,b,c": "it is no row of CSV with these columns",
    }
    frame = spark.createDataFrame([(text, text.encode()) for text in texts], "text string, value binary")
    frame = frame.select("text", "value", form.parsed(F.col("value")).alias("it"))
    latest = F.lit("2026-01-02").cast("timestamp")
    wrong = form.malformed(F.col("value"), F.col("it"), latest)
    why = F.when(wrong, form.reason(F.col("value"), F.col("it"), latest))
    assert dict(frame.select("text", why).collect()) == texts
    read = {row.text: row[1].at for row in frame.where(~wrong).select("text", *form.columns(F.col("it"))).collect()}
    assert [at and at.microsecond for at in read.values()] == [500_000, 500_000, None]


def test_a_job_with_a_text_that_is_not_utf_8_says_so(spark, cluster, new_topic, produce, tmp_path):
    """What a program makes of a binary key by a cast: the job ends by the row, and nothing of its epoch is visible."""
    topic, out = new_topic(1), new_topic(1)
    produce(topic, [b"good", b"\xff"])
    records = of.KafkaSource(cluster, topic, value=Raw()).load(spark)
    frame = records.select(F.col("value").cast("string").alias("who"), F.lit(1).alias("n"))
    checkpointing = of.Checkpointing(str(tmp_path / "checkpoint"))
    sinks = [of.KafkaSink(cluster, out, value=Json())]
    query = of.start(frame, sinks=sinks, name="texts", checkpointing=checkpointing, until="caught-up")
    why = r"RowRefusedError: column who \(string\) of a row has a text that is not UTF-8"
    with pytest.raises(StreamingQueryException, match=why):
        query.awaitTermination(120)
    assert read_topic(cluster, out) == []


CSV_ROWS = [
    ("1,1.50,true,text,2026-01-01,2026-01-01T00:00:00Z", (1, "1.50", True, "text")),
    (',,,"",,', (None, None, None, "")),
    ('2,2.00,false,"a ""quoted"", text",,', (2, "2.00", False, 'a "quoted", text')),
    ('3,3.00,false," blanks ",,', (3, "3.00", False, " blanks ")),
]
CSV_SCHEMA = "n int, d decimal(9,2), b boolean, s string, day date, at timestamp"


def test_rows_of_csv_are_read(spark):
    """Nulls, empty texts, quotes in quotes, blanks."""
    found = read(spark, of.Csv(CSV_SCHEMA), [text for text, _ in CSV_ROWS])
    assert not any(row.malformed for row in found)
    assert [(r.n, None if r.d is None else str(r.d), r.b, r.s) for r in found] == [row for _, row in CSV_ROWS]


@pytest.mark.parametrize(
    "text", [None, "", "1", "1,2.00,true,s,d", "x,1,true,s,,", "1,1,true,s,,10:00:00", "1,1,true,s,,,8"]
)
def test_what_is_no_row_of_csv_is_malformed(spark, text):
    """Another number of values, of other types, or none."""
    (row,) = read(spark, of.Csv(CSV_SCHEMA), [text])
    assert row.malformed
    assert row.reason


@pytest.mark.parametrize(
    "options", [{}, {"delimiter": "\t"}, {"delimiter": ";", "quote": "'"}, {"null": "NULL"}, {"escape": "\\"}]
)
def test_what_is_written_as_csv_is_read_as_it_was(spark, options):
    """Texts with all that CSV has a meaning for, and what is null or empty."""
    texts = [
        "",
        " ",
        "a,b",
        'say "x"',
        "it's",
        "tab\there",
        "semi;colon",
        "two\nlines",
        "back\\slash",
        None,
        "ä\U0001f600",
        "#x",
    ]
    schema = "s string, n bigint, d decimal(20,4), day date, at timestamp"
    frame = spark.createDataFrame([(text, n) for n, text in enumerate(texts)], "s string, n bigint").selectExpr(
        "s", "n", "cast(n / 7 as decimal(20,4)) d", "date'2026-01-01' day", "timestamp_millis(n) at"
    )
    form = of.Csv(schema, **options)
    written = [bytes(row.v) for row in frame.select(form.encode(frame.schema.fields, PART).alias("v")).collect()]
    found = read(spark, form, [value.decode() for value in written])
    assert not any(row.malformed for row in found), written
    assert [tuple(row)[2:] for row in found] == [tuple(row) for row in frame.collect()]


def test_what_csv_has_no_form_for_is_refused_by_its_column(spark):
    """Spark would write what an array is called in Java; and put U+FFFD into a text."""
    with pytest.raises(ConfigurationError, match="a array<int>, b binary"):
        of.Csv().encode(StructType.fromDDL("a array<int>, b binary").fields, PART)
    with pytest.raises(ConfigurationError, match="s struct<n:int>"):
        of.Csv("s struct<n: int>").reading(PART)
    with pytest.raises(ConfigurationError, match="one character as delimiter"):
        of.Csv("s string", delimiter="::")
    frame = spark.createDataFrame([(bytearray(b"\xff"),)], "b binary").select(F.col("b").cast("string").alias("s"))
    with pytest.raises(Exception, match="not UTF-8"):
        frame.select(of.Csv().encode(frame.schema.fields, PART)).collect()


class Reversed(of.Format, of.RecordReading):
    """A format of one's own: a text from its end to its beginning."""

    def reading(self, part):
        assert part.topics == ("t",)
        return self

    def fields(self):
        return None

    def parsed(self, column):
        return F.reverse(column.cast("string"))

    def malformed(self, column, parsed, latest):
        return column.isNull()

    def reason(self, column, parsed, latest):
        return F.lit("it is null")

    def columns(self, parsed):
        return [parsed]

    def encode(self, columns, part):
        (only,) = columns
        return F.reverse(F.col(only.name)).cast("binary")


def test_a_format_of_ones_own_is_one_class(spark):
    """By public names alone, in a source and in a sink."""
    source = of.KafkaSource(NOWHERE, "t", value=Reversed(), key=Reversed())
    assert source.load(spark).columns == ["value", "key"]
    frame = spark.createDataFrame([("abc",)], "s string")
    columns = of.KafkaSink(NOWHERE, "t", value=Reversed()).columns(frame.schema)
    assert [bytes(row.value) for row in frame.select(*columns).collect()] == [b"cba"]
    assert [row.malformed for row in read(spark, Reversed(), ["abc", None])] == [False, True]
