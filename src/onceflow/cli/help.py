"""How help looks: plain lines, no command's sentence cut, ``-h`` too.

Must not know: any command.
"""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

PLAIN: dict[str, Any] = {
    "no_args_is_help": True,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
"""What every group of commands is made with."""


class Group(TyperGroup):
    """A group whose help has each command's first sentence whole; typer's own ends it with dots at the line's end."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands."""
        found = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.get_short_help_str(10_000)) for name, each in found if each is not None])
