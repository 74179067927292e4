"""What a sink is: the contract with the two-phase commit, the same for ours and a user's.

Must not know: any particular sink or source, the journal, how Spark runs tasks.

Who calls what, when, and what is not promised:

* ``Sink`` is a description in the driver: nothing is open in it, and one may serve several jobs and starts.
  ``columns`` may be called more than once for a start, and gives the same.
* ``SinkConnection`` is one start's; ``writer_factory`` gives what is sent to tasks.
* ``Writer`` lives in a task, one for each shard that has rows. One thread calls it, in the order ``write``*, then
  ``prepare`` or ``abort``. A task may die at any point and be run again, also while the first one still runs.
* ``Committer`` lives in the driver. Its calls may be repeated after a crash, by another process, in any number. Several
  threads call it: the epoch's (``seal``, ``check``, ``outcomes``, ``abort``), one of a pool for ``commit`` while other
  sinks commit, the sweep's (``lingering``, ``abort``), and one for marks; ``commit`` and ``check`` never overlap.

What only operators' tools ask of a system is optional, and stands in ``inspection``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from onceflow.connectors.marks import Marks
from onceflow.errors import ConfigurationError, OnceflowError, RecoveryError
from onceflow.twophase.messages import Evidence, Outcome, Reply
from onceflow.twophase.participants import Participant, ParticipantId, TaskReport

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column
    from pyspark.sql.types import StructType


TOO_OLD = 0.8
"""Share of the transactions' time-out after which an undecided epoch is given up: they may expire first."""


class Guarantee(StrEnum):
    """What a sink promises; said in its name, never by accident."""

    EXACTLY_ONCE = "exactly-once"
    """Each row is visible once, from the commit of its epoch on."""
    IDEMPOTENT_UPSERT = "idempotent-upsert"
    """A row replaces the one of its key, so one that is written again is there once; visible before its commit."""
    AT_LEAST_ONCE = "at-least-once"
    """No row is missing; one that is written again is there twice."""
    NONE = "none"
    """Rows may be missing or doubled."""


@dataclass(frozen=True, slots=True)
class Run:
    """Which run of which epoch a writer writes for.

    Attributes:
        job_id: From the checkpoint; in every transactional id.
        prefix: First part of the transactional ids.
        incarnation: The number of this start of the job.
        epoch: Spark's batch id.
        newest: By sink, a handle of the newest epoch before this one that was decided with rows for it: what its system
            must still know where it checks and commits this one.
        claimed: The newest start that an operator has claimed the checkpoint with, 0 for none: what a system has of
            older starts behind the checkpoint's newest epoch is written again on purpose.
        handles: By sink, the handle of what was decided for the epoch, where that sink's system has lost it and gets it
            again: its participant has this handle, so that the system knows again what the checkpoint asks it for.
    """

    job_id: str
    prefix: str
    incarnation: int
    epoch: int
    newest: Mapping[str, str] = field(default_factory=dict)
    claimed: int = 0
    handles: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Shard:
    """Which task writes. Another run may group the partitions otherwise, so a number means nothing beyond its run.

    Attributes:
        run: Which run of which epoch.
        number: Spark's number of the task in its run, which is that of its group of partitions.
        attempt: Spark's number of the attempt.
    """

    run: Run
    number: int
    attempt: int


class Writer(ABC):
    """Writes one shard of one sink's output. Opened when the shard's first rows come."""

    @abstractmethod
    def write(self, rows: pa.RecordBatch) -> None:
        """Write rows; the columns are those that ``Sink.columns`` gave, in that order."""

    @abstractmethod
    def prepare(self) -> Mapping[str, Any] | None:
        """Pre-commit: return only when every row is proven durable and only the verdict is missing.

        Returns:
            What the committer needs to commit or abort without this writer, as JSON values; None for a sink
            that takes no part in the decision (its rows must be where they belong when this returns).

        Raises:
            PreCommitError: It cannot be proven. Nothing may become visible.
        """

    def abort(self) -> None:  # noqa: B027 - what was not prepared is the driver's to end
        """The task failed: undo what can be undone here. Must not raise; the driver aborts by handle as well."""


class WriterFactory(Protocol):
    """Opens writers in tasks. Travels to Spark's workers, so it must pickle."""

    def __call__(self, shard: Shard) -> Writer:
        """Open the writer of one shard."""
        ...


