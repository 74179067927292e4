"""Flink's SQL without Spark: where errors stand, who jobs are, what options and settings become."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import onceflow as of
from onceflow.connectors.contract import Guarantee
from onceflow.errors import ConfigurationError
from onceflow.flinksql import kafka_tables
from onceflow.flinksql.first_of_key import _first
from onceflow.flinksql.kinds import STRING, Kind, common, fits
from onceflow.flinksql.pipelines import seen_texts
from onceflow.flinksql.problems import Position
from onceflow.flinksql.queries import translate
from onceflow.flinksql.records import reader
from onceflow.flinksql.script import Script
from onceflow.flinksql.statements import ScriptText
from onceflow.options.layers import CONFIG
from tests.sql.cases import script

KAFKA = "'connector' = 'kafka', 'properties.bootstrap.servers' = 'localhost:9092', 'format' = 'json'"


def table(name="t", more="", columns="a INT"):
    return f"CREATE TABLE {name} ({columns}) WITH ({KAFKA}, 'topic' = '{name}'{more});"


def run(text, **flags):
    made = Script({key.replace("__", "."): value for key, value in flags.items()})
    return made, list(made.run(text))


def sql_of(query):
    return translate(ScriptText(query, Position(1, 1)), script().names).sql


PAGE = (Path(__file__).parents[3] / "docs" / "sql.md").read_text("utf-8")


@pytest.mark.parametrize("text", re.findall(r"```sql\n(.*?)```", PAGE, re.DOTALL))
def test_each_script_of_the_page_is_understood(text):
    """Its tables are made, and each INSERT is a job."""
    _, answers = run(text)
    assert sum(answer.pipeline is not None for answer in answers) == text.count("INSERT INTO")


def test_what_was_looked_at_of_a_table_and_a_view_is_said():
    """Nobody was asked whether the topic is there: neither sentence sounds as if it had been."""
    _, (made, seen) = run(table() + " CREATE VIEW v AS SELECT a FROM t;")
    assert made.lines == (
        "table t: columns and options fit; what it stands for (kafka) is looked at when a query needs it",
    )
    assert seen.lines == ("view v: its query fits the tables as they are written here; nothing was read",)


@pytest.mark.parametrize(
    ("more", "word"),
    [
        (", 'csv.field-delimiter' = ';'", "'csv.field-delimiter' is of a format"),
        (", 'csv.ignore-parse-errors' = 'true'", "'csv.ignore-parse-errors' is of a format"),
        (", 'value.json.ignore-parse-errors' = 'true'", "'value.json.ignore-parse-errors' is of a format"),
        (", 'key.json.ignore-parse-errors' = 'true'", "'key.json.ignore-parse-errors' is of a format"),
        (", 'json.ignore-parse-errors' = 'true', 'json.fail-on-missing-field' = 'true'", "contradict each other"),
        (", 'value.format' = 'json'", "both 'format' and 'value.format'"),
        (", 'topic-pattern' = 't.*'", "both 'topic' and 'topic-pattern'"),
        (
            """, 'key.fields' = 'k', 'key.format' = 'json', 'value.fields-include' = 'EXCEPT_KEY',
            'json.ignore-parse-errors' = 'true'""",
            "without that of values",
        ),
    ],
)
def test_an_option_of_a_format_that_a_table_does_not_have_is_refused(more, word):
    """It would have no effect, or leave out records of a format that was not meant."""
    with pytest.raises(ConfigurationError) as raised:
        run(table(more=more, columns="a INT, k INT"))
    assert word in raised.value.what


@pytest.mark.parametrize(
    ("on", "kept"),
    [
        ("a.ts BETWEEN b.ts - INTERVAL '1' HOUR AND b.ts", False),
        ("b.ts >= a.ts AND b.ts <= a.ts + INTERVAL '1' HOUR", False),
        ("a.ts >= b.ts AND b.ts >= a.ts - INTERVAL '1' HOUR", False),
        ("a.ts = b.ts", False),
        ("a.ts >= b.ts", True),
        ("a.ts >= b.ts AND b.ts <= a.ts + INTERVAL '1' HOUR", True),
        ("a.ts BETWEEN b.ts AND a.ts", True),
    ],
)
def test_a_join_that_bounds_times_from_one_side_alone_says_what_it_keeps(on, kept):
    """Flink's interval has two ends; with one of them the rows of a table are kept for ever."""
    columns = "id INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts"
    text = table("a", columns=columns) + table("b", columns=columns) + table("pairs", columns="id INT")
    _, answers = run(text + f"INSERT INTO pairs SELECT a.id FROM a JOIN b ON a.id = b.id AND {on}")
    assert any("keeps rows for ever" in note for note in answers[-1].pipeline.notes) == kept


