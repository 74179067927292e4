"""A job's marks outside its checkpoint: written beside its epochs, in a thread of their own, best effort.

Must not know: what an epoch is, where a sink keeps a mark, who compares it (``launch.marked`` does).
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Collection
from concurrent.futures import Executor

from onceflow.checkpoint.identity import JobIdentity, Mark, NameMark
from onceflow.connectors.contract import Committer, marks_of
from onceflow.connectors.marks import Marks
from onceflow.errors import OnceflowError

log = logging.getLogger(__name__)

_WITHIN_S = 2.0


class StartMarks:
    """Those of one start.

    Args:
        committers: Of all sinks: those whose systems keep marks are asked.
        thread: Where they are written: a mark must never stand in a commit's way. It ends with this object.
        identity: The job's.
        name: The job's name, under which its sinks keep that it has written there; "" for none.
        nonce: Of this start, as the journal has it.
    """

    def __init__(
        self,
        committers: Collection[Committer],
        thread: Executor,
        identity: JobIdentity,
        name: str,
        nonce: Callable[[], str],
    ) -> None:
        self._kept = marks_of(committers)
        self._nonce = nonce
        self._thread = thread
        self._identity = identity
        self._name = name
        self._name_is_kept = False

    def write(self, epoch: int, incarnation: int) -> None:
        """Let the mark of an epoch be written, -1 for none; before this start's first one, under the job's name too."""
        mark = Mark(incarnation, self._nonce(), epoch)
        for marks in self._kept:
            self._thread.submit(write_mark, marks, mark)
        # Before anything is decided nothing was written that a new job of this name would write again.
        if mark.epoch >= 0 and self._name and not self._name_is_kept:
            self._name_is_kept = True
            for marks in self._kept:
                self._thread.submit(write_name_mark, marks, self._name, self._identity)

    def write_again(self, epoch: int, incarnation: int) -> None:
        """As ``write``, also what was written under the name: Kafka forgets what nobody has written for long."""
        self._name_is_kept = False
        self.write(epoch, incarnation)

    def close(self, *, waiting: bool) -> None:
        """End the thread.

        Args:
            waiting: For a moment, for those that are on their way: of a short run's only epoch.
        """
        if waiting:
            with contextlib.suppress(Exception):
                self._thread.submit(int).result(_WITHIN_S)
        self._thread.shutdown(wait=False, cancel_futures=True)


def write_mark(marks: Marks, mark: Mark) -> None:
    """Write a mark, but never over a newer start's: this driver may have slept since it looked.

    Nor over a later epoch's, which may have been decided after an hourly refresh had looked which is the newest.
    """
    known = None
    with contextlib.suppress(OnceflowError):
        known = Mark.loads(marks.read() or "")
    if known is None or (known.incarnation, known.epoch) <= (mark.incarnation, mark.epoch):
        marks.write(mark.dumps())


def write_name_mark(marks: Marks, name: str, identity: JobIdentity) -> None:
    """Add a job to those of its name. Where the others cannot be read they are not written over."""
    try:
        known = NameMark.loads(marks.read_name(name) or "")
    except OnceflowError as error:
        log.warning("that job %s writes here is not kept under its name: %s", name, error.what)
        return
    marks.write_name(name, known.and_of(identity).dumps())
