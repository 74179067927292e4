"""The example sink with one thing wrong in each, and the check that must notice it.

Must not know: how the checks look for it.
"""

import sqlite3
import uuid
from dataclasses import dataclass, replace
from typing import Any

from onceflow import Guarantee
from onceflow.inspection import Looked, Shown
from onceflow.sinks import Evidence, Outcome, Participant, Reply
from tests.support.grouped_sink import GroupedCommitter
from tests.support.ledger_sink import (
    LedgerCommitter,
    LedgerConnection,
    LedgerInspection,
    LedgerMarks,
    LedgerSink,
    LedgerWriter,
    LedgerWriterFactory,
    opened,
)

BREAKS = []


def breaks(*names):
    def add(kind):
        BREAKS.extend((kind, name) for name in names)
        return kind

    return add


def sink_of(writer=LedgerWriter, committer=LedgerCommitter, connection=LedgerConnection):
    """What a broken sink derives from."""
    return type("Base", (LedgerSink,), {"writer": writer, "committer": committer, "connection": connection})


# -- writers --------------------------------------------------------------------------------------


class CommittingWriter(LedgerWriter):
    def prepare(self):
        prepared = super().prepare()
        with opened(self._path) as file:
            file.execute("update ledger set state='committed' where id=?", [self._id])
        return prepared


@breaks("nothing_is_visible_before_the_commit")
class CommitsOnPrepare(sink_of(writer=CommittingWriter)):
    pass


class ForgetfulWriter(LedgerWriter):
    def write(self, rows):
        if not self._rows:
            super().write(rows)


@breaks("a_commit_shows_each_row_once")
class LosesItsSecondBatch(sink_of(writer=ForgetfulWriter)):
    pass


class RepeatingWriter(LedgerWriter):
    def keys(self, rows):
        return super().keys(rows) * 2

    def write(self, rows):
        super().write(rows)
        self._rows += len(rows)


@breaks("a_commit_shows_each_row_once")
class DoublesRows(sink_of(writer=RepeatingWriter)):
    pass


class TidyWriter(LedgerWriter):
    def __del__(self):
        self.abort()


@breaks("a_precommit_survives_its_writer")
class ForgetsWithItsWriter(sink_of(writer=TidyWriter)):
    pass


STAGED: dict[str, list[str]] = {}


class MemoryWriter(LedgerWriter):
    def write(self, rows):
        STAGED.setdefault(self._id, []).extend(self.keys(rows))

    def prepare(self):
        return {"id": self._id, "rows": 0}


class MemoryCommitter(LedgerCommitter):
    def commit_one(self, file, key):
        file.executemany("insert into staged values (?, ?)", [(key, row) for row in STAGED.pop(key, ())])
        return super().commit_one(file, key)


@breaks("a_precommit_survives_its_process", "a_commit_from_another_process_counts")
class KeepsRowsInItsProcess(sink_of(writer=MemoryWriter, committer=MemoryCommitter)):
    pass


class LeavingOutWriter(LedgerWriter):
    insert = "insert or ignore into staged values (?, ?)"


@breaks("a_refused_row_fails_the_precommit")
class LeavesOutWhatIsRefused(sink_of(writer=LeavingOutWriter)):
    pass


class BrittleWriter(LedgerWriter):
    def abort(self):
        with opened(self._path) as file:
            self._require_open(file)
        super().abort()


@breaks("a_failed_task_leaves_nothing_visible")
class AbortOfAWriterRaises(sink_of(writer=BrittleWriter)):
    pass


class JoiningWriter(LedgerWriter):
    """Attempts of one shard write into one transaction."""

    def __init__(self, path, sink, shard):
        self._path, self._rows = path, 0
        run = shard.run
        self._id = f"{run.job_id}-{run.incarnation}-{run.epoch}-{shard.number}"
        row = (self._id, run.prefix, run.job_id, run.incarnation, run.epoch, sink, shard.number, shard.attempt)
        with opened(path) as file:
            file.execute("insert or ignore into ledger values (?, ?, ?, ?, ?, ?, ?, ?, 'open')", row)


class CredulousCommitter(LedgerCommitter):
    def check(self, participants, run, age_s):
        return None


@breaks("a_zombie_attempt_stays_invisible")
class AttemptsShareATransaction(sink_of(writer=JoiningWriter, committer=CredulousCommitter)):
    pass


@breaks(
    "check_notices_an_abort",
    "a_late_attempt_is_noticed",
    "check_refuses_an_epoch_that_is_too_old",
    "what_expired_is_not_committed",
)
class ChecksNothing(sink_of(committer=CredulousCommitter)):
    pass


