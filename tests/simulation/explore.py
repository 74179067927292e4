"""Runs: one by a seed, or every run with at most so many deviations from the one in which all goes well.

Must not know: how a driver works. It starts drivers, lets faults happen for a while, heals the world, runs to the end,
and asks whether what came out is right.
"""

from __future__ import annotations

import contextlib
import functools
import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from onceflow.checkpoint import journal
from onceflow.errors import (
    CheckpointConflictError,
    ConfigurationError,
    NotDeterministicError,
    OnceflowError,
    SourceDataLostError,
    advised,
)
from tests.simulation import sim_driver
from tests.simulation.sim_driver import Plan, Scene
from tests.simulation.sim_operator import ACTS, command_in
from tests.simulation.world import Chooser, Killed, RandomChooser, ScriptedChooser, Violation, World, in_world

_BEGAN = 1_800_000_000.0
"""The time of day at which each world begins, in seconds since 1970."""

_HEALING_STARTS = 24


@contextlib.contextmanager
def _no_real_time(world: World, slept: list[float]) -> Iterator[None]:
    """In the world's threads its clock is the only one: Python's own tells it, and a sleep is heard and does nothing.

    Threads that another test of this process has left behind keep the real time.
    """
    sleep, clock, mine = time.sleep, time.time, threading.get_ident()

    def heard(seconds: float) -> None:
        if threading.get_ident() == mine or in_world():
            slept.append(seconds)
        else:
            sleep(seconds)

    def told() -> float:
        return _BEGAN + world.now if threading.get_ident() == mine or in_world() else clock()

    time.sleep, time.time = heard, told
    try:
        yield
    finally:
        time.sleep, time.time = sleep, clock


@contextlib.contextmanager
def _records_are_read_once() -> Iterator[None]:
    """The same bytes are the same record: each start reads all of them several times, a third of a run's time."""
    decode = journal.decode
    journal.decode = functools.cache(decode)
    try:
        yield
    finally:
        journal.decode = decode


@dataclass
class Result:
    """How a run ended.

    Attributes:
        violation: The invariant that did not hold, or None.
        refusal: The error with which the job stopped for a person, or None.
        marks: What was reached.
        faults: Which faults happened.
        trace: The steps, if they were asked for.
    """

    violation: Violation | None
    refusal: BaseException | None
    marks: set[str]
    faults: list[str]
    steps: int
    trace: list[str] = field(default_factory=list)


def run_seed(seed: int, *, traced: bool = False, focus: Sequence[str] = (), **fixed: Any) -> Result:
    """One random run.

    Args:
        seed: The seed.
        traced: Keep the steps.
        focus: Only these faults.
        fixed: Fields of the plan that the seed does not choose.
    """
    chooser = RandomChooser(seed, focus)
    rng = chooser.random
    plan = Plan(
        epochs=rng.choice([2, 3, 4]),
        stateful=rng.random() < 0.5,
        deterministic=rng.random() < 0.75,
        v5=rng.random() < 0.85,
        renumbers=rng.random() < 0.4,
        retain=rng.choice([1, 2, 100]),
        flaky=rng.choice([60, 60, 60, 60, 8, 2]),
        remembers=rng.choice([12, 12, 1]),
        max_epoch=rng.choice([32766, 32766, 0, 1]),
    )
    beside = random.Random(-1 - seed)  # what a run is about does not change what happens in it
    plan = replace(plan, operator=beside.random() < 0.25, edits=beside.random() < 0.25)
    plan = replace(plan, partitions=beside.choice([2, 2, 2, 4]))
    if plan.operator and beside.random() < 0.3:
        plan = replace(plan, remembers=1)
    if plan.operator or fixed.get("operator"):
        plan = replace(plan, moves=False, accepts=beside.random() < 0.5, keeps=beside.choice([6, 20, 60]))
    plan = replace(plan, sleeps_in_rename=not focus and beside.random() < 0.2)
    if not focus and beside.random() < 0.2:
        lives, quiet = beside.choice([0, 6, 20]), beside.random() < 0.3
        plan = replace(plan, databases=beside.choice([("b",), ("a", "b")]), lives=lives, quiet=quiet)
    plan = replace(plan, **fixed)
    if plan.edits or plan.together or not {*plan.databases} <= {*plan.sinks}:
        plan = replace(plan, databases=(), lives=0, quiet=False)
    return run(plan, chooser, traced=traced)


def run_scripted(plan: Plan, deviations: dict[int, str], *, traced: bool = False) -> tuple[Result, ScriptedChooser]:
    """One run that goes well but at the given steps."""
    chooser = ScriptedChooser(deviations)
    return run(plan, chooser, traced=traced, scripted=True), chooser


