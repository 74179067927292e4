"""The audit's anchors: twice a minute the newest receipt's hash goes where nobody can write it anew, its key nowhere.

Must not know: what a receipt says, who reads the anchors, what a topic is. Whoever can write to the checkpoint can
write its receipts anew, and cut their end; what an anchor names he cannot, where a place lets its writer append alone.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

from onceflow.checkpoint.journal import Journal
from onceflow.connectors.contract import Committer, marks_of
from onceflow.errors import ConfigurationError, OnceflowError
from onceflow.execution.job_log import JobLog
from onceflow.options.auditing import ANCHOR, Auditing

log = logging.getLogger(__name__)

Append = Callable[[str], None]
"""Appends a line, durably; of "" it looks only whether it could. Raises OnceflowError."""


class Anchoring:
    """A start's anchors.

    Args:
        journal: Tells the newest receipt; None where nobody has asked for anything.
        append: Where to; None for nowhere.
        name: The job's name, for its log.
    """

    def __init__(self, journal: Journal | None, append: Append | None, name: str) -> None:
        self._journal = journal
        self._append = append
        self._log = JobLog(log, name)
        self._newest = ""
        self._waits = False

    def begin(self) -> None:
        """The first anchor of a start.

        Raises:
            OnceflowError: The place does not take it: whoever set it wants to know before an epoch runs.
        """
        if self._append is not None:
            self._append("")
        self._tell()

    def go_on(self) -> None:
        """One anchor more, if there is a receipt that has none. The job goes on where that fails, and says so once."""
        try:
            self._tell()
        except OnceflowError as error:
            if not self._waits:
                self._log.warning("receipts wait for their anchor, or keys to be forgotten: %s", error.what)
            self._waits = True

    def _tell(self) -> None:
        line = "" if self._journal is None else self._journal.anchor()
        if self._append is not None and line and line != self._newest:
            self._append(line)
            self._newest = line
        self._waits = False


def begun(journal: Journal, auditing: Auditing, committers: Iterable[Committer], name: str) -> Anchoring:
    """A start's anchors, of which the first is told; arguments and errors as of ``Anchoring`` and ``place_for``."""
    place = place_for(auditing, committers)
    made = Anchoring(journal if place is not None or auditing.forward_key_file is not None else None, place, name)
    made.begin()
    return made


def place_for(auditing: Auditing, committers: Iterable[Committer]) -> Append | None:
    """Where a job's anchors go, None for nowhere.

    Args:
        auditing: What the operator says.
        committers: Of the job's sinks, by their names.

    Raises:
        ConfigurationError: A topic is named, and no sink of the job writes to Kafka.
    """
    if auditing.anchor_file is not None:
        return _File(auditing.anchor_file)
    if not auditing.anchor_topic:
        return None
    able = next((marks for marks in marks_of(committers) if marks.has_logs), None)
    if able is None:
        raise ConfigurationError(
            f"receipts cannot be anchored in topic {auditing.anchor_topic}: no sink of the job writes to Kafka",
            harmless="always: nothing was started",
            cause=f"{ANCHOR} is topic:{auditing.anchor_topic}, in the cluster of the job's first Kafka sink",
            action="name a file that only grows",
            setting="audit.anchor",
        )
    return lambda line: able.append(auditing.anchor_topic, line)


class _File:
    """A file that may be one that can only be appended to (``chattr +a``); no link is followed.

    Args:
        path: Of the file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, line: str) -> None:
        """As ``Append`` says."""
        try:
            # To open a pipe that nobody reads would wait for ever.
            how = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
            file = os.open(self._path, how, 0o600)
            try:
                if not stat.S_ISREG(os.fstat(file).st_mode):
                    raise OSError(errno.EINVAL, "it is no file")
                if line:
                    self._write(file, line.encode())
            finally:
                os.close(file)
        except OSError as error:
            raise self._refused(error) from None

    def _write(self, file: int, line: bytes) -> None:
        # Whoever wrote last, perhaps another job, may have died in it: behind a line that is torn another one begins.
        data = b"\n" + line + b"\n"
        if os.write(file, data) < len(data):
            raise OSError(errno.ENOSPC, "it took a part of a line only")
        os.fsync(file)

    def _refused(self, error: OSError) -> ConfigurationError:
        why = "it is a link" if error.errno == errno.ELOOP else error.strerror or str(error)
        return ConfigurationError(
            f"the file {self._path} takes no anchor: {why}",
            harmless="for the data: receipts are kept as before, and the next anchor stands for them",
            cause=f"{ANCHOR} is {str(self._path)!r}",
            action="see to it that the job's user can append to it",
            setting="audit.anchor",
        )