class ReopeningWriter(LedgerWriter):
    """An abort takes its rows, and does not end it."""

    def _require_open(self, file):
        if file.execute("select state from ledger where id=?", [self._id]).fetchone() == ("aborted",):
            file.execute("delete from staged where id=?", [self._id])
            file.execute("update ledger set state='open' where id=?", [self._id])


class KnowingAll(LedgerCommitter):
    def known(self, handles):
        return handles


@breaks("what_is_committed_is_known")
class KnowsWhatWasAborted(sink_of(committer=KnowingAll)):
    """It says of each handle that it has committed it."""


class AskingForTheStateOnly(LedgerCommitter):
    def check(self, participants, run, age_s):
        with opened(self._path) as file:
            states = {self.state(file, p.transaction["id"]) for p in participants}
        return None if states <= {"open"} else str(states)


@breaks("an_aborted_writer_cannot_go_on")
class AbortDoesNotFence(sink_of(writer=ReopeningWriter, committer=AskingForTheStateOnly)):
    pass


class TupleWriter(LedgerWriter):
    def prepare(self):
        return {**super().prepare(), "place": ("a", 1)}


@breaks("what_is_kept_is_json_without_secrets")
class GivesMoreThanJson(sink_of(writer=TupleWriter)):
    pass


# -- committers -----------------------------------------------------------------------------------


class NeedingOne(LedgerCommitter):
    def check(self, participants, run, age_s):
        first = participants[0]
        return super().check([first, *participants[1:]], run, age_s)


@breaks("nothing_is_no_error")
class NothingCrashes(sink_of(committer=NeedingOne)):
    pass


class SealingTheFirst(LedgerCommitter):
    def seal(self, reports, run):
        return super().seal(reports[:1], run)


@breaks("a_seal_covers_each_part_once", "a_commit_shows_each_row_once")
class SealLosesAPart(sink_of(committer=SealingTheFirst)):
    pass


class NamingByEpoch(LedgerCommitter):
    def seal(self, reports, run):
        sealed = super().seal(reports, run)
        return [replace(p, handle=f"{run.epoch % 2}-{n}") for n, p in enumerate(sealed)]


@breaks("a_seal_covers_each_part_once")
class HandlesComeAgain(sink_of(committer=NamingByEpoch)):
    pass


class NamingByTask(LedgerCommitter):
    def seal(self, reports, run):
        return [replace(self.seal_one(r), handle=f"{run.epoch}-{r.task}") for r in reports]


@breaks("a_seal_covers_each_part_once")
class HandlesComeAgainInAReplay(sink_of(committer=NamingByTask)):
    pass


class MixingUp(LedgerCommitter):
    def seal_one(self, report):
        sealed = super().seal_one(report)
        return replace(sealed, parts=tuple(replace(part, number=part.number + 1) for part in sealed.parts))


@breaks("a_seal_covers_each_part_once")
class SealMixesUpParts(sink_of(committer=MixingUp)):
    pass


class AddingAgain(LedgerCommitter):
    def commit_one(self, file, key):
        if self.state(file, key) == "committed":
            file.execute("insert into staged select * from staged where id=?", [key])
        return super().commit_one(file, key)


@breaks("a_commit_again_changes_nothing")
class CommitIsNotIdempotent(sink_of(committer=AddingAgain)):
    pass


class Unaborting(LedgerCommitter):
    def abort_one(self, file, key):
        """Nothing."""


@breaks("an_abort_leaves_nothing_visible", "abort_run_ends_what_no_report_names", "what_died_unprepared_is_ended")
class AbortDoesNothing(sink_of(committer=Unaborting)):
    pass


class AbortingOnce(LedgerCommitter):
    def abort_one(self, file, key):
        if self.state(file, key) == "aborted":
            raise KeyError(key)
        super().abort_one(file, key)


@breaks("an_abort_again_changes_nothing")
class SecondAbortRaises(sink_of(committer=AbortingOnce)):
    pass


class CommittingAnything(LedgerCommitter):
    def commit_one(self, file, key):
        file.execute("update ledger set state='committed' where id=?", [key])
        return super().commit_one(file, key)


@breaks("a_commit_after_the_abort_says_so", "what_expired_is_not_committed")
class CommitRevivesTheAborted(sink_of(committer=CommittingAnything)):
    pass


