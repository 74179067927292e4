"""Delta, in the driver: a table at a path, looked at and changed by deltalake.

Must not know: Spark's tasks, decisions, when a change is tried again.

The ledger is in application transactions (``txn``): the newest of each stays for as long as the table does, whoever
else writes and cleans up, and they are numbers. Nothing of the table's metadata is changed by an epoch, since every
other writer at that moment would fail.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from deltalake.transaction import AddAction
from pyspark.sql.types import StructField, StructType

from onceflow.connectors.contract import SinkConnection
from onceflow.connectors.lake.connection import LakeConnection
from onceflow.connectors.lake.delta_files import DeltaForm, staging_of
from onceflow.connectors.lake.delta_fit import arrow_of, columns_of, misfit, unmakeable, unwritable
from onceflow.connectors.lake.refusals import lacks_right, secrets_of, words
from onceflow.connectors.lake.staged import Moment, new_id
from onceflow.connectors.lake.table import BeatenError, Committed, LakeTable, Ledger, LedgerEntry, TableView
from onceflow.connectors.lake.writer import Form
from onceflow.errors import ConfigurationError, LakeRightsError, LakeUnavailableError, OnceflowError

if TYPE_CHECKING:
    from onceflow.connectors.lake.sinks import DeltaSink

_TARGET_BYTES = 128 << 20
_ID = "the id of what is beside this table"


def delta_connection(sink: DeltaSink, *, making: bool) -> SinkConnection:
    """Connect a sink.

    Args:
        sink: The description.
        making: Give the folder an id, where it has none; and let the table be made later.

    Raises:
        LakeUnavailableError: The store did not answer.
        LakeRightsError: It refused, or the table is not there.
    """
    return LakeConnection(DeltaLake(sink, making=making), sink.name, create=sink.create_table, adds=sink.adds_columns)


class DeltaLake(LakeTable):
    """One table at a path."""

    def __init__(self, sink: DeltaSink, *, making: bool) -> None:
        self.where = f"Delta table {sink.path}"
        self._sink = sink
        self._options = sink.storage_options
        self._secrets = secrets_of({**sink.storage_options, "path": sink.path})
        self.staging = staging_of(sink.path, sink.storage_options)
        self._load()
        with self._asking("read its id"):
            found = self.staging.mark(_ID)
            if found is None and making:
                self.staging.write_mark(_ID, new_id())
                found = self.staging.mark(_ID)
        if found is None:
            raise self._gone("it is not there, or what onceflow keeps beside it is gone")
        self._id = found

    @property
    def system_id(self) -> str:
        """The folder's: there is one before there is a table."""
        return f"delta-{self._id}"

    def look(self) -> TableView | None:
        """The table as it is now."""
        table = self._load()
        return None if table is None else _DeltaView(table, self._sink.path, self._options)

    def make(self, fields: StructType) -> None:
        """Make the table, if it is not there."""
        if self._load() is not None:
            return
        self._require_makeable(fields)
        with self._asking("make it"):
            DeltaTable.create(
                self._sink.path,
                Schema.from_json(fields.json()),
                mode="ignore",
                storage_options=self._options,
            )

    def _require_makeable(self, fields: StructType) -> None:
        if wrong := unmakeable(fields):
            raise ConfigurationError(
                f"{self.where} of sink {self._sink.name} cannot be made: {'; '.join(wrong)}",
                action="cast such columns in the stream function, or leave them out",
            )

    def names(self) -> list[str]:
        """As the contract says."""
        table = self._load()
        return [] if table is None else columns_of(table).names

    def add(self, fields: StructType) -> None:
        """As the contract says. Whoever else has read the table before and commits behind it fails, and tries again."""
        self._require_makeable(fields)
        nullable = StructType([StructField(field.name, field.dataType) for field in fields.fields])
        with self._asking("give it columns"):
            self._there().alter.add_columns(Schema.from_json(nullable.json()).fields)

    def misfits(self, fields: StructType) -> list[str]:
        """As the contract says."""
        table = self._there()
        columns = {field.name: field for field in columns_of(table).fields}
        wrong = [f"column {f.name} is not in the table" for f in fields.fields if f.name not in columns]
        for f in fields.fields:
            why = misfit(f.dataType, columns[f.name].dataType) if f.name in columns else None
            wrong += [f"column {f.name}: {why}"] if why else []
        wrong += [
            f"column {name} takes no null, and the output does not have it"
            for name, field in columns.items()
            if not field.nullable and name not in fields.names
        ]
        by = table.metadata().partition_columns
        if by and not set(fields.names) - set(by):
            wrong.append("all its columns are those that it is partitioned by")
        return wrong + unwritable(table)

    def form(self, names: Sequence[str]) -> tuple[Form, Mapping[str, Any]]:
        """As the contract says; the shape is the partition columns, and the columns' types by their names."""
        table = self._there()
        columns = {field.name: field for field in columns_of(table).fields}
        by = tuple(table.metadata().partition_columns)
        required = tuple(name for name in names if not columns[name].nullable)
        form = DeltaForm(
            columns=tuple(names),
            required=required,
            target_bytes=_TARGET_BYTES,
            path=self._sink.path,
            store=dict(self._options),
            kinds=arrow_of(StructType([columns[name] for name in names])),
            by=by,
        )
        fields = [[name, columns[name].dataType.simpleString()] for name in names]
        return form, {"by": list(by), "fields": fields, "required": list(required)}

    def words(self, error: BaseException) -> str:
        """As the contract says."""
        return words(error, self._secrets)

    def close(self) -> None:
        """Nothing is held open."""

    def _there(self) -> DeltaTable:
        table = self._load()
        if table is None:
            raise self._gone("the table is not there")
        return table

    def _load(self) -> DeltaTable | None:
        with self._asking("load it"):
            try:
                return DeltaTable(self._sink.path, storage_options=self._options)
            except TableNotFoundError:
                if self._sink.create_table:
                    return None
                raise self._gone("the table is not there") from None

    def _gone(self, why: str) -> LakeRightsError:
        return LakeRightsError(
            f"sink {self._sink.name}: {self.where} cannot be used: {why}",
            harmless="for the data: nothing was changed",
            cause="it was deleted, its volume is not mounted, a right is missing, it was never made "
            f"(create_table={self._sink.create_table}), or another engine gave it what the library does not have",
            action="bring it back, create it, pass create_table=True, or grant what docs/lake.md lists; then start it",
        )

    @contextmanager
    def _asking(self, what: str) -> Iterator[None]:
        try:
            yield
        except OnceflowError:
            raise
        except Exception as error:  # noqa: BLE001 - each store has errors of its own
            if lacks_right(error):
                raise self._gone(f"its store refused to {what}: {self.words(error)}") from None
            raise LakeUnavailableError(
                f"sink {self._sink.name}: {self.where} did not answer when asked to {what}: {self.words(error)}",
                harmless="for the data: what is decided stays beside the table, and the next start goes on",
                cause="its store is down, is not reached or refuses, or its settings (storage_options=) are wrong",
                action="see to the store or correct its settings, then start the job again",
            ) from None


