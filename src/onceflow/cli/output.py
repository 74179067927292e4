"""How every command answers: lines for people, or one JSON object as the last line.

Must not know: any command.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer


class OutputForm(enum.StrEnum):
    """How a command answers."""

    TEXT = "text"
    JSON = "json"


OutputOption = Annotated[OutputForm, typer.Option("--output", help="Lines for people, or one JSON object.")]


def tell_json(value: Mapping[str, Any]) -> None:
    """Print one JSON object on one line of standard output."""
    typer.echo(json.dumps(value))
