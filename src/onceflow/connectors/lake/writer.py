"""The task's side of a lake sink: rows into Parquet files beside the table, which nothing names yet.

Must not know: Spark, the journal, catalogs, other attempts. It runs in Spark's workers.

What a file holds is told by the one who has written it: the driver reads no footer. What a task has written is listed
beside the table, and its report has only the digest of that list: so neither reports nor the journal grow with files
and columns.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from onceflow.connectors.contract import Shard, Writer
from onceflow.connectors.lake.refusals import answer_of
from onceflow.connectors.lake.staged import AttemptName, Moment
from onceflow.connectors.lake.staging import Staging
from onceflow.errors import OnceflowError, PreCommitError, RowRefusedError, WriterFencedError
from onceflow.formats import arrow_values

_GROUP_BYTES = 32 << 20
"""So much of one file is kept in memory, and becomes one of its row groups."""
_HELD_BYTES = 256 << 20
"""So much of all files of a task."""
_OPEN_FILES = 100


class NoLakeFormError(ValueError):
    """A row has a value that the table has no form for. Names the column, never the value."""


def apart(
    rows: pa.RecordBatch, by: Sequence[tuple[npt.NDArray[np.int64], Sequence[Hashable]]]
) -> Iterator[tuple[Hashable, pa.RecordBatch]]:
    """Rows of each partition, with its values.

    Args:
        rows: The rows.
        by: For each of the partition's values which of the values behind it each row has.
    """
    if not by:
        yield (), rows
        return
    # Not as digits of one number: with many columns and values that would not fit into 64 bits, and wrap round.
    found, of = np.unique(np.stack([codes for codes, _ in by], axis=1), axis=0, return_inverse=True)
    for place, codes in enumerate(found.tolist()):
        part = tuple(values[code] for code, (_, values) in zip(codes, by, strict=True))
        yield part, rows.filter(pa.array(of.ravel() == place))


class Form(ABC):
    """How a format's data files are made. Travels to tasks, with the store's login: it is never kept.

    Attributes:
        columns: The columns of a row, as they come.
        required: Those of them that take no null.
        target_bytes: How large a file becomes before another one is begun.
    """

    columns: tuple[str, ...]
    required: tuple[str, ...]
    target_bytes: int

    @abstractmethod
    def staging(self) -> Staging:
        """The table's folders."""

    @abstractmethod
    def row(self) -> pa.Schema:
        """The table's types of a row's columns, in the order in which they come."""

    @abstractmethod
    def schema(self) -> pa.Schema:
        """Columns of a data file."""

    @abstractmethod
    def parts(self, rows: pa.RecordBatch) -> Iterator[tuple[Hashable, pa.RecordBatch]]:
        """What goes into files of each partition of the table, with the partition's values.

        Raises:
            NoFormError: A partition's value has no form.
        """

    @abstractmethod
    def parquet(self) -> Mapping[str, Any]:
        """What Parquet's writer is told."""

    @abstractmethod
    def described(self, part: Hashable, footer: pq.FileMetaData) -> Mapping[str, Any]:
        """What the table has to know of a file beside its path, size and rows; JSON values."""

    @abstractmethod
    def words(self, error: BaseException) -> str:
        """An error in a line that has no secret in it, and no row's values."""


@dataclass(frozen=True)
class LakeWriterFactory:
    """Opens writers of one sink.

    Attributes:
        form: How files are made.
        sink: The sink's name.
    """

    form: Form
    sink: str

    def __call__(self, shard: Shard) -> Writer:
        """Open the writer of one shard."""
        return LakeWriter(self.form, self.sink, shard)


class _DataFile:
    """One that is being written; it is opened when there is more than memory is to hold, or at the end."""

    def __init__(self, form: Form, staging: Staging, name: AttemptName, number: int, part: Hashable) -> None:
        self.held_bytes = 0
        self._form, self._staging, self._part = form, staging, part
        self._path, self._behind = staging.data_file(name, number)
        self._held: list[pa.RecordBatch] = []
        self._rows = 0
        self._opened = contextlib.ExitStack()
        self._out: Any = None
        self._writer: pq.ParquetWriter | None = None

    def add(self, rows: pa.RecordBatch) -> None:
        self._held.append(rows)
        self.held_bytes += rows.nbytes
        self._rows += len(rows)
        if self.held_bytes >= _GROUP_BYTES:
            self.flush()

    def flush(self) -> pq.ParquetWriter:
        if self._writer is None:
            self._out = self._opened.enter_context(self._staging.files.writing(self._path))
            self._writer = pq.ParquetWriter(self._out, self._form.schema(), **self._form.parquet())
        if self._held:
            self._writer.write_table(pa.Table.from_batches(self._held, self._form.schema()))
        self._held, self.held_bytes = [], 0
        return self._writer

    @property
    def is_full(self) -> bool:
        return self._out is not None and bool(self._out.tell() >= self._form.target_bytes)

    def close(self) -> dict[str, Any]:
        """End it; with this, it is on disk. What there is to know of it."""
        writer = self.flush()
        writer.close()
        footer = writer.writer.metadata
        size = self._out.tell()
        self._opened.close()
        if footer.num_rows != self._rows:
            raise OSError(f"{self._behind} has {footer.num_rows} rows and got {self._rows}")
        told = {"path": self._behind, "size": size, "rows": self._rows}
        return {**told, **self._form.described(self._part, footer)}

    def drop(self) -> None:
        """Let go of it, whole or not."""
        if self._writer is not None:
            with contextlib.suppress(Exception):
                self._writer.close()
        with contextlib.suppress(Exception):
            self._opened.close()


