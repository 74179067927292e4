"""What queries of Flink's SQL give on real Spark: each of the corpus is planned, and windows and joins are run.

Expected rows are what Flink gives for the same records; they are written down by hand here, and compared with Flink
itself by ``make peers-sql``.
"""

import json

import pytest

from onceflow.flinksql.parsing import parse
from onceflow.flinksql.pipelines import Reading
from onceflow.flinksql.queries import translate
from onceflow.flinksql.statements import Insert, Select
from onceflow.spark.plan import require_streamable
from tests.sql.cases import cases, script
from tests.support.sql_jobs import jobs_of, read

pytestmark = [pytest.mark.kafka, pytest.mark.spark]


def test_spark_plans_every_query_of_the_corpus(spark):
    """What is said to run is planned by Spark as a stream, in its output mode; what reads a database is left out."""
    made = script()
    queries = {}
    for case in (case for case in cases() if case.expected == "runs"):
        for statement in parse(case.text):
            if isinstance(statement, Select | Insert):
                queries[case] = translate(statement.query, made.names)
    streams = {case: query for case, query in queries.items() if "sellers" not in query.tables}
    assert len(streams) > 110
    tables = {name: made.names.tables[name] for query in streams.values() for name in query.tables}
    reading = Reading(made.names, made.settings, tables)
    reading.load(spark, [])
    failed = {}
    for case, query in streams.items():
        try:
            reading.load_steps(spark, [query])
            rows = spark.sql(query.sql)
            require_streamable(rows, "update" if query.updating else "append")
            given = dict(rows.dtypes)
            assert all(column.name in given for column in query.columns)
        except Exception as error:
            failed[str(case)] = str(error).splitlines()[0]
    assert not failed


BIDS = """
SET 'onceflow.source.max-ahead' = 'none';
CREATE TABLE bids (
    auction BIGINT, bidder STRING, price INT, bid_time TIMESTAMP(3),
    WATERMARK FOR bid_time AS bid_time - INTERVAL '5' SECOND
) WITH (
    'connector' = 'kafka', 'topic' = '{IN}', 'properties.bootstrap.servers' = 'kafka:9092',
    'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset', 'format' = 'json'
);
"""
SINK = """
CREATE TABLE {name} ({columns}) WITH (
    'connector' = 'kafka', 'topic' = '{topic}', 'properties.bootstrap.servers' = 'kafka:9092', 'format' = 'json',
    'sink.delivery-guarantee' = 'exactly-once', 'sink.transactional-id-prefix' = 'tx'
);
"""
OUTPUTS = {
    "tumbled": (
        "s TIMESTAMP(3), e TIMESTAMP(3), t TIMESTAMP(3), bidder STRING, n BIGINT, total BIGINT, mean INT",
        """SELECT window_start, window_end, window_time, bidder, COUNT(*), SUM(price), AVG(price)
        FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(bid_time), INTERVAL '1' MINUTE))
        GROUP BY window_start, window_end, window_time, bidder HAVING COUNT(*) > 1""",
    ),
    "hopped": (
        "s TIMESTAMP(3), n BIGINT",
        """SELECT window_start, COUNT(*)
        FROM HOP(TABLE bids, DESCRIPTOR(bid_time), INTERVAL '30' SECOND, INTERVAL '1' MINUTE)
        GROUP BY window_start, window_end""",
    ),
    "sessions": (
        "bidder STRING, s TIMESTAMP(3), e TIMESTAMP(3), n BIGINT",
        """SELECT bidder, window_start, window_end, COUNT(*)
        FROM SESSION(TABLE bids PARTITION BY bidder, DESCRIPTOR(bid_time), INTERVAL '20' SECOND)
        GROUP BY bidder, window_start, window_end""",
    ),
    "top": (
        "s TIMESTAMP(3), bidder STRING, n BIGINT, rn BIGINT",
        """SELECT window_start, bidder, n, rn FROM (
            SELECT *, ROW_NUMBER() OVER
                (PARTITION BY window_start, window_end ORDER BY n DESC, bidder DESC) AS rn FROM (
                SELECT window_start, window_end, bidder, COUNT(*) AS n
                FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(bid_time), INTERVAL '1' MINUTE))
                GROUP BY window_start, window_end, bidder)) WHERE rn <= 1""",
    ),
    "firsts": (
        "bidder STRING, price INT, bid_time TIMESTAMP(3)",
        """SELECT bidder, price, bid_time FROM (
            SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder ORDER BY bid_time ASC) AS rn FROM bids) WHERE rn = 1""",
    ),
    "pairs": (
        "a INT, b INT",
        """SELECT l.price, r.price
        FROM (SELECT * FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(bid_time), INTERVAL '1' MINUTE))) l
        JOIN (SELECT * FROM TABLE(TUMBLE(TABLE bids, DESCRIPTOR(bid_time), INTERVAL '1' MINUTE))) r
        ON l.bidder = r.bidder AND l.window_start = r.window_start AND l.window_end = r.window_end
        WHERE l.price < r.price""",
    ),
}


