"""The start of a job, as a list: each step of docs/protocol.md "The start of a job", in its order.

Three read it. A start takes every step and ends at the first that refuses. ``onceflow check`` only looks: it takes the
steps that can look, changes nothing, and tells all that is refused. ``onceflow doctor`` looks likewise, without Spark.

Must not know: what a step does, beyond calling it; the rules of the commit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from onceflow.errors import OnceflowError
from onceflow.findings import together
from onceflow.launch import query, settling, taking_over, targets
from onceflow.launch.starting import Starting

Do = Callable[[Starting], None]


@dataclass(frozen=True, slots=True)
class Step:
    """One step.

    Attributes:
        name: As the protocol's page names it.
        start: What a start does.
        look: What is looked at by who changes nothing; None where there is nothing, or only a start can tell.
        needs: Looks that must have found nothing: without them this one has nothing to look at, or is not worth while.
    """

    name: str
    start: Do
    look: Do | None = None
    needs: tuple[str, ...] = ()


STEPS = (
    Step("guarantees", taking_over.settle_listed, taking_over.settle_listed),
    Step("process", settling.require_alone),
    Step("checkpoint", taking_over.require_whole, taking_over.require_whole),
    Step("decided", taking_over.finish_listed),
    Step("call", lambda starting: starting.check_call()),
    Step("systems", targets.look_without_java, targets.look_at_all),
    Step("session", settling.find_session, settling.find_session, needs=("guarantees", "checkpoint", "systems")),
    Step("function", query.call_function, query.call_function, needs=("session",)),
    Step("decided, by its sinks", taking_over.finish_named),
    Step("plan", settling.put_together_alone, query.put_together, needs=("function",)),
    Step("interpreters", query.try_interpreters),
    Step("sources", taking_over.compare_sources, taking_over.compare_sources, needs=("plan",)),
    Step("sinks", targets.make_targets, targets.compare_targets, needs=("plan",)),
    Step("family", settling.look_at_family, settling.require_family, needs=("sinks",)),
    Step("takeover", taking_over.begin),
    Step("settle", settling.settle),
    Step("query", settling.begin_query),
)
"""All steps, in their order."""


def start(starting: Starting, between: Callable[[], object] = lambda: None, steps: Sequence[Step] = STEPS) -> None:
    """Start a job: it is ``starting.running`` behind this, and what was opened is its own.

    Args:
        starting: What is to be started.
        between: Called before each step; raises where the start is to end.
        steps: All of them; the simulation has its own in the place of Spark's.

    Raises:
        OnceflowError: What the first step that refuses has found, all of it. What was decided does not wait for it.
    """
    starting.schemas.may = "register"
    for step in steps:
        between()
        step.start(starting)


def look(starting: Starting, without: Collection[str] = ()) -> list[OnceflowError]:
    """Look at all that a start looks at before it takes over, and change nothing.

    Args:
        starting: What would be started.
        without: Steps that are left out, and with them those that need them.

    Returns:
        What the steps refuse. Where a system does not answer, the look ends: it would be waited for again.
    """
    starting.schemas.may = "look"
    left_out, refused = set(without), list[OnceflowError]()
    for step in STEPS:
        if step.look is None or step.name in left_out:
            continue
        if left_out.intersection(step.needs):
            left_out.add(step.name)
            continue
        try:
            step.look(starting)
        except OnceflowError as error:
            refused += [error, *error.others]
            left_out.add(step.name)
            if error.retriable:
                break
    return refused


def check(starting: Starting) -> None:
    """Look at everything.

    Raises:
        OnceflowError: All that a start would refuse, as one error.
    """
    refused = look(starting)
    if refused:
        raise together(refused)
