"""The reference pages say what the code says, of every public name and every parameter."""

import inspect
from enum import Enum

import pytest
from tools import reference

import onceflow
from onceflow import inspection, sinks, testing


def test_the_pages_are_what_the_docstrings_say() -> None:
    """docs/reference/ is what `make reference` writes, and nothing else is there."""
    written = {file.name: file.read_text() for file in reference.FOLDER.glob("*.md")}
    assert written == reference.pages()


def test_each_public_name_is_on_one_page() -> None:
    """What `onceflow` exports is told once; so is what `onceflow.testing` exports."""
    told = [name for _, _, names in reference.PAGES.values() for name in names]
    rooms = [f"{room.__name__.rpartition('.')[2]}.{name}" for room in (sinks, inspection) for name in room.__all__]
    assert sorted(told) == sorted([*onceflow.__all__, *rooms])
    page = (reference.FOLDER / "testing.md").read_text()
    assert [name for name in testing.__all__ if f"\n## {name}\n" not in page] == []


def _callables() -> list[tuple[str, object]]:
    """Public classes that are made by users or given to them, and what is called with more than one argument."""
    found = []
    of = [(name, getattr(room, name)) for room in (onceflow, sinks, inspection) for name in room.__all__]
    for name, what in of:
        if inspect.isclass(what) and not issubclass(what, Enum):
            found.append((name, what))
            if name in reference.MADE_ONLY:
                continue
            members = [(f"{name}.{key}", value) for key, value in vars(what).items() if not key.startswith("_")]
            found += [(key, v) for key, v in members if inspect.isfunction(v) and len(_parameters(v)) > 1]
        elif inspect.isfunction(what):
            found.append((name, what))
    return found


def _parameters(what: object) -> list[str]:
    return [p for p in inspect.signature(what).parameters if p not in {"self", "cls", "args", "kwargs"}]  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "what"), _callables(), ids=lambda v: v if isinstance(v, str) else "")
def test_each_parameter_is_told(name: str, what: object) -> None:
    """Whoever reads a docstring finds every parameter under Args, or, for a value, under Attributes."""
    text = inspect.getdoc(what) or ""
    assert text, f"{name} has no docstring"
    untold = [p for p in _parameters(what) if f"{p}:" not in text and f"``{p}``" not in text]
    assert untold == [], f"{name} does not say what {', '.join(untold)} is"
