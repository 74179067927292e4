"""What the driver's side of a lake sink needs of a table format: one look at the table, and one try to change it.

Must not know: any particular format, tasks, decisions.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onceflow.connectors.lake.staged import Moment
from onceflow.connectors.lake.staging import Staging
from onceflow.connectors.lake.writer import Form

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class BeatenError(Exception):
    """Somebody else has changed the table since it was looked at: nothing was done."""


@dataclass(frozen=True, slots=True)
class Committed:
    """The newest epoch that the table holds of a job and sink."""

    moment: Moment
    handle: str


@dataclass(frozen=True, slots=True)
class Ledger:
    """What a table says of one job and sink, in every version of it from their first on.

    Attributes:
        seat: Names this ledger: one that was removed and begun again has another.
        newest: The newest epoch; None before the first.
    """

    seat: str
    newest: Committed | None = None


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One change of ours: what is written into the table's ledger with it.

    Attributes:
        job: The job's id.
        sink: The sink's name.
        ledger: What it says from then on.
        attempts: Which attempts' files come with it.
        ended: Which attempts may never be committed from then on.
        properties: For people who read the table's history.
    """

    job: str
    sink: str
    ledger: Ledger
    attempts: tuple[str, ...] = ()
    ended: frozenset[str] = frozenset()
    properties: Mapping[str, str] = field(default_factory=dict)


class TableView(ABC):
    """The table as it was at one moment. One thread uses it."""

    @property
    @abstractmethod
    def table_id(self) -> str:
        """The table's own id: one that was dropped and made again has another."""

    @abstractmethod
    def ledger(self, job: str, sink: str) -> Ledger | None:
        """What it says of a job and sink; None where it says nothing, or what it says was removed."""

    @abstractmethod
    def ended(self, job: str, sink: str, attempts: frozenset[str]) -> frozenset[str]:
        """Those of these attempts that may never be committed any more."""

    @abstractmethod
    def knows(self, handle: str) -> bool:
        """Whether its history, as far as others have left it, names a commit of this handle."""

    @abstractmethod
    def objection(self, shape: Mapping[str, Any]) -> str | None:
        """Why files that were written for a shape cannot be added as they are, or None."""

    @abstractmethod
    def change(self, entry: LedgerEntry, files: Sequence[Mapping[str, Any]]) -> None:
        """Try once to add files and the entry, both or neither, to the table exactly as it was seen.

        Raises:
            BeatenError: It is not any more as it was seen; nothing was done.
            Exception: Whether it was done is not known.
        """

    @abstractmethod
    def named(self, paths: frozenset[str]) -> frozenset[str]:
        """Those of these data files (behind the folder of data) that any version of the table names."""


class LakeTable(ABC):
    """A table of one connection. Several threads call it.

    Attributes:
        where: The table in a few words, without secrets.
        staging: What is written beside it.
    """

    where: str
    staging: Staging

    @abstractmethod
    def look(self) -> TableView | None:
        """The table as it is now; None where it is to be made, and is not yet.

        Raises:
            LakeUnavailableError: Catalog or store did not answer.
            LakeRightsError: They refused, or the table is gone.
        """

    @property
    @abstractmethod
    def system_id(self) -> str:
        """The lasting id of what is written to."""

    @abstractmethod
    def make(self, fields: StructType) -> None:
        """Give the table these columns, if it is there to be made and has none yet."""

    @abstractmethod
    def names(self) -> list[str]:
        """The names of the columns that the table has; none where it is to be made, and is not yet."""

    @abstractmethod
    def add(self, fields: StructType) -> None:
        """Give the table these columns as well, null in the rows that are there."""

    @abstractmethod
    def misfits(self, fields: StructType) -> list[str]:
        """Why an output of these columns does not fit into the table."""

    @abstractmethod
    def form(self, names: Sequence[str]) -> tuple[Form, Mapping[str, Any]]:
        """How files of these columns are made, and what ``TableView.objection`` compares with, JSON values.

        Both of one look: files that were made for one shape of the table must not be taken for another's.
        """

    @abstractmethod
    def words(self, error: BaseException) -> str:
        """An error in a line that has no secret in it."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what is open."""
