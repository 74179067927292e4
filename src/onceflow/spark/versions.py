"""Which releases of Spark the tests ran on, and what is called otherwise in some of them.

Must not know: what is asked of Spark. What a release lacks is asked of the one that runs, never of its number: a name
is tried as it is today, and then as it was.
"""

from __future__ import annotations

from collections.abc import Mapping

TESTED = ("4.0", "4.1", "4.2")
"""Minor releases that ``make test-versions`` runs. A patch release of one of them is taken like the one that ran."""

NEWEST = "4.2.0"
"""The release that everything else runs on."""

_STREAMING = "org.apache.spark.sql.execution.streaming."
_LOGICAL = "org.apache.spark.sql.catalyst.plans.logical."
_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions."

FORMERLY: Mapping[str, str] = {
    _STREAMING + "checkpointing.FileContextBasedCheckpointFileManager": (
        _STREAMING + "FileContextBasedCheckpointFileManager"
    ),
    _STREAMING + "checkpointing.FileSystemBasedCheckpointFileManager": (
        _STREAMING + "FileSystemBasedCheckpointFileManager"
    ),
    _STREAMING + "operators.stateful.WatermarkSupport": _STREAMING + "WatermarkSupport",
    _STREAMING + "runtime.StreamExecution": _STREAMING + "StreamExecution",
    _STREAMING + "runtime.StreamingQueryWrapper": _STREAMING + "StreamingQueryWrapper",
    _STREAMING + "runtime.StreamingRelation": _STREAMING + "StreamingRelation",
    _LOGICAL + "TransformWithStateInPySpark": _LOGICAL + "TransformWithStateInPandas",
    _EXPRESSIONS + "TimestampAddInterval": _EXPRESSIONS + "TimeAdd",
}
"""Java's classes by their names of today, and what Spark 4.0 calls them."""

TODAY: Mapping[str, str] = {
    then.rpartition(".")[2]: now.rpartition(".")[2]
    for now, then in FORMERLY.items()
    if then.rpartition(".")[2] != now.rpartition(".")[2]
}
"""Nodes and expressions of plans by a name that they had, and the name that they have today."""


def minor(release: str) -> str:
    """The minor release that a release is of: ``4.0`` for ``4.0.1``."""
    return ".".join(release.split(".")[:2])
