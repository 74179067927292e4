"""Other running jobs of this user: of the same name, on the same checkpoint, or with the same transactions.

Must not know: how they are found.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable

from onceflow.control.client import AnsweringJob, running
from onceflow.control.standing import JobStatus
from onceflow.errors import ConfigurationError, SetupError
from onceflow.execution.job_log import JobLog

log = logging.getLogger(__name__)


def look_for_others(mine: JobStatus) -> None:
    """Warn of what a person may not have meant, and refuse what cannot be meant.

    Args:
        mine: The job that begins; it may be among the running ones already.

    Raises:
        ConfigurationError: One on another checkpoint writes under this one's transactional ids: a copy of it.
    """
    told = mine.to_json()
    with contextlib.suppress(SetupError):  # that they cannot be found was said
        tell_of(mine, [job for job in running() if (job.pid, job.started_at) != (told["pid"], told["started_at"])])


def tell_of(mine: JobStatus, others: Iterable[AnsweringJob]) -> None:
    """As ``look_for_others``, of these."""
    said = JobLog(log, mine.name)
    for job in others:
        if job.checkpoint == mine.checkpoint:
            if job.pid != mine.supervisor:
                said.warning(
                    "job %s (pid %d) runs on this checkpoint: this start takes over, and that one ends",
                    job.name,
                    job.pid,
                )
        elif mine.writes_as and job.writes_as == mine.writes_as:
            raise ConfigurationError(
                f"job {mine.name} is not started: job {job.name} (pid {job.pid}) runs on a copy of its checkpoint, "
                f"{job.checkpoint}",
                harmless="always: nothing was touched, and what runs goes on",
                cause=f"both write under the transactional ids {mine.writes_as}-…, and each would end the other's "
                "transactions and write its epochs once more",
                action=f"end one for good (onceflow stop {job.name}); for a second, independent job start the copy "
                "with --as-new",
                checkpoint=mine.checkpoint,
            )
        elif job.name == mine.name:
            said.warning(
                "another job of this name runs (pid %d, checkpoint %s): `onceflow stop %s` cannot tell them apart",
                job.pid,
                job.checkpoint,
                job.name,
            )