def at(time):
    return f"2026-01-01 {time}"


@pytest.mark.faults
def test_windows_sessions_top_n_first_rows_and_joins_in_one_set(cluster, spark, new_topic, produce, tmp_path):
    """One statement set, one job: each output has the rows that Flink gives, and all of them are committed together."""
    bids = [("ann", 10, "10:00:05"), ("bob", 7, "10:00:10"), ("ann", 21, "10:00:25"), ("ann", 30, "10:01:10")]
    records = [{"auction": 1, "bidder": w, "price": p, "bid_time": at(t)} for w, p, t in bids]
    records.append({"auction": 9, "bidder": "zoe", "price": 1, "bid_time": "2099-01-01 00:00:00"})
    source = new_topic()
    topics = {name: new_topic() for name in OUTPUTS}
    produce(source, [json.dumps(each) for each in records])
    text = BIDS.replace("{IN}", source)
    for name, (columns, _) in OUTPUTS.items():
        text += SINK.replace("{name}", name).replace("{columns}", columns).replace("{topic}", topics[name])
    inserts = "".join(f"INSERT INTO {name} {query};" for name, (_, query) in OUTPUTS.items())
    (pipeline,) = jobs_of(f"{text} EXECUTE STATEMENT SET BEGIN {inserts} END;", cluster, tmp_path)
    assert pipeline.bounded
    pipeline.job.run(until="caught-up")
    found = {name: [tuple(value.values()) for _, value in read(cluster, topic)] for name, topic in topics.items()}
    assert found["tumbled"] == [(at("10:00:00"), at("10:01:00"), at("10:00:59.999"), "ann", 2, 31, 15)]
    assert sorted(found["hopped"]) == [
        (at("09:59:30"), 3),
        (at("10:00:00"), 3),
        (at("10:00:30"), 1),
        (at("10:01:00"), 1),
    ]
    # Two bids that are just as far apart as the gap are of one session.
    assert sorted(found["sessions"]) == [
        ("ann", at("10:00:05"), at("10:00:45"), 2),
        ("ann", at("10:01:10"), at("10:01:30"), 1),
        ("bob", at("10:00:10"), at("10:00:30"), 1),
    ]
    assert sorted(found["top"]) == [(at("10:00:00"), "ann", 2, 1), (at("10:01:00"), "ann", 1, 1)]
    assert sorted(found["firsts"]) == [("ann", 10, at("10:00:05")), ("bob", 7, at("10:00:10"))]
    assert found["pairs"] == [(10, 21)]


UPSERTS = """
CREATE TABLE moves (account STRING, amount INT) WITH (
    'connector' = 'kafka', 'topic' = '{IN}', 'properties.bootstrap.servers' = 'kafka:9092', 'format' = 'json',
    'scan.startup.mode' = 'earliest-offset', 'json.fail-on-missing-field' = 'true'
);
CREATE TABLE balances (account STRING, total BIGINT, PRIMARY KEY (account) NOT ENFORCED) WITH (
    'connector' = 'upsert-kafka', 'topic' = '{OUT}', 'properties.bootstrap.servers' = 'kafka:9092',
    'key.format' = 'json', 'value.format' = 'json'
);
INSERT INTO balances SELECT account, SUM(amount) FROM moves GROUP BY account HAVING SUM(amount) <> 0;
"""


