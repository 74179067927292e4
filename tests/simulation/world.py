"""The world of a simulated run: one clock, some drivers, faults at every step, and one order of all of it.

Must not know: what the two-phase commit is. Drivers are ordinary blocking code (the real ``Driver``), each on a thread
of its own, but only one of them runs at any time: at every request it asks the world, which may let it go on, let
another one run first, take its answer away, or kill it. So a run is one sequence, and its chooser alone decides which.
"""

from __future__ import annotations

import _thread
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

GO = "go"
PAUSE = "pause"  # somebody else runs first
DIE = "die"  # the process is killed before the request is sent
DIE_AFTER = "die-after"  # and after it was carried out
LOST = "lost"  # the request does not arrive, and there is no answer
UNANSWERED = "unanswered"  # it is carried out, the answer does not arrive
LATE = "late"  # no answer, and it is carried out some time later
TWICE = "twice"  # carried out and answered, and carried out again some time later
WAIT = "wait"  # time passes first: longer than the transactions' time-out
ONE = "one"  # one transaction expires first, the others not
POWER = "power"  # the power goes out where the drivers run
DOWN = "down"  # the brokers answer nothing for a while, or nothing of one kind
SLOW = "slow"  # the markers are written some time later
BACK = "back"  # the system that is asked is an older one from here on

LOOK = (PAUSE, DIE, LOST)
CHANGE = (PAUSE, DIE, DIE_AFTER, LOST, UNANSWERED, LATE, POWER)
ASK = (PAUSE, DIE, LOST, WAIT, ONE, DOWN)
SEND = (PAUSE, DIE, DIE_AFTER, LOST, UNANSWERED, LATE, TWICE, WAIT, ONE, DOWN, SLOW)
POINT = (PAUSE, DIE, POWER)
END = (DIE, DIE_AFTER, LOST, UNANSWERED, LATE)  # of a transaction that holds its locks: nobody else can be first


class Killed(BaseException):
    """The process that runs this is dead."""


class Violation(AssertionError):  # noqa: N818 - it is what it is
    """An invariant does not hold.

    Attributes:
        name: Which: the key in the list of invariants.
    """

    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"[{name}] {detail}")
        self.name = name


class Chooser:
    """Decides at every step. This one always says: go on."""

    def fault(self, what: str, options: Sequence[str]) -> str:
        return GO

    def draw(self, kind: str, options: Sequence[Any]) -> Any:
        """One of the options; the first one is the ordinary one."""
        return options[0]

    def stop_faults(self) -> None:
        """From here on everything goes well."""


class RandomChooser(Chooser):
    """Decides by a seed.

    Args:
        seed: The seed.
        focus: Only these faults happen, up to twelve of them. Empty: all, as many as the seed says.
    """

    def __init__(self, seed: int, focus: Sequence[str] = ()) -> None:
        self.random = random.Random(seed)
        self._random = self.random.random
        self._rate = self.random.choice([0.0, 0.01, 0.02, 0.04, 0.08, 0.15])
        self._left = self.random.choice([1, 2, 3, 5, 8, 12])
        every = sorted({*LOOK, *CHANGE, *ASK, *SEND, *POINT})
        self._without = set(self.random.sample(every, self.random.choice([0, 0, 2, 5])))
        if focus:
            # Often in some seeds only: where each start dies early, none comes as far as to have something undone.
            self._rate, self._left, self._without = self._rate or 0.005, 12, set(every) - set(focus)

    def fault(self, what: str, options: Sequence[str]) -> str:
        if self._random() >= self._rate or self._left <= 0:
            return GO
        possible = [option for option in options if option not in self._without]
        if not possible:
            return GO
        chosen = self.random.choice(possible)
        self._left -= 1
        return chosen

    def draw(self, kind: str, options: Sequence[Any]) -> Any:
        return options[int(self._random() * len(options))]

    def stop_faults(self) -> None:
        self._left = 0


class ScriptedChooser(Chooser):
    """Everything goes well but at the given steps; keeps what could have happened at each step.

    Args:
        deviations: Fault by the number of the step.
    """

    def __init__(self, deviations: Mapping[int, str]) -> None:
        self.deviations = dict(deviations)
        self.offered: list[tuple[str, Sequence[str]]] = []
        self._over = False

    def fault(self, what: str, options: Sequence[str]) -> str:
        if self._over:
            return GO
        self.offered.append((what, options))
        return self.deviations.get(len(self.offered) - 1, GO)

    def stop_faults(self) -> None:
        self._over = True


