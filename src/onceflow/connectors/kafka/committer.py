"""The Kafka sink's committer: what the driver does with prepared Kafka transactions.

Must not know: the journal, Spark. It knows transactions by their handles alone and works with the writers dead.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace

from onceflow.connectors.contract import TOO_OLD, Committer, Run
from onceflow.connectors.inspection import Inspectable
from onceflow.connectors.kafka import broker_checks, canary, oracle, transactions
from onceflow.connectors.kafka.client import KafkaClient, TopicMetadata
from onceflow.connectors.kafka.codes import Code, named
from onceflow.connectors.kafka.inspection import KafkaInspection
from onceflow.connectors.kafka.last_stable_offset import open_producers
from onceflow.connectors.kafka.marks import KafkaMarks
from onceflow.connectors.kafka.prepared import Handle, NotUnderstood, PreparedTransaction, read, read_handle
from onceflow.connectors.kafka.transactional_id import job_prefix, name_transaction, parse_transactional_id
from onceflow.connectors.kafka.transactions import COMPLETE_COMMIT, ONGOING, PREPARE_COMMIT, Description
from onceflow.connectors.marks import Marks
from onceflow.errors import (
    CheckpointConflictError,
    EpochTooLongError,
    KafkaRightsError,
    KafkaUnavailableError,
    PreCommitError,
    advised,
)
from onceflow.findings import Checks
from onceflow.twophase.messages import Evidence, Outcome, Reply
from onceflow.twophase.participants import Participant, ParticipantId, TaskReport

log = logging.getLogger(__name__)

# Share of the transactions' time-out after which an epoch is warned of; after TOO_OLD it is given up.
_WARN_AT = 0.5
_DESCRIBE_FOR_S = 60.0
_LIST_FOR_S = 30.0


class KafkaCommitter(Committer, Inspectable):
    """Commits one Kafka sink's transactions.

    Args:
        client: A connection to the sink's cluster, this committer's own.
        sink: The sink's name.
        topic: The sink's topic: where the preflight's transaction reaches, and where the mark is kept.
        prefix: First part of the transactional ids.
        job_id: The job's id.
        timeout_ms: ``transaction.timeout.ms`` of the writers.
        topic_id: The topic's id before any writer began; "" where only what is decided is finished.
    """

    def __init__(
        self,
        client: KafkaClient,
        sink: str,
        topic: str,
        prefix: str,
        job_id: str,
        timeout_ms: int,
        topic_id: str = "",
    ) -> None:
        self._client = client
        self._sink = sink
        self._topic = topic
        self._prefix = prefix
        self._job_id = job_id
        self._marks = KafkaMarks(client, topic, prefix, job_id)
        self._timeout_s = timeout_ms / 1000
        self._warned_epoch = -1
        self._refused: list[int] = []
        self._ids = {topic: topic_id} if topic_id else {}

    def inspection(self) -> KafkaInspection:
        """The job's transactions on the cluster, for operators' tools."""
        return KafkaInspection(self._client, self._prefix, self._job_id)

    def expires_after_s(self) -> float:
        """``transaction.timeout.ms`` of the writers."""
        return self._timeout_s

    def can_finish(self, participant: Participant) -> bool:
        """A transaction of this cluster, whichever sink it was of: handles are all that is needed."""
        found = read(participant.transaction)
        return isinstance(found, PreparedTransaction) and found.witness.cluster_id == self._client.cluster_id

    def marks(self) -> Marks:
        """Those of the job, with the sink's topic."""
        return self._marks

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    # -- before the job -----------------------------------------------------------------------

    def preflight(self) -> None:
        """Open a canary transaction on the topic, find it in the list, and abort it. It writes no record.

        What only a death asks for is tried as well: to read the topic, and to keep the mark in its group.
        """
        checks = Checks()
        with checks.one():
            self._fly()
        with checks.one():
            oracle.require_read(self._client, self._topic)
        with checks.one():
            self._marks.require_rights()
        checks.end()

    def _fly(self) -> None:
        # A name of its own, as an attempt: another start at this moment must not end our canary. Incarnation 0 is older
        # than all, so one that was left open is swept by the next start.
        name = name_transaction(self._prefix, self._job_id, 0, self._sink, 0, 0, secrets.randbits(48))
        ahead_s = canary.fly(self._client, name, self._topic, int(self._timeout_s * 1000), f"{self._prefix}-")
        for found in broker_checks.clocks(ahead_s):
            log.warning("sink %s: %s: %s; %s", self._sink, found.what, found.why, found.command)

    # -- before the decision ----------------------------------------------------------------------

    def seal(self, reports: Sequence[TaskReport], run: Run) -> list[Participant]:  # noqa: ARG002 - of the contract
        """A participant of each task's transaction, with the ids that tell later whether its topic was made again."""
        held = [_prepared(report) for report in reports]
        topics = self._client.topics({t.witness.partition.topic for t in held})
        return [self._seal(report, prepared, topics) for report, prepared in zip(reports, held, strict=True)]

    def _seal(
        self, report: TaskReport, prepared: PreparedTransaction, topics: Mapping[str, TopicMetadata]
    ) -> Participant:
        name = prepared.witness.partition.topic
        if name not in topics:
            raise PreCommitError(
                f"topic {name} is gone while sink {self._sink} was writing to it",
                harmless="for this epoch: nothing of it is visible; what the topic held is gone",
                cause="it was deleted",
                action="make the topic again and start the job again",
                topic=name,
            )
        now = topics[name].topic_id
        if self._ids.setdefault(name, now) != now:
            # A coordinator does not know it: the commit would be answered with success, and the rows would be missing.
            raise PreCommitError(
                f"topic {name} of sink {self._sink} was deleted and made again while the job ran: its id was "
                f"{self._ids[name]} and is {now}",
                harmless="for this epoch: nothing of it is visible, and the next start writes it into the new topic; "
                "what the topic held is gone",
                cause="somebody made it again, to empty it or with other settings",
                action="start the job again; Kafka has removed the job's mark with the topic, and where no other sink "
                f"keeps one, that start asks for {advised('claim')}. To have what is gone in the new topic as well, "
                "begin a new job, where its sources still hold all of it",
                topic=name,
            )
        sealed = prepared.sealed(self._client.cluster_id, now)
        return Participant(report.sink, str(sealed.handle), report.parts, sealed.to_json())

    def check(self, participants: Sequence[Participant], run: Run, age_s: float) -> str | None:
        """Each transaction is Ongoing at its own handle with exactly its partitions, and none is left beside them."""
        # The commit comes from us and not from the writer, so nothing but this look would notice that a transaction was
        # ended, begun anew, or lacks a partition.
        self._require_age(run, age_s)
        held = [_understood(p) for p in participants]
        described = self._describe_all([t.handle.transactional_id for t in held])
        for transaction in held:
            problem = _mismatch(transaction, described.get(transaction.handle.transactional_id))
            if problem:
                return f"sink {self._sink}: {problem}"
        mine = {t.handle.transactional_id for t in held}
        # Nobody will ever commit an attempt that lost; open, it would keep read_committed consumers waiting.
        losers = [name for name in self._names_of(run) if name not in mine]
        if losers:
            log.info("aborting %d transactions of task attempts that lost: %s", len(losers), ", ".join(losers))
            self._abort_named(losers)
        return None

    def _require_age(self, run: Run, age_s: float) -> None:
        if age_s >= TOO_OLD * self._timeout_s:
            raise EpochTooLongError(
                f"epoch {run.epoch} took {age_s:.1f} s; its transactions expire after {self._timeout_s:.1f} s, and "
                f"what expires after the decision has to be written again",
                harmless="always: nothing of this epoch is visible",
                cause=f"transaction_timeout of sink {self._sink} is {self._timeout_s:g} s, less than this epoch needs",
                action="raise transaction_timeout (and the broker's transaction.max.timeout.ms)",
                epoch=run.epoch,
            )
        if age_s >= _WARN_AT * self._timeout_s and self._warned_epoch != run.epoch:
            self._warned_epoch = run.epoch
            log.warning(
                "epoch %d took %.1f s, more than half of sink %s's transaction_timeout of %.1f s",
                run.epoch,
                age_s,
                self._sink,
                self._timeout_s,
            )

    # -- commit and abort -------------------------------------------------------------------------

    def commit(self, participants: Sequence[Participant]) -> dict[ParticipantId, Reply]:
        """One ``EndTxn`` v3 for each."""
        # All or none: where one is not understood, nothing is sent.
        handles = {p.id: _understood(p).handle for p in participants}
        codes = transactions.commit(self._client, list(handles.values()))
        replies = {p: transactions.reply_of(codes[h]) for p, h in handles.items()}
        refused = sorted({codes[handles[p]] for p, reply in replies.items() if reply is Reply.REFUSED})
        if refused:
            self._refused = refused
            log.error("sink %s may not commit (%s): a right was taken away; the decision stands and is tried again",
                      self._sink, ", ".join(map(named, refused)))  # fmt: skip
        busy = [p for p, h in handles.items() if codes[h] == Code.CONCURRENT_TRANSACTIONS]
        if busy:
            # The verdict is durable in PrepareCommit; only markers are missing, perhaps for an offline partition.
            described = transactions.describe(self._client, [handles[p].transactional_id for p in busy])
            for p in busy:
                found = described.get(handles[p].transactional_id)
                if found is not None and found.handle == handles[p] and found.state == PREPARE_COMMIT:
                    replies[p] = Reply.COMMITTED
        return replies

    def refusal(self, participants: Sequence[Participant]) -> KafkaRightsError:
        """Which right is missing, by the transactional ids that the commits named."""
        names = sorted(_understood(p).handle.transactional_id for p in participants)
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        return KafkaRightsError(
            f"sink {self._sink} may not commit transaction {names[0]}{more} for topic {self._topic} ("
            f"{', '.join(map(named, self._refused))}): the epoch is decided, and its decision stands",
            harmless="for the data: nothing is lost, and the next start commits it; but the transactions expire after "
            f"{self._timeout_s:g} s (transaction_timeout), and consumers wait until then",
            cause="this user has no right to WRITE to this transactional id any more; it had it when the epoch was "
            "written",
            action=f"give the right back (WRITE and DESCRIBE on transactional ids with the prefix {self._prefix}-, see "
            "'Kafka rights' in docs/security.md), then start the job again",
            transactional_id=names[0],
            topic=self._topic,
        )

    def abort(self, participants: Sequence[Participant]) -> None:
        """One abort for each exact handle."""
        found = [read_handle(p.transaction) for p in participants]
        for strange in (f for f in found if isinstance(f, NotUnderstood)):
            log.warning(
                "transaction %r of sink %s is not aborted: %s", strange.transactional_id, self._sink, strange.why
            )
        handles = [f for f in found if isinstance(f, Handle)]
        if handles:
            transactions.abort(self._client, handles)

    def abort_run(self, run: Run) -> None:
        """Abort what tasks of this run left open."""
        self._abort_named(self._names_of(run))

    def _names_of(self, run: Run) -> list[str]:
        """This sink's open transactions of one run of one epoch, by name."""
        prefix = f"{job_prefix(self._prefix, self._job_id)}{run.incarnation}-"
        deadline = self._client.now() + _LIST_FOR_S
        while True:
            try:
                names = transactions.list_ids(self._client, prefix)
                break
            except KafkaUnavailableError:  # a broker is being restarted
                if self._client.now() > deadline:
                    raise
                self._client.wait_a_little()
        # The other parity is the epoch before: decided, and perhaps still waiting for its markers.
        parsed = ((name, parse_transactional_id(name, self._prefix, self._job_id)) for name in names)
        return [name for name, p in parsed if p and p.sink == self._sink and p.parity == run.epoch % 2]

    def _abort_named(self, names: Sequence[str]) -> None:
        described = transactions.describe(self._client, names)
        transactions.abort(self._client, [d.handle for d in described.values() if d and d.state == ONGOING])

    # -- recovery ---------------------------------------------------------------------------------

    def outcomes(self, participants: Sequence[Participant]) -> dict[ParticipantId, Evidence]:
        """By DescribeTransactions where it is proof, else by the log itself."""
        held: dict[ParticipantId, PreparedTransaction] = {}
        found: dict[ParticipantId, Evidence] = {}
        for p in participants:
            transaction = read(p.transaction)
            if isinstance(transaction, NotUnderstood):
                why = f"what the journal says of {transaction.transactional_id!r} is not understood: {transaction.why}"
                found[p.id] = Evidence(Outcome.UNKNOWN, why)
            else:
                held[p.id] = transaction
        described = transactions.describe(self._client, [t.handle.transactional_id for t in held.values()])
        found |= {who: self._outcome(t, described) for who, t in held.items()}
        still_open = {who: held[who] for who, evidence in found.items() if evidence.outcome is Outcome.OPEN}
        return found | self._not_whole(still_open)

    def _not_whole(self, still_open: Mapping[ParticipantId, PreparedTransaction]) -> dict[ParticipantId, Evidence]:
        """Open transactions of which a partition does not hold its part any more, and why.

        Its coordinator does not know: a commit would be answered with success, and the rows would be missing.
        """
        producers = open_producers(self._client, {p for t in still_open.values() for p in t.partitions})
        found: dict[ParticipantId, Evidence] = {}
        for participant, transaction in still_open.items():
            handle = transaction.handle
            me = (handle.producer_id, handle.producer_epoch)
            parts = sorted(transaction.partitions)
            silent = [str(p) for p in parts if p not in producers]
            without = [str(p) for p in parts if p in producers and me not in producers[p]]
            if silent:
                why = f"{handle.transactional_id} is Ongoing; no leader of {', '.join(silent)} told what it holds"
                found[participant] = Evidence(Outcome.UNKNOWN, why, passing=True)
            elif without:
                # A late duplicate may have opened it again after its commit; then the log says so.
                log_says = oracle.ask(self._client, handle, transaction.witness)
                if log_says.outcome is not Outcome.COMMITTED:
                    # Where the witness stands, its end will be told: expired, it is proven aborted, and written again.
                    why = f"is Ongoing, but nothing of it is open in {', '.join(without)}; {log_says.why}"
                    why = f"{handle.transactional_id} {why}"
                    found[participant] = Evidence(Outcome.UNKNOWN, why, passing=log_says.passing)
            elif (gone := oracle.look_for(self._client, handle, transaction.witness)) is not None:
                found[participant] = replace(gone, why=f"{handle.transactional_id} is Ongoing, but {gone.why}")
        if not all(evidence.passing for evidence in found.values()):
            # It may have ended between the two looks: then this says nothing, and the next look finds how.
            now = transactions.describe(self._client, [still_open[p].handle.transactional_id for p in found])
            for participant, evidence in found.items():
                seen = now.get(still_open[participant].handle.transactional_id)
                if seen is None or (seen.state, seen.handle) != (ONGOING, still_open[participant].handle):
                    found[participant] = replace(evidence, passing=True)
        return found

    def _outcome(self, transaction: PreparedTransaction, described: Mapping[str, Description | None]) -> Evidence:
        name = transaction.handle.transactional_id
        if name not in described:
            return Evidence(Outcome.UNKNOWN, f"no coordinator answered for {name}", passing=True)
        found = described[name]
        if found is not None and found.handle == transaction.handle:
            if found.state == ONGOING:
                return Evidence(Outcome.OPEN, f"{name} is Ongoing")
            # One producer epoch holds one transaction, so this verdict can only be ours. CompleteAbort at our
            # handle proves nothing: a v5 abort after the commit, or a late duplicate, shows it too.
            if found.state in (PREPARE_COMMIT, COMPLETE_COMMIT):
                return Evidence(Outcome.COMMITTED, f"{name} is {found.state}")
        evidence = oracle.ask(self._client, transaction.handle, transaction.witness)
        state = "not known to its coordinator" if found is None else f"{found.state} at {found.handle.producer_epoch}"
        return replace(evidence, why=f"{name} is {state}; {evidence.why}")

    def lingering(self, incarnation: int, spared: Sequence[Participant]) -> list[Participant]:
        """All open transactions of this job on this cluster from older incarnations, whatever their sink."""
        # Where one that is spared is not understood, all of its sink's are: which one it is cannot be told.
        told = [(p.sink, read_handle(p.transaction)) for p in spared]
        keep = {found for _, found in told}
        keep_sinks = {sink for sink, found in told if isinstance(found, NotUnderstood)}
        names = transactions.list_ids(self._client, job_prefix(self._prefix, self._job_id))
        # Only older ones: by the prefix alone it would hit what a newer driver is about to decide.
        older = {}
        for name in names:
            parsed = parse_transactional_id(name, self._prefix, self._job_id)
            if parsed is not None and parsed.incarnation < incarnation and parsed.sink not in keep_sinks:
                older[name] = parsed
        found = []
        for name, description in transactions.describe(self._client, older).items():
            if description is not None and description.state == ONGOING and description.handle not in keep:
                exact = description.handle
                found.append(Participant(older[name].sink, str(exact), (), exact.to_json()))
        return found

    def _describe_all(self, names: Sequence[str]) -> dict[str, Description | None]:
        """Describe, asking again while a coordinator is moving."""
        found: dict[str, Description | None] = {}
        deadline = self._client.now() + _DESCRIBE_FOR_S
        while missing := [name for name in names if name not in found]:
            found |= transactions.describe(self._client, missing)
            if self._client.now() > deadline:
                break
            if len(found) < len(names):
                self._client.wait_a_little()
        return found


