"""What a system keeps of a job outside of its checkpoint: marks beside the rows, and logs that only grow.

Must not know: any particular sink, what stands in a mark, how anything is committed.

By its marks a start notices that its checkpoint is an older copy, or was lost. A system that keeps none says nothing of
that: its committer answers with None.
"""

from __future__ import annotations

from abc import ABC, abstractmethod


class Marks(ABC):
    """Those of one job, kept with one sink, over its committer's connection: they end with that.

    A thread of its own calls ``write``, ``read_name`` and ``write_name`` beside the committer's.
    """

    @abstractmethod
    def read(self) -> str | None:
        """The job's mark, or None where there is none: behind a decision a start takes that for a loss."""

    @abstractmethod
    def write(self, mark: str) -> None:
        """Keep the job's mark. Best effort; must not raise.

        Args:
            mark: What to keep; "" removes it.
        """

    def forget(self) -> None:
        """The job is deleted: remove what the system keeps of it, but for what is visible. Nothing of it is open.

        Raises:
            OnceflowError: The system was not reached, or refused.
        """
        self.write("")

    def read_name(self, name: str) -> str | None:  # noqa: ARG002 - the contract's signature
        """What is kept under a job's name and the committer's prefix, or None where the system cannot keep it.

        Args:
            name: The job's name.
        """
        return None

    def write_name(self, name: str, mark: str) -> None:  # noqa: B027 - not every system can
        """Keep under a job's name, with this sink, which jobs have written here. Best effort; must not raise.

        Args:
            name: The job's name.
            mark: What to keep, at most 4,000 letters; "" removes it.
        """

    @property
    def has_logs(self) -> bool:
        """Whether the system has places that only grow: ``append``."""
        return False

    def append(self, to: str, line: str) -> None:
        """Append a line where the system only lets things grow; durable when this returns. "" looks whether it could.

        Args:
            to: What the system calls it.
            line: What to append.

        Raises:
            OnceflowError: It cannot be, or the system was not reached.
        """
        raise NotImplementedError
