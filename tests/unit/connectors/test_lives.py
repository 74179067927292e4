"""The lives of systems beside a job, on SQLite, Iceberg and Delta: hypothesis chooses what happens, in any order.

Iceberg's catalog is a file, or a REST catalog whose answers to commits say otherwise than what it has done.

``LIVES=2000`` runs longer; the same machine runs on PostgreSQL and MariaDB in
tests/integration/connectors/test_lives.py.
"""

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import pyarrow as pa
from deltalake import Field
from deltalake.exceptions import DeltaError
from deltalake.schema import PrimitiveType
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.update import SetCurrentSchemaUpdate
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, StringType

from onceflow.connectors.lake.committer import LakeCommitter
from onceflow.errors import CheckpointConflictError, RecoveryError
from tests.support import lakes
from tests.support.lives import Harm, InFolder, Job, Lives
from tests.support.lives_sqlite import SqliteWorld
from tests.support.rest_catalog import RestCatalog

MORE = int(os.environ.get("LIVES", "0"))
ANSWERS = st.sampled_from((0, 409, 500, 502, 503, 504))  # 0: it hangs up


def owner(does: Callable[[], object], undoes: Callable[[], object] = lambda: None, *, hides: bool = False) -> Harm:
    """What an owner does to a lake table, again as often as the job is faster."""

    def until_first(change: Callable[[], object]) -> Callable[[], object]:
        def changed() -> object:
            while True:
                with contextlib.suppress(DeltaError, CommitFailedException):
                    return change()

        return changed

    return Harm(until_first(does), until_first(undoes), hides)


class IcebergWorld(lakes.IcebergWorld):
    """A table whose owner changes it."""

    def harms(self) -> dict[str, Harm]:
        def schema(change, back) -> Harm:
            def changed(by):
                with self.table().update_schema(allow_incompatible_changes=True) as update:
                    by(update)

            return owner(lambda: changed(change), lambda: changed(back))

        def spec(by) -> None:
            with self.table().update_spec() as update:
                by(update)

        return {
            "a column is added": schema(
                lambda u: u.add_column("note", StringType()), lambda u: u.delete_column("note")
            ),
            "a column is dropped": owner(self.drop_amount, self.take_the_older_schema),
            "a column is made anew": owner(self.make_amount_anew, self.take_the_older_schema),
            "a column is renamed": schema(
                lambda u: u.rename_column("amount", "amounts"), lambda u: u.rename_column("amounts", "amount")
            ),
            "it gets partitions": owner(
                lambda: spec(lambda u: u.add_field("amount", IdentityTransform(), "by_amount")),
                lambda: spec(lambda u: u.remove_field("by_amount")),
            ),
            "the table is renamed": owner(
                lambda: self.catalog().rename_table("bank.payments", "bank.payments_old"),
                self.renamed_back,
                hides=True,
            ),
            "it is compacted": owner(self.tidy_up),
            "what is staged is removed": owner(self.unstage),
        }

    def drop_amount(self) -> None:
        self._with_amount = self.table().schema().schema_id
        with self.table().update_schema() as update:
            update.delete_column("amount")

    def make_amount_anew(self) -> None:
        """In Iceberg it is another column then, which has no value of what was written for the first one."""
        self.drop_amount()
        with self.table().update_schema() as update:
            update.add_column("amount", LongType())

    def take_the_older_schema(self) -> None:
        """A column that was dropped comes back so, and with it its id; one that is added is another one."""
        with self.table().transaction() as change:
            change._apply((SetCurrentSchemaUpdate(schema_id=self._with_amount),))

    def renamed_back(self) -> None:
        """What a start has made in its place has no rows."""
        if self.catalog().table_exists("bank.payments_old"):
            if self.catalog().table_exists("bank.payments"):
                self.catalog().drop_table("bank.payments")
            self.catalog().rename_table("bank.payments_old", "bank.payments")

    def unstage(self) -> None:
        """Clean-up that takes data files which no version names, and the lists beside the table."""
        named = {each.file.file_path.removeprefix("file://") for each in self.table().scan().plan_files()}
        for each in self.data():
            if str(each) not in named:
                each.unlink()

    def forget(self) -> None:
        table = self.table()
        names = [name for name in table.properties if name.startswith("onceflow.ledger")]
        with table.transaction() as change:
            change.remove_properties(*names)


class DeltaWorld(lakes.DeltaWorld):
    """A table whose owner changes it."""

    def harms(self) -> dict[str, Harm]:
        aside = self.path.parent / "put_aside"

        def back() -> None:
            """What a start has made in its place has no rows."""
            if aside.exists():
                shutil.rmtree(self.path, ignore_errors=True)
                aside.rename(self.path)

        return {
            "a column is added": owner(self.add_a_column),
            "a column gets another type": owner(
                lambda: self.write_again(pa.int32()), lambda: self.write_again(pa.int64())
            ),
            "it gets a constraint": owner(
                lambda: self.table().alter.add_constraint({"positive": "amount > 0"}),
                lambda: self.table().alter.drop_constraint("positive", raise_if_not_exists=False),
            ),
            "the folder is renamed": owner(lambda: self.path.rename(aside), back, hides=True),
            "it is compacted": owner(self.tidy_up),
        }

    def add_a_column(self) -> None:
        if "note" not in [each.name for each in self.table().schema().fields]:
            self.table().alter.add_columns([Field("note", PrimitiveType("string"))])

    def write_again(self, kind: pa.DataType) -> None:
        """The same rows in a table whose amounts are of another type."""
        rows = self.table().to_pyarrow_table()
        at = rows.schema.get_field_index("amount")
        rows = rows.set_column(at, "amount", rows.column("amount").cast(kind))
        lakes.write_deltalake(self.path, rows, mode="overwrite", schema_mode="overwrite")

    def forget(self) -> None:
        """Its ledger is in each of its versions: there is nothing to empty."""


