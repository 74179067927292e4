"""IcebergSink and DeltaSink: what a user writes to send rows to a lake table.

Must not know: the journal, how epochs run. Descriptions, in which nothing is open: what a start finds out stands in
``connection``, what a format needs in ``iceberg`` and ``delta``.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from onceflow.connectors.contract import Guarantee, Sink, SinkConnection
from onceflow.connectors.lake.refusals import secrets_of
from onceflow.errors import ConfigurationError, RefusedSettingError
from onceflow.formats.contract import column_named
from onceflow.formats.times import within
from onceflow.options.arguments import checked
from onceflow.twophase.names import SINK_NAME

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import StructType


_ENCODED = re.compile("%[0-9A-Fa-f]{2}")


class _LakeSink(Sink):
    """What both have in common."""

    guarantee = Guarantee.EXACTLY_ONCE

    def columns(self, fields: StructType) -> list[Column]:
        """Each column as it is."""
        return [column_named(name).alias(name) for name in fields.names]

    def dead_letter_columns(self, fields: StructType) -> list[Column]:
        """As they are; a time that is none to a table is null, since a dead letter must not stop its job."""
        return [
            (within(column_named(name)) if name == "timestamp" else column_named(name)).alias(name)
            for name in fields.names
        ]

    def _named(self, name: str) -> None:
        self.name = name
        if SINK_NAME.fullmatch(name) is None:
            raise ConfigurationError(
                f"a sink cannot be named {name!r}",
                cause="its name stands in the table's ledger: letters, digits, '.', '_' and '-', at most 100",
                action="give it another name with name=",
            )


class IcebergSink(_LakeSink):
    """Rows to an Apache Iceberg table, each once.

    Tasks write Parquet files beside the table; the driver shows those of an epoch by one snapshot, which says so in the
    table's properties as well. What is written and decided never expires. Needs the extra ``[iceberg]``.

    Args:
        catalog: The catalog's name, as pyiceberg's settings know it.
        table: The table with its namespace: ``"bank.payments"``.
        properties: Pyiceberg's settings of the catalog and of its store, beside those of its own files and variables:
            ``{"type": "sql", "uri": "sqlite:////lake/catalog.db", "warehouse": "file:///lake"}``, or
            ``{"type": "rest", "uri": "https://catalog.example", "token": "…"}``, and ``s3.…`` for the store.
        create_table: Make the table from the output's columns if it is not there; False refuses to start.
        schema_changes: ``"add"``: a start adds the output's columns that the table does not have, null in the rows that
            are there. ``"refuse"``: a start says which they are.
        name: The sink's name, unique in the job: letters, digits, ``.``, ``_``, ``-``. The table by default.

    Raises:
        ConfigurationError: An argument that cannot work.
    """

    @checked
    def __init__(
        self,
        catalog: str,
        table: str,
        *,
        properties: Mapping[str, str] | None = None,
        create_table: bool = False,
        schema_changes: Literal["refuse", "add"] = "refuse",
        name: str | None = None,
    ) -> None:
        _require("pyiceberg", "IcebergSink", "iceberg")
        if len(table.split(".")) < 2 or not all(table.split(".")):
            raise ConfigurationError(
                f"IcebergSink cannot write to a table {table!r}",
                action='name a namespace and a table: "bank.payments"',
            )
        self.catalog = catalog
        self.table = table
        self.properties = dict(properties or {})
        self.create_table = create_table
        self.adds_columns = schema_changes == "add"
        self.destination = f"{catalog}.{table}"
        self._named(table if name is None else name)

    @property
    def carries_secret(self) -> bool:
        """Whether its catalog's properties have one, those of pyiceberg's own files and variables among them."""
        from pyiceberg.utils.config import Config  # noqa: PLC0415 - as below

        elsewhere = {name: str(value) for name, value in (Config().get_catalog_config(self.catalog) or {}).items()}
        return bool(secrets_of(elsewhere | self.properties))

    def describe(self) -> str:
        """The sink in a few words, without its settings."""
        return f"Iceberg table {self.table} of catalog {self.catalog} ({self.guarantee})"

    def connect(self) -> SinkConnection:
        """Connect; make the table where that was asked for."""
        from onceflow.connectors.lake.iceberg import iceberg_connection  # noqa: PLC0415 - it imports pyiceberg

        return iceberg_connection(self, making=self.create_table)

    def attach(self) -> SinkConnection:
        """Connect only."""
        from onceflow.connectors.lake.iceberg import iceberg_connection  # noqa: PLC0415 - it imports pyiceberg

        return iceberg_connection(self, making=False)


class DeltaSink(_LakeSink):
    """Rows to a Delta table, each once.

    Tasks write Parquet files into the table's folder; the driver shows those of an epoch by one version of the table,
    which has the epoch as an application transaction. What is written and decided never expires. Needs the extra
    ``[delta]``.

    Args:
        path: The table's folder, or its address in an object store: ``"/lake/payments"``, ``"s3://lake/payments"``.
        storage_options: Deltalake's settings of the store, with its login.
        create_table: Make the table from the output's columns if it is not there; False refuses to start.
        schema_changes: ``"add"``: a start adds the output's columns that the table does not have, null in the rows that
            are there. ``"refuse"``: a start says which they are.
        name: The sink's name, unique in the job: letters, digits, ``.``, ``_``, ``-``. The folder's name by default.

    Raises:
        RefusedSettingError: A setting lets two writers make the same version of the table.
        ConfigurationError: An argument that cannot work.
    """

    @checked
    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        storage_options: Mapping[str, str] | None = None,
        create_table: bool = False,
        schema_changes: Literal["refuse", "add"] = "refuse",
        name: str | None = None,
    ) -> None:
        _require("deltalake", "DeltaSink", "delta")
        told = os.fspath(path).rstrip("/").removeprefix("file://")
        self.path = told if "://" in told else os.path.abspath(told)  # noqa: PTH100 - a driver and its tasks differ in it
        if "@" in urlsplit(self.path).netloc:
            raise ConfigurationError(
                "DeltaSink takes no login in its path: it would stand in messages and in the checkpoint",
                action="pass it with storage_options=",
            )
        if _ENCODED.search(self.path):
            raise ConfigurationError(
                f"DeltaSink cannot write to {self.path}",
                cause="deltalake takes a percent sign with two digits behind it for one character when it reads, and "
                "as it stands when it writes: it would look into another folder than it writes to",
                action="name the folder without such signs, or as it is called: with the blank itself for %20",
            )
        self.storage_options = dict(storage_options or {})
        _require_safe({**os.environ, **self.storage_options})
        self.create_table = create_table
        self.adds_columns = schema_changes == "add"
        self.destination = self.path
        self._named(self.path.rpartition("/")[2] if name is None else name)

    @property
    def carries_secret(self) -> bool:
        """Whether its store's options have one."""
        return bool(secrets_of(self.storage_options))

    def describe(self) -> str:
        """The sink in a few words, without its settings."""
        return f"Delta table {self.path} ({self.guarantee})"

    def connect(self) -> SinkConnection:
        """Connect."""
        from onceflow.connectors.lake.delta import delta_connection  # noqa: PLC0415 - it imports deltalake

        return delta_connection(self, making=True)

    def attach(self) -> SinkConnection:
        """Connect, and keep nothing there."""
        from onceflow.connectors.lake.delta import delta_connection  # noqa: PLC0415 - it imports deltalake

        return delta_connection(self, making=False)


def _require_safe(settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        if name.lower().endswith("allow_unsafe_rename") and value.lower() not in ("", "0", "false", "no"):
            raise RefusedSettingError(
                f"{name}={value} lets two writers make the same version of a Delta table, and one of them is lost",
                cause="it was given with storage_options=, or stands in the environment",
                action="remove it: use a store with conditional puts, or deltalake's lock table",
            )


def _require(library: str, sink: str, extra: str) -> None:
    if importlib.util.find_spec(library) is None:
        raise ConfigurationError(
            f"{sink} needs {library}, which is not installed", action=f"install onceflow with the extra [{extra}]"
        )