def _require_names_of_today(mine: type, moved: Mapping[str, str]) -> None:
    """Refuse a class that answers by a name of before the first release: nobody would ask it.

    Args:
        mine: The class.
        moved: By name, where it is today.
    """
    if old := sorted(moved.keys() & vars(mine).keys()):
        raise ConfigurationError(
            f"{mine.__name__} cannot be used: {', '.join(old)} is asked for no more",
            harmless="always: nothing was started",
            cause="it is written for an older version",
            action="; ".join(f"{name} is {moved[name]} now" for name in old),
        )


_OF_MARKS = (
    "keeps_mark",
    "read_mark",
    "write_mark",
    "read_name_mark",
    "write_name_mark",
    "has_logs",
    "forget",
)


class Committer(ABC):
    """Commits or aborts in the driver, from participants alone."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Refuse one that keeps marks by itself."""
        super().__init_subclass__(**options)
        _require_names_of_today(cls, dict.fromkeys(_OF_MARKS, "of a onceflow.sinks.Marks, which marks() gives,"))

    @abstractmethod
    def preflight(self) -> None:
        """Prove, before anything is written, that prepare, commit and abort will be allowed.

        Raises:
            OnceflowError: A right is missing or a setting cannot work; the message names it.
        """

    def expires_after_s(self) -> float | None:
        """How long the system keeps an undecided transaction, in seconds; None for one that never expires."""
        return None

    def can_finish(self, participant: Participant) -> bool:  # noqa: ARG002 - the contract's signature
        """Whether this committer can commit what another sink of the same system prepared.

        A sink may have been renamed or removed while the job was down; what it decided must become visible anyway.
        """
        return False

    def known(self, handles: Collection[str]) -> Collection[str] | None:  # noqa: ARG002 - the contract's signature
        """Those of these handles that the system knows as committed; None for a system that does not keep that.

        One that keeps it keeps for ever, of each job and sink, all of the newest epoch at least. Then each start asks
        for it, and ``check`` and ``commit`` ask for ``Run.newest``: a system that does not know it was put back to an
        older state, and what it has lost would never be written again.

        Args:
            handles: Of participants of this sink that are finished.
        """
        return None

    def known_of(self, sink: str, handles: Collection[str]) -> Collection[str] | None:  # noqa: ARG002 - as above
        """As ``known``, of another sink of the same system: of what this one was called before.

        Args:
            sink: The other one's name.
            handles: Of participants of it that are finished.
        """
        return self.known(handles)

    def marks(self) -> Marks | None:
        """What the system keeps of the job outside of its checkpoint; None for a system that keeps nothing of it."""
        return None

    def close(self) -> None:  # noqa: B027 - not every committer holds a connection
        """Let go of the connection that the sink handed over."""

    @abstractmethod
    def seal(self, reports: Sequence[TaskReport], run: Run) -> list[Participant]:
        """Make participants of what the tasks of a run have prepared.

        A sink that commits task by task makes one of each report that holds a transaction; one that commits a whole
        epoch at once makes one of them all. Together they cover each part that was written, once.

        Args:
            reports: All of the run's reports of this sink that hold a transaction, with the parts that are in it.
            run: The run that wrote them.

        Returns:
            The participants, with handles that no other transaction of the sink has, and with what only the driver
            knows. Of a system that keeps its commits (``known``) it is one, with the handle of ``Run.handles`` where
            that names one.
        """

    @abstractmethod
    def check(self, participants: Sequence[Participant], run: Run, age_s: float) -> str | None:
        """Compare every pre-commit with what the system shows; what is wrong, or None.

        Args:
            participants: All of the epoch's participants of this sink; none where it got no rows.
            run: The run that wrote them.
            age_s: Seconds since the run began, by a monotonic clock.

        Returns:
            What is wrong with this run's pre-commits, so that another run of the epoch mends it: it was ended, or is
            not whole. The user is told of it by a ``PreCommitError``, which is retriable.

        Raises:
            EpochTooLongError: The transactions may expire before they are committed, now and at every retry.
            OnceflowError: Anything else, in the words and the class that the user gets. Its class is ``retriable``
                only where the next start, of the job as it is, goes on: no answer. A row, a target or a bookkeeping
                that somebody has to put right is not. With ``refusal=`` (who has refused, and its own code) a retriable
                one is one for a person at the third start in a row.
        """

    @abstractmethod
    def commit(self, participants: Sequence[Participant]) -> Mapping[ParticipantId, Reply]:
        """Send one commit for each; each gets an answer here. Idempotent.

        No answer of the system is RETRY; no right to commit is REFUSED.
        """

    def refusal(self, participants: Sequence[Participant]) -> OnceflowError:
        """The error for commits that were answered with REFUSED for as long as the driver is patient.

        It is not retriable, and says which right is missing, and that the decision stands.
        """
        return RecoveryError(
            f"{len(participants)} commits are refused for lack of a right; their decision stands, and nothing is lost",
            harmless="for the data: the next start commits what is decided",
            cause="a right of this user was taken away",
            action="give it back, then start the job again",
        )

    @abstractmethod
    def abort(self, participants: Sequence[Participant]) -> None:
        """Abort each, exactly this transaction and no later one under the same name. Idempotent; best effort.

        What was aborted must be told as ABORTED afterwards, or a replay of it stops for a person.
        """

    @abstractmethod
    def abort_run(self, run: Run) -> None:
        """Abort all open transactions of one run: those of tasks that died left no report. Best effort."""

    @abstractmethod
    def outcomes(self, participants: Sequence[Participant]) -> Mapping[ParticipantId, Evidence]:
        """What is known of each now. COMMITTED and ABORTED need positive evidence; absence proves nothing."""

    @abstractmethod
    def lingering(self, incarnation: int, spared: Sequence[Participant]) -> Sequence[Participant]:
        """Open transactions of this job that incarnations older than this left, without the spared ones of any sink.

        Only looks. The caller asks the journal once more whether its start is still the newest, and then passes
        the answer to ``abort``: so a driver that slept in between cannot hit a newer one's transactions.

        Args:
            incarnation: The present start's number.
            spared: What is decided and not finished, of all sinks of the job.
        """


