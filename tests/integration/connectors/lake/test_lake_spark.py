"""Spark's own readers read what our sinks write to Iceberg and Delta: each type, and each row by its values.

Delta's runs on the Spark of the jobs. Iceberg has none for it yet: the newest is for Spark 4.1, which has an
environment of its own.
"""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from bench.peer_jars import fetched

from onceflow.local.jars import Jar
from tests.support.harness import JOBS
from tests.support.lake_tables import MADE, plain, told

pytestmark = [pytest.mark.spark, pytest.mark.faults]

SPARK_4_1 = Path(__file__).parents[4] / ".venv-spark41/bin/python"
JARS = {
    "delta": [
        Jar(
            org="io.delta",
            name="delta-spark_4.2_2.13",
            rev="4.4.0",
            size=9_515_916,
            sha256="27d4fd8b1f879535c573ed1c718177d6a27f24d3e626ba02e216369725721ead",
        ),
        Jar(
            org="io.delta",
            name="delta-storage",
            rev="4.4.0",
            size=113_863,
            sha256="c46735481fa8e326b0957be02b4420cbcab4b325bb08009b7f2045a95133f1cc",
        ),
    ],
    "iceberg": [
        Jar(
            org="org.apache.iceberg",
            name="iceberg-spark-runtime-4.1_2.13",
            rev="1.12.0",
            size=48_309_426,
            sha256="3123c3798af642dd537230923548e013ef41cc28b6626e5225808cf5670a0f82",
        ),
        Jar(
            org="org.xerial",
            name="sqlite-jdbc",
            rev="3.54.1.0",
            size=12_132_578,
            sha256="f8dce420a6016278497f4f0560f65602b9db858de141b541cf91a4644ebe4639",
        ),
    ],
}


def settings_for(filled):
    """Of a session that reads the table, and what the table is called there."""
    kind = "iceberg" if filled.is_iceberg else "delta"
    settings = {
        "spark.jars": ",".join(str(fetched(jar)) for jar in JARS[kind]),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
    }
    if not filled.is_iceberg:
        settings["spark.databricks.delta.snapshotPartitions"] = "1"
        settings["spark.sql.extensions"] = "io.delta.sql.DeltaSparkSessionExtension"
        settings["spark.sql.catalog.spark_catalog"] = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
        return settings, {"path": str(filled.world.path)}
    catalog = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "jdbc",
        ".uri": f"jdbc:sqlite:{filled.world.folder}/catalog.db",
        ".jdbc.schema-version": "V1",
        ".warehouse": f"file://{filled.world.folder}",
    }
    settings |= {f"spark.sql.catalog.lake{name}": value for name, value in catalog.items()}
    return settings, {"table": "lake.bank.payments"}


@pytest.mark.parametrize("name", ["delta", "delta, partitioned", "iceberg", "iceberg, partitioned"])
def test_spark_reads_what_is_written(name, tmp_path):
    """All rows with all values; and each row where one of its values, or a null, is asked for."""
    filled = MADE[name](tmp_path)
    python = SPARK_4_1 if filled.is_iceberg else Path(sys.executable)
    if not python.exists():
        pytest.skip("Iceberg's reader needs Spark 4.1: make .venv-spark41/.ready")
    settings, table = settings_for(filled)
    asked = {"settings": settings, "plain": list(plain(filled.rows)), "out": str(tmp_path / "found"), **table}
    ended = subprocess.run(
        [python, JOBS / "read_lake.py", json.dumps(asked)], capture_output=True, text=True, timeout=280, check=False
    )
    assert ended.returncode == 0, ended.stderr
    key = filled.rows.column_names[0]
    found = pa.ipc.open_file(tmp_path / "found.arrow").read_all().sort_by(key)
    rows = filled.rows.sort_by(key)
    for column in rows.column_names:
        assert told(found.column(column)) == told(rows.column(column)), column
    for column, counts in json.loads((tmp_path / "found.json").read_text()).items():
        there = rows.column(column)
        of_each = Counter(told(there.drop_null()))
        assert counts == [*sorted(of_each.values()), there.null_count], column
