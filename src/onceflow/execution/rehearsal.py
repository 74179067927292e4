"""A start that starts nothing: all that it would refuse before it takes over the checkpoint, with nothing changed.

Must not know: the rules, any particular sink. A job may run on the checkpoint meanwhile: it is not fenced.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from pyspark.sql import SparkSession

from onceflow.connectors.contract import Sink
from onceflow.execution.foresight import Foreseen, connected, require_beside, require_rights
from onceflow.execution.launch import Plan, outputs_of, place_of, refuse_early
from onceflow.execution.ownership import refuse_incomplete
from onceflow.execution.relatives import refuse_written, targets_of
from onceflow.execution.source_check import Sources
from onceflow.options.auditing import Auditing


def rehearse(session: SparkSession, result: object, sinks: Sequence[Sink], plan: Plan, foreseen: Foreseen) -> None:
    """Look at the plan, its sources, its sinks and the checkpoint, as a start does before it makes or changes anything.

    What only a start can tell is left to it: whether a table or topic that is to be made can be made, and, while an
    epoch is decided and not done, whether the plan fits.

    Args:
        session: The SparkSession of the DataFrames.
        result: What the stream function returned.
        sinks: The sinks that get the rows of one DataFrame.
        plan: The rest.
        foreseen: What was looked at before Spark was there; its connections are this function's.

    Raises:
        OnceflowError: Why a start would be refused.
    """
    place = place_of(plan)
    refuse_incomplete(place)
    outputs = outputs_of(session, result, sinks, plan, keyed=Auditing.told().key is not None)
    leaves, states, kept = outputs.leaves(), outputs.states(), outputs.kept()
    sources = Sources(leaves, states, kept, plan.connectors, foreseen.take_sources(), outputs.mark())
    with contextlib.closing(sources):
        sources.refuse_other_number(place)
        sources.refuse_other_names(place)
        refuse_early(place, sources, plan)
        unlisted = [sink for sink in outputs.sinks if sink.participates and not foreseen.allows([sink])]
        connections = connected(outputs.sinks, foreseen.connect)
        try:
            sources.refuse_to_read({sink: connections[sink.name].system_id for sink in outputs.dead_letter_sinks})
            for sink in outputs.sinks:
                connections[sink.name].compare_output(outputs.fields(sink))
            if plan.takeover is None and not place.has_undone():
                refuse_written(place, targets_of(outputs.sinks, connections))
                require_rights([sink for sink in unlisted if connections[sink.name].is_there], place, plan.prefix)
            require_beside(connections)
        finally:
            for connection in connections.values():
                connection.close()
