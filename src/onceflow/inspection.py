"""What operators' tools see of a sink's system, or a source's, where it lets them look (docs/sinks.md says how).

Must not know: any particular system.
"""

from onceflow.connectors.inspection import (
    Held,
    InputRange,
    Inspectable,
    Inspection,
    Looked,
    LostInput,
    Origin,
    Phase,
    PlaceInSystem,
    Seen,
    Shown,
    SourceInspection,
    Waited,
)

__all__ = [
    "Held",
    "InputRange",
    "Inspectable",
    "Inspection",
    "Looked",
    "LostInput",
    "Origin",
    "Phase",
    "PlaceInSystem",
    "Seen",
    "Shown",
    "SourceInspection",
    "Waited",
]