class AbortingAnything(LedgerCommitter):
    def abort_one(self, file, key):
        file.execute("update ledger set state='aborted' where id=?", [key])


@breaks("an_abort_after_the_commit_changes_nothing")
class AbortHidesTheCommitted(sink_of(committer=AbortingAnything)):
    pass


class AbortingByName(LedgerCommitter):
    def abort_one(self, file, key):
        file.execute(
            "update ledger set state='aborted' where state='open' and (job, incarnation, epoch % 2, shard, attempt) = "
            "(select job, incarnation, epoch % 2, shard, attempt from ledger where id=?)",
            [key],
        )


@breaks("an_end_hits_exactly_its_transaction")
class AbortsByName(sink_of(committer=AbortingByName)):
    pass


class Silent(LedgerCommitter):
    def outcome(self, file, key):
        return replace(super().outcome(file, key), why="")


@breaks("outcomes_are_told_by_evidence")
class SaysWithoutEvidence(sink_of(committer=Silent)):
    pass


class Guessing(LedgerCommitter):
    def outcome(self, file, key):
        found = super().outcome(file, key)
        return Evidence(Outcome.COMMITTED, "it is gone") if found.outcome is Outcome.UNKNOWN else found


@breaks("what_never_was_is_never_committed")
class GuessesTheAbsentCommitted(sink_of(committer=Guessing)):
    pass


class AlwaysGlad(LedgerCommitter):
    def commit_one(self, file, key):
        super().commit_one(file, key)
        return Reply.COMMITTED


@breaks("what_never_was_is_never_committed", "a_commit_after_the_abort_says_so", "an_end_hits_exactly_its_transaction")
class AnswersCommittedToAll(sink_of(committer=AlwaysGlad)):
    pass


class CheckingEverySink(LedgerCommitter):
    def check(self, participants, run, age_s):
        problem = super().check(participants, run, age_s)
        with opened(self._path) as file:
            file.execute(
                "update ledger set state='aborted' where state='open' and (job, epoch) = (?, ?) and sink <> ?",
                [run.job_id, run.epoch, self._sink],
            )
        return problem


@breaks("a_second_sink_is_another_one")
class CheckEndsAnothersShards(sink_of(committer=CheckingEverySink)):
    pass


class CommittingInTwoSteps(LedgerCommitter):
    """Adds its rows once more, and takes the first ones away in a step of its own."""

    def commit(self, participants):
        for p in participants:
            with opened(self._path) as file:
                file.execute("insert into staged select * from staged where id=?", [p.transaction["id"]])
                file.execute("update ledger set state='committed' where id=? and state='open'", [p.transaction["id"]])
            with opened(self._path) as file:
                file.execute(
                    "delete from staged where id=? and rowid not in (select max(rowid) from staged group by id, key)",
                    [p.transaction["id"]],
                )
        return dict.fromkeys((p.id for p in participants), Reply.SUSPECT)


@breaks("a_reader_inside_of_a_commit_sees_it_once")
class CommitTakesTwoSteps(sink_of(committer=CommittingInTwoSteps)):
    pass


class CommittingBehindRows(LedgerCommitter):
    """Adds the rows that a reader sees before it writes down that it did."""

    def commit(self, participants):
        for p in participants:
            with opened(self._path) as file:
                if self.state(file, p.transaction["id"]) == "open":
                    again = str(uuid.uuid4())
                    file.execute(
                        "insert into ledger select ?, system, job, -1, epoch, sink, shard, attempt, 'committed' "
                        "from ledger where id=?",
                        [again, p.transaction["id"]],
                    )
                    file.execute(
                        "insert into staged select ?, key from staged where id=?", [again, p.transaction["id"]]
                    )
            with opened(self._path) as file:
                file.execute("delete from staged where id=?", [p.transaction["id"]])
                file.execute("update ledger set state='committed' where id=? and state='open'", [p.transaction["id"]])
        return dict.fromkeys((p.id for p in participants), Reply.SUSPECT)


@breaks("a_death_inside_of_a_commit_is_finished")
class CommitIsWrittenDownLater(sink_of(committer=CommittingBehindRows)):
    pass


class EndingWhatHasEnded(AbortingAnything):
    def commit_one(self, file, key):
        super().commit_one(file, key)
        return Reply.COMMITTED


@breaks("two_ends_at_once_leave_one")
class BothEndsAreGlad(sink_of(committer=EndingWhatHasEnded)):
    pass


class EndingEveryRun(LedgerCommitter):
    def abort_run(self, run):
        with opened(self._path) as file:
            file.execute("update ledger set state='aborted' where state='open' and job=?", [self._job_id])


