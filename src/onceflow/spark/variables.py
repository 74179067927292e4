"""The state variables of a state class (``transformWithState``): what its ``init`` asks for.

Must not know: what is made of them. Spark tells variables by their names, so one under another name begins empty. Only
the class itself says which it has, when its ``init`` is called; Spark calls it in the driver, too, before each start.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessorHandle

from onceflow.spark.internals import state_class


class _Asked(StatefulProcessorHandle):
    """What is asked for, written down in place of being made."""

    def __init__(self) -> None:
        self.variables: dict[str, str] = {}

    def getValueState(self, stateName: str, schema: Any, ttlDurationMs: int | None = None) -> Any:  # noqa: N802, N803
        """One value for each key."""
        self.variables[stateName] = f"value {stateName}: {_said(schema)}{_ends(ttlDurationMs)}"

    def getListState(self, stateName: str, schema: Any, ttlDurationMs: int | None = None) -> Any:  # noqa: N802, N803
        """A list for each key."""
        self.variables[stateName] = f"list {stateName}: {_said(schema)}{_ends(ttlDurationMs)}"

    def getMapState(  # noqa: N802
        self,
        stateName: str,  # noqa: N803
        userKeySchema: Any,  # noqa: N803
        valueSchema: Any,  # noqa: N803
        ttlDurationMs: int | None = None,  # noqa: N803
    ) -> Any:
        """A map for each key."""
        said = f"{_said(userKeySchema)} to {_said(valueSchema)}{_ends(ttlDurationMs)}"
        self.variables[stateName] = f"map {stateName}: {said}"

    def deleteIfExists(self, stateName: str) -> None:  # noqa: N802, N803
        """A variable of before is given up on purpose."""
        self.variables.pop(stateName, None)


def variables_of(node: Any) -> dict[str, str] | None:
    """The variables of a state class by their names, in order, each with its kind and schema.

    Args:
        node: The operator ``TransformWithStateInPySpark`` of a plan.

    Returns:
        None where its ``init`` cannot be called here; then Spark's own start fails, or knows better.
    """
    asked = _Asked()
    try:
        state_class(node).init(asked)
    except Exception:  # noqa: BLE001 - it is the user's, and may need what only an executor has
        return None
    return dict(sorted(asked.variables.items()))


def _said(schema: Any) -> str:
    return schema if isinstance(schema, str) else str(schema.simpleString())


def _ends(ttl_ms: int | None) -> str:
    """Spark keeps a time beside each value where there is a TTL, however long it is."""
    return "" if ttl_ms is None else " with a TTL"
