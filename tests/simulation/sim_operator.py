"""A person in the simulated world: the real functions behind ``onceflow txn``, at any moment, also while drivers run.

Must not know: what is true. A person guesses what nothing proves; the world keeps what was said, and what it may cost.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from onceflow.checkpoint.identity import FILE as IDENTITY_FILE
from onceflow.errors import ConfigurationError, OnceflowError
from onceflow.operations.transactions.aborting import abort
from onceflow.operations.transactions.access import Operator
from onceflow.operations.transactions.resolution import resolve, undone_epoch
from onceflow.options.checkpointing import Checkpointing
from onceflow.twophase.messages import Outcome
from onceflow.twophase.records import Choice, History
from tests.simulation.checks import PREFIX

if TYPE_CHECKING:
    from tests.simulation.sim_driver import Scene
    from tests.simulation.world import Actor

ACTS = ("resolve", "abort", "abort --claim")


class SimOperator(Operator):
    """The real one over the world's checkpoint, cluster and clock.

    Args:
        scene: The world.
        actor: The process of the command.
    """

    def __init__(self, scene: Scene, actor: Actor) -> None:
        self._scene = scene
        self._actor = actor
        super().__init__(
            Checkpointing("checkpoint"),
            PREFIX,
            scene.described(scene.client(actor)),
            opened=lambda _location, _retain: scene.opened(),
            now=lambda: scene.world.now,
            sleep=scene.world.sleep,
        )

    def start(self) -> History:
        """The real one; the world learns whose start it is."""
        history = super().start()
        self._scene.watch.incarnations[self._actor.name] = history.incarnation
        return history


def act(scene: Scene, actor: Actor, what: str) -> None:
    """One command, start to end.

    Raises:
        OnceflowError: It was refused, or failed.
    """
    if IDENTITY_FILE not in scene.ours.content:
        raise ConfigurationError("no job has run here")
    operator = SimOperator(scene, actor)
    scene.world.say(f"$ onceflow txn {what}")
    match what.split():
        case ["abort", *claim]:
            abort(operator, None, claim=bool(claim))
        case ["resolve", epoch, choice]:
            _chosen(scene, operator, int(epoch), choice)  # type: ignore[arg-type]
        case ["resolve", *epoch]:
            _resolve(scene, operator, int(epoch[0]) if epoch else None)
    scene.world.marks.add(f"operator: {what.split(' ', maxsplit=1)[0]}{' --claim' * what.endswith('--claim')}")


def command_in(error: OnceflowError) -> str | None:
    """The command of ``onceflow txn`` that a message names, or None."""
    found = re.search(r"`onceflow txn (resolve) <job file> (\d+)(?: --choice ([a-z-]+) --why \.\.\.)?`", error.action)
    return None if found is None else " ".join(filter(None, found.groups()))


def _resolve(scene: Scene, operator: Operator, epoch: int | None) -> None:
    """Look what is known, and choose what fits; a person who cannot know guesses."""
    undone = undone_epoch(operator, epoch)
    if undone is None:
        raise ConfigurationError("nothing is undone")
    found = {p.evidence.outcome for p in undone.participants if p.choice is None}
    choices: list[Choice] = ["write-again", "count-as-written"]
    if scene.plan.accepts and Outcome.UNKNOWN not in found:
        choices = ["accept-state"]
    choice = scene.world.chooser.draw("choice", choices)
    _chosen(scene, operator, undone.epoch, choice)


def _chosen(scene: Scene, operator: Operator, epoch: int, choice: Choice) -> None:
    resolve(operator, epoch, choice, who="op", why="looked")
    scene.world.marks.add(f"operator: {choice}")
