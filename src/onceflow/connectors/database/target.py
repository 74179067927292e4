"""What the target of a sink is: where its rows go, as a start has found it; and what is said when it is another one.

Must not know: the ledger, who stages rows, when they are merged.

What a start has found it keeps: the schema in which a table's name was found is part of the target from then on. What
somebody may change is looked at again in each transaction that writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from onceflow.connectors.database import tables as own
from onceflow.errors import EpochFailedError, PreCommitError, RowRefusedError


class TargetError(Exception):
    """The target would not keep the rows as they are, until somebody puts it right."""


class AlteredError(TargetError):
    """The target is not what the start has looked at. The next start looks again."""


class UnorderedError(TargetError):
    """Nothing says which of a key's rows is the newest.

    Attributes:
        action: What to do.
    """

    def __init__(self, what: str, action: str) -> None:
        super().__init__(what)
        self.action = action


@dataclass(frozen=True, slots=True)
class Target:
    """Where staged rows go.

    Attributes:
        schema: The target's schema, None for the connection's own.
        table: The target's name.
        staged: The staging table's name, in the schema of onceflow's own tables.
        columns: The columns that are written.
        key: Of an upsert: the columns that a row is known by; empty for append.
        deletes: Rows may be marked: then they delete the row of their key.
        sequence: The table of its keys' sequences, in the schema of onceflow's own tables, where rows are ordered.
    """

    schema: str | None
    table: str
    staged: str
    columns: tuple[str, ...]
    key: tuple[str, ...] = ()
    deletes: bool = False
    sequence: str | None = None

    @property
    def name(self) -> str:
        """The target's name, with its schema."""
        return ".".join(part for part in (self.schema, self.table) if part)

    @property
    def rest(self) -> tuple[str, ...]:
        """The columns that are written and are not part of the key."""
        return tuple(name for name in self.columns if name not in self.key)

    @property
    def held(self) -> tuple[str, ...]:
        """The columns of the staging table that a task is given."""
        return (*self.columns, *([own.DELETE] if self.deletes else []), *(own.SEQUENCE if self.sequence else ()))

    def to_json(self) -> dict[str, Any]:
        """As JSON values."""
        told = {**asdict(self), "columns": list(self.columns), "key": list(self.key)}
        return told if self.sequence is not None else {k: v for k, v in told.items() if k != "sequence"}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Target:
        """Read what ``to_json`` wrote.

        Raises:
            OTHER_FORM: The value is no target (``twophase/forms.py``).
        """
        if value.get("direct"):  # what its tasks had merged by themselves, before the decision: no longer offered
            raise ValueError("its rows went straight into the target")
        schema = value["schema"]
        return cls(
            None if schema is None else str(schema),
            str(value["table"]),
            str(value["staged"]),
            tuple(str(name) for name in value["columns"]),
            tuple(str(name) for name in value["key"]),
            bool(value.get("deletes")),
            None if value.get("sequence") is None else str(value["sequence"]),
        )


def objection(error: TargetError, sink: str, epoch: int) -> EpochFailedError:
    """What a target would not keep, as the error of its epoch before the decision.

    Args:
        error: What is wrong.
        sink: The sink's name.
        epoch: The epoch.
    """
    if isinstance(error, AlteredError):
        return PreCommitError(
            f"sink {sink}: epoch {epoch} was not decided: {error}",
            harmless="always: nothing of the epoch is visible, and it is run again",
            cause="the table was altered since the start has looked at it",
            action="start the job again: it looks at the table as it is now, and says what does not fit",
            epoch=epoch,
        )
    if isinstance(error, UnorderedError):
        return RowRefusedError(
            f"sink {sink}: epoch {epoch} was not decided: {error}",
            harmless="for the data: nothing of the epoch is visible; but each start meets it again",
            cause="the sequence (sequence_by) of these rows does not say which is the newest, and a guess may lose one",
            action=f"{error.action}; then start the job again",
            epoch=epoch,
        )
    return RowRefusedError(
        f"sink {sink}: epoch {epoch} was not decided: {error}",
        harmless="for the data: nothing of the epoch is visible; but each start meets it again",
        cause="a trigger or a rule of the table",
        action="put the table right, or filter such rows in the stream function; then start the job again",
        epoch=epoch,
    )
