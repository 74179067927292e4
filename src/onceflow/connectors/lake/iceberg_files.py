"""Iceberg, in tasks: what its data files are like, and what the table has to know of each.

Must not know: catalogs, Spark, decisions.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import (
    PyArrowFileIO,
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, sanitize_column_names
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.transforms import IdentityTransform, VoidTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DateType, NestedField, TimestampType, TimestamptzType

from onceflow.connectors.lake.refusals import secrets_of, words
from onceflow.connectors.lake.staging import OWN, Staging, SyncedFiles
from onceflow.connectors.lake.writer import Form, apart

_COUNTS = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
_BOUNDS = ("lower_bounds", "upper_bounds")


def data_location(location: str, properties: Mapping[str, str]) -> str:
    """A table's folder of data."""
    return properties.get("write.data.path", f"{location.rstrip('/')}/data").rstrip("/")


def staging_of(location: str, properties: Mapping[str, str], store: Mapping[str, str]) -> Staging:
    """The folders beside a table."""
    files = PyArrowFileIO(dict(store))
    scheme, netloc, own = PyArrowFileIO.parse_location(f"{location.rstrip('/')}/{OWN}", dict(store))
    of_data, at, data = PyArrowFileIO.parse_location(data_location(location, properties), dict(store))
    if (scheme, netloc) != (of_data, at):
        raise ValueError("write.data.path is in another store than the table's location")
    return Staging(SyncedFiles(files.fs_by_scheme(scheme, netloc)), own, data)


@dataclass(frozen=True)
class IcebergForm(Form):
    """Files of one table's schema and partition spec.

    Attributes:
        columns: As the contract says.
        required: As the contract says.
        target_bytes: As the contract says.
        location: The table's.
        properties: The table's.
        store: The store's settings, with its login.
        fields: The columns, as pyiceberg's JSON.
        spec: The partition spec, likewise.
    """

    columns: tuple[str, ...]
    required: tuple[str, ...]
    target_bytes: int
    location: str
    properties: Mapping[str, str]
    store: Mapping[str, str] = field(repr=False)
    fields: str
    spec: str

    def staging(self) -> Staging:
        """The table's folders."""
        return staging_of(self.location, self.properties, self.store)

    @cached_property
    def _fields(self) -> Schema:
        return Schema.model_validate_json(self.fields)

    @cached_property
    def _in_files(self) -> Schema:
        """With names that every reader takes: what a column is, its id says."""
        return sanitize_column_names(self._fields)

    @cached_property
    def _schema(self) -> pa.Schema:
        return schema_to_pyarrow(self._in_files)

    def row(self) -> pa.Schema:
        """As the contract says. With the table's own names: Arrow casts what is inside of a column by its name."""
        return self._row

    @cached_property
    def _row(self) -> pa.Schema:
        return schema_to_pyarrow(self._fields)

    def schema(self) -> pa.Schema:
        """The same, with the names that files have."""
        return self._schema

    def parquet(self) -> Mapping[str, Any]:
        """The codec that the table asks for."""
        codec = self.properties.get("write.parquet.compression-codec", "zstd")
        return {"compression": "none" if codec == "uncompressed" else codec, "store_decimal_as_integer": True}

    @cached_property
    def _by(self) -> list[tuple[int | None, Callable[[pa.Array], list[Any]]]]:
        """For each field of the partition spec: which column, and how its values become the partition's."""
        places = {each.field_id: place for place, each in enumerate(self._fields.fields)}
        spec = PartitionSpec.model_validate_json(self.spec)
        return [
            (places.get(each.source_id), _values(each, self._fields.fields[places[each.source_id]]))
            if each.source_id in places and not isinstance(each.transform, VoidTransform)
            else (None, _none)
            for each in spec.fields
        ]

    def parts(self, rows: pa.RecordBatch) -> Iterator[tuple[Hashable, pa.RecordBatch]]:
        """As the contract says; values are in the form in which manifests have them."""
        rows = pa.record_batch(_Renamed(rows, self._schema))
        by = list[tuple[npt.NDArray[np.int64], Sequence[Hashable]]]()
        for place, values in self._by:
            if place is None:
                by.append((np.zeros(len(rows), "i8"), [None]))
                continue
            distinct = rows.column(place).dictionary_encode("encode")
            each = values(distinct.dictionary)
            places = {value: code for code, value in enumerate(dict.fromkeys(each))}
            by.append((np.array([places[value] for value in each], "i8")[distinct.indices.to_numpy()], list(places)))
        yield from apart(rows, by)

    def described(self, part: Hashable, footer: pq.FileMetaData) -> Mapping[str, Any]:
        """The partition's values and the columns' statistics."""
        try:
            found = self._statistics(footer, self.properties)
        except UnicodeEncodeError:  # pyiceberg (0.12) knows no end of texts that go on like "\ud7ff"
            found = self._statistics(footer, {"write.metadata.metrics.default": "counts"})
        statistics: dict[str, Any] = {name: {str(i): n for i, n in found[name].items()} for name in _COUNTS}
        statistics |= {name: {str(i): _to_json(value) for i, value in found[name].items()} for name in _BOUNDS}
        values = part if isinstance(part, tuple) else ()
        return {"partition": [_to_json(v) for v in values], "split_offsets": found["split_offsets"], **statistics}

    def _statistics(self, footer: pq.FileMetaData, properties: Mapping[str, str]) -> dict[str, Any]:
        plan = compute_statistics_plan(self._in_files, dict(properties))
        paths = parquet_path_to_id_mapping(self._in_files)
        return data_file_statistics_from_parquet_metadata(footer, plan, paths).to_serialized_dict()

    def words(self, error: BaseException) -> str:
        """As the contract says."""
        return words(error, secrets_of(self.store))


