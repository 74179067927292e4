"""The print connector: rows as lines, for people.

Must not know: the journal, jobs. It takes no part in the decision: rows of an epoch that is run again are there again.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onceflow.connectors.contract import Guarantee, Shard, Sink, SinkConnection, Writer, WriterFactory
from onceflow.formats.contract import column_named
from onceflow.masking import in_one_line

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column
    from pyspark.sql.types import StructType


class PrintSink(Sink):
    """Rows as lines on stderr of the tasks, which in local mode is the job's own.

    Args:
        name: The sink's name in the job.
        identifier: Stands before each row.
    """

    guarantee = Guarantee.NONE

    def __init__(self, name: str, identifier: str) -> None:
        self.name, self.identifier = name, identifier
        self.destination = "print"

    def describe(self) -> str:
        """It has no place."""
        return "printed"

    def columns(self, fields: StructType) -> list[Column]:
        """Each as text."""
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 - a description needs no Spark

        shown = (F.coalesce(column_named(name).cast("string"), F.lit("NULL")) for name in fields.names)
        return [F.concat_ws(", ", *shown).alias("line")]

    def connect(self) -> SinkConnection:
        """There is nothing to connect to."""
        return _Connection(self.identifier)


class _Connection(SinkConnection):
    system_id = "print"

    def __init__(self, identifier: str) -> None:
        self._identifier = identifier

    def writer_factory(self) -> WriterFactory:
        return _Open(self._identifier)


@dataclass(frozen=True)
class _Open:
    identifier: str

    def __call__(self, shard: Shard) -> Writer:  # noqa: ARG002 - the contract's
        return _Lines(self.identifier)


class _Lines(Writer):
    def __init__(self, identifier: str) -> None:
        self._before = f"{identifier}> " if identifier else ""

    def write(self, rows: pa.RecordBatch) -> None:
        lines = map(in_one_line, rows.column("line").to_pylist())
        text = "".join(f"{self._before}+I[{line}]\n" for line in lines)
        os.write(sys.stderr.fileno(), text.encode())

    def prepare(self) -> Mapping[str, Any] | None:
        return None
