"""Which sink's committer finishes a participant, and for how long its system keeps it.

Must not know: what is done with a participant, and when. A sink that was renamed or removed is finished by another one
of its system.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

from onceflow.connectors.contract import Committer
from onceflow.errors import ConfigurationError
from onceflow.twophase.participants import Participant, ParticipantId


class Finishers:
    """Of one start.

    Args:
        committers: By sink.
        epoch: The epoch in work, for messages.
    """

    def __init__(self, committers: Mapping[str, Committer], epoch: Callable[[], int]) -> None:
        self._committers = committers
        self._epoch = epoch
        self._mine: frozenset[ParticipantId] = frozenset()

    def sealed(self, participants: Iterable[Participant]) -> None:
        """Told of what this start itself has sealed for the epoch in work.

        Their sinks have no other name than they had then, so nobody asks a system who finishes them.
        """
        self._mine = frozenset(participant.id for participant in participants)

    def shortest_s(self) -> float:
        """The shortest time in seconds for which a sink's system keeps what is pre-committed; infinity for ever."""
        known = [s for s in (c.expires_after_s() for c in self._committers.values()) if s is not None]
        return min(known, default=math.inf)

    def kept_for_s(self, participant: Participant) -> float:
        """The same of one participant.

        Raises:
            ConfigurationError: Nobody finishes it.
        """
        expires = self._committers[self._required(participant)].expires_after_s()
        return math.inf if expires is None else expires

    def by_sink(self, participants: Iterable[Participant]) -> dict[str, list[Participant]]:
        """Participants by the sink whose committer finishes them.

        Raises:
            ConfigurationError: Nobody finishes one of them.
        """
        by_sink: dict[str, list[Participant]] = {}
        for participant in participants:
            by_sink.setdefault(self._required(participant), []).append(participant)
        return by_sink

    def of(self, participant: Participant) -> str | None:
        """Its own sink, or one of the same system, also where another one has got its name; None for nobody."""
        mine = participant.sink if participant.sink in self._committers else None
        if mine is not None and (participant.id in self._mine or self._committers[mine].can_finish(participant)):
            return mine
        able = (name for name, committer in self._committers.items() if committer.can_finish(participant))
        return next(able, mine)

    def _required(self, participant: Participant) -> str:
        found = self.of(participant)
        if found is None:
            epoch = self._epoch()
            raise ConfigurationError(
                f"epoch {epoch} is decided and not finished, and its sink {participant.sink} "
                "is none of the job's sinks now",
                cause="the sink was removed or renamed while the job was down, and no other sink is on its cluster",
                action="start the job once with the sinks of before; then change them. If its system is gone for good: "
                f"`onceflow txn resolve <job file> {epoch} --choice count-as-written --why ...` gives up its rows",
                epoch=epoch,
                sink=participant.sink,
            )
        return found
