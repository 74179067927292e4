"""How often a refusal may come again before it is no error that passes: three starts in a row.

Must not know: which system refuses, how an epoch runs, where the count is kept.

A system that answers, and answers the same of the same epoch over the same range, does so until somebody changes
something; so does a function of the job's that raises the same in the same line. One that does not answer, has no
room, no leader or no coordinator comes back: that is never counted. Which of the two an error is, whoever raises it
says: by ``refusal=`` among its facts, which names what has answered and its own code.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, datetime

from onceflow.checkpoint.refusals import Refusals, Refused
from onceflow.checkpoint.spark_files import canonical
from onceflow.errors import EpochRefusedError, FencedError, OnceflowError

STARTS = 3
"""At so many starts in a row the same refusal is one for a person."""


class Patience:
    """Of one start.

    Args:
        kept: Of the starts before it.
    """

    def __init__(self, kept: Refusals) -> None:
        self._refusals = kept
        self._is_clear = False

    def done(self) -> None:
        """An epoch is done: whatever was refused before is not any more."""
        if not self._is_clear:
            self._refusals.forget()
            self._is_clear = True

    def failed(self, error: OnceflowError, epoch: int, offsets: str) -> OnceflowError:
        """What is to be told of an epoch that has failed: the error, or that it comes again and again.

        Args:
            error: Why it has failed.
            epoch: Which.
            offsets: What it reads, as Spark's file says.
        """
        if isinstance(error, FencedError):  # a newer start has taken over, also this count
            return error
        now = _of(error, epoch, offsets)
        if now is None:
            self.done()  # in between came something else, so it is no longer in a row
            return error
        now = following(self._refusals.read(), now)
        self._refusals.keep(now)
        self._is_clear = False
        return error if now.starts < STARTS else _permanent(error, now)


def following(before: Refused | None, now: Refused) -> Refused:
    """A refusal, counted behind the one of the start before."""
    if before is None or replace(before, starts=now.starts, since=now.since) != now:
        return now
    return replace(before, starts=before.starts + 1)


def _of(error: OnceflowError, epoch: int, offsets: str) -> Refused | None:
    """The refusal in an error; None where a system did not answer, or it is permanent already."""
    answer = error.facts.get("refusal")
    if not error.retriable or not isinstance(answer, str) or not answer:
        return None
    ranges = map(canonical, offsets.splitlines()[2:])  # an epoch that is planned anew has another time
    read = hashlib.sha256("\n".join(ranges).encode()).hexdigest()
    return Refused(epoch, read, type(error).__name__, answer, 1, datetime.now(UTC).isoformat(timespec="seconds"))


def _permanent(error: OnceflowError, refused: Refused) -> EpochRefusedError:
    return EpochRefusedError(
        f"epoch {refused.epoch} was refused at {refused.starts} starts in a row by the same answer "
        f"({refused.answer}): {error.what}",
        harmless="for the data: nothing more of the epoch is visible; but each start meets it again",
        cause=f"{error.cause}. It has been the same since {refused.since}, so waiting does not help",
        action="mend what the answer names, then start the job again: it runs the epoch as it is. What was advised "
        f"before: {error.action}",
        **{**error.facts, "epoch": refused.epoch},
    )
