"""Expressions and queries of which every row is compared with Flink's: the files that a person reads, as objects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "rows_data"
FLINKS = FOLDER / "flink.json"


def given() -> dict[str, dict[str, Any]]:
    """The columns of the one table: type and values."""
    return json.loads((FOLDER / "given.json").read_text())


def asked(name: str) -> list[str]:
    """What stands in one of the files, without headings and remarks."""
    found: list[str] = []
    open_text = ""
    for line in (FOLDER / name).read_text().splitlines():
        if not open_text and (not line or line.startswith("--")):
            continue
        open_text = f"{open_text}\n{line}" if open_text else line
        if open_text.count("'") % 2 == 0:  # else text in quotes goes on
            found.append(open_text)
            open_text = ""
    assert len(set(found)) == len(found)
    return found


def ours() -> dict[str, dict[str, Any]]:
    """What is known to differ here from what Flink gives, and why."""
    return json.loads((FOLDER / "ours.json").read_text())


def records() -> list[str]:
    """The rows as JSON, as Flink and Spark read them: collections as they are, anything else as text."""
    columns = given()
    count = len(columns["id"]["values"])
    return [
        json.dumps({f"raw_{name}": of["values"][i] for name, of in columns.items()}, ensure_ascii=False)
        for i in range(count)
    ]


def is_collection(kind: str) -> bool:
    """Whether its values stand in JSON as they are."""
    return kind.startswith(("ARRAY", "MAP", "ROW"))
