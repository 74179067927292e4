"""Which places of a system give no answer now, as whoever watches them tells it.

Must not know: who watches, who asks.
"""

from __future__ import annotations

import time
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

_silent: Mapping[str, float] = MappingProxyType({})
"""Replaced whole, so that readers need no lock."""


def replace(places: Mapping[str, float]) -> None:
    """These are all that give no answer.

    Args:
        places: What each is called, and since when, by ``time.monotonic``.
    """
    global _silent  # noqa: PLW0603 - one process, one view of it
    _silent = MappingProxyType(dict(places))


def lasting(heard_at: float | None) -> list[str]:
    """Those that fell silent behind a moment, with how long ago: nothing has been done since.

    Args:
        heard_at: When something was done, by ``time.monotonic``; None for never.
    """
    now = time.monotonic()
    return [
        f"{place} gives no answer for {now - since:.0f} s, and nothing was done since"
        for place, since in _silent.items()
        if heard_at is None or since >= heard_at
    ]
