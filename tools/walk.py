"""``python -m tools.walk``: docs/walk.md, from a run of ``onceflow walk``.

Must not know: how the walk is made.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parent.parent / "docs" / "walk.md"
_HEAD = """# A walk through three epochs

Written by `python -m tools.walk` from a run of `onceflow walk --auto`. Take it yourself: `make walk` (or `onceflow
walk`) waits for Enter at each step; meanwhile the job's process stands still, and `onceflow txn list`, a consumer or
`ls` can look at it, too. Two partitions hold A, B, C, D, E each; an epoch reads two records of each. The words are
those of [protocol.md](protocol.md), the stops are its [crash points](testing.md).
"""


def main() -> int:
    """Run the walk and write the page; 1 if it went wrong."""
    told = subprocess.run(
        [sys.executable, "-m", "onceflow", "walk", "--auto", "--output", "json"],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if told.returncode:
        return 1
    PAGE.write_text(page(json.loads(told.stdout.splitlines()[-1])["steps"]))
    return 0


def page(steps: list[dict[str, Any]]) -> str:
    """The page."""
    parts = [_HEAD]
    for number, step in enumerate(steps, 1):
        seen = "\n".join(f"| {name} | {value} |" for name, value in step["seen"].items())
        parts.append(f"## {number}. {step['title']}\n\n{step['text']}\n\n| | now |\n|---|---|\n{seen}\n")
    return "\n".join(parts)


if __name__ == "__main__":
    sys.exit(main())