@pytest.mark.faults
def test_an_updating_query_into_upsert_kafka_writes_tombstones(cluster, spark, new_topic, produce, tmp_path):
    """A row by its key for each group that has changed, and a tombstone for one that HAVING no longer lets through."""
    source, sink = new_topic(), new_topic()
    text = UPSERTS.replace("{IN}", source).replace("{OUT}", sink)
    latest = {}
    for moves in ([("a", 5), ("b", 2)], [("a", -5)]):
        produce(source, [json.dumps({"account": account, "amount": amount}) for account, amount in moves])
        (pipeline,) = jobs_of(text, cluster, tmp_path)
        pipeline.job.run(until="caught-up")
    for key, value in read(cluster, sink):
        latest[json.loads(key)["account"]] = value
    assert latest == {"a": None, "b": {"account": "b", "total": 2}}


RANKED = """
CREATE TABLE bids (auction BIGINT, bidder STRING, price INT, bid_time TIMESTAMP(3),
    WATERMARK FOR bid_time AS bid_time - INTERVAL '4' SECOND
) WITH (
    'connector' = 'kafka', 'topic' = '{IN}', 'properties.bootstrap.servers' = 'kafka:9092',
    'scan.startup.mode' = 'earliest-offset', 'format' = 'json'
);
CREATE TABLE newest (auction BIGINT, bidder STRING, price INT, PRIMARY KEY (auction, bidder) NOT ENFORCED) WITH (
    'connector' = 'upsert-kafka', 'topic' = '{NEWEST}', 'properties.bootstrap.servers' = 'kafka:9092',
    'key.format' = 'json', 'value.format' = 'json'
);
CREATE TABLE dearest (auction BIGINT, place BIGINT, bidder STRING, price INT,
    PRIMARY KEY (auction, place) NOT ENFORCED
) WITH (
    'connector' = 'upsert-kafka', 'topic' = '{DEAREST}', 'properties.bootstrap.servers' = 'kafka:9092',
    'key.format' = 'json', 'value.format' = 'json'
);
EXECUTE STATEMENT SET BEGIN
INSERT INTO newest SELECT auction, bidder, price FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY bid_time DESC) AS rn FROM bids) WHERE rn <= 1;
INSERT INTO dearest SELECT auction, rn, bidder, price FROM (
    SELECT *, ROW_NUMBER() OVER (PARTITION BY auction ORDER BY price DESC, bid_time ASC) AS rn FROM bids)
    WHERE rn <= 2;
END;
"""


@pytest.mark.faults
def test_the_last_row_and_the_first_n_of_a_key_in_any_order(cluster, spark, new_topic, produce, tmp_path):
    """Rows of a key lie in several partitions, late ones too: by its key each table ends with Flink's rows."""
    source, newest, dearest = new_topic(partitions=2), new_topic(), new_topic()
    rounds = [
        [(0, "ann", 5, "10:00:09"), (1, "ann", 7, "10:00:01"), (0, "bob", 7, "10:00:05"), (1, "bob", 1, "10:00:08")],
        [(1, "ann", 9, "09:00:00"), (0, "bob", 2, "10:01:00"), (1, "cid", 7, "10:00:03")],
    ]
    text = RANKED.replace("{IN}", source).replace("{NEWEST}", newest).replace("{DEAREST}", dearest)
    for rows in rounds:
        for partition, bidder, price, time in rows:
            record = {"auction": 1, "bidder": bidder, "price": price, "bid_time": at(time)}
            produce(source, [json.dumps(record)], partition)
        (pipeline,) = jobs_of(text, cluster, tmp_path)
        pipeline.job.run(until="caught-up")
    last = {json.loads(key)["bidder"]: value["price"] for key, value in read(cluster, newest)}
    assert last == {"ann": 5, "bob": 2, "cid": 7}
    first = {json.loads(key)["place"]: (value["bidder"], value["price"]) for key, value in read(cluster, dearest)}
    assert first == {1: ("ann", 9), 2: ("ann", 7)}
