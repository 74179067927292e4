"""What a driver's end is worth: each error is judged when it ends a driver, and once more when the job is done.

Must not know: how the rules come to an error. It asks what the world has seen: whether a newer start is in the journal,
whether evidence was lost, whether the power was cut; and it takes an error's word for what a supervisor does next.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from onceflow import errors
from onceflow.errors import OnceflowError
from tests.simulation.checks import TIMEOUT_S, Watch

if TYPE_CHECKING:
    from tests.simulation.sim_driver import Scene, WatchedRules
    from tests.simulation.world import Actor

_LOST = re.compile(r"sink (\w+) does not know epoch .* any more: (\d+) epochs with (\d+) rows")
_BY_LUCK = (errors.NotDeterministicError, errors.TimeoutTooShortError, errors.CheckpointCorruptError)
"""A plan may give the same rows by chance, an epoch be slow once, and a running driver purge a spoiled record."""


class Judge:
    """Judges the ends of a scene's drivers.

    Args:
        scene: What it is about.
    """

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self.refused: list[OnceflowError] = []
        self._came_at = -1  # the step at which somebody last changed what was refused

    def ended(self, actor: Actor, rules: WatchedRules | None, error: OnceflowError) -> None:
        """A driver ended with this error.

        Args:
            actor: Its process.
            rules: Its newest driver's, None when the process ended before it had one.
            error: The error as the job raises it.
        """
        world, watch = self._scene.world, self._scene.watch
        name = type(error).__name__
        mine = watch.incarnations.get(actor.name, 0)
        if isinstance(error, errors.FencedError):
            overtaken = 0 < mine < watch.newest or watch.rotten  # its own record may be what is spoiled
            world.check(overtaken, "refusals", lambda: f"{actor.name} says {name}, and nobody started: {error}")
            world.check(
                not error.retriable, "advice", lambda: f"{actor.name} would take over from the newer one: {name}"
            )
            return
        if error.retriable:
            if "same moment" in error.what:
                return  # Spark ended it, and whether it is the older one or the newer is not known
            fenced = rules is not None and mine > 0 and rules.failed_at > watch.overtaken_at(mine)
            # A spoiled record may be the newer start's own; the next start is refused for it anyway.
            knew = rules is not None and rules.blind_at < rules.failed_at and not watch.rotten
            world.check(
                not (fenced and knew),
                "advice",
                lambda: (
                    f"{actor.name}, which start {watch.newest} had taken over from, says to start it again: {error!r}"
                ),
            )
            return
        world.marks.add(f"refused: {name}")
        justified = _JUSTIFIED.get(type(error), lambda *_: False)
        world.check(justified(self._scene, watch, rules), "refusals", lambda: f"{actor.name} ends with {name}: {error}")
        self._lost_is_told(actor, error)
        # Brokers may be up again at the next start; and what an older driver says, or one beside another that is still
        # at work, may have been seen to by then.
        passing = rules is not None and rules.got_no_evidence()
        alone = all(other is actor for other in world.living())
        knew = actor.started_at > self._came_at  # else it may have looked before somebody came
        if alone and knew and not passing and not 0 < mine < watch.newest:
            self.refused.append(error)

    def _lost_is_told(self, actor: Actor, error: OnceflowError) -> None:
        """Whoever says what a database has lost says how much, as it was while that one lived."""
        said = _LOST.search(error.what)
        if said is None or self._scene.watch.older:  # an older copy knows less
            return
        sink, count = said[1], (int(said[2]), int(said[3]))
        held = [of.get(sink, {}) for of in self._scene.watch.lost_since_step(actor.started_at)]
        true = [(len(of), sum(each.rows for each in of.values())) for of in held]
        self._scene.world.marks.add("what a database has lost was told")
        self._scene.world.check(count in true, "put back", lambda: f"told of sink {sink}: {count}, and it is {true}")

    def somebody_came(self) -> None:
        """A person, or something from outside, has changed what was refused."""
        self.refused.clear()
        self._came_at = self._scene.world.steps

    def at_the_end(self) -> None:
        """The job came to its end: whatever said before that it needs a person did need one."""
        for error in self.refused:
            self._scene.world.check(
                isinstance(error, _BY_LUCK),
                "advice",
                lambda error=error: (
                    f"said that a start alone does not help, and it did: {type(error).__name__}: {error}"
                ),
            )


def _took_too_long(scene: Scene, _: Watch, rules: WatchedRules | None) -> bool:
    return rules is not None and scene.world.now - rules.ran_from >= 0.8 * TIMEOUT_S


def _nothing_proves(_: Scene, watch: Watch, rules: WatchedRules | None) -> bool:
    lost = bool(watch.forgotten) or watch.older_at >= 0
    return lost or (rules is not None and rules.got_no_evidence())


def _is_older(scene: Scene, watch: Watch, _: WatchedRules | None) -> bool:
    """The checkpoint is older than its sinks, or one of them is older than it: now, or a moment ago.

    Or a start of another copy has left its mark, and this one has no start of so high a number.
    """
    me = scene.world.current
    # What was lost when this driver looked may have been given up since, by the claim of another.
    passing = me is not None and (watch.older_at >= me.started_at or any(watch.lost_since_step(me.started_at)))
    return watch.older or scene.job.moved or bool(watch.lost_now) or passing or watch.highest > watch.newest


_JUSTIFIED: Mapping[type, Callable[[Scene, Watch, WatchedRules | None], bool]] = {
    errors.OutcomeUnknownError: _nothing_proves,
    errors.TransactionLostError: lambda scene, watch, _: bool(watch.aborted_at),
    errors.NotDeterministicError: lambda scene, _, __: not scene.plan.deterministic or len(scene.job.filters) > 1,
    errors.SourceDataLostError: lambda scene, _, __: bool(scene.job.gone),
    errors.ConfigurationError: lambda scene, _, __: scene.job.has_other_sinks,
    errors.CheckpointConflictError: _is_older,
    errors.CheckpointCorruptError: lambda _, watch, __: watch.rotten,
    errors.TimeoutTooShortError: _took_too_long,
}
"""When a job may stop for a person: only where it cannot know better."""
