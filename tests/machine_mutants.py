"""Mends undone, one at a time: a machine of hypothesis that cannot find a fault again proves nothing.

A plugin of pytest: ``ONCEFLOW_MUTANT`` names the one that a run has. ``python -m bench.machines --mutants`` runs each
against the machine that must find it. Must not know: how a machine looks, and any test of a single finding.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

from hypothesis import Phase, settings
from sqlalchemy.dialects import mysql
from sqlalchemy.types import TypeEngine

from onceflow.connectors.database import connection, limits, merge, writer
from onceflow.connectors.database.committer import DatabaseCommitter
from onceflow.connectors.database.postgresql import PostgreSql
from onceflow.connectors.database.system import Database
from onceflow.connectors.database.types import for_new
from onceflow.connectors.lake import committer as lake
from onceflow.connectors.lake import iceberg_fields
from onceflow.connectors.lake.committer import LakeCommitter
from onceflow.formats import arrow_values, json_text
from onceflow.launch import marked
from onceflow.twophase.records import History

NAMED = "ONCEFLOW_MUTANT"

Patches = Callable[[], list[Any]]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One rule of the code, broken.

    Attributes:
        name: What the code does instead.
        machine: Which one must find it: a key of ``bench.machines.MACHINES``.
        patches: Break it.
    """

    name: str
    machine: str
    patches: Patches


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _yes(*_: Any, **__: Any) -> bool:
    return True


def _all(_: Any, handles: Any) -> list[Any]:
    return list(handles)


def _of(place: Any, name: str, instead: Any) -> Any:
    return mock.patch.object(place, name, instead)


def _not_asked_of_a_database() -> list[Any]:
    return [
        _of(DatabaseCommitter, "known", _all),
        _of(DatabaseCommitter, "_require_known", _nothing),
        _of(DatabaseCommitter, "_follows", _yes),
    ]


def _not_asked_of_a_lake() -> list[Any]:
    return [_of(lake, "_known", _yes)]


def _quiet_sinks_are_forgotten() -> list[Any]:
    def newest(self: History, below: int | None = None) -> Any:
        decided = self.decided
        return {} if decided is None or (below is not None and decided.epoch >= below) else decided.newest()

    return [_of(History, "newest", newest)]


def _a_claim_knows_nothing() -> list[Any]:
    real = History._claimed
    return [_of(History, "_claimed", lambda self, claim, number: real(self, replace(claim, known=()), number))]


def _nothing_is_looked_at() -> list[Any]:
    return [_of(merge, "trouble", _nothing)]


def _a_schema_is_looked_up_by_each_statement() -> list[Any]:
    return [_of(PostgreSql, "schema_of", lambda _, __, schema, ___: schema)]


def _types_are_not_compared() -> list[Any]:
    return [_of(merge, "column_types", lambda *_: {})]


def _an_older_checkpoint_goes_on() -> list[Any]:
    """The job's mark outside tells it first; where that is lost, the ledger's newest row does."""
    return [_of(marked, "not_rewound", _nothing), _of(DatabaseCommitter, "_require_first", _nothing)]


def _times_are_loaded_as_they_come() -> list[Any]:
    return [_of(arrow_values, "trouble", _nothing)]


def _limits_without(**changed: Any) -> list[Any]:
    """Columns whose limits a task does not see."""
    real = limits._limit
    return [_of(limits, "_limit", lambda *column: replace(real(*column), **changed))]


def _floats_are_made() -> list[Any]:
    def chosen(of: Any, database: Database) -> TypeEngine[Any]:
        return mysql.FLOAT() if of.simpleString() == "float" else for_new(of, database)

    return [_of(connection, "for_new", chosen)]


MUTANTS = (
    Mutant("a database is not asked for the newest epoch before", "lives of SQLite", _not_asked_of_a_database),
    Mutant("a database is not asked for the newest epoch before", "lives of PostgreSQL", _not_asked_of_a_database),
    Mutant(
        "a lake table is not asked for the newest epoch before",
        "lives of Delta",
        _not_asked_of_a_lake,
    ),
    Mutant(
        "a lake table is not asked for the newest epoch before",
        "lives of Iceberg",
        _not_asked_of_a_lake,
    ),
    Mutant("a purge forgets the newest epoch of a quiet sink", "lives of SQLite", _quiet_sinks_are_forgotten),
    Mutant("a claim does not say what is known still", "lives of SQLite", _a_claim_knows_nothing),
    Mutant(
        "an older copy of the checkpoint goes on beside a newer mark and ledger",
        "lives of SQLite",
        _an_older_checkpoint_goes_on,
    ),
    Mutant(
        "the engine of the ledger is not looked at",
        "lives of MariaDB",
        lambda: [_of(DatabaseCommitter, "_require_lasting_ledger", _nothing)],
    ),
    Mutant("what a target would not hold is not looked at", "lives of MariaDB", _nothing_is_looked_at),
    Mutant("what a target would not hold is not looked at", "lives of PostgreSQL", _nothing_is_looked_at),
    Mutant(
        "each statement finds the table by its bare name",
        "lives of PostgreSQL",
        _a_schema_is_looked_up_by_each_statement,
    ),
    Mutant("the types of a target are not compared", "lives of PostgreSQL", _types_are_not_compared),
    Mutant(
        "columns of an Iceberg table are not compared",
        "lives of Iceberg",
        lambda: [_of(iceberg_fields, "objection", _nothing)],
    ),
    Mutant(
        "files that the table names are removed with what is staged",
        "lives of Delta",
        lambda: [_of(LakeCommitter, "_never_committed", _yes), _of(LakeCommitter, "_fenced", _yes)],
    ),
    Mutant("a time is written whatever its year is", "values of Iceberg", _times_are_loaded_as_they_come),
    Mutant("a time is written whatever its year is", "values of Delta", _times_are_loaded_as_they_come),
    Mutant("a time is written whatever its year is", "values of SQLite", _times_are_loaded_as_they_come),
    Mutant(
        "NaN is written to a database that has none",
        "values of SQLite",
        lambda: [_of(limits, "_no_number", _nothing)],
    ),
    Mutant("no value is looked at by a task", "values of MariaDB", lambda: [_of(writer, "require_forms", _nothing)]),
    Mutant("blanks at the end are written to char(n)", "columns", lambda: _limits_without(blanks=True)),
    Mutant("letters of a text are not counted", "columns", lambda: _limits_without(letters=None, octets=None)),
    Mutant(
        "null is written where MariaDB makes a value of it",
        "columns",
        lambda: [*_limits_without(nulls=True), _of(merge, "_require_no_filled", _nothing)],
    ),
    Mutant(
        "what is not UTF-8 becomes JSON",
        "values of Spark in Kafka",
        lambda: [_of(json_text, "not_utf8", _nothing)],
    ),
    Mutant("MariaDB gets float columns", "values of MariaDB", _floats_are_made),
)


def pytest_configure() -> None:
    """Break what is named, for all of the run. What is found is not made small, which takes long."""
    number = os.environ.get(NAMED)
    if number is not None:
        settings.register_profile(NAMED, phases=[Phase.generate])
        settings.load_profile(NAMED)
        for patch in MUTANTS[int(number)].patches():
            patch.start()
