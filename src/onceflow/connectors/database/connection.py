"""A database sink that is connected: its tables, and whether rows fit into its target.

Must not know: epochs, decisions, how rows are staged and merged.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import StringType, StructType
from sqlalchemy import BigInteger, Column, MetaData, SmallInteger, Table, UniqueConstraint, inspect, select
from sqlalchemy.exc import DBAPIError
from sqlalchemy.types import NullType, TypeEngine

from onceflow.connectors.contract import Committer, SinkConnection, WriterFactory
from onceflow.connectors.database import added, marks, rights, sequence_table
from onceflow.connectors.database import tables as own
from onceflow.connectors.database.committer import DatabaseCommitter
from onceflow.connectors.database.introspection import (
    column_types,
    found_table,
    is_given,
    never_left_out,
    required_columns,
    told_type,
)
from onceflow.connectors.database.limits import Limit, limits
from onceflow.connectors.database.refusals import by_pooler
from onceflow.connectors.database.staged import in_words
from onceflow.connectors.database.statements import quoted
from onceflow.connectors.database.system import Needed
from onceflow.connectors.database.target import Target
from onceflow.connectors.database.types import for_new, for_new_key, misfit, not_a_key
from onceflow.connectors.database.urls import database_of, engine_of
from onceflow.connectors.database.writer import DatabaseWriterFactory
from onceflow.connectors.examination import ExaminableSink, Expected
from onceflow.connectors.fields import without
from onceflow.errors import ConfigurationError
from onceflow.findings import Finding

log = logging.getLogger(__name__)

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import ReflectedColumn

    from onceflow.connectors.database.sink import DatabaseSink


@dataclass(frozen=True, slots=True)
class WhatItWrites:
    """What other sinks may know of one: its name, its table, its key, the columns that it writes, whether in order."""

    name: str
    table: tuple[object, ...]
    key: tuple[str, ...]
    columns: frozenset[str]
    ordered: bool


class DatabaseConnection(SinkConnection, ExaminableSink):
    """One start's connection.

    Args:
        sink: The description.
        making: Make onceflow's own tables where they are not there.

    Raises:
        DatabaseUnavailableError: The database did not answer.
        DatabaseRightsError: It refused, or the tables are not there.
    """

    def __init__(self, sink: DatabaseSink, *, making: bool) -> None:
        self._sink = sink
        self._own = own.tables(sink.schema)
        self._engine = engine_of(sink.url, lasting=True)
        self._database = database_of(self._engine)
        self._where = sink.url.render_as_string(hide_password=True)
        self._schema = sink.table_schema
        self._written: Sequence[str] = ()
        self._target: Target | None = None
        self._limits: dict[str, Limit] = {}
        try:
            with self._translating("look for onceflow's tables"):
                if not self._database.sessions_last(self._engine):
                    raise by_pooler(f"sink {sink.name}: the database gives each transaction another connection")
                if making:
                    own.make(self._engine, self._own)
                self.system_id = self._identity()
        except BaseException:
            self._engine.dispose()
            raise
        self._given = False

    def _identity(self) -> str:
        identity = self._own.identity
        with self._engine.begin() as connection:
            system, version = connection.execute(select(identity.c.id, identity.c.version)).one()
        if version != own.VERSION:
            raise ConfigurationError(
                f"sink {self._sink.name}: onceflow's tables have version {version}, and this is {own.VERSION}",
                cause="another version of onceflow made them",
                action="run the version that made them, or name another schema= for this one",
            )
        return str(system)

    def compare_output(self, fields: StructType) -> None:
        """Compare the output with the target, if it is there."""
        with self._translating("look at the target"):
            found = self._found()
            if found:
                fields = without(fields, self._sink.delete_when, self._sink.sequence_by)
                fields = without(fields, *self._to_add(fields, found).names)
                self._compare(fields, found)
                target = self._target_of(fields.names, self._staged_for(fields.names))
                self._try_rights(target, found)
            elif not self._sink.create_table:
                raise self._no_table([])

    def findings(self, expected: Expected) -> Sequence[Finding]:  # noqa: ARG002 - of the contract
        """Whether an epoch may be merged: by the columns that are staged, or else by those that this user may give.

        Which columns the output has only its stream function knows.
        """
        with self._translating("look at the target"):
            found = self._found()
            if not found:
                if self._sink.create_table:
                    return ()
                raise self._no_table([])
            if wrong := self._key_troubles(found):
                raise self._unfit(wrong, f"key={', '.join(self._sink.key)}")
            names = self._likely(found)
            target = self._target_of(names, self._staged_for(names))
            self._try_rights(target, found)
        return ()

    def _likely(self, found: dict[str, ReflectedColumn]) -> list[str]:
        """The columns that an epoch will write, as far as they can be told without the output."""
        first, looking = self._first(), inspect(self._engine)
        if looking.has_table(first, schema=self._sink.schema):
            staged = [column["name"] for column in looking.get_columns(first, schema=self._sink.schema)]
            return [name for name in staged if name in found]
        taken = [
            name
            for name, column in found.items()
            if not column.get("computed") and not is_given(column) and not isinstance(column["type"], NullType)
        ]
        with self._engine.begin() as connection:
            given = self._database.may_insert(connection, self._schema, self._sink.table, taken)
        needed = {*self._sink.key, *never_left_out(found)}
        return [name for name in taken if name in given or name in needed] if given else taken

    def make_output(self, fields: StructType) -> None:
        """Compare the output with the target, which is made if that was asked for; and make its staging table.

        Raises:
            ConfigurationError: A column is missing or would lose something, or an upsert has no unique constraint.
        """
        fields = without(fields, self._sink.delete_when, self._sink.sequence_by)
        with self._translating("look at the target"):
            found = self._found()
            staged = self._staged_for(fields.names)
            if not found:
                waiting = self._waiting(self._first())
                if not self._sink.create_table:
                    raise self._no_table(waiting)
                if waiting:
                    log.warning(
                        "sink %s: table %s is not there and is made; what the one before it had is gone, but for what "
                        "is staged for it or written again: %s",
                        self._sink.name,
                        self._sink.destination,
                        in_words(waiting),
                    )
                self._create(fields)
                found = self._found()
            if new := self._to_add(fields, found):
                self._compare(without(fields, *new.names), found)
                added.add(self._engine, self._schema, self._sink.table, new, f"sink {self._sink.name}")
                found = self._found()
            self._compare(fields, found)
            with self._engine.begin() as connection:
                required = required_columns(connection, self._sink.table_schema, self._sink.table)
            self._limits = limits({name: found[name] for name in fields.names}, required, self._database)
            target = self._target_of(fields.names, staged)
            table = own.staging_table(staged, self._sink.schema, self._types(target, found))
            table.create(self._engine, checkfirst=True)
            self._same(table)
            sequences = sequence_table.of_target(target, self._sink.schema, found)
            if sequences is not None:
                sequence_table.make(self._engine, self._own, sequences, f"sink {self._sink.name}", target)
            self._require_lasting(staged)
            self._look_at_triggers()
            self._warn_of_forgetful()
        self._try_rights(target, found)
        self._target = target

    def _to_add(self, fields: StructType, found: Iterable[str]) -> StructType:
        return added.addable(fields, found, self._sink.key) if self._sink.adds_columns else StructType()

    def _target_of(self, names: Sequence[str], staged: str) -> Target:
        """Where rows of these columns go that this table stages."""
        return Target(
            self._schema,
            self._sink.table,
            staged,
            tuple(names),
            self._sink.key,
            deletes=self._sink.delete_when is not None,
            sequence=own.sequence_name(self._own_name) if self._sink.sequence_by is not None else None,
        )

    def _types(self, target: Target, found: dict[str, ReflectedColumn]) -> list[tuple[str, TypeEngine[Any]]]:
        """The columns of what is staged for a target."""
        types: list[tuple[str, TypeEngine[Any]]] = [(name, found[name]["type"]) for name in target.columns]
        types += [(own.DELETE, SmallInteger())] if target.deletes else []
        return types + [(name, BigInteger()) for name in own.SEQUENCE if target.sequence is not None]

    def _try_rights(self, target: Target, found: dict[str, ReflectedColumn]) -> None:
        """Merge nothing, and take it back.

        Raises:
            DatabaseRightsError: It was refused, or a row would be: naming what is missing.
        """
        schema, looking = self._sink.schema, inspect(self._engine)
        making = not looking.has_table(target.staged, schema=schema)
        sequences = sequence_table.of_target(target, schema, found)
        if sequences is not None and looking.has_table(sequences.name, schema=schema):
            sequences = None
        needed = rights.of_target(target, schema, making=making or sequences is not None)
        types = self._types(target, found)
        with self._translating("try the rights of a merge", lambda: needed):
            rights.try_merge(self._engine, schema, target, types, making=making, sequences=sequences)
        with self._translating("look at the target"), self._engine.connect() as connection:
            unnumbered = self._database.unnumbered(connection, target)
            if unnumbered:
                said = f"sink {self._sink.name}: {self._where} would refuse the first row"
                raise rights.lacking(connection, said, unnumbered)

    def _first(self) -> str:
        """The target's staging table of the columns that were written first.

        By its name a table's runs are ordered: it has one, whether its usual schema is named or not.
        """
        return own.staging_name(self._own_name)

    @property
    def _own_name(self) -> str:
        """What the target is called where our tables of it are named."""
        usual = inspect(self._engine).default_schema_name
        elsewhere = (self._sink.table_schema or usual) != (self._sink.schema or usual)
        return self._sink.destination if elsewhere else self._sink.table

    def _staged_for(self, names: Sequence[str]) -> str:
        """The staging table of rows with these columns: another sink or job may write the same target's other ones."""
        first, looking, schema = self._first(), inspect(self._engine), self._sink.schema
        columns = {*names, *([own.DELETE] if self._sink.delete_when else [])}
        columns.update(own.SEQUENCE if self._sink.sequence_by else ())
        if not looking.has_table(first, schema=schema):
            return first
        held = {column["name"] for column in looking.get_columns(first, schema=schema)} - {own.ID, own.HASH}
        return first if held == columns else own.staging_variant(first, columns)

    def _waiting(self, staged: str) -> list[tuple[int, int]]:
        """Epochs of which rows were checked for this target and not committed, with how many: one may be decided."""
        attempts = self._own.attempts
        query = select(attempts.c.staged, attempts.c.epoch, attempts.c.rows).where(
            attempts.c.state == own.PREPARED, attempts.c.sealed.is_not(None)
        )
        rows = Counter[int]()
        with self._engine.begin() as connection:
            for name, epoch, count in connection.execute(query):
                if own.is_staging(name, staged):
                    rows[int(epoch)] += int(count)
        return sorted(rows.items())

    def _no_table(self, waiting: list[tuple[int, int]]) -> ConfigurationError:
        where = f"table {self._sink.destination} of sink {self._sink.name} does not exist"
        if not waiting:
            return ConfigurationError(
                where,
                cause=f"create_table={self._sink.create_table}, in {self._sink.url.database}",
                action="create it, correct the name, or pass create_table=True",
            )
        return ConfigurationError(
            f"{where}, and what is prepared for it waits: {in_words(waiting)}",
            harmless="for other sinks: what is visible there stays; nothing was started",
            cause=f"the table was dropped or renamed, in {self._sink.url.database}",
            action="put it back, or create an empty one: then these rows are written to it. If there will be none "
            f"again: `onceflow txn resolve <job file> {waiting[-1][0]}` shows what is visible where; with --choice "
            "count-as-written these rows are given up, and the job goes on without the sink",
        )

    def _require_lasting(self, staged: str) -> None:
        names = [(self._schema, self._sink.table), (self._sink.schema, staged)]
        names += [(self._sink.schema, table.name) for table in self._own.all]
        with self._engine.begin() as connection:
            for schema, name in names:
                why = self._database.passing(connection, schema, name)
                if why:
                    raise ConfigurationError(
                        f"sink {self._sink.name}: table {name} does not hold what a transaction has written: {why}",
                        cause="a commit that the database has answered must stay",
                        action="alter the table: SET LOGGED (PostgreSQL), ENGINE=InnoDB (MySQL, MariaDB); or name the "
                        "table that a view or a foreign table stands for",
                    )

    def _look_at_triggers(self) -> None:
        schema, table = self._schema, self._sink.table
        with self._engine.begin() as connection:
            skips = self._database.skipping(connection, schema, table)
            all_there = self._database.triggers(connection, schema, table)
            rules = self._database.replacing_rules(connection, schema, table)
        if rules:
            raise ConfigurationError(
                f"sink {self._sink.name}: rule {', '.join(rules)} of table {self._sink.destination} does something "
                "else instead of what is written",
                harmless="never: rows that go elsewhere are counted as if they were there",
                cause="it says DO INSTEAD",
                action="drop it, and leave rows out in the stream function; or name the table that the rows go to",
            )
        if skips:
            raise ConfigurationError(
                f"sink {self._sink.name}: trigger {', '.join(skips)} of table {self._sink.destination} may skip a row",
                harmless="never: a row that SQLite skips in an upsert is lost, and no count tells it",
                cause="it says RAISE(IGNORE)",
                action="let it say RAISE(ABORT, ...), which stops the epoch before it is decided; or drop it, and "
                "leave rows out in the stream function",
            )
        if all_there:
            log.warning(
                "sink %s: table %s has triggers: %s. That no row is left out is looked at, by their number; what a "
                "trigger makes of a row's values is not. Harmless if they write other columns, or to other tables",
                self._sink.name,
                self._sink.destination,
                ", ".join(all_there),
            )

    def _warn_of_forgetful(self) -> None:
        with self._engine.begin() as connection:
            why = self._database.forgetful(connection)
        if why:
            log.warning(
                "sink %s: the database runs with %s: what it has answered may be lost with its machine. A start "
                "notices that a commit is gone, and stops",
                self._sink.name,
                why,
            )

    def _found(self) -> dict[str, ReflectedColumn]:
        """The target's columns, where it is found: from here on it is the one in that schema."""
        with self._engine.begin() as connection:
            self._schema, found = found_table(connection, self._sink.table_schema, self._sink.table)
        return found

    def _create(self, fields: StructType) -> None:
        key, database = self._sink.key, database_of(self._engine)  # as the server has said by now
        columns = [
            Column(
                f.name, (for_new_key if f.name in key else for_new)(f.dataType, database), nullable=f.name not in key
            )
            for f in fields.fields
        ]
        unique = [UniqueConstraint(*self._sink.key)] if self._sink.key else []
        Table(self._sink.table, MetaData(schema=self._sink.table_schema), *columns, *unique).create(self._engine)

    def _compare(self, fields: StructType, found: dict[str, ReflectedColumn]) -> None:
        self._written = fields.names
        wrong = [f"column {f.name} is not in the table" for f in fields.fields if f.name not in found]
        with self._engine.begin() as connection:
            cut = self._database.cutting(connection, self._schema, self._sink.table)
        for f in fields.fields:
            if f.name in cut:
                wrong.append(f"column {f.name}: {f.dataType.simpleString()} does not fit into {cut[f.name]}")
            elif f.name in found:
                why = misfit(f.dataType, found[f.name]["type"], self._database)
                wrong += [f"column {f.name}: {why}"] if why else []
        needed = [name for name in never_left_out(found) if name not in fields.names]
        wrong += [f"column {name} takes no null, has no default, and the output does not have it" for name in needed]
        wrong += self._key_troubles(found) + self._blurred_keys(fields, found) + self._hidden_rows()
        if wrong:
            said = ", ".join(f"{f.name} {f.dataType.simpleString()}" for f in fields.fields)
            new = added.addable(fields, found, self._sink.key)
            adding = added.statements(self._engine, self._schema, self._sink.table, new)
            raise self._unfit(wrong, f"the output has {said}", adding)

    def _unfit(self, wrong: Sequence[str], cause: str, adding: Sequence[str] = ()) -> ConfigurationError:
        more = f', as with {"; ".join(adding)}, which schema_changes="add" does' if adding else ""
        return ConfigurationError(
            f"the output does not fit table {self._sink.destination} of sink {self._sink.name}: {'; '.join(wrong)}",
            cause=cause,
            action=f"cast or select in the stream function, or alter the table{more}",
        )

    def require_beside(self, others: Sequence[SinkConnection]) -> None:
        """Refuse two sinks whose rows may collide in one table: neither's check sees what the other has not committed.

        Raises:
            ConfigurationError: The table has a unique constraint, by which the later commit would be refused.
        """
        mine = self.written
        for other in (each.written for each in others if isinstance(each, DatabaseConnection)):
            alike = mine.key == other.key and mine.ordered == other.ordered
            if mine.table != other.table or (mine.key and alike):
                continue  # of one key the later merge replaces the other's row
            told = mine.columns | other.columns | {"an expression"}  # of other columns each row has a value of its own
            with self._translating("look at the target"):
                unique = [each for each in self._uniques() if each <= told]
            if unique:
                raise ConfigurationError(
                    f"sinks {mine.name} and {other.name} write to one table, {self._sink.destination}, which has a "
                    f"unique constraint on {', '.join(sorted(unique[0]))}",
                    cause="each sink's commit is a transaction of its own: rows of both that collide are noticed by "
                    "the later one's, when the epoch is decided and what the other has is visible",
                    action="write both outputs by one sink (unionByName), which notices it before the decision; or "
                    "drop the constraint; or let both upsert by it (key=)",
                )

    @property
    def written(self) -> WhatItWrites:
        """What the job's other sinks may know, behind ``make_output`` or ``compare_output``."""
        sink, url = self._sink, self._sink.url
        place = (url.get_backend_name(), url.host, url.port, url.database, self._schema, sink.table)
        return WhatItWrites(sink.name, place, sink.key, frozenset(self._written), sink.sequence_by is not None)

    def _uniques(self) -> list[set[str]]:
        """The columns of each unique constraint and index, without those whose parts say more than columns."""
        looking, schema, table = inspect(self._engine), self._schema, self._sink.table
        if not looking.has_table(table, schema=schema):
            return []
        uniques = [set(looking.get_pk_constraint(table, schema=schema)["constrained_columns"])]
        uniques += [set(u["column_names"]) for u in looking.get_unique_constraints(table, schema=schema)]
        for index in looking.get_indexes(table, schema=schema):
            options = index.get("dialect_options") or {}
            partial = any(name.endswith("_where") and option is not None for name, option in options.items())
            if index["unique"] and not partial:
                uniques.append({name or "an expression" for name in index["column_names"]})
        return [unique for unique in uniques if unique]

    def _key_troubles(self, found: dict[str, ReflectedColumn]) -> list[str]:
        """Why an upsert by the key would not replace exactly the row that is meant."""
        key = set(self._sink.key)
        if not key:
            return []
        looking, schema, table = inspect(self._engine), self._schema, self._sink.table
        uniques, troubles = self._uniques(), []
        for index in looking.get_indexes(table, schema=schema):
            options = index.get("dialect_options") or {}
            begins = any(name.endswith("_length") and option for name, option in options.items())
            if index["unique"] and begins:
                troubles.append(f"the unique index {index['name']} looks at the beginnings of values only")
        if key not in uniques:
            troubles.append(f"there is no unique constraint on exactly {', '.join(sorted(key))}")
        # Two nulls are not equal: such a row would be added again and again.
        nullable = sorted(name for name in key if name in found and found[name]["nullable"])
        troubles += [f"column {name} is part of the key and takes null" for name in nullable]
        others = [u for u in uniques if u != key]
        if others and self._database.upserts_by_any_key:
            troubles.append(
                f"there is another unique constraint, on {', '.join(sorted(others[0]))}: ON DUPLICATE KEY UPDATE would "
                "change the row that collides there"
            )
        return troubles

    def _blurred_keys(self, fields: StructType, found: dict[str, ReflectedColumn]) -> list[str]:
        """Columns of the key to which values that differ may be one: a row would replace another key's."""
        troubles = []
        with self._engine.begin() as connection:
            for f in fields.fields:
                if f.name not in self._sink.key or f.name not in found:
                    continue
                why = not_a_key(f.dataType, found[f.name]["type"], self._database)
                if why is None and isinstance(f.dataType, StringType):
                    by = self._database.collation(connection, self._schema, self._sink.table, f.name)
                    why = by and f"its collation {by} takes texts that differ for one"
                troubles += [f"column {f.name} is part of the key, and {why}"] if why else []
        return troubles

    def _hidden_rows(self) -> list[str]:
        """Why a delete would pass over a row that is there."""
        if self._sink.delete_when is None:
            return []
        with self._engine.begin() as connection:
            if not self._database.hiding(connection, self._schema, self._sink.table):
                return []
        return ["its row security may hide rows from this user, which then are not deleted; give it BYPASSRLS"]

    def _same(self, table: Table) -> None:
        """A staging table whose columns are of other types than the target's now stays as long as it holds rows.

        A number that is rounded when it is staged is right by every count and sum.
        """
        columns = [c for c in table.columns if c.name not in (own.ID, own.HASH, own.DELETE, *own.SEQUENCE)]
        wanted = {c.name: told_type(c.type, self._engine.dialect) for c in columns}
        with self._engine.begin() as connection:
            have = column_types(connection, table.schema, table.name)
            strange = sorted(name for name, kind in wanted.items() if have.get(name) != kind)
            strange += sorted({own.DELETE, *own.SEQUENCE} & set(table.columns.keys()) - have.keys())
            if not strange:
                return
            # Nobody stages rows between the look and the end of the table.
            name = quoted(connection, table.schema, table.name).replace(":", "\\:")  # else a value's place
            self._database.lock(connection, name)
            held = connection.execute(select(table.c[own.ID]).limit(1)).first() is not None
            if not held:
                table.drop(connection)
                table.create(connection)
            self._database.unlock(connection)
        if held:
            raise ConfigurationError(
                f"sink {self._sink.name}: {table.name} has another shape than its target and holds rows: "
                f"{', '.join(strange)}",
                cause="the output or the target was changed, and what was staged before is not merged or ended yet",
                action="start the job as it was once, so that what is staged is merged or ended; then as it is now",
            )

    def target(self) -> Target:
        """Where rows go, once ``make_output`` has looked."""
        if self._target is None:
            raise AssertionError("an output is expected before it is written")
        return self._target

    def writer_factory(self) -> WriterFactory:
        """What opens writers in tasks."""
        sink = self._sink
        return DatabaseWriterFactory(sink.url, sink.schema, sink.name, self.target(), self._limits)

    def committer(self, prefix: str, job_id: str) -> Committer:
        """What commits."""
        if self._target is not None:
            with self._translating("look where the job's rows went before"):
                self._require_same_table(job_id)
        self._given = True
        return DatabaseCommitter(
            self._engine,
            self._own,
            self.system_id,
            self.target,
            prefix,
            job_id,
            self._sink.name,
            self._sink.destination,
        )

    def _require_same_table(self, job_id: str) -> None:
        """What a name finds may have changed since the job's first start: then rows would go to another table."""
        if self._schema == self._sink.table_schema:  # it is named, or there is but one
            return
        key = marks.target_key(job_id, self._sink.destination)
        before = marks.read(self._engine, self._own.marks, key)
        if before is None:
            marks.write(self._engine, self._own.marks, key, str(self._schema))
        elif before != self._schema:
            table = self._sink.table
            raise ConfigurationError(
                f"sink {self._sink.name}: the job has written to {before}.{table}, and now its table={table!r} finds "
                f"{self._schema}.{table}",
                harmless="for the data: nothing was started",
                cause=f"a schema or a table was made that comes before {before} in the login's search_path, or was "
                "taken away, or the search_path was changed",
                action="let the name find the first table again: rename or drop the other one, or set the search_path "
                f"of this login; or, for rows in {self._schema}.{table} from now on, begin a new job",
            )

    def read_name_mark(self, prefix: str, name: str) -> str | None:
        """What is kept under a prefix and a job's name, or None."""
        with self._translating("read the mark of the job's name"):
            return marks.read(self._engine, self._own.marks, marks.name_id(prefix, name))

    def close(self) -> None:
        """Let go of the engine, unless a committer has it."""
        if not self._given:
            self._engine.dispose()

    @contextmanager
    def _translating(self, what: str, needed: Callable[[], Sequence[Needed]] | None = None) -> Iterator[None]:
        """Tell of what the database refuses inside; of rights by name, of these or else of all that are known here."""
        try:
            yield
        except DBAPIError as error:
            who = f"sink {self._sink.name}: {self._where}"
            raise rights.translated(self._engine, error, who, what, needed or self._known_needs) from None

    def _known_needs(self) -> list[Needed]:
        sink = self._sink
        target = Target(self._schema, sink.table, "", (), sink.key, deletes=sink.delete_when is not None)
        there = set(inspect(self._engine).get_table_names(schema=sink.schema))
        making = any(table.name not in there for table in self._own.all)
        return [*rights.of_own(self._own, making=making), *rights.of_target(target, sink.schema)]