def marks_of(committers: Iterable[Committer]) -> list[Marks]:
    """Those of the committers whose systems keep any, in their order."""
    return [marks for marks in (committer.marks() for committer in committers) if marks is not None]


def evidence_of(committer: Committer, participants: Sequence[Participant]) -> dict[ParticipantId, Evidence]:
    """The outcome of each. One that the committer leaves out is unknown: absence proves nothing.

    Left out of what is weighed, it would count as written where all others are, and as lost where all others are lost.
    """
    told = committer.outcomes(participants)
    nothing = Evidence(Outcome.UNKNOWN, "its sink's committer says nothing of it")
    return {p.id: told.get(p.id, nothing) for p in participants}


class Sink(ABC):
    """Where an output goes.

    Attributes:
        name: Unique within the job; part of transactional ids and of the journal.
        guarantee: What is promised.
        destination: Where all rows go that name no place of their own. It is hashed into each row's digest: what was
            decided for one place is never written again, in part, to another.
    """

    name: str
    guarantee: Guarantee
    destination: str = ""

    @property
    def participates(self) -> bool:
        """Whether the sink takes part in the decision."""
        return self.guarantee is Guarantee.EXACTLY_ONCE

    on_refused: Sink | None = None
    """Where rows go that it cannot write for what stands in them; None: one such row stops the job."""

    keeps_fields: bool = False
    """Whether a reader of its system gets the output's fields, as of a table, not what ``columns`` makes of them."""

    @property
    def registries(self) -> Sequence[Any]:
        """Where its formats ask for schemas: each a ``SchemaRegistry``."""
        return ()

    @property
    def carries_secret(self) -> bool:
        """Whether its writers need a secret (a password, a token, a key): Spark's tasks carry it then."""
        return False

    def under(self, mode: Guarantee) -> None:  # noqa: B027 - most sinks have only one
        """Take the guarantee of a job's checkpoints, if none was named; a sink that has only one keeps it.

        Args:
            mode: ``EXACTLY_ONCE`` or ``AT_LEAST_ONCE``.

        Raises:
            ConfigurationError: A stronger one was named, or a job of the other mode has the sink.
        """

    def expires_after_s(self) -> float | None:
        """How long the system keeps an undecided transaction, in seconds, as far as it is known before ``connect``.

        None for a system whose transactions never expire.
        """
        return None

    @abstractmethod
    def connect(self) -> SinkConnection:
        """Connect in the driver, and check what can be checked there. Called once for each start of the job.

        Raises:
            OnceflowError: It cannot work, and why.
        """

    def attach(self) -> SinkConnection:
        """Connect to finish what is decided, or for an operator's tool: make nothing, and work on what is broken.

        A sink whose ``connect`` makes or demands something (a topic that is gone, for example) overrides it.
        """
        return self.connect()

    @abstractmethod
    def columns(self, fields: StructType) -> list[Column]:
        """What a writer gets of each row, from the columns of the output's DataFrame.

        Args:
            fields: The DataFrame's columns, with their types.

        Raises:
            ConfigurationError: A column that the sink needs is not there, or the output may be meant in more than one
                way: then it says what to write for each.
        """

    def row_limits(self) -> Mapping[str, Any]:
        """What its system takes of a row now, as JSON values; nothing where that is to be made. Asks the system.

        Raises:
            OnceflowError: It did not answer.
        """
        return {}

    def refused(self, fields: StructType, limits: Mapping[str, Any]) -> Column:
        """Why a row cannot be written, a string that tells no value; null where it can. Of a sink with ``on_refused``.

        It follows from the row and the limits alone: an epoch that is run again refuses the same rows.

        Args:
            fields: The output's columns, with their types.
            limits: What ``row_limits`` has told, of now or of an earlier start.
        """
        raise NotImplementedError(f"{type(self).__name__} has no on_refused")

    def dead_letter_columns(self, fields: StructType) -> list[Column]:
        """What a writer gets of each dead letter, from the columns that ``Source.dead_letters`` has.

        Args:
            fields: Those columns, with their types.

        Raises:
            ConfigurationError: The sink says how rows are written, and dead letters are written otherwise.
        """
        return self.columns(fields)

    def describe(self) -> str:
        """The sink in a few words, without secrets."""
        return f"{type(self).__name__} {self.name} ({self.guarantee})"


