"""Looking again and again until time is over: one loop for all that has no event to wait for.

Must not know: what is waited for.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator


def turns(
    within_s: float,
    every_s: float,
    *,
    now: Callable[[], float] = time.monotonic,
    pause: Callable[[float], object] = time.sleep,
) -> Iterator[bool]:
    """Turns of looking, at least one, with a pause between two.

    Args:
        within_s: The last turn begins no earlier than this many seconds from now.
        every_s: The pause between two turns, in seconds.
        now: A clock that nobody sets.
        pause: What passes the time.

    Yields:
        Whether it is the last one: what fails then has failed.
    """
    deadline = now() + within_s
    last = False
    while not last:
        last = now() >= deadline
        yield last
        if not last:
            pause(every_s)