@pytest.mark.parametrize(
    ("text", "place", "word"),
    [
        ("CRAETE TABLE t (a INT)", "line 1, column 1", "CREATE"),
        ("SELECT auction,\n  prise\nFROM bids", "line 2, column 3", "price"),
        ("SET 'a.b' = '1'\nCREATE TABLE t (a INT)", "line 2, column 1", "write ; before CREATE"),
        ("SELECT *\nFROM bidz", "line 2, column 6", "bids"),
        ("SELECT CAST(auction AS STRING), UPER(item) FROM bids", "line 1, column 33", "UPPER"),
        ("SELECT * FROM\n HOP(TABLE bids, DESCRIPTOR(tim), INTERVAL '1' DAY)", "line 2, column 2", "SIZE"),
        ("CREATE TABLE t (a INTT) WITH ('connector' = 'print')", "line 1, column 19", "INT"),
        ("CREATE TABLE t (a INT) WITH (\n'conector' = 'print')", "line 1, column 1", "connector"),
        ("CREATE TABLE t (a INT) WITH ('connector' = 'kafca')", "line 1, column 30", "kafka"),
        ("SET 'execution.checkpointing.intervall' = '1s'", "line 1, column 1", "execution.checkpointing.interval"),
        ("INSERT INTO count SELECT auction, 1 FROM bids", "line 1, column 13", "counts"),
    ],
)  # fmt: skip
def test_what_is_wrong_has_its_place_and_the_word_that_was_meant(text, place, word):
    """Line and column of the very word, also behind what is taken out of a query before it is read."""
    with pytest.raises(ConfigurationError) as raised:
        list(script().run(text))
    assert raised.value.what.startswith(f"{place}: ")
    assert word in raised.value.action


def test_a_set_stands_between_the_file_and_the_environment(tmp_path, monkeypatch):
    """A file goes behind SET, a variable before it, and -D before all."""
    text = f"SET 'execution.checkpointing.interval' = '7s';{table()}{table('u')}INSERT INTO u SELECT a FROM t;"
    file = tmp_path / "settings.toml"
    file.write_text('execution.checkpointing.interval = "5s"\nexecution.checkpointing.num-retained = 9')
    monkeypatch.setenv(CONFIG, str(file))

    def interval(**flags):
        (job,) = of.sql(text, settings={key.replace("__", "."): value for key, value in flags.items()})
        assert job.checkpointing.retain == 9
        return job.checkpointing.interval_ms

    assert interval() == 7_000
    monkeypatch.setenv("ONCEFLOW__EXECUTION__CHECKPOINTING__INTERVAL", "8s")
    assert interval() == 8_000
    assert interval(execution__checkpointing__interval="9s") == 9_000


def test_a_job_is_known_by_what_it_writes_or_by_its_name():
    """Its folder is that name in the folder of checkpoints; two jobs of one name are refused."""
    tables = table() + table("u") + table("v")
    one = "INSERT INTO u SELECT a FROM t;"
    (job,) = of.sql(f"SET 'state.checkpoints.dir' = 'file:///data/points';{tables}{one}")
    assert (job.name, job.checkpointing.location) == ("insert-into_u", "/data/points/insert-into_u")
    (job,) = of.sql(f"SET 'state.checkpoints.dir' = 'hdfs://nn:8020/points';{tables}{one}")
    assert job.checkpointing.location == "hdfs://nn:8020/points/insert-into_u"
    (job,) = of.sql(f"{tables}BEGIN STATEMENT SET; {one} INSERT INTO v SELECT a FROM t; END;")
    assert (job.name, job.checkpointing.location) == ("insert-into_u_v", "checkpoints/insert-into_u_v")
    assert [sink.name for sink in job.sinks] == ["u", "v"]
    (job,) = of.sql(f"SET 'pipeline.name' = 'my job';{tables}{one}")
    assert job.name == "my-job"
    with pytest.raises(ConfigurationError, match="two jobs are named insert-into_u"):
        of.sql(tables + one + one)


