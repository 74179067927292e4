"""What each command that starts a job takes: to its end, and what is meant by a checkpoint that is not as it was left.

Must not know: which command it is, what a job does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from onceflow.job import Takeover

Until = Literal["stopped", "caught-up"]
UntilOption = Annotated[Until, typer.Option("--until", help="When to end: caught-up takes what is there.")]
ClaimOption = Annotated[
    bool, typer.Option("--claim", help="The checkpoint was moved or put back on purpose: go on with it.")
]
AsNewOption = Annotated[
    bool,
    typer.Option("--as-new", help="Begin another, independent job: on a copy, or where nothing is left."),
]


def takeover_of(*, claim: bool, as_new: bool) -> Takeover | None:
    """What is asked of the first start.

    Raises:
        BadParameter: Two things at once.
    """
    if claim and as_new:
        raise typer.BadParameter("--claim and --as-new are two different things; give one of them")
    return "claim" if claim else "as-new" if as_new else None
