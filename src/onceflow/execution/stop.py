"""Stopping: what becomes of an epoch when the job is asked to stop at this moment of it, as one literal table.

Must not know: Spark, the journal, how an epoch is decided. Two threads meet here: the one in which Spark runs an epoch
tells where it stands, and another one asks for the end, or sees that it takes too long. An undecided epoch is aborted
and run again by the next start, a decided one is finished; a step that is not in TABLE is one error and changes
nothing.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from enum import Enum

from onceflow.twophase.state import IllegalTransitionError


class StopRequested(Exception):  # noqa: N818 - not an error
    """The job is being stopped; the epoch in work is not decided and is run again at the next start."""


class OverdueError(Exception):
    """The epoch in work has taken longer than it may before its decision; it is not decided."""


class StopState(Enum):
    """Where the epoch in work stands, and whether it is to end."""

    OUTSIDE = "no epoch is in work"
    UNDECIDED = "an epoch is in work, and this call has decided nothing yet"
    RUNNING = "the same, and Spark runs its plan"
    OVERDUE = "it took longer than it may: no plan and no decision of it begins any more"
    CUT = "it took longer than it may: the plan's Spark jobs are being cancelled"
    DECIDED = "the last look is past: the epoch is being decided, or is"
    CLOSED = "asked to stop: no epoch is in work, and none begins"
    REFUSING = "asked to stop: no plan and no decision begins any more"
    CANCELLED = "asked to stop: the plan's Spark jobs are being cancelled"
    FINISHING = "asked to stop: the decided epoch is being finished"
    GIVEN_UP = "asked, and it took too long: whatever the epoch waits for, it waits no more"


class StopInput(Enum):
    """What one of the two threads says."""

    ENTER = "Spark begins an epoch"
    RUN = "its plan begins"
    RAN = "its plan has ended, well or not"
    DECIDE = "all is ready for the decision"
    LEAVE = "the epoch has ended, well or not"
    EXPIRE = "the epoch has taken longer than it may before its decision"
    STOP = "the job is to stop"
    GIVE_UP = "it took too long"


class StopAnswer(Enum):
    """What whoever said it does next."""

    GO_ON = "go on"
    REFUSE = "the epoch ends here"
    CANCEL = "cancel the plan's Spark jobs"


_S, _I = StopState, StopInput
_GO_ON, _REFUSE, _CANCEL = StopAnswer

TABLE: Mapping[StopState, Mapping[StopInput, tuple[StopState, StopAnswer]]] = {
    _S.OUTSIDE: {
        _I.ENTER: (_S.UNDECIDED, _GO_ON),
        _I.STOP: (_S.CLOSED, _GO_ON),
    },
    _S.UNDECIDED: {
        _I.RUN: (_S.RUNNING, _GO_ON),
        _I.DECIDE: (_S.DECIDED, _GO_ON),
        _I.LEAVE: (_S.OUTSIDE, _GO_ON),
        _I.EXPIRE: (_S.OVERDUE, _GO_ON),
        _I.STOP: (_S.REFUSING, _GO_ON),
    },
    _S.RUNNING: {
        _I.RAN: (_S.UNDECIDED, _GO_ON),
        _I.EXPIRE: (_S.CUT, _CANCEL),
        _I.STOP: (_S.CANCELLED, _CANCEL),
    },
    # As of a stop, but the job goes on: what follows is another try of the epoch.
    _S.OVERDUE: {
        _I.RUN: (_S.OVERDUE, _REFUSE),
        _I.DECIDE: (_S.OVERDUE, _REFUSE),
        _I.LEAVE: (_S.OUTSIDE, _GO_ON),
        _I.STOP: (_S.REFUSING, _GO_ON),
    },
    _S.CUT: {
        _I.RAN: (_S.OVERDUE, _GO_ON),
        _I.EXPIRE: (_S.CUT, _CANCEL),  # the first cancel may have found no job yet
        _I.STOP: (_S.CANCELLED, _CANCEL),
    },
    # No plan runs behind a decision of the same call: the state was built by the run that was decided.
    _S.DECIDED: {
        _I.LEAVE: (_S.OUTSIDE, _GO_ON),
        _I.STOP: (_S.FINISHING, _GO_ON),
    },
    _S.CLOSED: {
        _I.ENTER: (_S.CLOSED, _REFUSE),
        _I.STOP: (_S.CLOSED, _GO_ON),
        _I.GIVE_UP: (_S.CLOSED, _GO_ON),  # Spark did not record the last epoch in time
    },
    _S.REFUSING: {
        _I.RUN: (_S.REFUSING, _REFUSE),
        _I.DECIDE: (_S.REFUSING, _REFUSE),
        _I.LEAVE: (_S.CLOSED, _GO_ON),
        _I.STOP: (_S.REFUSING, _GO_ON),
        _I.GIVE_UP: (_S.GIVEN_UP, _GO_ON),
    },
    # A plan begins before its Spark job is there, and a cancel that comes between the two finds nothing: then the plan
    # runs to its end. So a plan that ended well is refused at its decision all the same; asked again, it is cancelled
    # again; and a give-up leads to the stop of Spark's query, which cancels too.
    _S.CANCELLED: {
        _I.RAN: (_S.REFUSING, _GO_ON),
        _I.STOP: (_S.CANCELLED, _CANCEL),
        _I.GIVE_UP: (_S.GIVEN_UP, _GO_ON),
    },
    _S.FINISHING: {
        _I.LEAVE: (_S.CLOSED, _GO_ON),
        _I.STOP: (_S.FINISHING, _GO_ON),
        _I.GIVE_UP: (_S.GIVEN_UP, _GO_ON),
    },
    # Where the epoch stood counts no more.
    _S.GIVEN_UP: {
        _I.RUN: (_S.GIVEN_UP, _REFUSE),
        _I.RAN: (_S.GIVEN_UP, _GO_ON),
        _I.DECIDE: (_S.GIVEN_UP, _REFUSE),
        _I.LEAVE: (_S.CLOSED, _GO_ON),
        _I.STOP: (_S.GIVEN_UP, _GO_ON),
        _I.GIVE_UP: (_S.GIVEN_UP, _GO_ON),
    },
}

_MAY_EXPIRE = frozenset({_S.UNDECIDED, _S.RUNNING, _S.CUT})
_ASKED = frozenset({_S.CLOSED, _S.REFUSING, _S.CANCELLED, _S.FINISHING, _S.GIVEN_UP})


def step(state: StopState, happened: StopInput) -> tuple[StopState, StopAnswer]:
    """The state after ``happened``, and what whoever said it does next.

    Raises:
        IllegalTransitionError: The table has no such step.
    """
    try:
        return TABLE[state][happened]
    except KeyError:
        known = ", ".join(i.name for i in TABLE[state])
        raise IllegalTransitionError(f"{happened.name} in state {state.name}; it knows {known}") from None


class Stop:
    """One driver's: the table's state, which any thread may move and wait for."""

    def __init__(self) -> None:
        self._state = StopState.OUTSIDE
        self._due: float | None = None
        self._holds = 0
        self._moved = threading.Condition()

    # -- the epoch's thread -----------------------------------------------------------------------

    @contextlib.contextmanager
    def epoch(self, *, waits: bool = True) -> Iterator[None]:
        """An epoch is in work inside. It waits at its entry for as long as somebody holds it.

        Args:
            waits: False for one that is decided already: nobody holds the end of what is begun.

        Raises:
            StopRequested: None may begin any more.
        """
        with self._moved:  # in one step: whoever holds sees no epoch begin behind its look
            self._moved.wait_for(lambda: not (waits and self._holds) or self.asked)
            self._tell(StopInput.ENTER)
        try:
            yield
        finally:
            self._tell(StopInput.LEAVE)

    def plan(self) -> AbstractContextManager[None]:
        """The epoch's plan runs inside, and is cancelled by a request.

        Raises:
            StopRequested: None may begin any more.
            OverdueError: Nor of this epoch.
        """
        return self._between(StopInput.RUN, StopInput.RAN)

    def bound(self, due: float) -> None:
        """Say by when the epoch in work has to be ready for its decision, on the clock of ``expire``."""
        with self._moved:
            self._due = due

    @contextlib.contextmanager
    def _between(self, begins: StopInput, ends: StopInput) -> Iterator[None]:
        self._tell(begins)
        try:
            yield
        finally:
            self._tell(ends)

    def decide(self) -> None:
        """The last look before the decision: a request that comes later waits for the epoch's end.

        Raises:
            StopRequested: One came before.
            OverdueError: It comes too late.
        """
        self._tell(StopInput.DECIDE)

    def rest(self, seconds: float) -> None:
        """Wait before an epoch, but not once the job is to stop."""
        with self._moved:
            self._moved.wait_for(lambda: self._state in _ASKED, seconds)

    def pause(self, seconds: float) -> None:
        """Wait before something is asked or sent again.

        Raises:
            StopRequested: The epoch is given up; the next start rolls it forward.
        """
        with self._moved:
            if self._moved.wait_for(lambda: self._state is StopState.GIVEN_UP, seconds):
                raise StopRequested

    # -- whoever ends the job ---------------------------------------------------------------------

    @property
    def asked(self) -> bool:
        """Whether the job was asked to stop."""
        return self._state in _ASKED

    def request(self, cancel: Callable[[], object]) -> None:
        """Ask the epoch in work to end: undecided it is aborted, decided it is finished.

        Args:
            cancel: Cancels the plan's Spark jobs.
        """
        if self._tell(StopInput.STOP) is StopAnswer.CANCEL:
            cancel()  # not under the lock: it asks Java, and the plan may end meanwhile

    @property
    def overdue(self) -> bool:
        """Whether the epoch in work has taken longer than it may."""
        return self._state in (StopState.OVERDUE, StopState.CUT)

    def expire(self, now: float, cancel: Callable[[], object]) -> None:
        """Look whether the epoch in work has taken longer than it may; one that is being decided has not.

        Args:
            now: The time, on the clock of ``bound``.
            cancel: Cancels the plan's Spark jobs.
        """
        with self._moved:
            if self._due is None or now < self._due or self._state not in _MAY_EXPIRE:
                return
            self._state, answer = step(self._state, StopInput.EXPIRE)
            self._moved.notify_all()
        if answer is StopAnswer.CANCEL:
            cancel()

    def hold(self) -> None:
        """Let no further epoch begin until ``release``; one that is in work goes on."""
        with self._moved:
            self._holds += 1

    def release(self) -> None:
        """End one hold."""
        with self._moved:
            self._holds -= 1
            self._moved.notify_all()

    def wait_outside(self, timeout_s: float) -> bool:
        """Wait until no epoch is in work; False when time is over."""
        with self._moved:
            return self._moved.wait_for(lambda: self._state in (StopState.OUTSIDE, StopState.CLOSED), timeout_s)

    def give_up(self) -> None:
        """End the waits of a decided epoch as well; the next start rolls it forward."""
        self._tell(StopInput.GIVE_UP)

    def _tell(self, happened: StopInput) -> StopAnswer:
        with self._moved:
            self._state, answer = step(self._state, happened)
            if happened is StopInput.LEAVE:
                self._due = None
            self._moved.notify_all()
        if answer is StopAnswer.REFUSE:
            raise OverdueError if self._state is StopState.OVERDUE else StopRequested
        return answer