@breaks("abort_run_ends_what_no_report_names")
class AbortRunEndsOtherRuns(sink_of(committer=EndingEveryRun)):
    pass


class SweepingAll(LedgerCommitter):
    def lingering(self, incarnation, spared):
        return super().lingering(1 << 40, spared)


@breaks("lingering_finds_what_older_starts_left")
class SweepsItsOwn(sink_of(committer=SweepingAll)):
    pass


class SweepingSpared(LedgerCommitter):
    def lingering(self, incarnation, spared):
        return super().lingering(incarnation, ())


@breaks("lingering_finds_what_older_starts_left")
class SweepsTheSpared(sink_of(committer=SweepingSpared)):
    pass


class CommittingWhatIsLeft(GroupedCommitter):
    def commit_all(self, file, keys):
        replies = {self.commit_one(file, key) for key in keys}
        return Reply.COMMITTED if Reply.COMMITTED in replies else Reply.SUSPECT


@breaks("a_participant_is_shown_whole_or_not_at_all")
class ShowsWhatIsLeftOfAParticipant(sink_of(committer=CommittingWhatIsLeft)):
    pass


class LookingAtTheFirst(GroupedCommitter):
    def of_all(self, told):
        return told[0]


@breaks("a_participant_is_shown_whole_or_not_at_all")
class TakesTheFirstForAll(sink_of(committer=LookingAtTheFirst)):
    pass


class CheckingTheFirst(GroupedCommitter):
    def check(self, participants, run, age_s):
        with opened(self._path) as file:
            gone = [p.handle for p in participants if self.state(file, self.members(p)[0].handle) != "open"]
        return f"{gone} are gone" if gone else None


@breaks("a_late_attempt_is_noticed")
class ChecksTheFirstForAll(sink_of(committer=CheckingTheFirst)):
    pass


class KnowingItsOwn(LedgerCommitter):
    def lingering(self, incarnation, spared):
        keep = {p.transaction["id"] for p in spared}
        return [p for p in super().lingering(incarnation, ()) if p.handle not in keep]


@breaks("lingering_finds_what_older_starts_left")
class TakesEveryParticipantForItsOwn(sink_of(committer=KnowingItsOwn)):
    pass


class SweepingAtOnce(LedgerCommitter):
    def lingering(self, incarnation, spared):
        found = super().lingering(incarnation, spared)
        self.abort(found)
        return found


@breaks("lingering_finds_what_older_starts_left")
class DoesNotOnlyLook(sink_of(committer=SweepingAtOnce)):
    pass


class NeverSweeping(LedgerCommitter):
    def lingering(self, incarnation, spared):
        return []


@breaks("lingering_finds_what_older_starts_left", "what_died_unprepared_is_ended")
class FindsNothing(sink_of(committer=NeverSweeping)):
    pass


class SweepingEveryJob(LedgerCommitter):
    def lingering(self, incarnation, spared):
        with opened(self._path) as file:
            found = file.execute(
                "select id from ledger where state='open' and job like ? and incarnation<?",
                [self._job_id + "%", incarnation],
            ).fetchall()
        return [Participant(self._sink, key, (), {"id": key}) for (key,) in found]


@breaks("two_jobs_never_mix")
class SweepsOtherJobs(sink_of(committer=SweepingEveryJob)):
    pass


class OfOneThread(LedgerCommitter):
    def __init__(self, path, sink, job_id):
        super().__init__(path, sink, job_id)
        self._file = sqlite3.connect(path)

    def lingering(self, incarnation, spared):
        self._file.execute("select 1")
        return super().lingering(incarnation, spared)

    def close(self):
        self._file.close()


@breaks("several_threads_may_call")
class ServesOneThread(sink_of(committer=OfOneThread)):
    pass


class LeavingCanaries(LedgerCommitter):
    def preflight(self):
        with opened(self._path) as file:
            file.execute(
                "insert into ledger values (hex(randomblob(8)), 'canary', ?, 0, 0, ?, 0, 0, 'open')",
                [self._job_id, self._sink],
            )


@breaks("a_preflight_leaves_nothing")
class LeavesItsCanary(sink_of(committer=LeavingCanaries)):
    pass


class NoMarks(LedgerMarks):
    def write(self, mark):
        """Nothing."""


class Unmarking(LedgerCommitter):
    keeping = NoMarks


@breaks("a_mark_is_kept_outside")
class ForgetsItsMark(sink_of(committer=Unmarking)):
    pass