@dataclass(frozen=True)
class _Renamed:
    """A batch under other names, also inside of its columns; what Arrow takes one from."""

    rows: pa.RecordBatch
    schema: pa.Schema

    def __arrow_c_array__(self, requested_schema: object = None) -> tuple[object, object]:
        _, values = self.rows.__arrow_c_array__()
        return self.schema.__arrow_c_schema__(), values


def data_file(told_of: Mapping[str, Any], metadata: TableMetadata) -> DataFile:
    """A file as a manifest names it, of what its writer has told."""
    statistics: dict[str, Any] = {name: {int(i): n for i, n in told_of[name].items()} for name in _COUNTS}
    statistics |= {name: {int(i): _from_json(value) for i, value in told_of[name].items()} for name in _BOUNDS}
    made = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"{data_location(metadata.location, metadata.properties)}/{told_of['path']}",
        file_format=FileFormat.PARQUET,
        partition=Record(*(_from_json(value) for value in told_of["partition"])),
        record_count=int(told_of["rows"]),
        file_size_in_bytes=int(told_of["size"]),
        split_offsets=told_of["split_offsets"],
        sort_order_id=None,
        spec_id=metadata.default_spec_id,
        equality_ids=None,
        key_metadata=None,
        **statistics,
    )
    made.spec_id = metadata.default_spec_id
    return made


def _none(values: pa.Array) -> list[Any]:
    return [None] * len(values)


def _values(by: PartitionField, source: NestedField) -> Callable[[pa.Array], list[Any]]:
    """From values of a column to those of a partition: only different ones come, so they are taken one by one."""
    kind = source.field_type
    change = (lambda value: value) if isinstance(by.transform, IdentityTransform) else by.transform.transform(kind)

    def values(of: pa.Array) -> list[Any]:
        if isinstance(kind, DateType):
            of = of.cast(pa.int32())
        elif isinstance(kind, TimestampType | TimestamptzType):
            of = of.cast(pa.int64())
        return [None if value is None else change(value) for value in of.to_pylist()]

    return values


def _to_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    return {"decimal": str(value)} if isinstance(value, Decimal) else value


def _from_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return base64.b64decode(value["bytes"]) if "bytes" in value else Decimal(value["decimal"])
    return value
