"""Delta, in tasks: what its data files are like, and what the table has to know of each.

Must not know: Spark, decisions, the table's log.
"""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

from onceflow.connectors.lake.refusals import secrets_of, words
from onceflow.connectors.lake.staging import OWN, Staging, SyncedFiles
from onceflow.connectors.lake.writer import Form, NoLakeFormError, apart

_TOLD_COLUMNS = 32
_TOLD_LETTERS = 32
"""Delta's own defaults: of so many columns it looks at statistics, and at texts of no more letters."""


class _Store(DeltaStorageHandler):
    """Deltalake's store for pyarrow. Its files (1.6) take bytes only, and pyarrow (26) hands them buffers."""

    def open_output_stream(self, path: str, metadata: dict[str, str] | None = None) -> pa.PythonFile:
        return pa.PythonFile(_Out(self._handler.open_output_stream(path, metadata)))


class _Out:
    def __init__(self, out: Any) -> None:
        self._out = out
        self.closed = False

    def write(self, data: Any) -> int:
        return int(self._out.write(bytes(data)))

    def tell(self) -> int:
        return int(self._out.tell())

    def flush(self) -> None:
        self._out.flush()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._out.close()

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False


def staging_of(path: str, options: Mapping[str, str]) -> Staging:
    """The folders of a table."""
    if "://" not in path:
        return Staging(SyncedFiles(fs.LocalFileSystem()), f"{path}/{OWN}", path)
    return Staging(SyncedFiles(fs.PyFileSystem(_Store(path, dict(options)))), OWN, "")


@dataclass(frozen=True)
class DeltaForm(Form):
    """Files of one table's schema and partition columns.

    Attributes:
        columns: As the contract says.
        required: As the contract says.
        target_bytes: As the contract says.
        path: The table's.
        store: The store's settings, with its login.
        kinds: The columns' types.
        by: The columns that the table is partitioned by; they are in no file.
    """

    columns: tuple[str, ...]
    required: tuple[str, ...]
    target_bytes: int
    path: str
    store: Mapping[str, str] = field(repr=False)
    kinds: pa.Schema
    by: tuple[str, ...]

    def staging(self) -> Staging:
        """The table's folders."""
        return staging_of(self.path, self.store)

    def row(self) -> pa.Schema:
        """As the contract says."""
        return self.kinds

    def schema(self) -> pa.Schema:
        """Without those that the table is partitioned by."""
        return pa.schema([each for each in self.kinds if each.name not in self.by])

    def parquet(self) -> Mapping[str, Any]:
        """What every reader takes."""
        return {"compression": "snappy"}

    def parts(self, rows: pa.RecordBatch) -> Iterator[tuple[Hashable, pa.RecordBatch]]:
        """As the contract says; values are in the form in which the log has them."""
        by = list[tuple[npt.NDArray[np.int64], Sequence[Hashable]]]()
        for name in self.by:
            if name not in self.columns:
                by.append((np.zeros(len(rows), "i8"), [None]))
                continue
            distinct = rows.column(self.columns.index(name)).dictionary_encode("encode")
            words = [_word(name, value) for value in distinct.dictionary.to_pylist()]
            by.append((distinct.indices.to_numpy(), words))
        yield from apart(rows.select(self.schema().names), by)

    def described(self, part: Hashable, footer: pq.FileMetaData) -> Mapping[str, Any]:
        """The partition's values and the columns' statistics."""
        values = part if isinstance(part, tuple) else ()
        stats = {"numRecords": footer.num_rows, **_statistics(footer)}
        return {
            "partition": dict(zip(self.by, values, strict=True)),
            # As it is: of a letter that is escaped as two, deltalake (1.6) may read another one.
            "stats": json.dumps(stats, separators=(",", ":"), ensure_ascii=False),
            "time": int(time.time() * 1000),
        }

    def words(self, error: BaseException) -> str:
        """As the contract says."""
        return words(error, secrets_of(self.store))


def _word(column: str, value: Any) -> str | None:
    """A partition's value, as the log has it."""
    if value is None:
        return None
    if isinstance(value, bool):
        return str(value).lower()
    word = (
        value.isoformat() if isinstance(value, dt.date) else f"{value:f}" if isinstance(value, Decimal) else f"{value}"
    )
    if not word:
        raise NoLakeFormError(f"the table is partitioned by {column}, and Delta takes an empty text there for null")
    return word


def _statistics(footer: pq.FileMetaData) -> dict[str, Any]:
    """How many nulls columns have; and the smallest and largest values, where they are told exactly of every column.

    Of every column or of none: of one that has none among others that have, deltalake (1.6) takes for granted that no
    row of the file is asked for.
    """
    least, most, nulls = dict[str, Any](), dict[str, Any](), dict[str, int]()
    places = [i for i in range(footer.num_columns) if "." not in footer.schema.column(i).path][:_TOLD_COLUMNS]
    for place in places:
        name = footer.schema.column(place).path
        groups = [footer.row_group(i).column(place).statistics for i in range(footer.num_row_groups)]
        if not groups or any(each is None or not each.has_null_count for each in groups):
            continue
        nulls[name] = sum(each.null_count for each in groups)
        some = [each for each in groups if each.has_min_max]
        if len(some) != sum(each.num_values > 0 for each in groups) or not some:
            continue
        low, high = min(each.min for each in some), max(each.max for each in some)
        if type(low) is int or (isinstance(low, str) and max(len(low), len(high)) <= _TOLD_LETTERS):
            least[name], most[name] = low, high
        elif type(low) is dt.date:
            least[name], most[name] = low.isoformat(), high.isoformat()
    bounds = {"minValues": least, "maxValues": most} if len(least) == footer.num_columns else {}
    return {**bounds, "nullCount": nulls}