class SinkConnection(ABC):
    """A sink that is connected, for one start of a job; all that the start has found out about it is kept here.

    Attributes:
        system_id: The system's lasting id, which no other system has, without a comma; "" only of a sink that takes no
            part in the decision.
        is_there: Whether what rows go to is there. Where not, ``make_output`` makes it, and only then can it be proven
            that the job may write there.
    """

    system_id: str = ""
    is_there: bool = True

    def __init_subclass__(cls, **options: Any) -> None:
        """Refuse one that answers by older names."""
        super().__init_subclass__(**options)
        _require_names_of_today(cls, {"check_output": "make_output", "check_beside": "require_beside"})

    def make_output(self, fields: StructType) -> None:  # noqa: B027 - not every system has columns
        """Look whether the output fits what it goes to; make what was asked for. Called once, before the first writer.

        Nothing is made before: only here is all accepted that the plan is refused for.

        What can be told without the system is ``Sink.columns``'s to tell.

        Args:
            fields: The columns of the output's DataFrame.

        Raises:
            OnceflowError: It does not fit, and why.
        """

    def compare_output(self, fields: StructType) -> None:  # noqa: B027 - not every system has columns
        """Look whether the output fits what is there, as ``make_output`` does, and make nothing: ``onceflow check``.

        Args:
            fields: The columns of the output's DataFrame.

        Raises:
            OnceflowError: It does not fit, and why.
        """

    def require_beside(self, others: Sequence[SinkConnection]) -> None:  # noqa: B027 - few systems know of such a thing
        """Look whether an epoch can be committed here beside the job's other sinks; each commits by itself.

        Called behind ``make_output`` or ``compare_output`` of all.

        Args:
            others: The connections of the job's other sinks, of any kind.

        Raises:
            OnceflowError: What one has committed may refuse the other's commit, behind the decision.
        """

    @abstractmethod
    def writer_factory(self) -> WriterFactory:
        """What opens this sink's writers in tasks."""

    def committer(self, prefix: str, job_id: str) -> Committer:
        """What commits this sink's part; asked only of one that takes part in the decision. Called at most once.

        The connection is the committer's from then on, which lets go of it: one sink may serve two runs, of which one
        is just ending.

        Args:
            prefix: ``transactional_id_prefix`` of the job: what names in the system begin with.
            job_id: Of the checkpoint; twelve hexadecimal digits.
        """
        raise NotImplementedError(f"{type(self).__name__} has no committer ({prefix}, {job_id})")

    def read_name_mark(self, prefix: str, name: str) -> str | None:  # noqa: ARG002 - the contract's signature
        """As ``Marks.read_name``, before there is a committer: nothing is made in a place until it is known to be new.

        Args:
            prefix: ``transactional_id_prefix`` of the job.
            name: Its name.
        """
        return None

    def close(self) -> None:  # noqa: B027 - not every connection holds something
        """Let go of what no committer has."""