def _understood(participant: Participant) -> PreparedTransaction:
    """A participant's transaction, where nothing may be done with one that is not understood."""
    found = read(participant.transaction)
    if isinstance(found, PreparedTransaction):
        return found
    raise CheckpointConflictError(
        f"the transaction {participant.handle} of sink {participant.sink} is not understood: {found.why}",
        harmless="always for the data: nothing is done with it",
        cause="another version of onceflow, or another kind of sink, has written it; or it was edited",
        action="start the job with the version and the sinks that wrote the checkpoint",
        sink=participant.sink,
        handle=participant.handle,
    )


def _prepared(report: TaskReport) -> PreparedTransaction:
    """What a task has prepared a moment ago."""
    found = read(report.transaction)
    if isinstance(found, PreparedTransaction):
        return found
    raise PreCommitError(
        f"task {report.task} of sink {report.sink} reports a transaction that is not understood: {found.why}",
        harmless="always: nothing of this epoch is visible",
        cause="Spark's workers have another version of onceflow than the driver",
        action="give both the same; then start the job again",
        sink=report.sink,
        task=report.task,
    )


def _mismatch(transaction: PreparedTransaction, found: Description | None) -> str | None:
    name = transaction.handle.transactional_id
    if found is None:
        return f"the broker does not know transaction {name}"
    if found.state != ONGOING:
        return f"transaction {name} is {found.state}, not Ongoing"
    if found.handle != transaction.handle:
        return f"transaction {name} has producer {found.handle.producer_id}/{found.handle.producer_epoch}, not ours"
    if found.partitions != transaction.partitions:
        extra = ", ".join(map(str, sorted(found.partitions ^ transaction.partitions)))
        return f"transaction {name} has other partitions than were written: {extra}"
    return None
