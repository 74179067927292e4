"""The task's side of a database sink: rows into the staging table, under an attempt's id of their own.

Must not know: Spark, the journal, other attempts. It runs in Spark's workers.

Rows are gathered, and staged in local transactions, each of which takes the lock of the attempt's row first: whoever
ends the attempt takes the same one, so what was ended gets no more rows. What is staged is durable when ``prepare``
returns, and never expires.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlalchemy import insert, update
from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError

from onceflow.connectors.contract import Shard, Writer
from onceflow.connectors.database import tables as own
from onceflow.connectors.database.limits import Limit, NoFormError, require_forms
from onceflow.connectors.database.refusals import answer_of, refusal, translated, words
from onceflow.connectors.database.system import Refusal
from onceflow.connectors.database.target import Target
from onceflow.connectors.database.urls import database_of, engine_of
from onceflow.errors import OnceflowError, PreCommitError, RowRefusedError, WriterFencedError

if TYPE_CHECKING:
    import pyarrow as pa
    from sqlalchemy import Connection

HASH_MASK = (1 << 64) - 1
"""Sums of rows' hashes are modulo 2**64."""

GATHERED_BYTES = 16 << 20
"""As many bytes of rows go into one transaction: Spark's batches are small, and each commit waits for the disk."""


@dataclass(frozen=True)
class DatabaseWriterFactory:
    """Opens writers of one sink. It travels as a pickle, with the URL's password, and is never kept.

    Attributes:
        url: Of the database.
        schema: Where our tables are.
        sink: The sink's name.
        target: Where rows go. They come in the order of its columns; the last column of a row is its hash.
        limits: What some of its columns would change of a value.
    """

    url: URL
    schema: str | None
    sink: str
    target: Target
    limits: Mapping[str, Limit] = field(default_factory=dict)

    def __call__(self, shard: Shard) -> DatabaseWriter:
        """Open the writer of one shard."""
        return DatabaseWriter(self, shard)


class DatabaseWriter(Writer):
    """Stages one attempt's rows."""

    def __init__(self, made_by: DatabaseWriterFactory, shard: Shard) -> None:
        self._of, self._shard = made_by, shard
        self._id = uuid.uuid4().hex
        self._rows = self._hash = 0
        self._gathered: list[pa.RecordBatch] = []
        self._own = own.tables(made_by.schema)
        self._attempts = self._own.attempts
        self._engine = engine_of(made_by.url, lasting=False)
        self._database = database_of(self._engine)
        run = shard.run
        row = own.attempt_row(
            self._id,
            prefix=run.prefix,
            job=run.job_id,
            incarnation=run.incarnation,
            epoch=run.epoch,
            sink=made_by.sink,
            shard=shard.number,
            attempt=shard.attempt,
            staged=made_by.target.staged,
        )
        with self._transaction() as connection:
            connection.execute(insert(self._attempts), row)

    def write(self, rows: pa.RecordBatch) -> None:
        """Take a batch, and stage what has gathered when that is much."""
        self._gathered.append(rows)
        if sum(each.nbytes for each in self._gathered) >= GATHERED_BYTES:
            self._stage(own.OPEN)

    def prepare(self) -> Mapping[str, Any]:
        """Stage the rest, and say that this is all. With this what was staged is on disk."""
        self._stage(own.PREPARED)
        self._engine.dispose()
        return self._report()

    def _stage(self, state: str) -> None:
        """Stage what has gathered, and leave the attempt in this state: one transaction."""
        import pyarrow as pa  # noqa: PLC0415 - only in a worker
        import pyarrow.compute as pc  # noqa: PLC0415

        gathered, self._gathered = self._gathered, []
        rows, hashed = sum(map(len, gathered)), 0
        with self._transaction() as connection:
            self._hold(connection, state, self._rows + rows)
            if rows:
                batch = pa.Table.from_batches(gathered).combine_chunks().to_batches()[0]
                names = [own.ID, *self._of.target.held, own.HASH]
                require_forms(self._to_have(batch), self._of.limits, self._database)
                batch = pa.RecordBatch.from_arrays([pa.repeat(self._id, rows), *batch.columns], names)
                self._database.load(connection, self._of.schema, self._of.target.staged, batch)
                hashed = int(pc.sum(batch.column(len(names) - 1)).as_py() or 0)
        self._rows += rows
        self._hash = (self._hash + hashed) & HASH_MASK

    def _to_have(self, rows: pa.RecordBatch) -> dict[str, pa.Array]:
        """The values that the table is to have: of a row that means a delete only those of its key."""
        import pyarrow.compute as pc  # noqa: PLC0415 - only in a worker

        target = self._of.target
        columns = dict(zip(target.held, rows.columns, strict=False))
        if target.deletes:
            stays = pc.equal(columns[own.DELETE], 0)
            columns |= {name: columns[name].filter(stays) for name in target.columns if name not in target.key}
        return columns

    def _report(self) -> dict[str, Any]:
        return {"attempt": self._id, "rows": self._rows, "hash": self._hash}

    def abort(self) -> None:
        """End the attempt; the driver does it as well, and with a lost connection only the driver does."""
        mine = update(self._attempts).where(self._attempts.c.id == self._id, self._attempts.c.state == own.OPEN)
        with suppress(DBAPIError), self._engine.begin() as connection:
            connection.execute(mine.values(state=own.ABORTED))
        self._engine.dispose()

    def _hold(self, connection: Connection, state: str, rows: int) -> None:
        mine = update(self._attempts).where(self._attempts.c.id == self._id, self._attempts.c.state == own.OPEN)
        if connection.execute(mine.values(state=state, rows=rows)).rowcount == 1:
            return
        epoch = self._shard.run.epoch
        raise WriterFencedError(
            f"sink {self._of.sink}: what shard {self._shard.number} staged of epoch {epoch} was ended while it wrote",
            harmless="for the data: nothing more of it becomes visible, and the epoch is run again",
            cause="a newer start of the job, another attempt that won, or an operator's tool ended it",
            action="nothing, if a newer start runs; otherwise start the job again",
            epoch=epoch,
        )

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        try:
            with self._engine.begin() as connection:
                yield connection
        except DBAPIError as error:
            raise self._translated(error) from None  # the cause has the rows in it
        except NoFormError as error:
            raise self._row_refused(str(error)) from None

    def _translated(self, error: DBAPIError) -> OnceflowError:
        epoch, shard, sink = self._shard.run.epoch, self._shard.number, self._of.sink
        why = refusal(error)
        if why is Refusal.ROW:
            return self._row_refused(words(error))
        if (why is Refusal.RIGHT and not self._database.is_gone(error)) or answer_of(error):
            return translated(error, f"sink {sink}: the database", f"stage epoch {epoch}, shard {shard}")
        return PreCommitError(
            f"sink {sink}: epoch {epoch}, shard {shard} could not be staged: {words(error)}",
            harmless="for the data: nothing of the epoch is visible, and it is run again",
            cause="the database did not answer or ran out of room"
            if why is Refusal.PASSING
            else "somebody has dropped or altered a table since the start",
            action="see to the database, then start the job again",
            epoch=epoch,
        )

    def _row_refused(self, why: str) -> RowRefusedError:
        epoch, shard, sink = self._shard.run.epoch, self._shard.number, self._of.sink
        return RowRefusedError(
            f"sink {sink}: the database does not take a row of epoch {epoch}, shard {shard}: {why}",
            harmless="for the data: nothing of the epoch is visible",
            cause="a value that the column's type has no form for",
            action="change or filter such rows in the stream function, or change the column",
            epoch=epoch,
        )
