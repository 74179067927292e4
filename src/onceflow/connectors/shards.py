"""A committer for simple systems: each shard is kept there under a handle, and one step shows it or drops it.

Must not know: any particular sink, the journal, Spark.

What is the same in every such sink is written here: a participant of each shard, and what follows from a shard's state.
It claims nothing that ``state`` does not show: a shard that is not there is UNKNOWN.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from onceflow.connectors.contract import Committer, Run
from onceflow.errors import ConfigurationError
from onceflow.twophase.messages import Evidence, Outcome, Reply
from onceflow.twophase.participants import Participant, ParticipantId, TaskReport

_NOBODYS = "onceflow-preflight"


@dataclass(frozen=True, slots=True)
class OpenShard:
    """A shard that is kept, and neither shown nor dropped.

    Attributes:
        handle: What it is found by.
        sink: The name of the sink that wrote it.
        incarnation: The start that wrote it.
        epoch: Which epoch it is of.
    """

    handle: str
    sink: str
    incarnation: int
    epoch: int


class ShardCommitter(Committer):
    """Commits shard by shard, from three answers of the system.

    A writer's ``prepare`` gives ``{"handle": …}``: an id that no other shard ever has. What it keeps under it has to be
    OPEN from then on, durably, and stays whole until one step ends it.

    Args:
        sink: The sink's name.
        job_id: As ``SinkConnection.committer`` gets it.
    """

    def __init__(self, sink: str, job_id: str) -> None:
        self.sink = sink
        self.job_id = job_id

    @abstractmethod
    def state(self, handle: str) -> Outcome:
        """OPEN, COMMITTED or ABORTED, as the system shows it; UNKNOWN where nothing is kept under the handle."""

    @abstractmethod
    def end(self, handle: str, outcome: Outcome) -> None:
        """End a shard that is open, by one step, durably. What has ended stays as it is.

        Args:
            handle: The shard's.
            outcome: COMMITTED or ABORTED.
        """

    @abstractmethod
    def open_shards(self) -> Iterable[OpenShard]:
        """All open shards of this job, whichever sink and start wrote them."""

    def preflight(self) -> None:
        """Try both ends, on a handle that nobody has, and the list."""
        for outcome in (Outcome.COMMITTED, Outcome.ABORTED):
            self.end(_NOBODYS, outcome)
        self._open_shards()

    def seal(self, reports: Sequence[TaskReport], run: Run) -> list[Participant]:  # noqa: ARG002 - the contract's
        """A participant of each of the ``reports`` of a ``run``."""
        return [Participant(self.sink, self._handle(r), r.parts, {}) for r in reports]

    def _handle(self, report: TaskReport) -> str:
        handle = (report.transaction or {}).get("handle")
        if isinstance(handle, str) and handle:
            return handle
        raise self._wrong("prepare", report.transaction, 'must give {"handle": ...}, a text that is not empty')

    def _state(self, handle: str) -> Outcome:
        found: object = self.state(handle)
        if isinstance(found, Outcome):
            return found
        raise self._wrong("state", found, "must give onceflow.sinks.Outcome.OPEN, COMMITTED, ABORTED or UNKNOWN")

    def _open_shards(self) -> list[OpenShard]:
        found: object = self.open_shards()
        if not isinstance(found, Iterable):
            raise self._wrong("open_shards", found, "must give a list of onceflow.sinks.OpenShard")
        listed = list(found)  # what is listed may be ended before all is looked at
        for each in listed:
            if not isinstance(each, OpenShard):
                raise self._wrong("open_shards", each, "must give onceflow.sinks.OpenShard for each shard")
            for name, kind in (("handle", str), ("sink", str), ("incarnation", int), ("epoch", int)):
                if not isinstance(value := getattr(each, name), kind):
                    raise self._wrong("open_shards", value, f"must give {kind.__name__} as each shard's {name}")
        return listed

    def _wrong(self, method: str, given: object, demanded: str) -> ConfigurationError:
        what = "None" if given is None else type(given).__name__  # never its values
        return ConfigurationError(
            f"the committer of sink {self.sink} cannot work: {method} gave {what}, and {demanded}",
            harmless="for what is visible: it stays as it is",
            cause=f"the code of {type(self).__name__}, or of the writer that belongs to it",
            action="correct it, and let onceflow.testing.conformance look at the sink",
            sink=self.sink,
        )

    def check(self, participants: Sequence[Participant], run: Run, age_s: float) -> str | None:  # noqa: ARG002 - likewise
        """Each of the ``participants`` is open; the other attempts of the ``run`` are ended. ``age_s`` has no limit."""
        self._abort_run(run, but={p.handle for p in participants})
        found = {p.handle: self._state(p.handle) for p in participants}
        return next(
            (f"{handle} is {state.value}" for handle, state in found.items() if state is not Outcome.OPEN), None
        )

    def commit(self, participants: Sequence[Participant]) -> Mapping[ParticipantId, Reply]:
        """Committed is what the system shows as committed."""
        return {p.id: self._commit_one(p.handle) for p in participants}

    def _commit_one(self, handle: str) -> Reply:
        self.end(handle, Outcome.COMMITTED)
        return Reply.COMMITTED if self._state(handle) is Outcome.COMMITTED else Reply.SUSPECT

    def abort(self, participants: Sequence[Participant]) -> None:
        """End each."""
        for p in participants:
            self.end(p.handle, Outcome.ABORTED)

    def abort_run(self, run: Run) -> None:
        """End each open one of the run."""
        self._abort_run(run, but=())

    def _abort_run(self, run: Run, but: Collection[str]) -> None:
        mine = (self.sink, run.incarnation, run.epoch)
        for each in self._open_shards():
            if (each.sink, each.incarnation, each.epoch) == mine and each.handle not in but:
                self.end(each.handle, Outcome.ABORTED)

    def outcomes(self, participants: Sequence[Participant]) -> Mapping[ParticipantId, Evidence]:
        """As the system shows them."""
        found = {p.id: self._state(p.handle) for p in participants}
        return {who: Evidence(state, f"its system shows it as {state.value}") for who, state in found.items()}

    def lingering(self, incarnation: int, spared: Sequence[Participant]) -> Sequence[Participant]:
        """Open ones of starts before ``incarnation``, without the ``spared``."""
        keep = {p.handle for p in spared}
        found = [each for each in self._open_shards() if each.incarnation < incarnation and each.handle not in keep]
        return [Participant(each.sink, each.handle, (), {}) for each in found]
