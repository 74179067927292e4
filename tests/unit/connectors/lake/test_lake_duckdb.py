"""DuckDB reads what our sinks write to Iceberg and Delta: each type, and each row by its values.

Its extensions come as packages; DuckDB itself looks at their signatures.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from duckdb import ColumnExpression, ConstantExpression

from tests.support.lake_tables import MADE, plain, told

# DuckDB 1.5 looks for times of before 1970 in the day behind theirs.
READ = [name for name in MADE if name != "iceberg, partitioned"]
EXTENSIONS = ("avro", "iceberg", "delta")


@pytest.fixture(scope="module")
def reader():
    """DuckDB with what reads tables."""
    opened = duckdb.connect()
    for name in EXTENSIONS:
        folder = Path(import_module(f"duckdb_extension_{name}").__file__).parent
        (file,) = folder.glob(f"extensions/v{duckdb.__version__}/{name}.duckdb_extension")
        opened.execute(f"LOAD '{file}'")
    opened.execute("SET TimeZone = 'UTC'")
    yield opened
    opened.close()


@pytest.mark.parametrize("name", READ)
def test_duckdb_reads_what_is_written(name, reader, tmp_path):
    """All rows with all values; and each row where one of its values, or a null, is asked for."""
    filled = MADE[name](tmp_path)
    world, rows = filled.world, filled.rows
    scan = f"iceberg_scan('{world.table().metadata_location}')" if filled.is_iceberg else f"delta_scan('{world.path}')"
    key = rows.column_names[0]
    found = reader.execute(f"SELECT * FROM {scan} ORDER BY {key}").to_arrow_table()
    rows = rows.sort_by(key)
    for column in rows.column_names:
        assert told(found.column(column)) == told(rows.column(column)), column
    table = reader.sql(f"SELECT * FROM {scan}")
    for column in plain(rows):
        there = ColumnExpression(column)
        asked = pa.table({"value": rows.column(column)})
        reader.register("asked", asked)
        texts = [text for (text,) in reader.execute("SELECT CAST(value AS VARCHAR) FROM asked").fetchall()]
        (kind,) = table.select(there).types
        for text in set(texts) - {None}:
            # A constant of the column's type is what is handed down to where files are passed over.
            is_asked_for = there == ConstantExpression(text).cast(kind)
            assert table.filter(is_asked_for).count("*").fetchone() == (texts.count(text),), (column, text)
        assert table.filter(there.isnull()).count("*").fetchone() == (texts.count(None),), column
