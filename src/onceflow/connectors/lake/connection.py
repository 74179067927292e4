"""A lake sink that is connected: whether rows fit into its table.

Must not know: epochs, decisions, any particular format, how files are written and committed.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from pyspark.sql.types import StructType

from onceflow.connectors.contract import Committer, SinkConnection, WriterFactory
from onceflow.connectors.fields import absent, without
from onceflow.connectors.lake.committer import LakeCommitter
from onceflow.connectors.lake.staging import name_key
from onceflow.connectors.lake.table import LakeTable
from onceflow.connectors.lake.translating import Translating
from onceflow.connectors.lake.writer import Form, LakeWriterFactory
from onceflow.errors import ConfigurationError

log = logging.getLogger(__name__)


class LakeConnection(SinkConnection):
    """One start's connection.

    Args:
        table: The table; it is let go of with this object, or with its committer.
        sink: The sink's name.
        create: Give the table its columns if it has none.
        adds: Give it those that it does not have, too.
    """

    def __init__(self, table: LakeTable, sink: str, *, create: bool, adds: bool) -> None:
        self._table = table
        self._adds = adds
        self._sink = sink
        self._create = create
        self._fitted: tuple[Form, Mapping[str, Any]] | None = None
        self._given = False
        self.system_id = table.system_id

    def make_output(self, fields: StructType) -> None:
        """Compare the output with the table, which is made if that was asked for.

        Raises:
            ConfigurationError: A column is missing or would lose something, or the table cannot be written rightly.
        """
        if self._create:
            self._table.make(fields)
        if new := self._to_add(fields):
            self._compare(without(fields, *new.names))
            self._table.add(new)
            log.warning("sink %s: columns are added to %s: %s", self._sink, self._table.where, ", ".join(new.names))
        self._compare(fields)
        # Once for the whole start, of one look: an epoch is committed to a table that is as its files were made for.
        self._fitted = self._table.form(fields.names)

    def compare_output(self, fields: StructType) -> None:
        """Compare the output with the table; one that may be made has no columns yet."""
        if not self._create:
            self._compare(without(fields, *self._to_add(fields).names))

    def _to_add(self, fields: StructType) -> StructType:
        return absent(fields, self._table.names()) if self._adds else StructType()

    def _compare(self, fields: StructType) -> None:
        wrong = self._table.misfits(fields)
        if wrong:
            raise ConfigurationError(
                f"the output does not fit {self._table.where} of sink {self._sink}: {'; '.join(wrong)}",
                cause=f"the output has {', '.join(f'{f.name} {f.dataType.simpleString()}' for f in fields.fields)}",
                action='cast or select in the stream function, or alter the table (schema_changes="add" adds columns)',
            )

    def writer_factory(self) -> WriterFactory:
        """What opens this sink's writers in tasks."""
        return LakeWriterFactory(self._fit()[0], self._sink)

    def committer(self, prefix: str, job_id: str) -> Committer:
        """What commits."""
        self._given = True
        return LakeCommitter(self._table, self._shape, prefix, job_id, self._sink)

    def read_name_mark(self, prefix: str, name: str) -> str | None:
        """What is kept under a prefix and a job's name, or None."""
        with Translating(self._table, self._sink, "read the mark of the job's name"):
            return self._table.staging.mark(name_key(prefix, name))

    def close(self) -> None:
        """Let go of the table, unless a committer has it."""
        if not self._given:
            self._table.close()

    def _shape(self) -> Mapping[str, Any]:
        return self._fit()[1]

    def _fit(self) -> tuple[Form, Mapping[str, Any]]:
        if self._fitted is None:
            raise AssertionError("an output is expected before it is written")
        return self._fitted
