"""A job's starts in one process, one after the other: what has failed by what passes is started again.

Must not know: what a start does, exit codes.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from onceflow.checkpoint.deleting import read_deleting
from onceflow.checkpoint.identity import read_identity
from onceflow.checkpoint.place import Place
from onceflow.control.standing import JobStatus
from onceflow.errors import CheckpointConflictError, FencedError, OnceflowError, UnknownSchemaError
from onceflow.execution.job_log import JobLog
from onceflow.execution.running import RunningJob, application_is_gone, java_is_gone
from onceflow.formats.schemas import WantedSchema, wanted_by
from onceflow.options import restarting
from onceflow.options.job_options import JobOptions
from onceflow.options.restarting import Restarts
from onceflow.supervision.child import Parent
from onceflow.supervision.counting import Counting, Counts, Reported, keep_in, recorded_in
from onceflow.supervision.signals import Signals, Stopped

log = logging.getLogger(__name__)


def counting(options: JobOptions, place: Place, standing: JobStatus, above: Parent | None) -> Counts:
    """Who counts the failures of a job that begins: its parent, where it has one that supervises, or this process."""
    if above is None:
        restarts = Restarts(options.restart, options.checkpointing.tolerable_failures, time.monotonic)
        return Counting(restarts, partial(keep_in, place), recorded_in(place))
    there = _is_there(place)
    told = above.begin(
        {
            "name": standing.name,
            "checkpoint": place.uri,
            "retain": options.checkpointing.retain,
            "strategy": restarting.dumps(options.restart),
            "tolerable": options.checkpointing.tolerable_failures,
            "recorded": recorded_in(place),
        },
        partial(keep_in, place),
    )
    standing.restarts, standing.failure = told.get("restarts", 0), told.get("failure", "")
    if told.get("recorded") is not None and not there:
        raise _gone(place)
    return above


@dataclass
class Attempts:
    """One job's, in this process.

    Attributes:
        name: The job's name.
        counts: Says what follows a failure.
        signals: Those of the process.
        standing: How the job stands.
        place: Its checkpoint.
        wanted: Schemas that records have named, each of which a start has looked up, or will.
    """

    name: str
    counts: Counts
    signals: Signals
    standing: JobStatus
    place: Place
    wanted: list[WantedSchema] = field(default_factory=list)

    def true_end(self, error: BaseException) -> BaseException | None:
        """What is raised in the place of an error that came out of ``run``; None for the error itself.

        An interrupted start may end with py4j's word for it instead of ours.
        """
        if self.signals.received is None:
            gone = java_is_gone(error) or application_is_gone(error)
            if gone is not None:
                self.counts.failed(Reported.of(gone, here=False))
            return gone
        log.debug("stopped while starting", exc_info=error)
        JobLog(log, self.name).info("stopped by %s", self.signals.received.name)
        return Stopped(self.signals.received, clean=False)

    def run(self, start: Callable[[bool], RunningJob]) -> bool:
        """Start the job until it has ended by itself, by an order, or by a failure that no restart follows.

        Args:
            start: Starts it; told whether it is the first time.

        Returns:
            False: a stop could not finish the epoch in time, and nothing was let go.

        Raises:
            OnceflowError: The failure.
            Stopped: A signal came while it was started, or waited for.
        """
        first, job_id = True, ""
        while True:
            try:
                running = start(first)
                job_id = _job_in(self.place)
                running.driver.done = self.counts.reached
                self.counts.reached(running.driver.newest_epoch())  # one may have been done in that moment
                self.standing.begin(running.driver.newest_done, running.driver)
                return self._wait(running)
            except OnceflowError as error:
                fenced = isinstance(error, FencedError)  # a newer start has taken the place, as a new job or not
                if job_id and not fenced and not _is_there(self.place, job_id):
                    raise _gone(self.place) from error
                if self._wants_schema(error):
                    self.signals.interrupting = True
                    self.signals.look()
                else:
                    self._wait_for_restart(error)
                if self.standing.ordered:
                    return True
            first = False

    def _wait(self, running: RunningJob) -> bool:
        """Wait for its end and let go; False, and nothing is let go, when a stop could not finish the epoch in time."""
        self.signals.interrupting = False
        in_time = True
        try:
            in_time = running.wait(self._ordered)
        finally:
            if in_time:
                running.close()
        if not in_time:
            JobLog(log, self.name).warning(
                "the query could not be ended in time; the next start goes on from the checkpoint"
            )
        return in_time

    def _wants_schema(self, error: OnceflowError) -> bool:
        """Whether it was ended by a schema that the next start looks up, which is no failure; once for each."""
        if not isinstance(error, UnknownSchemaError):
            return False
        wanted = wanted_by(error)
        if any((each.registry, each.id) == (wanted.registry, wanted.id) for each in self.wanted):
            return False
        self.wanted.append(wanted)
        JobLog(log, self.name).info("%s; the query begins again with it", error.what)
        return True

    def _ordered(self) -> str | None:
        return "cancel" if self.signals.received is not None else self.standing.ordered

    def _wait_for_restart(self, error: OnceflowError) -> None:
        """Wait as long as the strategy says; raise the error if nothing is to be waited for."""
        wait_s = self.counts.failed(Reported.of(error))
        if wait_s is None:
            raise error
        told = "\n  ".join((error.what, f"Likely cause: {error.cause}"))
        JobLog(log, self.name).error("it failed, and is started again in %.1f s: %s", wait_s, told)
        self.signals.interrupting = True
        self.signals.look()
        self.standing.failed(error.what)
        self.standing.was_ordered.wait(wait_s)  # a signal interrupts it


def _job_in(place: Place) -> str:
    """The id of the job whose checkpoint it is; "" where that is not known."""
    with contextlib.suppress(OnceflowError):
        identity = read_identity(place.ours)
        return "" if identity is None else identity.job_id
    return ""


def _is_there(place: Place, job_id: str = "") -> bool:
    """Whether a job's checkpoint is in its place, and stays; also where that cannot be told.

    Args:
        place: The place.
        job_id: The job's; "" for any.
    """
    try:
        identity = read_identity(place.ours)
        return identity is not None and job_id in ("", identity.job_id) and read_deleting(place.ours) is None
    except OnceflowError:
        return True


def _gone(place: Place) -> CheckpointConflictError:
    """Why a job is not started again: a restart never begins a new one, which would write all again."""
    return CheckpointConflictError(
        f"the checkpoint of this job is not in {place.uri} any more: it went while the job ran",
        harmless="if the job was deleted: this is how it ends. What is visible stays",
        cause="`onceflow job delete`, by another user or elsewhere; or the folder was deleted or moved, or its "
        "volume is not mounted any more",
        action="nothing, if it was deleted on purpose; else bring the checkpoint back, and start the job",
        checkpoint=place.uri,
    )