def test_a_start_says_what_is_not_as_in_flink():
    """The guarantee that a table without one gets, the interval that runs, and each option without effect."""
    options = ", 'sink.transactional-id-prefix' = 'tx-', 'properties.enable.auto.commit' = 'true'"
    _, answers = run(table() + table("u", options) + "INSERT INTO u SELECT a FROM t;")
    said = "\n".join(answers[-1].pipeline.notes)
    assert (
        "table u: with a prefix and without 'sink.delivery-guarantee' it is exactly-once; in Flink at-least-once"
        in said
    )
    assert "'execution.checkpointing.interval' is not set: 1000 ms" in said
    assert "table u: 'properties.enable.auto.commit' has no effect" in said
    assert answers[-1].pipeline.job.transactional_id_prefix == "tx-"


@pytest.mark.parametrize(
    ("said", "variable", "mode"),
    [
        ("AT_LEAST_ONCE", ("ONCEFLOW__EXECUTION__CHECKPOINTING__MODE", "EXACTLY_ONCE"), "exactly-once"),
        ("", ("ONCEFLOW__PRESET", "logs"), "at-least-once"),
        ("AT_LEAST_ONCE", ("ONCEFLOW__PRESET", "finance"), "at-least-once"),
    ],
)
def test_a_table_without_a_guarantee_has_that_of_the_mode_whoever_sets_it(monkeypatch, said, variable, mode):
    """A variable goes before SET, and a preset may say it, too: the sink is as the job, and the start says so."""
    monkeypatch.setenv(*variable)
    start = f"SET 'execution.checkpointing.mode' = '{said}';" if said else ""
    _, answers = run(start + table() + table("u") + "INSERT INTO u SELECT a FROM t;")
    made = answers[-1].pipeline
    (sink,) = made.job.sinks
    sink.under(Guarantee(made.job.settings()["checkpointing.mode"].value.replace("_", "-").lower()))
    assert sink.guarantee == mode
    assert f"without 'sink.delivery-guarantee' it is {mode}" in "\n".join(made.notes)


def test_a_statement_set_has_the_prefix_of_its_first_insert():
    """Flink wants one of its own for each sink, so scripts come like that: it is said which one counts for all."""
    first, other = (f", 'sink.transactional-id-prefix' = '{prefix}'" for prefix in ("shop-b", "shop-a"))
    tables = table() + table("u", first) + table("v", other) + table("w")
    inserts = "".join(f"INSERT INTO {name} SELECT a FROM t;" for name in ("w", "u", "v"))
    _, answers = run(f"{tables} EXECUTE STATEMENT SET BEGIN {inserts} END;")
    pipeline = answers[-1].pipeline
    assert pipeline.job.transactional_id_prefix == "shop-b"
    said = "all sinks have the 'sink.transactional-id-prefix' 'shop-b', of the first INSERT; not 'shop-a'"
    assert said in pipeline.notes


def test_javas_properties_become_those_of_each_client():
    """A producer's are librdkafka's, a consumer's Spark's, and the login is the cluster's."""
    jaas = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="me" password="it\\"s";'
    options = (
        ", 'properties.linger.ms' = '5', 'properties.buffer.memory' = '33554432', 'properties.fetch.min.bytes' = '9',"
        " 'properties.group.id' = 'g', 'properties.transaction.timeout.ms' = '60000', 'properties.sasl.mechanism' ="
        f" 'SCRAM-SHA-256', 'properties.security.protocol' = 'SASL_PLAINTEXT', 'properties.sasl.jaas.config' = '{jaas}'"
    )
    made, _ = run(table(more=options))
    of_t = made.names.tables["t"]
    sink = kafka_tables.sink_of(of_t, None, columns=set(), name="t")
    assert sink.producer == {"linger.ms": "5", "queue.buffering.max.kbytes": 32768}
    assert sink.timeout_ms == 60_000
    source = kafka_tables.source_of(of_t, None, "1 h")
    assert source.options["kafka.fetch.min.bytes"] == "9"
    assert (source.group, source.start, source.isolation) == ("g", "group-offsets", "read_committed")
    assert source.cluster.username == "me"
    assert source.cluster.password.get_secret_value() == 'it"s'
    (shown,) = list(made.run("SHOW CREATE TABLE t"))
    assert "ScramLoginModule" not in "".join(shown.lines)
    assert "'properties.sasl.jaas.config' = '******'" in "".join(shown.lines)


