"""The driver's side of a database sink: one transaction for each epoch, that writes the ledger first.

Must not know: Spark, the journal, how rows were staged. It works from participants alone.

A participant covers all tasks of an epoch. Its commit is one local transaction: the ledger's row by its primary key
(a retry then waits for the transaction of a connection that was lost, and finds it), the attempts' rows, which nobody
ends any more from there on, rows and hashes of what is staged against what was decided, the merge, and the end of what
was staged. So a row in the ledger is the proof of a commit, and its absence is one of the opposite as soon as one of
the attempts can never be merged.

The check writes this very transaction: what the target does not take must be told before the decision. Where it can
be kept until then (``kept_transaction``), the commit is its end; else, and wherever it was lost, it is written again
from what is staged, which is gone only with it.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from sqlalchemy import ColumnElement, Connection, Engine, delete, func, insert, inspect, select, update
from sqlalchemy.exc import DBAPIError, IntegrityError

from onceflow.connectors.contract import Committer, Run
from onceflow.connectors.database import tables as own
from onceflow.connectors.database.attempts import clear, end
from onceflow.connectors.database.decided import unfit
from onceflow.connectors.database.inspection import DatabaseInspection
from onceflow.connectors.database.kept_transaction import HeldCommit
from onceflow.connectors.database.keys import require_keys
from onceflow.connectors.database.marks import DatabaseMarks
from onceflow.connectors.database.merge import merge_whole, take_back
from onceflow.connectors.database.refusals import answer_of, refusal, words
from onceflow.connectors.database.rights import of_own, translated
from onceflow.connectors.database.staged import Attempt, Staged, StagedSeal
from onceflow.connectors.database.system import Refusal
from onceflow.connectors.database.target import AlteredError, Target, TargetError, objection
from onceflow.connectors.database.urls import database_of, database_that_said
from onceflow.connectors.inspection import Inspectable, Inspection
from onceflow.connectors.marks import Marks
from onceflow.connectors.older import checkpoint_is_older, put_back
from onceflow.connectors.staged import NOT_UNDERSTOOD
from onceflow.errors import OnceflowError, RecoveryError, RowRefusedError
from onceflow.twophase.messages import Evidence, Outcome, Reply
from onceflow.twophase.participants import Participant, ParticipantId, TaskReport

if TYPE_CHECKING:
    from collections.abc import Callable

log = logging.getLogger(__name__)

_NOWHERE = Target(None, "", "", ())

LEDGER_EPOCHS = 100_000
"""How many epochs of a job the ledger keeps: more than a journal ever asks for. The newest stays for ever."""


class _UnfitError(Exception):
    """What is staged is not what was decided: the transaction of a commit must end without a trace."""


class _PutBackError(Exception):
    """The ledger does not know the newest epoch before this one, which this job has committed."""


class _InLedgerError(Exception):
    """The ledger has a row for this job, sink and epoch, or for this handle."""


class DatabaseCommitter(Committer, Inspectable):
    """Commits or aborts what was staged for one sink.

    Args:
        engine: The connection's; it is let go of with this object.
        mine: Our tables.
        system: Their lasting id.
        target: Where the sink's rows go; None where only what is decided is finished.
        prefix: The job's prefix.
        job_id: The job's id.
        sink: The sink's name.
        table: The target's name.
    """

    def __init__(
        self,
        engine: Engine,
        mine: own.Tables,
        system: str,
        target: Callable[[], Target],
        prefix: str,
        job_id: str,
        sink: str,
        table: str,
    ) -> None:
        self._engine = engine
        self._own = mine
        self._system = system
        self._target = target
        self._prefix = prefix
        self._job_id = job_id
        self._sink = sink
        self._marks = DatabaseMarks(engine, mine, prefix, job_id, table, self._translating)
        self._refused = ""
        self._held = HeldCommit(job_id, system)

    # -- at a start -------------------------------------------------------------------------------

    def preflight(self) -> None:
        """Try every statement that a commit needs of onceflow's own tables, and roll it back.

        The rights on the target are tried where the output is looked at: nobody knows its columns before.
        """
        attempts, ledger, kept = self._own.attempts, self._own.ledger, self._own.marks
        nobody = uuid.uuid4().hex  # of a name that another start tries at this moment the database would make one wait
        with (
            self._translating("try the rights of a commit"),
            self._engine.connect() as connection,
            connection.begin() as trial,
        ):
            connection.execute(select(ledger.c.handle).where(ledger.c.job == nobody)).all()
            connection.execute(
                insert(ledger).values(
                    _ledger_row(nobody, "", nobody, StagedSeal(incarnation=0, epoch=-1, target=_NOWHERE), 0, 0)
                )
            )
            connection.execute(delete(ledger).where(ledger.c.job == nobody))
            connection.execute(insert(attempts).values(own.attempt_row(nobody)))
            mine = attempts.c.id == nobody
            connection.execute(select(attempts.c.id).where(mine).with_for_update()).all()
            connection.execute(update(attempts).where(mine).values(state=own.ABORTED))
            connection.execute(delete(attempts).where(mine))
            connection.execute(insert(kept).values(id=nobody, mark=""))
            connection.execute(update(kept).where(kept.c.id == nobody).values(mark=""))
            connection.execute(select(kept.c.mark).where(kept.c.id == nobody).with_for_update()).all()
            connection.execute(delete(kept).where(kept.c.id == nobody))
            trial.rollback()

    def known(self, handles: Collection[str]) -> Collection[str]:
        """Those that the ledger has."""
        ledger = self._own.ledger
        with self._translating("ask the ledger"), self._engine.connect() as connection:
            return connection.execute(select(ledger.c.handle).where(ledger.c.handle.in_(handles))).scalars().all()

    def marks(self) -> Marks:
        """Those of the job, in a table beside the rows."""
        return self._marks

    def close(self) -> None:
        """Let go of the engine, and of what was not decided."""
        self._held.release()
        self._engine.dispose()

    # -- an epoch ---------------------------------------------------------------------------------

    def seal(self, reports: Sequence[TaskReport], run: Run) -> list[Participant]:
        """One participant of all tasks, under a handle that nothing else ever has."""
        if not reports:
            return []
        attempts = tuple(
            Attempt(str(told["attempt"]), int(told["rows"]), int(told["hash"]))
            for told in (report.transaction or {} for report in reports)
        )
        staged = Staged(self._system, attempts, StagedSeal.of_run(run, self._sink, target=self._target()))
        parts = tuple(part for report in reports for part in report.parts)
        return [Participant(self._sink, run.handles.get(self._sink, staged.handle), parts, staged.to_json())]

    def check(self, participants: Sequence[Participant], run: Run, age_s: float) -> str | None:  # noqa: ARG002
        """Look at what is staged, end the run's other attempts, and try the commit: it must fail now or never.

        Raises:
            RowRefusedError: The target does not take a row, or would not keep it as it is.
            PreCommitError: The target was altered since the start.
            CheckpointConflictError: The database is older than the checkpoint, or the checkpoint than the database.
        """
        self._held.release()
        mine, schema = [(p, Staged.of(p)) for p in participants], self._own.attempts.schema
        with self._translating("look at what is staged"), self._engine.begin() as connection:
            self._require_known(connection, run)
            for p, staged in mine:
                if staged is None or staged.sealed is None:
                    return f"{p.handle} is not of this sink"
                self._require_first(connection, run)
                # Where nothing is kept, the trial takes no lock but the target's: a driver that sleeps in it keeps it.
                if not database_of(connection).ends_idle and (wrong := unfit(connection, self._own, staged)):
                    return wrong
                require_keys(connection, schema, staged.sealed.target, staged.ids, self._sink, run.epoch)
                attempts = self._own.attempts
                connection.execute(update(attempts).where(attempts.c.id.in_(staged.ids)).values(sealed=p.handle))
            ids = {a.id for a in Staged.attempts_of(participants)}
            end(connection, self._own, self._of_run(connection, run, but=ids))
        for p, staged in mine:
            if staged is not None and staged.sealed is not None:
                wrong = self._try(p, staged, staged.sealed, run)
                if wrong:
                    return wrong
        return None

    def _require_known(self, connection: Connection, run: Run) -> None:
        """See that the ledger holds the newest epoch before this one: else the database was put back."""
        newest = run.newest.get(self._sink)
        if newest is not None and not self._knows(connection, newest):
            raise put_back(self._sink, "the ledger", run, self._newest_epoch(connection))

    def _require_first(self, connection: Connection, run: Run) -> None:
        """See that the ledger holds neither this epoch nor a later one, but for what it has from before a claim."""
        ledger = self._own.ledger
        ahead = (ledger.c.epoch >= run.epoch, ledger.c.incarnation >= run.claimed)
        query = select(ledger.c.epoch, ledger.c.incarnation).where(*self._mine(), *ahead)
        found = connection.execute(query.order_by(ledger.c.epoch.desc()).limit(1)).first()
        if found is not None:
            raise checkpoint_is_older(self._sink, "the ledger", run, found.epoch, found.incarnation)

    def _mine(self) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
        ledger = self._own.ledger
        return ledger.c.job == self._job_id, ledger.c.sink == self._sink

    def _newest_epoch(self, connection: Connection) -> int | None:
        return connection.execute(select(func.max(self._own.ledger.c.epoch)).where(*self._mine())).scalar()

    def _try(self, participant: Participant, staged: Staged, sealed: StagedSeal, run: Run) -> str | None:
        """Why what is staged is not fit, or None; then the transaction is kept for the commit, where that is offered.

        A merge that was rolled back shows what is refused now. Kept, nobody can write or alter what refuses it later.

        Raises:
            EpochFailedError: The target does not take or keep the rows: of a class that tells whether a start mends it.
        """
        with self._translating("try the commit"):
            connection = self._engine.connect()
        kept, refused = False, None
        try:
            connection.begin()
            if (database := database_of(connection)).ends_idle:
                self._held.release_others()
                database.bound(connection)
                self._write(connection, participant, staged, sealed)
                database.require_constraints(connection)
                clear(connection, self._own, staged.ids, sealed.target.staged)
                self._held.keep(participant.handle, connection)
                kept = True
            else:
                self._require_lasting_ledger(connection)
                merge_whole(connection, self._own.attempts.schema, sealed.target, staged.ids, staged.rows)
                take_back(connection)
        except TargetError as error:
            refused = error
        except _UnfitError as error:
            return str(error)
        except _InLedgerError:
            return f"the ledger has got epoch {sealed.epoch} of this job from another start in this moment"
        except _PutBackError:
            with self._translating("ask the ledger"), self._engine.connect() as looking:
                raise put_back(self._sink, "the ledger", run, self._newest_epoch(looking)) from None
        except DBAPIError as error:
            if refusal(error) is Refusal.ROW:
                raise self._row_refused(error, sealed.epoch) from None
            raise self._translated("try the commit", error) from None
        finally:
            if not kept:
                with suppress(DBAPIError):
                    connection.close()
        return None if refused is None else self._why(refused, staged, sealed, run)

    def _why(self, refused: TargetError, staged: Staged, sealed: StagedSeal, run: Run) -> str | None:
        """What is wrong where the target did not take all: it was put back, or its rows were ended, since the look.

        Raises:
            CheckpointConflictError: The database is older than the checkpoint.
            EpochFailedError: It is the target.
        """
        with self._translating("look at what is staged"), self._engine.begin() as connection:
            self._require_known(connection, run)
            wrong = unfit(connection, self._own, staged)
        if wrong is None:
            raise objection(refused, self._sink, sealed.epoch)
        return wrong

    def _write(self, connection: Connection, participant: Participant, staged: Staged, sealed: StagedSeal) -> None:
        """All that a commit writes, but for the end of what is staged, in the connection's transaction."""
        row = _ledger_row(self._job_id, participant.sink, participant.handle, sealed, staged.rows, staged.hash)
        self._require_lasting_ledger(connection)
        if not self._follows(connection, sealed):
            raise _PutBackError
        self._replace_older(connection, participant.sink, sealed)
        try:
            connection.execute(insert(self._own.ledger), row)
        except IntegrityError:
            raise _InLedgerError from None
        if wrong := unfit(connection, self._own, staged):
            raise _UnfitError(wrong)
        merge_whole(connection, self._own.attempts.schema, sealed.target, staged.ids, staged.rows)
        self._forget(connection, participant.sink, sealed.epoch)

    def commit(self, participants: Sequence[Participant]) -> Mapping[ParticipantId, Reply]:
        """Merge each, in a transaction of its own."""
        return {p.id: self._commit_one(p) for p in participants}

    def _commit_one(self, participant: Participant) -> Reply:
        staged = Staged.of(participant)
        if staged is None or staged.sealed is None or staged.system != self._system:
            return Reply.SUSPECT
        sealed = staged.sealed
        try:
            if not self._held.end(participant.handle):
                with self._engine.begin() as connection:
                    database_of(connection).bound(connection)
                    self._write(connection, participant, staged, sealed)
                    clear(connection, self._own, staged.ids, sealed.target.staged)
        except (_UnfitError, _PutBackError):
            return Reply.SUSPECT
        except _InLedgerError:
            return self._found(participant)
        except TargetError as error:
            self._refused = str(error)
            return Reply.REFUSED
        except DBAPIError as error:
            self._refused = words(error)
            if refusal(error) is Refusal.PASSING and not answer_of(error):
                log.info("sink %s: a commit got no answer, and is tried again: %s", participant.sink, self._refused)
                return Reply.RETRY
            return Reply.REFUSED
        return Reply.COMMITTED

    def _require_lasting_ledger(self, connection: Connection) -> None:
        """See that the ledger's row goes where the merge is taken back, or it would say that rows are there."""
        ledger = self._own.ledger
        connection.execute(select(ledger.c.handle).where(ledger.c.job == "")).all()  # nobody alters it from here on
        if why := database_of(connection).passing(connection, ledger.schema, ledger.name):
            raise AlteredError(f"{ledger.name} was altered: it does not hold what a transaction has written: {why}")

    def _replace_older(self, connection: Connection, sink: str, sealed: StagedSeal) -> None:
        """Remove what the ledger has of this epoch from before a claim.

        Else nobody may do this: the ledger's older row says that rows that are added would come twice.
        """
        ledger = self._own.ledger
        older = (ledger.c.epoch == sealed.epoch, ledger.c.incarnation < sealed.claimed)
        connection.execute(delete(ledger).where(ledger.c.job == self._job_id, ledger.c.sink == sink, *older))

    def _found(self, participant: Participant) -> Reply:
        """What the ledger's row says that was there already."""
        try:
            with self._engine.begin() as connection:
                held = self._in_ledger(connection, participant)
        except DBAPIError:
            return Reply.RETRY
        if held is None:  # whose it was has taken it back
            return Reply.RETRY
        return Reply.COMMITTED if held == participant.handle else Reply.SUSPECT

    def refusal(self, participants: Sequence[Participant]) -> OnceflowError:
        """The error for commits that the database went on refusing."""
        epochs = Staged.epochs_of(participants)
        return RecoveryError(
            f"sink {self._sink}: the database refuses the commit of what is decided for epoch "
            f"{', '.join(map(str, epochs))}: {self._refused}",
            harmless="for the data: what is staged stays, and the next start merges it",
            cause="a right was taken away, the target was altered or dropped, somebody else wrote a row that collides "
            "with a staged one after the merge was tried, or a limit breaks the merge off (statement_timeout)",
            action="give the right back, put the table right, remove the other row, or raise the limit; then start the "
            "job again. If "
            f"the table is gone for good: `onceflow txn resolve <job file> {max(epochs, default=0)}`",
        )

    def abort(self, participants: Sequence[Participant]) -> None:
        """End exactly these attempts, and remove what they have staged. Best effort."""
        self._held.release_of(participants)
        for p in participants:
            staged = Staged.of(p)
            if staged is None or staged.system != self._system:
                continue
            with suppress(DBAPIError), self._engine.begin() as connection:
                end(connection, self._own, staged.ids)

    def abort_run(self, run: Run) -> None:
        """End all attempts of a run."""
        self._held.release()
        with suppress(DBAPIError), self._engine.begin() as connection:
            end(connection, self._own, self._of_run(connection, run, but=set()))

    def can_finish(self, participant: Participant) -> bool:
        """What another sink of the same tables has prepared can be merged by this one."""
        staged = Staged.of(participant)
        return staged is not None and staged.system == self._system

    # -- what is known ----------------------------------------------------------------------------

    def outcomes(self, participants: Sequence[Participant]) -> Mapping[ParticipantId, Evidence]:
        """What the ledger says, and then what is staged."""
        self._held.release_of(participants)
        with self._translating("ask the ledger"), self._engine.begin() as connection:
            return {p.id: self._outcome(connection, p) for p in participants}

    def _outcome(self, connection: Connection, participant: Participant) -> Evidence:
        staged = Staged.of(participant)
        if staged is None:
            return Evidence(Outcome.UNKNOWN, f"it is not understood: {NOT_UNDERSTOOD}")
        if staged.system != self._system:
            return Evidence(
                Outcome.UNKNOWN, f"it was staged in tables with the id {staged.system}, and these are others"
            )
        # What is staged first: a commit that ends in between has removed it, and then stands in the ledger.
        gone = self._gone(connection, staged)
        wrong = None if gone else unfit(connection, self._own, staged)
        held = self._in_ledger(connection, participant)
        if held == participant.handle:
            return Evidence(Outcome.COMMITTED, "the ledger has it")
        if held is not None:
            return Evidence(Outcome.UNKNOWN, f"the ledger has another one for this epoch, job and sink: {held}")
        if not staged.attempts:
            return Evidence(Outcome.UNKNOWN, "it names nothing that was staged")
        target = staged.sealed.target if staged.sealed is not None else None
        if target is not None and not inspect(connection).has_table(target.table, schema=target.schema):
            # A person says whether there will be one again; until then nothing else of the epoch is made visible.
            what = "what was staged is gone, too" if wrong else "what is staged is there"
            return Evidence(Outcome.UNKNOWN, f"table {target.name} was dropped, with what it had; {what}")
        if gone:
            # A merge removes them and writes the ledger at once: without the ledger's row both may have been removed.
            why = self._older(connection, staged) or ": somebody removed them"
            return Evidence(Outcome.UNKNOWN, f"neither it nor attempt {gone[0]} of it is there{why}")
        if wrong is None and (why := self._older(connection, staged)):
            return Evidence(Outcome.UNKNOWN, f"it is staged whole{why}")
        if wrong is None:
            return Evidence(Outcome.OPEN, "it is staged whole, and not in the ledger")
        return Evidence(Outcome.ABORTED, f"it is not in the ledger, and can never be merged: {wrong}")

    def _gone(self, connection: Connection, staged: Staged) -> list[str]:
        attempts = self._own.attempts
        there = set(connection.execute(select(attempts.c.id).where(attempts.c.id.in_(staged.ids))).scalars())
        return [i for i in staged.ids if i not in there]

    def _knows(self, connection: Connection, handle: str) -> bool:
        ledger = self._own.ledger
        return connection.execute(select(ledger.c.handle).where(ledger.c.handle == handle)).scalar() is not None

    def _follows(self, connection: Connection, sealed: StagedSeal) -> bool:
        """Whether the ledger knows the epoch that comes before this one."""
        return not sealed.after or self._knows(connection, sealed.after)

    def _older(self, connection: Connection, staged: Staged) -> str:
        """By what the database is an older one than the job had, or ""."""
        if staged.sealed is None or self._follows(connection, staged.sealed):
            return ""
        return (
            ", and the ledger does not know the epoch before it, which this job had committed: the database was put "
            "back to an older state"
        )

    def _in_ledger(self, connection: Connection, participant: Participant) -> str | None:
        """Which handle the ledger has for a participant's epoch."""
        ledger, staged = self._own.ledger, Staged.of(participant)
        if self._knows(connection, participant.handle):
            return participant.handle
        if staged is None or staged.sealed is None:
            return None
        key = [ledger.c.job == self._job_id, ledger.c.sink == participant.sink, ledger.c.epoch == staged.sealed.epoch]
        key.append(ledger.c.incarnation >= staged.sealed.claimed)  # an older row is replaced by the commit
        return connection.execute(select(ledger.c.handle).where(*key)).scalar()

    def inspection(self) -> Inspection:
        """What operators' tools see of the job here."""
        return DatabaseInspection(self._engine, self._own, self._system, self._prefix, self._job_id)

    def lingering(self, incarnation: int, spared: Sequence[Participant]) -> Sequence[Participant]:
        """Attempts of older incarnations of this job that are not ended, without the spared ones."""
        attempts = self._own.attempts
        keep = {a.id for a in Staged.attempts_of(spared)}
        query = select(attempts.c.id).where(
            attempts.c.job == self._job_id,
            attempts.c.prefix == self._prefix,
            attempts.c.incarnation < incarnation,
            attempts.c.state != own.ABORTED,
        )
        with self._translating("list what is staged"), self._engine.begin() as connection:
            found = connection.execute(query).scalars().all()
        return [
            Participant(self._sink, i, (), Staged.found(self._system, (i,)).to_json()) for i in found if i not in keep
        ]

    # -- statements -------------------------------------------------------------------------------

    def _of_run(self, connection: Connection, run: Run, *, but: set[str]) -> list[str]:
        attempts = self._own.attempts
        found = connection.execute(
            select(attempts.c.id).where(
                attempts.c.job == run.job_id,
                attempts.c.sink == self._sink,
                attempts.c.incarnation == run.incarnation,
                attempts.c.epoch == run.epoch,
                attempts.c.state != own.ABORTED,
            )
        ).scalars()
        return [i for i in found if i not in but]

    def _forget(self, connection: Connection, sink: str, epoch: int) -> None:
        """Once in a while: what no journal asks for any more. Aborted attempts are evidence for as long."""
        if epoch % 1_000:
            return
        ledger, attempts = self._own.ledger, self._own.attempts
        old = epoch - LEDGER_EPOCHS
        connection.execute(
            delete(ledger).where(ledger.c.job == self._job_id, ledger.c.sink == sink, ledger.c.epoch < old)
        )
        connection.execute(
            delete(attempts).where(
                attempts.c.job == self._job_id, attempts.c.state == own.ABORTED, attempts.c.epoch < old
            )
        )

    # -- errors -----------------------------------------------------------------------------------

    @contextmanager
    def _translating(self, what: str) -> Iterator[None]:
        try:
            yield
        except DBAPIError as error:
            raise self._translated(what, error) from None

    def _translated(self, what: str, error: DBAPIError) -> OnceflowError:
        return translated(self._engine, error, f"sink {self._sink}: the database", what, lambda: of_own(self._own))

    def _row_refused(self, error: DBAPIError, epoch: int) -> RowRefusedError:
        of_another = database_that_said(error).by_foreign_key(error)
        return RowRefusedError(
            f"sink {self._sink}: the target does not take a row of epoch {epoch}: {words(error)}",
            harmless="for the data: nothing of the epoch is visible",
            cause="a constraint or a trigger of the target"
            + (
                "; or another sink of the job writes the row that it names: each sink's commit is a transaction of its "
                "own, so only rows of earlier epochs are there"
                if of_another
                else ""
            ),
            action="change or filter such rows in the stream function, or change the table"
            + (": drop the foreign key between tables of one job" if of_another else ""),
            epoch=epoch,
        )


def _ledger_row(job: str, sink: str, handle: str, sealed: StagedSeal, rows: int, hashed: int) -> dict[str, Any]:
    return {
        "job": job,
        "sink": sink,
        "epoch": sealed.epoch,
        "incarnation": sealed.incarnation,
        "handle": handle,
        "rows": rows,
        "hash": hashed,
    }
