"""An output that gets a column more, into a table of SQLite, of Iceberg and of Delta (``schema_changes="add"``)."""

import sqlite3

import pytest

from onceflow.connectors.database.sink import DatabaseSink
from onceflow.connectors.lake.sinks import DeltaSink, IcebergSink
from onceflow.errors import ConfigurationError
from onceflow.testing.trial import Trial
from tests.support.growing import FACTS, NOTE, Growing
from tests.support.lakes import DeltaWorld, IcebergWorld
from tests.support.sqlite_worlds import SqliteWorld


class GrowingSqlite(Growing, SqliteWorld):
    changes = "add"

    def sink(self):
        return DatabaseSink(f"sqlite:///{self.path}", "payments", create_table=True, schema_changes=self.changes)


class GrowingIceberg(Growing, IcebergWorld):
    def sink(self):
        return IcebergSink(
            "lake", "bank.payments", properties=self.settings, create_table=not self.grown, schema_changes="add"
        )


class GrowingDelta(Growing, DeltaWorld):
    def sink(self):
        return DeltaSink(self.path, create_table=not self.grown, schema_changes="add")


@pytest.mark.parametrize("world", [GrowingSqlite, GrowingIceberg, GrowingDelta])
@pytest.mark.parametrize("fact", FACTS, ids=lambda fact: fact.__name__)
def test_a_table_grows(fact, world, tmp_path):
    """Each fact holds."""
    fact(world(tmp_path))


def test_the_statement_that_is_told_adds_the_column(tmp_path):
    """A start that may not add it says how; a key's column is never added."""
    world = GrowingSqlite(tmp_path)
    world.changes = "refuse"
    with Trial(world) as t:
        t.start()
        world.grown = True
        with pytest.raises(ConfigurationError) as refused:
            t.start()
        statement = refused.value.action.partition("as with ")[2].partition(", which schema_changes")[0]
        with sqlite3.connect(world.path) as file:
            file.execute(statement)
        t.start()
    assert NOTE.name in statement


def test_a_column_of_the_key_is_never_added(tmp_path):
    """It would be null in the rows that are there."""
    world = GrowingSqlite(tmp_path)
    with Trial(world) as t:
        t.start()
    world.grown = True
    sink = DatabaseSink(f"sqlite:///{world.path}", "payments", key=("key", NOTE.name), schema_changes="add")
    with pytest.raises(ConfigurationError, match=f"column {NOTE.name} is not in the table"):
        sink.connect().make_output(world.output())


@pytest.mark.parametrize("world", [GrowingSqlite, GrowingIceberg, GrowingDelta])
def test_a_name_that_differs_in_its_case_alone_is_not_added(world, tmp_path):
    """A reader would take the two for one."""
    world = world(tmp_path)
    with Trial(world) as t:
        start = t.start()
        t.commit(start, start.prepare(["a"]))
        world.grown, world.note = True, "Amount"
        for sink in (world.sink().attach(), world.sink().connect()):
            for look in (sink.compare_output, sink.make_output):
                with pytest.raises(ConfigurationError, match="column Amount is not in the table"):
                    look(world.output())
            sink.close()
