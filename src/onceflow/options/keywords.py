"""The keywords of a class, as its signature and its docstring tell them: a table for the page of settings.

Must not know: any particular class.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from enum import Enum
from typing import Any


def table(of: type) -> Iterator[str]:
    """The lines of a class's table.

    Raises:
        ValueError: Signature and docstring do not name the same keywords.
    """
    taken = inspect.signature(of).parameters
    told = _documented(of)
    if taken.keys() != told.keys():
        raise ValueError(f"{of.__name__} takes {', '.join(taken)}, and its docstring tells of {', '.join(told)}")
    yield "| keyword | type | default | what it is |"
    yield "|---|---|---|---|"
    for name, parameter in taken.items():
        cells = [name, f"`{parameter.annotation}`", _default(parameter.default), told[name].replace("``", "`")]
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _documented(of: type) -> dict[str, str]:
    """What the docstring's "Args:" says of each keyword, each on one line."""
    text = inspect.getdoc(of) or ""
    block = re.search(r"^Args:\n((?:(?: {4}.*)?\n)*)", text + "\n", re.MULTILINE)
    entries = re.findall(r"^ {4}(\w+): ((?:.|\n(?! {4}\w+: ))*)", block[1] if block is not None else "", re.MULTILINE)
    return {name: " ".join(said.split()) for name, said in entries}


def _default(value: Any) -> str:
    if value is inspect.Parameter.empty:
        return "*must be given*"
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, str):
        return f'`"{value}"`'
    return f"`{value}`" if value or value is False else ""