class _DeltaView(TableView):
    def __init__(self, table: DeltaTable, path: str, options: Mapping[str, str]) -> None:
        self._table = table
        self._path, self._options = path, dict(options)

    @property
    def table_id(self) -> str:
        return str(self._table.metadata().id)

    def ledger(self, job: str, sink: str) -> Ledger | None:
        seat, start, epoch, handle = (
            self._table.transaction_version(f"{_key(job, sink)}/{name}")
            for name in ("seat", "start", "epoch", "handle")
        )
        if seat is None:
            return None
        if start is None or epoch is None or handle is None:
            return Ledger(_word(seat))
        return Ledger(_word(seat), Committed(Moment(start, epoch), _word(handle)))

    def ended(self, job: str, sink: str, attempts: frozenset[str]) -> frozenset[str]:
        key = _key(job, sink)
        return frozenset(i for i in attempts if self._table.transaction_version(f"{key}/ended/{i}") is not None)

    def knows(self, handle: str) -> bool:
        return any(each.get("onceflow.handle") == handle for each in self._table.history())

    def objection(self, shape: Mapping[str, Any]) -> str | None:
        by = list(self._table.metadata().partition_columns)
        if by != shape["by"]:
            return f"the table is partitioned by {by} now, and its files were written for {shape['by']}"
        fields = {field.name: field for field in columns_of(self._table).fields}
        kinds = {name: field.dataType.simpleString() for name, field in fields.items()}
        moved = [name for name, kind in shape["fields"] if kinds.get(name) != kind]
        if moved:
            return f"columns of the table are gone or have another type: {', '.join(moved)}"
        needed = [name for name, field in fields.items() if not field.nullable and name not in shape["required"]]
        if needed:
            return f"columns of the table take no null, and its files may have one: {', '.join(needed)}"
        return "; ".join(unwritable(self._table)) or None

    def change(self, entry: LedgerEntry, files: Sequence[Mapping[str, Any]]) -> None:
        key, ledger = _key(entry.job, entry.sink), entry.ledger
        numbers = {"seat": _number(ledger.seat)}
        if entry.attempts and ledger.newest is not None:
            numbers |= {
                "start": ledger.newest.moment.incarnation,
                "epoch": ledger.newest.moment.epoch,
                "handle": _number(ledger.newest.handle),
            }
        numbers |= {f"ended/{i}": 1 for i in entry.ended}
        history: dict[str, Any] = {f"onceflow.{name}": value for name, value in entry.properties.items()}
        if entry.attempts:
            history["onceflow.attempts"] = ",".join(entry.attempts)
        try:
            self._table.create_write_transaction(
                [_add(file) for file in files],
                "append",
                self._table.schema(),
                partition_by=self._table.metadata().partition_columns,
                # Deltalake tries again on top of others' versions by itself, but never on top of one that has one of
                # these: of this job and sink, so perhaps of this very epoch.
                commit_properties=CommitProperties(
                    custom_metadata=history,
                    app_transactions=[Transaction(f"{key}/{name}", number) for name, number in numbers.items()],
                ),
            )
        except CommitFailedError as error:
            if lacks_right(error):
                raise
            raise BeatenError(str(error)) from None

    def named(self, paths: frozenset[str]) -> frozenset[str]:
        committed = {i for each in self._table.history() for i in str(each.get("onceflow.attempts", "")).split(",")}
        whole = DeltaTable(self._path, storage_options=self._options)
        now = {str(path) for path in whole.get_add_actions(flatten=True).column("path").to_pylist()}
        return frozenset(p for p in paths if p in now or p.rpartition("/")[2].partition("-")[0] in committed)


def _add(file: Mapping[str, Any]) -> AddAction:
    return AddAction(
        path=str(file["path"]),
        size=int(file["size"]),
        partition_values=dict(file["partition"]),
        modification_time=int(file["time"]),
        data_change=True,
        stats=str(file["stats"]),
    )


def _key(job: str, sink: str) -> str:
    return f"onceflow/{job}/{sink}"


def _number(word: str) -> int:
    return int(word, 16)


def _word(number: int) -> str:
    return f"{number:015x}"