def run(plan: Plan, chooser: Chooser, *, traced: bool = False, scripted: bool = False) -> Result:
    """One run, from an empty checkpoint to its end."""
    trace: list[str] | None = [repr(plan)] if traced else None
    scene = Scene(plan, chooser, scripted=scripted, trace=trace)
    slept: list[float] = []
    try:
        with _no_real_time(scene.world, slept), _records_are_read_once():
            _with_faults(scene, scripted=scripted)
            scene.world.heal()
            refusal = _to_the_end(scene)
    except Killed:
        refusal = None  # a zombie or a late request broke an invariant
    finally:
        scene.world.heal()
    world = scene.world
    violation = world.violation
    if slept:
        violation = violation or Violation("real time", f"something slept: {slept[:3]} s")
    return Result(
        violation if isinstance(violation, Violation) or violation is None else Violation("ends", repr(violation)),
        refusal,
        world.marks,
        world.faults,
        world.steps,
        trace or [],
    )


def _with_faults(scene: Scene, *, scripted: bool) -> None:  # noqa: C901, PLR0912 - what may happen, in one list
    world, plan = scene.world, scene.plan
    draw = world.chooser.draw
    last = scene.start_driver()
    while world.violation is None:
        world.bury()
        living = world.living()
        if not living:
            if last.over and last.error is None and not last.killed:
                return
            if scene.started >= plan.most_starts:
                return
            if plan.edits:
                _between_starts(scene)
            last = scene.start_driver()
        elif scripted:
            # The one that paused waits until a newer one has ended.
            if (
                len(living) == 1
                and living[0] is last
                and scene.started < plan.most_starts
                and world.faults[-1:] == ["pause"]
            ):
                last = scene.start_driver()
            world.resume(world.living()[-1])
            continue
        elif len(living) < 3 and scene.started < plan.most_starts and draw("another", [False, True]):
            last = scene.start_driver()
        if not scripted:
            if scene.zombies and draw("zombie goes on", [False, True]):
                scene.step_zombie()
            if plan.remembers and draw("forget something", [False] * plan.remembers + [True]):
                scene.forget_something()
            if draw("late duplicate", [False] * 8 + [True]):
                scene.duplicate_late()
            if plan.operator and scene.journal.content and draw("operator", [False, False, True]):
                _a_person_acts(scene)
            if plan.edits and draw("source", [False] * plan.keeps + [True]):
                _a_source_changes(scene)
            if plan.lives and draw("a database lives", [False] * plan.lives + [True]):
                scene.a_database_lives()
            if plan.sound and scene.journal.content and draw("rot", [False] * plan.sound + [True]):
                scene.rot()
        if living := world.living():
            world.resume(draw("who", living[::-1]))


def _between_starts(scene: Scene) -> None:
    """While the job is down somebody edits it."""
    job, draw = scene.job, scene.world.chooser.draw
    if draw("is edited", [False, False, True]):
        scene.world.say(f"the job is edited: {job.edit(draw)}, {job.outputs}")
        scene.judge.somebody_came()


def _a_source_changes(scene: Scene) -> None:
    """A topic is made again, its retention takes records, or it grows."""
    job, draw = scene.job, scene.world.chooser.draw
    match draw("what", ["made again", "retention", "grows"]):
        case "made again" if len(job.remade) < 2:
            scene.world.say(f"{job.make_again(draw)} is deleted and made again")
        case "retention":
            scene.world.say(f"retention takes records of {job.retain(draw)}")
        case _:
            scene.world.say(f"{job.grow(draw)} has one more partition")


def _a_person_acts(scene: Scene) -> None:
    """Somebody gives a command: what the last message said, or anything."""
    draw = scene.world.chooser.draw
    if scene.errors and draw("follow", [True, False]) and _obeyed(scene, scene.errors[-1]):
        return
    match draw("act", [*ACTS, "copy", "copy", "exchange", "lose"]):
        case "copy":
            if not scene.watch.older:
                scene.copy = scene.take_copy()
        case "exchange":
            scene.exchange()
        case "lose":
            scene.lose()
        case command:
            scene.start_operator(command)


def _obeyed(scene: Scene, error: OnceflowError) -> bool:
    """Do what a message says, or begin to; False when there is nothing that a person can do in this world."""
    what = command_in(error)
    if what is not None and (scene.plan.accepts or not isinstance(error, NotDeterministicError)):
        scene.start_operator(what)
        return True
    if advised("claim") in error.action and scene.watch.older:
        if scene.world.chooser.draw("which advice", ["claim", "newest"]) == "claim":
            scene.claims = True
        else:
            scene.put_newest_back()
        return True
    if advised("claim") in error.action and scene.lost():
        there = all(scene.databases[sink].newest for sink in scene.lost())
        if scene.world.chooser.draw("which advice", ["claim", "newest"]) == "claim" or not there:
            scene.claims = True
        else:
            scene.bring_newest_back()
        return True
    if "give the job its checkpoint back" in error.action and scene.watch.older:
        scene.put_newest_back()
        return True
    return False


