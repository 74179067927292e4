"""The operator's access to a job from outside: its checkpoint, its sinks' systems, and the power to take over.

Must not know: Spark, any particular sink, how a command line looks, what is looked for or done with this access. It
never runs the stream function, makes no topic, and writes nothing but the start that ``start`` appends.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from onceflow import crash_points as crash
from onceflow.checkpoint.deleting import read_deleting, require_not_deleting
from onceflow.checkpoint.identity import JobIdentity, Mark, read_identity, same_place
from onceflow.checkpoint.place import OURS, Place
from onceflow.connectors.contract import Committer, Sink, SinkConnection, marks_of
from onceflow.connectors.inspection import Inspectable, Inspection, Origin, Shown
from onceflow.errors import CheckpointConflictError, ConfigurationError, FencedError
from onceflow.execution.guarantees import settle_guarantees
from onceflow.execution.means import Opened
from onceflow.launch.marked import require_not_rewound
from onceflow.options.checkpointing import Checkpointing
from onceflow.twophase.participants import Participant
from onceflow.twophase.records import DecidedEpoch, History, HistoryError


@dataclass
class System:
    """A system of the job's sinks that can be looked at.

    Attributes:
        id: Its lasting id.
        inspection: The look at it.
        sinks: The job's sinks there.
        destinations: Where these write.
    """

    id: str
    inspection: Inspection
    sinks: set[str] = field(default_factory=set)
    destinations: set[str] = field(default_factory=set)


def systems_of(committers: Mapping[str, Committer], ids: Mapping[str, str], to: Mapping[str, str]) -> list[System]:
    """The systems of committers that let one look.

    Args:
        committers: By sink.
        ids: The id of each sink's system.
        to: Each sink's destination, "" for none.
    """
    found: dict[tuple[type, str], System] = {}
    for name, committer in committers.items():
        if isinstance(committer, Inspectable):
            look = committer.inspection()
            # Two connectors may write to one system, and each knows its own transactions.
            system = found.setdefault((type(look), ids[name]), System(ids[name], look))
            system.sinks.add(name)
            system.destinations |= {to.get(name, "")} - {""}
    return list(found.values())


class Operator:
    """A look at a job from outside. Connects at construction; ``close`` lets go.

    Args:
        checkpointing: Where the job's checkpoint is.
        prefix: First part of its transactional ids.
        sinks: Its sinks.
        name: Its name.
        partial: Go on where the sinks leave out a system of the job's: what is there is not looked at.
        deletes: The job is to be deleted: also one whose deletion has died on its way is opened.
        opened: Opens the checkpoint.
        now: Seconds on a clock that nobody sets.
        sleep: Waits so many seconds.

    Raises:
        ConfigurationError: The job names no sink that takes part in a decision, or has not run yet.
        CheckpointConflictError: The checkpoint is of another place, cluster or prefix; or its job is being deleted.
        OnceflowError: A system cannot be reached.
    """

    def __init__(
        self,
        checkpointing: Checkpointing,
        prefix: str,
        sinks: Sequence[Sink],
        name: str = "",
        *,
        partial: bool = False,
        deletes: bool = False,
        opened: Opened = Place.at,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self.name = name
        place = opened(checkpointing.location, checkpointing.retain)
        self.now, self.sleep = now, sleep
        self.uri, self.checkpoint, self.journal = place.uri, place.checkpoint, place.journal
        self.place, self.deleted = place, read_deleting(place.ours)
        if not deletes:
            require_not_deleting(place)
        self.committers: dict[str, Committer] = {}
        self.connections: dict[str, SinkConnection] = {}
        settle_guarantees(sinks, checkpointing)
        self._sinks = [sink for sink in sinks if sink.participates]
        self.apart = [sink for sink in sinks if not sink.participates]
        if not sinks:
            raise ConfigurationError(
                "the job names no sink",
                cause="its stream function is not called here, and @job.stream(sinks=[...]) lists none",
                action="list the sinks in @job.stream(sinks=[...]); a function that returns {sink: DataFrame} may have "
                "them there as well",
            )
        identity = self.deleted or read_identity(place.ours)
        if identity is None:
            raise ConfigurationError(
                f"no job has run on {self.uri}: there is no {OURS}/job.json",
                action="start the job first, or correct the checkpoint's location",
            )
        self.identity: JobIdentity = identity
        self.partial = partial
        try:
            for sink in self._sinks:
                self.connections[sink.name] = sink.attach()
            systems = {connection.system_id for connection in self.connections.values()}
            known = set(identity.cluster_id.split(",")) - {""}
            if partial and systems <= known:
                systems = known
            self._require_all(systems)
            same_place(identity, self.uri, ",".join(sorted(systems)), prefix)
            for sink_name, connection in self.connections.items():
                self.committers[sink_name] = connection.committer(prefix, identity.job_id)
        except BaseException:
            self.close()
            raise
        ids = {name: connection.system_id for name, connection in self.connections.items()}
        self.systems = systems_of(self.committers, ids, {sink.name: sink.destination for sink in self._sinks})

    def _require_all(self, systems: Collection[str]) -> None:
        """Refuse a list of sinks that leaves one of the job's systems out: the job writes there, this would not look.

        Raises:
            CheckpointConflictError: With the systems that no listed sink is on.
        """
        known = set(self.identity.cluster_id.split(",")) - {""}
        missing = sorted(known.difference(systems))
        if missing and known.issuperset(systems):
            raise CheckpointConflictError(
                f"the list of sinks is too short: the job has sinks on {', '.join(missing)} as well, and none of those "
                "listed is there",
                harmless="always: nothing was looked at or changed",
                cause=f"@job.stream(sinks=[...]) lists {', '.join(sorted(s.name for s in self._sinks))}; other sinks "
                "are known only to the stream function, which is not called here",
                action="list all sinks in @job.stream(sinks=[...]), also those of a {sink: DataFrame}; then try again",
                checkpoint=self.uri,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        for committer in self.committers.values():
            committer.close()
        for connection in self.connections.values():
            connection.close()

    def origin(self, transaction_id: str) -> Origin | None:
        """Who of this job began a transaction of this id, or None when it is not the job's own."""
        return next(filter(None, (system.inspection.origin(transaction_id) for system in self.systems)), None)

    def show(self, participant: Participant) -> Shown:
        """What a participant says of its transaction, as its own sink's connector reads it.

        Only where the job does not have that sink any more, whichever connector understands it is believed: another's
        reading of what its own does not understand could pass for some other transaction.
        """
        name = participant.sink
        asked = [s for s in self.systems if name in s.sinks or name not in self.committers]
        shown = [system.inspection.show(participant) for system in asked]
        return next((each for each in shown if each.handle is not None), shown[0] if shown else Shown("", None))

    def undone(self, history: History) -> DecidedEpoch | None:
        """The decided epoch that Spark has not recorded as done, or None.

        Raises:
            CheckpointConflictError: There are two, so Spark's side of the checkpoint is older than the journal.
        """
        try:
            return history.undone(self.checkpoint.newest_commit())
        except HistoryError as error:
            raise CheckpointConflictError(
                f"Spark's commits/ in {self.uri} are older than the journal: {error}",
                harmless="never: which of the two epochs' records were counted in the state cannot be told",
                cause="files of commits/ were deleted, or an older copy of them was put back",
                action="put the checkpoint's newest copy back",
                checkpoint=self.uri,
            ) from error

    def start(self) -> History:
        """Append a start: ends the power of every driver that runs on this checkpoint. Read before you act."""
        history = self.journal.start(self.identity.job_id, left=self.identity.left)
        crash.reach("O1", history.incarnation)
        epoch = history.decided.epoch if history.decided is not None else -1
        mark = Mark(history.incarnation, self.journal.start_nonce, epoch).dumps()
        for marks in marks_of(self.committers.values()):
            marks.write(mark)
        return history

    def require_not_rewound(self) -> None:
        """Refuse to act on a checkpoint that is older than what the job has done: its decisions are not all here."""
        require_not_rewound(self.committers, self.journal, self.identity, self.checkpoint)

    def fenced(self) -> FencedError:
        """The error for a start of the job that came while an operator was at work."""
        return FencedError(
            f"the job on {self.uri} was started while this was under way",
            harmless="always: nothing was changed",
            cause="a supervisor starts the job again by itself",
            action="hold the supervisor, then try again",
        )