class LakeWriter(Writer):
    """Writes one attempt's files.

    Args:
        form: How.
        sink: The sink's name.
        shard: Which task.
    """

    def __init__(self, form: Form, sink: str, shard: Shard) -> None:
        run = shard.run
        self._form, self._sink, self._epoch, self._number = form, sink, run.epoch, shard.number
        moment = Moment(run.incarnation, run.epoch)
        self._name = AttemptName.new(run.job_id, sink, moment, shard.number, shard.attempt)
        self._open: dict[Hashable, _DataFile] = {}
        self._done: list[dict[str, Any]] = []
        self._begun = 0
        with self._translating():
            self._staging = form.staging()
            self._staging.begin(self._name)

    def write(self, rows: pa.RecordBatch) -> None:
        """Add rows to the file of their partition."""
        self._require_values(rows)
        with self._translating():
            for part, mine in self._form.parts(self._cast(rows)):
                file = self._open.get(part) or self._begin(part)
                file.add(mine)
                if file.is_full:
                    self._end(part)
            if sum(file.held_bytes for file in self._open.values()) > _HELD_BYTES:
                for file in self._open.values():
                    file.flush()

    def prepare(self) -> Mapping[str, Any]:
        """End all files, and list them. With this, all of it is on disk."""
        with self._translating():
            for part in list(self._open):
                self._end(part)
            digest = self._staging.finish(self._name, self._done)
        if digest is None:
            raise WriterFencedError(
                f"sink {self._sink}: what shard {self._number} wrote of epoch {self._epoch} was ended while it wrote",
                harmless="for the data: nothing of it becomes visible, and the epoch is run again",
                cause="a newer start of the job, another attempt that won, an operator's tool, or somebody who cleans "
                "up beside the table",
                action="nothing, if a newer start runs; otherwise start the job again",
                epoch=self._epoch,
            )
        return {"attempt": self._name.text, "rows": sum(each["rows"] for each in self._done), "digest": digest}

    def abort(self) -> None:
        """Remove what was written; the driver does it as well, and where the store does not answer only the driver."""
        for file in self._open.values():
            file.drop()
        self._open = {}
        with contextlib.suppress(Exception):
            self._staging.end(self._name)

    def _begin(self, part: Hashable) -> _DataFile:
        if len(self._open) >= _OPEN_FILES:
            self._end(next(iter(self._open)))
        file = self._open[part] = _DataFile(self._form, self._staging, self._name, self._begun, part)
        self._begun += 1
        return file

    def _end(self, part: Hashable) -> None:
        self._done.append(self._open[part].close())
        del self._open[part]

    def _cast(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        schema, columns = self._form.row(), []
        for field, column in zip(schema, rows.columns, strict=True):
            # Of the one no file could be read; of the other Python, which makes the statistics, has no form.
            if why := arrow_values.trouble(field.name, column):
                raise NoLakeFormError(why)
            try:
                columns.append(column.cast(field.type, safe=True))
            except pa.ArrowInvalid:  # its words may have the row's values in them
                why = f"column {field.name} ({column.type}) has a value that {field.type} has not"
                raise NoLakeFormError(why) from None
        return pa.RecordBatch.from_arrays(columns, schema=schema)

    def _require_values(self, rows: pa.RecordBatch) -> None:
        for name in self._form.required:
            count = rows.column(self._form.columns.index(name)).null_count
            if count:
                raise self._row_refused(f"column {name} takes no null, and {count} rows have one")

    def _row_refused(self, why: str) -> RowRefusedError:
        return RowRefusedError(
            f"sink {self._sink}: the table does not take a row of epoch {self._epoch}, shard {self._number}: {why}",
            harmless="for the data: nothing of the epoch is visible",
            cause="a value that the table's column has no form for",
            action="change or filter such rows in the stream function, or change the column",
            epoch=self._epoch,
        )

    @contextlib.contextmanager
    def _translating(self) -> Iterator[None]:
        try:
            yield
        except OnceflowError:
            raise
        except NoLakeFormError as error:
            raise self._row_refused(str(error)) from None
        except pa.ArrowInvalid as error:
            raise self._row_refused(type(error).__name__) from None  # its words may have the row's values in them
        except Exception as error:  # noqa: BLE001 - each store has errors of its own
            answer = answer_of(error)
            raise PreCommitError(
                f"sink {self._sink}: epoch {self._epoch}, shard {self._number} could not be written beside the table: "
                f"{self._form.words(error)}",
                harmless="for the data: nothing of the epoch is visible, and it is run again",
                cause="the store did not answer, ran out of room, or refused",
                action="see to the store, then start the job again",
                epoch=self._epoch,
                refusal=answer and f"sink {self._sink} ({answer})",
            ) from None
