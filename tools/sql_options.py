"""Writes docs/sql-options.md from the table of options: what each option of Flink's connectors does here.

Must not know: what is made of an option.
"""

from __future__ import annotations

from pathlib import Path

from onceflow.flinksql import functions, settings
from onceflow.flinksql.connectors import table_lines
from onceflow.options.rules import Rule

PAGE = Path(__file__).parents[1] / "docs" / "sql-options.md"


def page() -> str:
    """The page."""
    lines = [
        "# SQL: options, settings, functions",
        "",
        "Generated from `src/onceflow/flinksql/` by `make sql-options`; a test holds them together. How a pipeline is",
        "written stands in [sql.md](sql.md). What is not here is refused, with what may have been meant.",
        "",
        "## Options of tables",
        "",
        *table_lines(),
        "## Settings: SET",
        "",
        "Those of a job, under Flink's keys, are in [settings.md](settings.md). Beside them:",
        "",
        "| setting | what it does |",
        "|---|---|",
        *(f"| `{rule.key}` | {_said(rule)} |" for rule in settings.RULES),
        "",
        "## Functions",
        "",
        "With a grammar or a place of their own: " + _names(functions.ELSEWHERE) + ".",
        "",
        "Aggregates: " + _names(functions.AGGREGATES) + ", each with `FILTER (WHERE …)`.",
        "",
        "Others: " + _names(functions.FUNCTIONS) + ".",
        "",
        "| refused | why | instead |",
        "|---|---|---|",
        *(f"| `{name}` | {why} | {instead} |" for name, (why, instead) in sorted(functions.REFUSED.items())),
    ]
    return "\n".join(lines) + "\n"


def _said(rule: Rule) -> str:
    before = {"taken": "", "said": "no effect, and a start says so: ", "refused": "refused: "}[rule.standing]
    return before + rule.doc + (f"; {rule.instead}" if rule.instead else "")


def _names(of: object) -> str:
    return ", ".join(f"`{name}`" for name in sorted(set(of)))  # type: ignore[call-overload]


if __name__ == "__main__":
    PAGE.write_text(page())
