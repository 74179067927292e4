"""Worlds whose output gets a column more between two starts, and what must hold in each that a sink writes to.

Must not know: any particular system.
"""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

from onceflow.errors import ConfigurationError
from onceflow.testing.trial import Trial

NOTE = StructField("note: 50%", StringType())  # a name that is no word to a database, nor to its driver


class Growing:
    """Before a world's class: its output has a key and an amount, and once it is grown a note."""

    grown = False
    amount = LongType()
    note = NOTE.name

    def output(self):
        fields = [StructField("key", StringType()), StructField("amount", self.amount)]
        return StructType(fields + [StructField(self.note, StringType())] * self.grown)

    def rows(self, keys):
        rows = super().rows(keys)
        return rows.add_column(2, NOTE.name, pa.array(["new"] * len(keys))) if self.grown else rows

    def notes(self):
        """By key; nothing where the table has no such column."""
        return {row["key"]: row.get(NOTE.name, "no column") for row in self.whole()}


def what_was_decided_before_goes_into_the_grown_table(world):
    """Rows that are there, and those of an epoch that is decided and not committed, have null in the column."""
    with Trial(world) as t:
        start = t.start()
        first = start.prepare(["a"])
        assert start.committer.check(first, start.run(), 0.0) is None
        t.commit(start, first)
        start.newest = {p.sink: p.handle for p in first}
        decided = start.prepare(["b"], epoch=1)
        assert start.committer.check(decided, start.run(1), 0.0) is None
        start.close()
        world.grown = True
        later = t.start()
        t.commit(later, decided)
        later.newest = {p.sink: p.handle for p in decided}
        last = later.prepare(["c"], epoch=2)
        assert later.committer.check(last, later.run(2), 0.0) is None
        t.commit(later, last)
    assert world.notes() == {"a": None, "b": None, "c": "new"}


def nothing_is_added_where_the_rest_does_not_fit(world):
    """A start that is refused changes no table, nor does a check."""
    with Trial(world) as t:
        start = t.start()
        t.commit(start, start.prepare(["a"]))
        world.grown = True
        looking = world.sink().attach()
        looking.compare_output(world.output())
        looking.close()
        assert world.notes() == {"a": "no column"}
        world.amount = StringType()
        with pytest.raises(ConfigurationError, match="column amount"):
            t.start()
    assert world.notes() == {"a": "no column"}


FACTS = (what_was_decided_before_goes_into_the_grown_table, nothing_is_added_where_the_rest_does_not_fit)