def _follow(scene: Scene, error: OnceflowError) -> bool:
    """Do what a refusal says to its end; False when there is nothing that a person can do in this world."""
    if scene.job.planned and (scene.job.moved or scene.job.has_other_sinks):
        scene.job.take_back()
        scene.judge.somebody_came()
        return True
    if not (scene.plan.operator or scene.plan.lives):
        return False
    if not _obeyed(scene, error):
        if isinstance(error, SourceDataLostError) and scene.world.violation is None:
            scene.world.violation = Violation("advice", f"no command leads out of this: {error}")
        return False
    for actor in scene.world.living():
        while not actor.over:
            scene.world.resume(actor)
        if scene.watch.older and isinstance(actor.error, CheckpointConflictError):
            _obeyed(scene, actor.error)
            continue
        if actor.error is not None and scene.world.violation is None:
            detail = f"{type(error).__name__} says: {error.action}; and that ends with {actor.error!r}"
            scene.world.violation = Violation("advice", detail)
    return True


def _to_the_end(scene: Scene) -> BaseException | None:
    """Start drivers until one reads the source to its end; the error that a person must look at, or None."""
    world, refusals = scene.world, 0
    for _ in range(_HEALING_STARTS):
        if world.violation is not None:
            return None
        while scene.zombies:
            scene.step_zombie()
        before = len(scene.errors)
        actor = scene.start_driver()
        while not actor.over:
            world.resume(actor)
        if world.violation is not None:
            return None
        if actor.error is None:
            _sweep_once_more(scene)
            world.marks.add("read to the end")
            _guard(scene)
            return None
        error = scene.errors[-1] if len(scene.errors) > before else None
        if error is not None and not error.retriable:
            # Said once, it is tried once more: whoever says that a start alone does not help must be right.
            refusals += 1
            if refusals == 2:
                if not _follow(scene, error):
                    _guard_decided(scene)
                    return error
                refusals = 0
    world.violation = world.violation or Violation(
        "ends", f"no end after {_HEALING_STARTS} starts: {scene.errors[-1]!r}"
    )
    return None


def _sweep_once_more(scene: Scene) -> None:
    """What the job does every 30 seconds; zombies that were alive until now may have left something."""

    def sweep(actor: sim_driver.Actor) -> None:
        sim_driver.Process(scene, actor).take_over()

    actor = scene.world.spawn("sweeper", sweep)
    scene.watch.began[actor.name] = scene.world.steps
    while not actor.over:
        scene.world.resume(actor)
    if actor.error is not None:
        scene.world.violation = scene.world.violation or Violation("ends", f"the last start: {actor.error!r}")


def _guard_decided(scene: Scene) -> None:
    about_sources = SourceDataLostError | ConfigurationError | CheckpointConflictError
    if scene.plan.edits and isinstance(scene.errors[-1], about_sources) and not scene.watch.older:
        with contextlib.suppress(Killed):
            scene.watch.at_a_refusal()


def _guard(scene: Scene) -> None:
    try:
        scene.watch.at_the_end(scene.job.wanted(), scene.left_open())
        # An older copy knows nothing of what was committed since it was taken.
        if (
            not {"operator: an older copy", "operator: the checkpoint is lost"} & scene.world.marks
            and not scene.watch.rotten
        ):
            scene.watch.receipted(scene.written_down())
        scene.judge.at_the_end()
    except Killed:
        return


def every_run(
    plan: Plan, depth: int, offered: Callable[[str, str], bool] = lambda _, __: True
) -> Iterator[tuple[dict[int, str], Result]]:
    """Every run with at most ``depth`` deviations, with the deviations: steps and what happens there.

    Args:
        plan: What the runs are about.
        depth: Most deviations in a run.
        offered: Whether a fault may happen at a step; called with the step and the fault.
    """
    yield from _deeper(plan, {}, depth, offered)


def _deeper(
    plan: Plan, script: dict[int, str], depth: int, offered: Callable[[str, str], bool]
) -> Iterator[tuple[dict[int, str], Result]]:
    result, chooser = run_scripted(plan, script)
    yield script, result
    if depth == 0 or result.violation is not None:
        return
    first = max(script, default=-1) + 1
    for step, (what, options) in enumerate(chooser.offered):
        if step >= first:
            for option in options:
                if offered(what, option):
                    yield from _deeper(plan, script | {step: option}, depth - 1, offered)