def test_what_the_engines_compute_differently_is_made_the_same():
    """Whole numbers stay whole, text of a time has its digits, nulls are passed on, LIKE has no escape of its own."""
    assert "DIV" in sql_of("SELECT whole / 2 FROM things")
    assert "DIV" in sql_of("SELECT AVG(whole) FROM things GROUP BY name")
    assert "'yyyy-MM-dd HH:mm:ss.SSS'" in sql_of("SELECT CAST(moment AS STRING) FROM things")
    assert "IS NULL" in sql_of("SELECT GREATEST(whole, 1) FROM things")
    assert r"LIKE 'a\\\\b'" in sql_of(r"SELECT name LIKE 'a\b' FROM things")
    assert "61000 milliseconds" not in sql_of("SELECT name FROM things")
    assert re.search(r"session_window\([^)]*'60001 milliseconds'", sql_of(
        "SELECT COUNT(*) FROM bids GROUP BY SESSION(bid_time, INTERVAL '1' MINUTE), bidder"))  # fmt: skip


WINDOWED = "TABLE(TUMBLE(TABLE bids, DESCRIPTOR(bid_time), INTERVAL '1' MINUTE))"
BIDS = ["auction", "bidder", "price", "item", "bid_time"]
BY_WINDOW = "PARTITION BY window_start, window_end"


