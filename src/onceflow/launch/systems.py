"""The systems of a start's sinks and sources: brokers, topics, rights. It only looks.

Must not know: the rules, plans, any particular sink, Spark. What is looked at before Java is started is looked at again
behind it, but for rights: so whatever is not known yet, as of a topic that is to be made, is left until then.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from operator import methodcaller

from onceflow.checkpoint.identity import JobIdentity, read_identity
from onceflow.checkpoint.place import Place
from onceflow.connectors.contract import Committer, Sink, SinkConnection
from onceflow.connectors.source_contract import Source, SourceConnection
from onceflow.errors import ConfigurationError, OnceflowError
from onceflow.findings import Checks
from onceflow.launch.marked import require_not_lost, require_not_rewound
from onceflow.launch.ownership import identify
from onceflow.launch.relatives import require_unwritten, targets_of
from onceflow.twophase.layout import Layout, LayoutSource


class Systems:
    """What was found in order, with connections that are open until the start takes them.

    Args:
        listed: The sinks that were looked at.

    Attributes:
        allowed: It was proven that each of them that takes part may write.
    """

    def __init__(self, listed: Sequence[Sink] = ()) -> None:
        self._listed = tuple(listed)
        self.allowed = False
        self.sinks: dict[str, SinkConnection] = {}
        self.sources: dict[Hashable, SourceConnection] = {}

    def allows(self, sinks: Sequence[Sink]) -> bool:
        """Whether it was proven that all of these may write."""
        return self.allowed and all(map(self._knows, sinks))

    def left(self, sinks: Sequence[Sink], sources: Iterable[Source]) -> str:
        """What of all this is still to be done, as a phase that none before was called."""
        if not all(map(self._knows, sinks)):
            return f"checks of {described(sinks, sources)}"
        missing = [sink for sink in sinks if sink.name in self.sinks and not self.sinks[sink.name].is_there]
        return f"making {described(missing, ())}" if missing else f"rights on {described(sinks, ())}"

    def connect(self, sink: Sink) -> SinkConnection:
        """The sink's connection, the caller's from now on."""
        known = self._knows(sink) and sink.name in self.sinks
        return self.sinks.pop(sink.name) if known else sink.connect()

    def take_sources(self) -> dict[Hashable, SourceConnection]:
        """The connections of the sources' systems, the caller's from now on."""
        taken, self.sources = self.sources, {}
        return taken

    def close(self) -> None:
        """Close what nobody has taken."""
        for sink in self.sinks.values():
            sink.close()
        for source in self.sources.values():
            source.close()
        self.sinks, self.sources = {}, {}

    def _knows(self, sink: Sink) -> bool:
        return any(each is sink for each in self._listed)


def look_at_systems(
    sinks: Sequence[Sink],
    sources: Sequence[Source],
    place: Place,
    prefix: str,
    name: str,
    begin: Callable[[str], None],
    *,
    taken_over: bool,
) -> Systems:
    """Look at all that needs no Spark.

    While an epoch is undone nothing is looked at: no check comes before its commit, for which this may lack a sink.

    Args:
        sinks: The job's sinks, as far as they are known.
        sources: Its sources, likewise.
        place: Its checkpoint.
        prefix: First part of its transactional ids.
        name: The job's name.
        begin: Told of the phase, if there is anything to look at.
        taken_over: The checkpoint is claimed, or left: whose it is to be is only known when that is done.

    Raises:
        OnceflowError: The start would be refused, and why: of all that was found, not of the first alone.
    """
    if place.has_undone() or not (sinks or sources):
        return Systems()
    begin(f"checks of {described(sinks, sources)}")
    found, checks = Systems(sinks), Checks()
    try:
        _look(sources, place, found.sources, checks)
        for sink in sinks:
            if sink.name not in found.sinks:  # two of one name are refused where outputs are put together
                with checks.one():
                    found.sinks[sink.name] = sink.connect()
        if not taken_over:
            taking_part = [sink for sink in sinks if sink.participates and sink.name in found.sinks]
            with checks.one():
                require_not_lost(place, [found.sinks[sink.name] for sink in taking_part], prefix, name)
            with checks.one():
                require_unwritten(place, targets_of(sinks, found.sinks))
            with checks.one():
                there = [sink for sink in taking_part if found.sinks[sink.name].is_there]
                require_rights(there, place, prefix)
            found.allowed = all(connection.is_there for connection in found.sinks.values())
        checks.end()
    except BaseException as error:
        found.close()
        if isinstance(error, OnceflowError) and place.has_undone():
            return Systems()  # an older driver has decided an epoch meanwhile, and died: that goes first
        raise
    return found


def _look(
    sources: Sequence[Source], place: Place, connections: dict[Hashable, SourceConnection], checks: Checks
) -> None:
    """Whether what is to be read is there. Of topics that the checkpoint knows, a start says more."""
    layout = place.journal.history()[0].layout or Layout()
    topics = tuple(topic for source in layout.sources for topic in source.topics)
    for source in sources:
        with checks.one():
            if source.system not in connections:
                connections[source.system] = source.connect()
            connections[source.system].look(source, "", "", LayoutSource((), "", "", "", topics))


def require_rights(sinks: Sequence[Sink], place: Place, prefix: str) -> None:
    """Look whose checkpoint it is, and whether the sinks may write. A new checkpoint stays nobody's.

    Args:
        sinks: Those that take part, and have what their rows go to.
        place: The job's checkpoint.
        prefix: First part of its transactional ids.

    Raises:
        OnceflowError: They may not, and why: of all that was found.
    """
    place.ours.make()
    found = read_identity(place.ours)
    if found is not None or place.checkpoint.has_run() or place.records.exists():
        found = identify(place, None, prefix, None)
    identity = found or JobIdentity.new(place.uri, "", prefix)
    connections = connected(sinks, methodcaller("attach"))
    committers: dict[str, Committer] = {}
    checks = Checks()
    try:
        for name, connection in connections.items():
            committers[name] = connection.committer(identity.prefix, identity.job_id)
            with checks.one():
                committers[name].preflight()
        checks.end()
        decided = place.journal.history()[0].decided
        if found is not None and (decided is None or {sink.name for sink in sinks}.issuperset(decided.sinks)):
            require_not_rewound(committers, place.journal, identity, place.checkpoint)
    finally:
        for committer in committers.values():
            committer.close()
        for connection in connections.values():
            connection.close()


def described(sinks: Iterable[Sink], sources: Iterable[Source]) -> str:
    """What a start asks, in the words of its owner."""
    said = [sink.describe() for sink in sinks] + [source.describe() for source in sources]
    return ", ".join(dict.fromkeys(said))


def connected(sinks: Iterable[Sink], how: Callable[[Sink], SinkConnection]) -> dict[str, SinkConnection]:
    """Each sink's connection by its name; none is left open when one fails, and all that fail are told."""
    connections: dict[str, SinkConnection] = {}
    checks = Checks()
    try:
        for sink in sinks:
            if sink.name not in connections:  # two of one name are refused where outputs are put together
                with checks.one():
                    connections[sink.name] = connection = how(sink)
                    _require_id(sink, connection)
        checks.end()
    except BaseException:
        for connection in connections.values():
            connection.close()
        raise
    return connections


def _require_id(sink: Sink, connection: SinkConnection) -> None:
    if sink.participates and (not connection.system_id or "," in connection.system_id):
        raise ConfigurationError(
            f"sink {sink.name} does not say which system it writes to: its connection's system_id is "
            f"{connection.system_id!r}",
            cause="by it a checkpoint knows its systems again, and a system that was exchanged is noticed",
            action="give the connection of this class an id that the system keeps, without a comma",
            sink=sink.name,
        )


def require_beside(connections: Mapping[str, SinkConnection]) -> None:
    """Ask each sink whether an epoch can be committed there beside the others.

    Raises:
        OnceflowError: It cannot, and why.
    """
    for name, connection in connections.items():
        connection.require_beside([other for whose, other in connections.items() if whose != name])
