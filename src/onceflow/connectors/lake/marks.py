"""A job's marks beside a lake table: short files, under its id, and under its prefix and name.

Must not know: what stands in a mark, who asks, any particular format.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress

from onceflow.connectors.lake.staging import job_key, name_key
from onceflow.connectors.lake.table import LakeTable
from onceflow.connectors.marks import Marks


class LakeMarks(Marks):
    """Those of one job.

    Args:
        table: The committer's.
        prefix: The job's prefix.
        job_id: The job's id.
        translating: Makes an error of ours of what goes wrong in it, by what was to be done.
    """

    def __init__(
        self, table: LakeTable, prefix: str, job_id: str, translating: Callable[[str], AbstractContextManager[None]]
    ) -> None:
        self._table = table
        self._prefix = prefix
        self._job_id = job_id
        self._translating = translating

    def read(self) -> str | None:
        """The job's mark, or None."""
        with self._translating("read the job's mark"):
            return self._table.staging.mark(job_key(self._job_id))

    def write(self, mark: str) -> None:
        """Keep the job's mark, best effort."""
        with suppress(Exception):
            self._table.staging.write_mark(job_key(self._job_id), mark)

    def read_name(self, name: str) -> str | None:
        """What is kept under the job's name, or None."""
        with self._translating("read the mark of the job's name"):
            return self._table.staging.mark(name_key(self._prefix, name))

    def write_name(self, name: str, mark: str) -> None:
        """Keep it under the job's name, best effort."""
        with suppress(Exception):
            self._table.staging.write_mark(name_key(self._prefix, name), mark)