class MarkingForAll(LedgerCommitter):
    def __init__(self, path, sink, job_id):
        super().__init__(path, sink, job_id[:12])


@breaks("a_mark_is_kept_outside")
class CutsTheJobsId(sink_of(committer=MarkingForAll)):
    pass


class MarksOfCutNames(LedgerMarks):
    def write_name(self, name, mark):
        super().write_name(name[:6], mark)

    def read_name(self, name):
        return super().read_name(name[:6])


class NamingAllAlike(LedgerCommitter):
    keeping = MarksOfCutNames


@breaks("a_name_mark_is_kept_for_the_next_job")
class CutsNames(sink_of(committer=NamingAllAlike)):
    pass


class FirstNameMarks(LedgerMarks):
    def write_name(self, name, mark):
        if mark and self.read_name(name) is None:
            super().write_name(name, mark)


class KeepingTheFirstName(LedgerCommitter):
    keeping = FirstNameMarks


@breaks("a_name_mark_is_kept_for_the_next_job")
class NeverRemovesAName(sink_of(committer=KeepingTheFirstName)):
    pass


# -- the sink and its connection -------------------------------------------------------------------


@breaks("what_is_kept_is_json_without_secrets")
class TellsItsPassword(LedgerSink):
    def describe(self):
        return f"ledger {self.path} with {self.password}"


@dataclass(frozen=True)
class LocalFactory(LedgerWriterFactory):
    open: Any = None


class LocalConnection(LedgerConnection):
    def writer_factory(self):
        made = super().writer_factory()
        return LocalFactory(made.kind, made.path, made.sink, lambda: None)


@breaks("a_writer_factory_pickles")
class FactoryDoesNotPickle(sink_of(connection=LocalConnection)):
    pass


@breaks("a_sink_is_only_a_description")
class KeepsItsConnection(LedgerSink):
    def connect(self):
        self.connected = super().connect()
        return self.connected


class ClosingConnection(LedgerConnection):
    made = None

    def committer(self, prefix, job_id):
        self.made = super().committer(prefix, job_id)
        return self.made

    def close(self):
        if self.made is not None:
            self.made._path = None


@breaks("a_committer_keeps_its_connection")
class TakesTheConnectionBack(sink_of(connection=ClosingConnection)):
    pass


# -- what operators' tools see --------------------------------------------------------------------


def inspected_by(kind):
    """A committer with another inspection."""
    return type("Inspected", (LedgerCommitter,), {"inspection": lambda self: kind(self._path, self._job_id)})


class BlindInspection(LedgerInspection):
    def transactions(self, decided):
        return Looked(())


@breaks("an_inspection_lists_the_jobs_own")
class HidesWhatIsOpen(sink_of(committer=inspected_by(BlindInspection))):
    pass


class NosyInspection(LedgerInspection):
    """It lists what another job has open, too: that would be aborted as the job's own."""

    def transactions(self, decided):
        mine, theirs = super().transactions(decided), LedgerInspection(self._path, self._job_id + "0").transactions([])
        return Looked(mine.found + theirs.found, mine.unseen)


@breaks("an_inspection_lists_the_jobs_own")
class ListsAnotherJobs(sink_of(committer=inspected_by(NosyInspection))):
    pass


class TrustingInspection(LedgerInspection):
    def show(self, participant):
        return Shown(participant.handle, participant.handle)


@breaks("an_inspection_shows_exactly_what_is_meant")
class TakesWhatItDoesNotUnderstand(sink_of(committer=inspected_by(TrustingInspection))):
    pass


class RoughInspection(LedgerInspection):
    def abort(self, seen):
        with opened(self._path) as file:
            file.execute("update ledger set state='aborted' where job=? and state='open'", [self._job_id])
        return {each.handle: "aborted" for each in seen}


@breaks("an_operators_abort_hits_exactly_its_transaction")
class AbortsAllThatIsOpen(sink_of(committer=inspected_by(RoughInspection))):
    pass


class PlainWriter(CommittingWriter):
    def prepare(self):
        super().prepare()


class Plain(sink_of(writer=PlainWriter)):
    """No broken one: it promises less."""

    guarantee = Guarantee.AT_LEAST_ONCE


class LateWriter(LedgerWriter):
    def prepare(self):
        super().prepare()


@breaks("a_plain_prepare_has_written_all")
class PlainAndLate(sink_of(writer=LateWriter)):
    guarantee = Guarantee.AT_LEAST_ONCE