class _Thread:
    """A thread that is used again and again."""

    idle: list[_Thread] = []  # noqa: RUF012 - shared on purpose
    all: set[int] = set()  # noqa: RUF012 - likewise: their numbers

    def __init__(self) -> None:
        self.wake = _thread.allocate_lock()
        self.wake.acquire()
        self.job: Callable[[], None] | None = None
        _thread.start_new_thread(self._serve, ())

    def _serve(self) -> None:
        self.all.add(_thread.get_ident())
        while True:
            self.wake.acquire()
            if self.job is not None:
                self.job()


def in_world() -> bool:
    """Whether this is a thread of a simulated process."""
    return _thread.get_ident() in _Thread.all


@dataclass(eq=False)
class Actor:
    """A process: runs until it ends, fails or is killed."""

    name: str
    work: Callable[[Actor], None]
    started_at: int = 0
    thread: _Thread | None = None
    killed: bool = False
    over: bool = False
    error: BaseException | None = None


@dataclass
class _Late:
    """Something that will be carried out some time later."""

    what: str
    effect: Callable[[], Any]
    by: Actor | None
    due: int


class World:
    """One run.

    Args:
        chooser: Who decides.
        scripted: Late effects have a fixed time instead of one drawn by the chooser.
        trace: Where each step is written, or None.
    """

    def __init__(self, chooser: Chooser, *, scripted: bool = False, trace: list[str] | None = None) -> None:
        self.chooser = chooser
        self.trace = trace
        self.now = 0.0
        self.steps = 0
        self.actors: list[Actor] = []
        self.current: Actor | None = None
        self.late: list[_Late] = []
        self.marks: set[str] = set()
        self.faults: list[str] = []
        self.violation: BaseException | None = None
        self.healing = False
        self.down_until = 0.0
        self.down_for = ""
        self._scripted = scripted
        self._main = _thread.allocate_lock()
        self._main.acquire()
        # What the world is told to do when it matters; set by whoever builds the scene.
        self.on_wait: Callable[[bool], None] = lambda _: None
        self.on_power_cut: Callable[[], None] = lambda: None
        self.on_slow: Callable[[bool], None] = lambda _: None
        self.on_idle: Callable[[], None] = lambda: None
        self.on_back: Callable[[str], None] = lambda _: None

    # -- said by anybody ----------------------------------------------------------------------------------------

    def say(self, text: str) -> None:
        """A line of the trace."""
        if self.trace is not None:
            who = self.current.name if self.current else "world"
            self.trace.append(f"{self.steps:5d} {self.now:8.2f} {who:10s} {text}")

    def check(self, holds: bool, name: str, detail: Callable[[], str]) -> None:
        """Stop the run when an invariant does not hold."""
        if not holds and self.violation is None:
            self.violation = Violation(name, detail())
            self.say(f"VIOLATION {self.violation}")
            raise Killed

    # -- called by an actor at each of its steps ------------------------------------------------------------------

    def request(self, what: str, effect: Callable[[], Any], options: Sequence[str]) -> Any:  # noqa: C901, PLR0912
        """Carry a request; its answer, or None when there is none."""
        fault = self._step(what, options)
        if self.down_until > self.now and DOWN in options and what.startswith(self.down_for):
            return None
        if fault == GO:
            return effect()
        match fault:
            case "pause":
                self.pause()
                return effect()
            case "die":
                raise self._kill()
            case "die-after":
                effect()
                raise self._kill()
            case "lost":
                return None
            case "unanswered":
                effect()
                return None
            case "late":
                self._later(what, effect)
                return None
            case "twice":
                self._later(what, effect)
                return effect()
            case "wait" | "one":
                self.on_wait(fault == ONE)
                return effect()
            case "down":
                self.down_for = self.chooser.draw("down for", ["describe", "", "", "fetch", "commit"])
                self.down_until = self.now + self.chooser.draw("down until", [64.0, 1.0, 20.0, 70.0, 300.0])
                return None
            case "back":
                self.on_back(what)
                return effect()
            case "slow":
                self.on_slow(True)
                try:
                    return effect()
                finally:
                    self.on_slow(False)
            case _:
                self.cut_power()
                raise Killed

    def point(self, what: str) -> None:
        """A place between two requests."""
        self.request(what, lambda: True, POINT)

    def sleep(self, seconds: float) -> None:
        """The actor waits; meanwhile others run, and what was late arrives."""
        self._alive()
        self.now += max(seconds, 5.0)
        self.steps += 1
        self.on_idle()
        self._land(10**9 if self._scripted else self.steps)
        if not self.healing:
            self.pause(only_if_others=True)

    def pause(self, *, only_if_others: bool = False) -> None:
        """Let the others run."""
        actor = self.current
        if actor is None or (only_if_others and len(self.living()) < 2):
            return
        thread = actor.thread
        assert thread is not None
        self._main.release()
        thread.wake.acquire()
        self._alive()

    def _step(self, what: str, options: Sequence[str]) -> str:
        self._alive()
        self.steps += 1
        self.now += 0.01
        if self.steps > 20_000:
            self.violation = self.violation or Violation("ends", f"still at work after {self.steps} steps: {what}")
            raise Killed
        if self.late:
            self._land(self.steps)
            self._alive()
        fault = self.chooser.fault(what, options) if not self.healing else GO
        if fault != GO:
            self.faults.append(fault)
        if self.trace is not None:
            self.say(what if fault == GO else f"{what}   <-- {fault}")
        return fault

    def _alive(self) -> None:
        if self.violation is not None or (self.current is not None and self.current.killed):
            raise Killed

    def _kill(self) -> Killed:
        assert self.current is not None
        self.current.killed = True
        return Killed()

    def _later(self, what: str, effect: Callable[[], Any]) -> None:
        delay = 8 if self._scripted else self.chooser.draw("late", [3, 10, 30, 100, 300])
        self.late.append(_Late(what, effect, self.current, self.steps + delay))

    def _land(self, now: int) -> None:
        due = [late for late in self.late if late.due <= now]
        if not due:
            return
        self.late = [late for late in self.late if late.due > now]
        actor = self.current
        for late in due:
            self.current = late.by
            self.say(f"{late.what}   <-- arrives late")
            try:
                late.effect()
            finally:
                self.current = actor

    # -- called by the scene --------------------------------------------------------------------------------------

    def cut_power(self) -> None:
        """All drivers are dead, and the disk loses what was not synced. Kafka runs elsewhere."""
        for actor in self.actors:
            actor.killed = True
        self.late = []
        self.on_power_cut()

    def land_all(self) -> None:
        """What was late has arrived."""
        self._land(10**9)

    def living(self) -> list[Actor]:
        """The actors that are neither over nor killed."""
        return [a for a in self.actors if not a.over and not a.killed]

    def spawn(self, name: str, work: Callable[[Actor], None]) -> Actor:
        """A new actor; it begins when ``resume`` is called."""
        actor = Actor(name, work, self.steps)
        actor.thread = _Thread.idle.pop() if _Thread.idle else _Thread()
        actor.thread.job = lambda: self._perform(actor)
        self.actors.append(actor)
        return actor

    def resume(self, actor: Actor) -> None:
        """Let an actor run until it pauses or ends. One that was killed unwinds."""
        assert actor.thread is not None
        self.current = actor
        actor.thread.wake.release()
        self._main.acquire()
        self.current = None
        if actor.over:
            _Thread.idle.append(actor.thread)

    def _perform(self, actor: Actor) -> None:
        try:
            actor.work(actor)
        except Killed:
            self.say("is dead")
        except BaseException as error:
            actor.error = error
            if self.trace is not None:
                self.say(f"ends with {type(error).__name__}: {str(error).splitlines()[0]}")
        actor.over = True
        self._main.release()

    def bury(self) -> None:
        """Unwind all actors that were killed."""
        for actor in self.actors:
            if not actor.over and actor.killed:
                self.resume(actor)

    def heal(self) -> None:
        """No more faults: all processes are killed, and what was late has arrived."""
        self.chooser.stop_faults()
        for actor in self.actors:
            actor.killed = True
        self.bury()
        self.healing = True
        self.down_until = 0.0
        if self.violation is None:
            self.land_all()