@pytest.mark.parametrize(
    ("selected", "names"),
    [
        ("auction, {rn}, bidder", ["auction", "rn", "bidder"]),
        ("{rn}, auction, bidder", ["rn", "auction", "bidder"]),
        ("auction, bidder, {rn}", ["auction", "bidder", "rn"]),
        ("{rn}, *", ["rn", *BIDS]),
        ("*, {rn}, auction AS again", [*BIDS, "rn", "again"]),
    ],
)
@pytest.mark.parametrize(
    ("over", "rows", "bound"),
    [(f"{BY_WINDOW} ORDER BY price DESC", WINDOWED, 3), ("PARTITION BY auction ORDER BY bid_time", "bids", 1)],
)
def test_a_rank_stands_where_it_was_written(selected, names, over, rows, bound):
    """In the columns and in the text: an INSERT takes both by their places."""
    inner = selected.format(rn=f"ROW_NUMBER() OVER ({over}) AS rn")
    query = f"SELECT * FROM (SELECT {inner} FROM {rows}) WHERE rn <= {bound}"
    found = translate(ScriptText(query, Position(1, 1)), script().names)
    if "*" in selected and rows == WINDOWED:  # it has the parts of the window behind its own
        place = names.index("bid_time") + 1
        names = [*names[:place], "window_start", "window_end", "window_time", *names[place:]]
    assert [column.name for column in found.columns] == names
    given = re.findall(r"AS `(\w+)`", found.sql.partition(" FROM ")[0])
    assert given == names
    ranked = found.sql.partition("FROM (\n")[2].partition(" FROM ")[0]
    assert re.findall(r"`(\w+)`(?:,|$)", ranked) == names


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ("money / 3", "(`things`.`money` / CAST(3 AS DECIMAL(10, 0)))"),
        ("3000000000 * money", "(CAST(3000000000 AS DECIMAL(19, 0)) * `things`.`money`)"),
        ("money - big", "(`things`.`money` - CAST(`things`.`big` AS DECIMAL(19, 0)))"),
        ("money % -7", "(`things`.`money` % CAST((- 7) AS DECIMAL(10, 0)))"),
        ("MOD(money, 7)", "(`things`.`money` % CAST(7 AS DECIMAL(10, 0)))"),
        ("whole * 2", "(`things`.`whole` * 2)"),
        ("FLOOR(born TO MONTH)", "CAST(date_trunc('MONTH', `things`.`born`) AS DATE)"),
        ("SIGN(whole)", "CAST(sign(`things`.`whole`) AS INT)"),
        ("SIGN(money)", "CAST(sign(`things`.`money`) AS DECIMAL(18, 2))"),
        ("CAST(flag AS STRING)", "upper(CAST(`things`.`flag` AS STRING))"),
        ("JSON_VALUE(name, 'lax $.a')", "get_json_object(`things`.`name`, '$.a')"),
        ("SUBSTRING(name, 2, 3)", "substr(`things`.`name`, 2, 3)"),
        ("SUBSTR(name, -3)", ("CASE WHEN (- 3) < - char_length(`things`.`name`) THEN '' ELSE "
         "substr(`things`.`name`, (- 3)) END")),
        ("SUBSTRING(name, 1, whole)", ("CASE WHEN `things`.`whole` < 0 THEN NULL ELSE "
         "substr(`things`.`name`, 1, `things`.`whole`) END")),
        ("list[whole]", ("CASE WHEN `things`.`whole` < 1 THEN raise_error('the first item of an ARRAY is 1') ELSE "
         "try_element_at(`things`.`list`, CAST(`things`.`whole` AS INT)) END")),
        ("LPAD(name, whole, 'x')", ("CASE WHEN `things`.`whole` < 0 OR 'x' = '' THEN NULL ELSE "
         "lpad(`things`.`name`, `things`.`whole`, 'x') END")),
    ],
)  # fmt: skip
def test_what_spark_would_give_otherwise_is_guarded(written, text):
    """Digits of a DECIMAL, types that are claimed, starts before a text, times without a date: as Flink has them."""
    assert f"SELECT {text} AS " in sql_of(f"SELECT {written} FROM things")


def test_nulls_are_ordered_as_in_flink_in_both_directions():
    """A column that goes the other way has its nulls told apart first: turned round a null would still be the least."""
    inner = f"SELECT *, ROW_NUMBER() OVER ({BY_WINDOW} ORDER BY price DESC, auction ASC) AS rn FROM {WINDOWED}"
    text = sql_of(f"SELECT * FROM (SELECT * FROM ({inner}) WHERE rn <= 3)")
    assert re.search(r"struct\(`r\d+`\.`\$o0`, \(`r\d+`\.`\$o1` IS NULL\), \(- `r\d+`\.`\$o1`\)", text)


def test_an_event_time_that_is_null_stops_the_job():
    """It is looked at below the watermark, in every table that has one, and nowhere else."""
    tables = script().names.tables
    assert seen_texts(tables["bids"])[-1] == (
        "coalesce(`bid_time`, raise_error('a null in bids.bid_time, the event time; COALESCE it in a computed column')"
        ") AS `bid_time`"
    )
    assert seen_texts(tables["bids"])[:2] == ["`auction`", "`bidder`"]
    assert seen_texts(tables["counts"]) == ["`auction`", "`n`"]


class _State:
    """A key's state, as Spark gives it to the function."""

    def __init__(self, watermark_ms, held=None):
        self.watermark_ms, self.held, self.due = watermark_ms, held, None
        self.exists = held is not None

    @property
    def get(self):
        return self.held

    def getCurrentWatermarkMs(self):  # noqa: N802 - Spark's name
        return self.watermark_ms

    def update(self, held):
        self.held = held

    def setTimeoutTimestamp(self, at):  # noqa: N802 - Spark's name
        self.due = at


def _given(state, *rows):
    frame = pd.DataFrame({"at": [at * 1000 for at, _ in rows], "row": [row for _, row in rows]})
    return [bytes(row) for found in _first()((), iter([frame]), state) for row in found["row"]]


