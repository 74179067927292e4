"""The steps of a start that ask its systems: before Java is started, and when it is known what rows go to them.

Must not know: the rules, any particular sink or source.
"""

from __future__ import annotations

from onceflow.launch.starting import Starting
from onceflow.launch.systems import connected, look_at_systems, require_beside, require_rights
from onceflow.spark.internals import running_session


def look_without_java(starting: Starting) -> None:
    """Look at the systems while there is no Java: else there is none to be spared, and later steps look."""
    if running_session() is None:
        look_at_all(starting)


def look_at_all(starting: Starting) -> None:
    """Look at the systems of all that is listed."""
    request, phases = starting.request, starting.phases
    if not starting.place.has_undone():
        of_sources = [registry for source in starting.sources for registry in source.registries]
        starting.schemas.look([*of_sources, *(registry for sink in starting.sinks for registry in sink.registries)])
    known = (starting.sinks, starting.sources, starting.place, request.prefix, request.name)
    starting.systems = look_at_systems(*known, phases.begin, taken_over=request.takeover is not None)


def make_targets(starting: Starting) -> None:
    """See whether each output fits what it goes to. That may make a topic or a table: the plan is accepted."""
    _connect(starting)
    for sink in starting.outputs.sinks:
        starting.connections[sink.name].make_output(starting.outputs.fields(sink))
    require_beside(starting.connections)


def compare_targets(starting: Starting) -> None:
    """As ``make_targets``, and nothing is made; rights are looked at, too, where that was not done before Java."""
    _connect(starting)
    sinks, connections, place = starting.outputs.sinks, starting.connections, starting.place
    unlisted = [sink for sink in sinks if sink.participates and not starting.systems.allows([sink])]
    for sink in sinks:
        connections[sink.name].compare_output(starting.outputs.fields(sink))
    if starting.request.takeover is None and not place.has_undone():
        require_rights([sink for sink in unlisted if connections[sink.name].is_there], place, starting.request.prefix)
    require_beside(connections)


def _connect(starting: Starting) -> None:
    outputs, reads, systems = starting.outputs, starting.reads, starting.systems
    if not systems.allows(outputs.sinks):
        starting.phases.begin(systems.left(outputs.sinks, filter(None, reads.distinct)))
    starting.connections = connections = connected(outputs.sinks, systems.connect)
    for connection in connections.values():
        starting.opened.callback(connection.close)
    reads.require_not_read({sink: connections[sink.name].system_id for sink in outputs.side_sinks})
