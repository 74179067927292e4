"""A stateful class that counts."""

import importlib.util

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming import StatefulProcessor

NEEDS_PROTOBUF = pytest.mark.skipif(
    importlib.util.find_spec("google") is None or importlib.util.find_spec("google.protobuf") is None,
    reason="PySpark's transformWithState needs protobuf",
)


class Counting(StatefulProcessor):
    """Counts the rows of each key."""

    def init(self, handle):
        self.count = handle.getValueState("count", "n long")

    def handleInputRows(self, key, rows, timers):  # noqa: N802 - Spark's names
        before = self.count.get()[0] if self.count.exists() else 0
        self.count.update((before + sum(1 for _ in rows),))
        yield Row(key=key[0], n=self.count.get()[0])

    def close(self):
        """Nothing is open."""