class OnSqlite(Lives):
    """A database that is a file."""

    system = lambda: InFolder(SqliteWorld)  # noqa: E731


class OnLake(Lives):
    """A table whose files are written beside it first."""

    @precondition(lambda self: self.harm is None and self._may_go_on() and not self.undone)
    @rule()
    def leave_lists(self) -> None:
        """A list of files stays beside the table that names them; a sweep of the next start must leave the files."""
        self.arrive(1, loud=True)
        with mock.patch.object(LakeCommitter, "_tidy"):
            self.run()
        self.run()


class OnIceberg(OnLake):
    """A table whose catalog is a file."""

    system = lambda: InFolder(IcebergWorld)  # noqa: E731


class RestWorld(IcebergWorld):
    """A table of a REST catalog, whose owner changes it by the same."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.server = RestCatalog(folder)
        self.settings = {"type": "rest", "uri": self.server.address, "token": "rest-geheim"}


class InRestCatalog(InFolder):
    """A folder, and the catalog that serves it."""

    world: RestWorld

    def __init__(self) -> None:
        super().__init__(RestWorld)
        self.world.server.__enter__()

    def put_back(self, name: int) -> None:
        super().put_back(name)
        self.world.server.reopen()

    def close(self) -> None:
        self.world.server.__exit__()
        super().close()


class OnRest(OnLake):
    """A table of a REST catalog that has done a commit, has not, or does it later, and says one thing of all three."""

    system = InRestCatalog

    @precondition(lambda self: self.harm is None and self._may_go_on())
    @rule(answers=st.lists(st.tuples(st.sampled_from(("lose", "refuse", "late")), ANSWERS), min_size=1, max_size=3))
    def answer_otherwise(self, answers: list[tuple[str, int]]) -> None:
        """The next commits are answered so: the job goes on, at this start or the next, and each row is there once."""
        server = self._system.world.server
        for what, code in answers:
            getattr(server, what).append(code)
        self.arrive(1, loud=True)
        for _ in range(1 + len(answers)):
            error = self.job.run()
            if error is None:
                break
            assert error.retriable, error
        assert error is None, error
        for what, _ in answers:
            getattr(server, what).clear()
        self._went_on()


class OnDelta(OnLake):
    """A table that is a folder."""

    system = lambda: InFolder(DeltaWorld)  # noqa: E731


def as_test(machine: type[Lives], examples: int):
    """The machine as a test of pytest."""
    test = machine.TestCase
    test.settings = settings(
        max_examples=MORE or examples,
        stateful_step_count=14,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    return test


TestSqlite = as_test(OnSqlite, 15)
TestIceberg = as_test(OnIceberg, 3)
TestRest = as_test(OnRest, 3)
TestDelta = as_test(OnDelta, 3)


def test_a_lake_table_that_was_dropped_and_made_again_is_named(tmp_path):
    """A start says which sink's table is another one now, and not only that some id has changed."""
    system = InFolder(IcebergWorld)
    job = Job(tmp_path, system)
    job.orders.end, job.loud = 2, {0, 1}
    assert job.run() is None
    system.drop()
    error = job.run()
    assert isinstance(error, CheckpointConflictError)
    assert "what sink bank.payments writes to was dropped or renamed, and made again" in (error.cause or "")
    assert not error.retriable
    assert job.run(takeover="claim") is None, "as it advises"
    job.orders.end, job.loud = 3, {0, 1, 2}
    assert job.run() is None
    assert job.table() == {2: 1}
    system.close()


def test_a_column_of_iceberg_that_was_dropped_after_the_decision_comes_back_with_the_older_schema(tmp_path):
    """One that is added is another one, whatever it is called: the refusal says so, and what leads out."""
    system = InFolder(IcebergWorld)
    job, world = Job(tmp_path, system), system.world
    job.orders.end, job.loud = 2, {0, 1}
    assert job.run() is None
    job.orders.end, job.loud = 3, {0, 1, 2}
    job.meanwhile["commit"] = world.drop_amount
    assert isinstance(job.run(), RecoveryError)
    with world.table().update_schema() as update:
        update.add_column("amount", LongType())
    error = job.run()
    assert isinstance(error, RecoveryError)
    assert "making current the schema that has it" in error.what
    world.take_the_older_schema()
    assert job.run() is None
    assert job.table() == {0: 1, 1: 1, 2: 1}
    system.close()
