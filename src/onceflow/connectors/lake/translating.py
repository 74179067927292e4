"""What goes wrong with a lake table's catalog or store, as an error of ours that names the sink and what it was asked.

Must not know: epochs, decisions, any particular format.
"""

from __future__ import annotations

from onceflow.connectors.lake.refusals import answer_of, lacks_right
from onceflow.connectors.lake.table import LakeTable
from onceflow.errors import LakeRightsError, LakeUnavailableError, OnceflowError


class Translating:
    """What goes wrong inside with a store becomes an error of ours. A context manager.

    Args:
        table: Whose.
        sink: The sink's name.
        what: What it was asked to do.
    """

    def __init__(self, table: LakeTable, sink: str, what: str) -> None:
        self._of = table, sink, what

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception) and not isinstance(error, OnceflowError | AssertionError):
            table, sink, what = self._of
            raise translated(table, sink, what, error) from None


def translated(table: LakeTable, sink: str, what: str, error: BaseException) -> LakeUnavailableError | LakeRightsError:
    """The error of a catalog or store that did not do what it was asked for."""
    if lacks_right(error):
        return LakeRightsError(
            f"sink {sink}: {table.where} refused when asked to {what}: {table.words(error)}",
            harmless="for the data: nothing was changed",
            cause="the login has no right to do this to the table, or in its folder",
            action="grant what docs/lake.md lists, then start the job again",
        )
    answer = answer_of(error)
    return LakeUnavailableError(
        f"sink {sink}: {table.where} did not answer when asked to {what}: {table.words(error)}",
        harmless="for the data: what is decided stays beside the table, and the next start goes on",
        cause="its catalog or its store is down, is not reached, or refuses",
        action="see to them, then start the job again",
        refusal=answer and f"sink {sink} ({answer})",
    )
