"""Tables of SQL that are no topics, each once on the real thing: jdbc, iceberg, print; and topics of CSV.

Marked `faults`: each starts a process with a Spark of its own, which needs the database's driver.
"""

import os
import subprocess
import sys
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from bench.peer_jars import POSTGRESQL_DRIVER, fetched
from pyiceberg.catalog import load_catalog

from tests.support.harness import read_topic
from tests.support.postgres import HOST, PASSWORD, running

pytestmark = [pytest.mark.kafka, pytest.mark.spark, pytest.mark.faults]

FROM_CSV = """
CREATE TABLE sales (seller STRING, amount DECIMAL(10, 2), n INT, sold TIMESTAMP(3), note STRING) WITH (
    'connector' = 'kafka', 'topic' = '{IN}', 'properties.bootstrap.servers' = 'kafka:9092', 'format' = 'csv',
    'scan.startup.mode' = 'earliest-offset', 'scan.bounded.mode' = 'latest-offset'
);
CREATE TABLE sellers (seller STRING, town STRING, since TIMESTAMP(3), fee DECIMAL(5, 2)) WITH (
    'connector' = 'jdbc', 'url' = 'jdbc:postgresql://{DATABASE}/postgres', 'table-name' = 'sellers',
    'username' = 'postgres', 'password' = '{PASSWORD}'
);
CREATE TABLE out_csv (seller STRING, town STRING, amount DECIMAL(10, 2), sold TIMESTAMP(3), note STRING) WITH (
    'connector' = 'kafka', 'topic' = '{OUT}', 'properties.bootstrap.servers' = 'kafka:9092', 'format' = 'csv'
);
CREATE TABLE printed (seller STRING, town STRING) WITH ('connector' = 'print', 'print-identifier' = 'seen');
CREATE TABLE lake (seller STRING, amount DECIMAL(10, 2), sold TIMESTAMP(6), since TIMESTAMP(6)) WITH (
    'connector' = 'iceberg', 'catalog-name' = 'lake', 'catalog-type' = 'sql', 'uri' = 'sqlite:///{LAKE}/catalog.db',
    'warehouse' = 'file://{LAKE}', 'catalog-database' = 'bank', 'catalog-table' = 'sales'
);
CREATE TABLE kept (seller STRING, n INT, sold TIMESTAMP(3), PRIMARY KEY (seller) NOT ENFORCED) WITH (
    'connector' = 'jdbc', 'url' = 'jdbc:postgresql://{DATABASE}/postgres', 'table-name' = 'kept',
    'username' = 'postgres', 'password' = '{PASSWORD}'
);
EXECUTE STATEMENT SET BEGIN
INSERT INTO out_csv SELECT s.seller, p.town, s.amount, s.sold, s.note
    FROM sales s LEFT JOIN sellers p ON s.seller = p.seller;
INSERT INTO printed SELECT s.seller, p.town FROM sales s JOIN sellers p ON s.seller = p.seller AND p.fee > 1;
INSERT INTO lake SELECT s.seller, s.amount, s.sold, p.since FROM sales s JOIN sellers p ON s.seller = p.seller;
INSERT INTO kept SELECT seller, n, sold FROM sales WHERE n IS NOT NULL;
END;
"""


def onceflow(cluster, folder, script):
    """``onceflow sql`` of a script, as a process that has ended, with the driver of PostgreSQL."""
    file = folder / "job.sql"
    file.write_text(script)
    flags = [f"onceflow.kafka.bootstrap.servers={cluster.bootstrap_servers}", f"execution.checkpointing.dir={folder}"]
    return subprocess.run(
        [sys.executable, "-m", "onceflow", "sql", str(file), *(part for flag in flags for part in ("-D", flag))],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "ONCEFLOW_JARS": str(fetched(POSTGRESQL_DRIVER))},
    )


def lake_in(folder: Path):
    """A catalogue with an empty table of sales."""
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"file://{folder}")
    catalog.create_namespace("bank")
    schema = [
        ("seller", pa.string()),
        ("amount", pa.decimal128(10, 2)),
        *((n, pa.timestamp("us")) for n in ("sold", "since")),
    ]
    return catalog.create_table("bank.sales", pa.schema(schema))


def test_csv_beside_a_database_goes_to_csv_a_lake_a_database_and_the_screen(cluster, new_topic, produce, tmp_path):
    """One job of four sinks: a stream of CSV joined with a table of PostgreSQL is in each of them once."""
    source, target = new_topic(), new_topic()
    produce(
        source,
        [
            'ann,1.50,1,2026-01-01 10:00:00.123,"a ""b"", c"',
            "bob,2,,1969-12-31 23:59:59,",
            "eve,3.00,3,2026-03-29 02:30:00,x",
        ],
    )
    folder = tmp_path / "lake"
    folder.mkdir()
    table = lake_in(folder)
    with running() as postgres:
        postgres.execute(
            "create table sellers (seller text primary key, town text, since timestamp, fee numeric(5, 2))",
            "insert into sellers values ('ann', 'Bonn', '1999-12-31 23:00:00', 1.25)",
            "insert into sellers values ('bob', 'Ulm', '2026-03-29 02:30:00', 0)",
            "create table kept (seller text primary key, n int, sold timestamp)",
        )
        words = {
            "IN": source,
            "OUT": target,
            "DATABASE": f"{HOST}:{postgres.port}",
            "PASSWORD": PASSWORD,
            "LAKE": str(folder),
        }
        script = FROM_CSV
        for word, text in words.items():
            script = script.replace(f"{{{word}}}", text)
        ended = onceflow(cluster, tmp_path, script)
        assert ended.returncode == 0, ended.stderr
        assert PASSWORD not in ended.stderr + ended.stdout
        kept = postgres.execute("select seller, n, sold::text from kept order by seller")
    assert sorted((value or b"").decode() for _, value in read_topic(cluster, target)) == [
        'ann,Bonn,1.50,2026-01-01 10:00:00.123,"a ""b"", c"',
        "bob,Ulm,2.00,1969-12-31 23:59:59,",
        "eve,,3.00,2026-03-29 02:30:00,x",
    ]
    assert [line for line in ended.stderr.splitlines() if line.startswith("seen>")] == ["seen> +I[ann, Bonn]"]
    rows = sorted(table.refresh().scan().to_arrow().to_pylist(), key=lambda row: row["seller"])
    assert [(row["seller"], row["amount"], str(row["sold"]), str(row["since"])) for row in rows] == [
        ("ann", Decimal("1.50"), "2026-01-01 10:00:00.123000", "1999-12-31 23:00:00"),
        ("bob", Decimal("2.00"), "1969-12-31 23:59:59", "2026-03-29 02:30:00"),
    ]
    assert kept == [("ann", 1, "2026-01-01 10:00:00.123"), ("eve", 3, "2026-03-29 02:30:00")]