def test_the_first_row_of_a_key_may_come_behind_this_epochs_watermark():
    """Late is what Spark takes out, and counts, by the watermark of the epoch before: the rest is not to be lost."""
    new = _State(1_000)
    assert _given(new, (990, b"behind"), (995, b"later")) == [b"behind"]
    waited = _State(1_000, (1_000_000, b"held", False))
    assert _given(waited, (990, b"behind")) == [b"behind"]
    assert _given(_State(1_000, waited.held), (980, b"once more")) == []
    waits = _State(1_000)
    assert _given(waits, (1_001, b"ahead")) == []
    assert waits.due == 1_001


def test_csv_doubles_quotes_and_keeps_blanks():
    """Spark's defaults are a backslash, and to cut blanks when it writes."""

    def told(**options):
        found = reader("csv", {"a": STRING}, {f"csv.{name}-character": value for name, value in options.items()})
        return found.inner.spark_options

    assert {told()[f"ignore{side}WhiteSpace"] for side in ("Leading", "Trailing")} == {"false"}
    assert [told()[name] for name in ("quote", "escape")] == ['"', '"']
    assert [told(quote="'")[name] for name in ("quote", "escape")] == ["'", "'"]
    assert [told(escape="\\")[name] for name in ("quote", "escape")] == ['"', "\\"]


def test_a_number_is_cast_to_its_column():
    """Also where the types seem to be the same: Spark gives ROUND another scale than Flink."""
    made, _ = run(table(columns="a DECIMAL(18, 2)") + table("u", columns="a DECIMAL(18, 2)"))
    (answer,) = list(made.run("INSERT INTO u SELECT ROUND(a, 1) FROM t"))
    assert answer.pipeline.inserts[0].sql.startswith("SELECT CAST(`EXPR$0` AS DECIMAL(18, 2)) AS `a`")


def test_a_time_is_cut_to_the_digits_of_its_column():
    """Spark has one type for all of them, and would write six digits into a column of three."""
    made, _ = run(
        table(columns="ts TIMESTAMP(6)") + table("u", columns="ts TIMESTAMP(3)") + table("v", columns="ts TIMESTAMP(6)")
    )
    (cut,) = list(made.run("INSERT INTO u SELECT ts FROM t"))
    assert "date_trunc('MILLISECOND', `ts`) AS `ts`" in cut.pipeline.inserts[0].sql
    (whole,) = list(made.run("INSERT INTO v SELECT ts FROM t"))
    assert whole.pipeline.inserts[0].sql.startswith("SELECT `ts` AS `ts`")


def test_types_fit_where_flink_casts_by_itself():
    """Numbers go into wider ones; text and numbers need a CAST; a sum of INT goes into an INT column if it fits."""
    assert common(Kind("INT"), Kind("BIGINT")) == Kind("BIGINT")
    assert common(Kind("INT"), Kind("STRING")) is None
    assert fits(Kind("BIGINT"), Kind("INT"))
    assert not fits(Kind("INT"), Kind("STRING"))
    assert not fits(Kind("DOUBLE"), Kind("INT"))


def test_an_upsert_is_of_the_groups_it_is_keyed_by():
    """A PRIMARY KEY that is not the columns of GROUP BY is refused: rows would replace those of other groups."""
    with pytest.raises(ConfigurationError) as raised:
        list(script().run("INSERT INTO latest SELECT MAX(auction), COUNT(*) FROM bids GROUP BY bidder"))
    assert "PRIMARY KEY (auction)" in raised.value.facts["refused"]


def test_the_shell_takes_statements_over_lines_and_goes_on_after_an_error(tmp_path):
    """A statement ends with its semicolon, a set with its END; what is wrong is told, and the shell stays."""
    text = "CREATE TABLE t (a INT)\nWITH ('connector' = 'print');\nSELEC 1;\nDESCRIBE t;\nQUIT;\n"
    ended = subprocess.run(
        [sys.executable, "-m", "onceflow", "sql"],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "HOME": str(tmp_path)},
    )
    assert ended.returncode == 0
    assert "there is no statement SELEC" in ended.stderr
    assert "a  INT" in ended.stdout
    assert "DESCRIBE t;" in (tmp_path / ".local/state/onceflow/sql_history").read_text()
