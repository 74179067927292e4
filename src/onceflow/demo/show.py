"""Shows a board: a live view in a terminal, plain lines elsewhere.

Must not know: where the numbers come from.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from onceflow.demo.board import Board, Event, Numbers

_LINE_EVERY_S = 5.0
_EVENTS = 12
_RATE_OVER = 12  # frames
_FRAMES_A_SECOND = 4

EXPLAINED = "an epoch's ms: from Spark's look for new payments until its alerts are committed and that is recorded"


@contextmanager
def open_view(*, to_stderr: bool) -> Iterator[Board]:
    """A board that is shown while the block runs.

    Args:
        to_stderr: Standard output is for something else.
    """
    console = Console(stderr=to_stderr)
    if console.is_terminal and not os.environ.get("CI"):
        board = Board()
        with Live(
            get_renderable=Frames(board).frame, console=console, refresh_per_second=_FRAMES_A_SECOND, transient=False
        ):
            yield board
        return
    plain = Console(stderr=to_stderr, highlight=False, soft_wrap=True, color_system=None)
    board = Board(lambda event: plain.print(line(event), markup=False))
    plain.print(EXPLAINED, markup=False)
    ended = threading.Event()

    def tell() -> None:
        while not ended.wait(_LINE_EVERY_S):
            plain.print(line(Event(board.seconds(), status(board))), markup=False)

    thread = threading.Thread(target=tell, name="status", daemon=True)
    thread.start()
    try:
        yield board
    finally:
        ended.set()
        thread.join()


def line(event: Event) -> str:
    """An event as one line."""
    return f"{event.at:6.1f} s  {event.text}"


def status(board: Board) -> str:
    """The numbers as one line."""
    now = board.numbers()
    if now.broker == "starting":
        return "the broker is starting"
    return (
        f"{now.payments:,} of {now.target:,} payments, {now.payments_aborted:,} aborted; {_epoch(now)}; "
        f"{now.job_open} transactions open; {now.alerts:,} alerts; {now.kills} kills; job {now.job}"
    )


def _epoch(now: Numbers) -> str:
    return "no epoch yet" if now.epoch is None else f"epoch {now.epoch} took {now.epoch_ms:,} ms"


class Frames:
    """The live view's frames."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._history: deque[tuple[float, int, int]] = deque(maxlen=_RATE_OVER)

    def frame(self) -> RenderableType:
        """What there is to see now."""
        now = self._board.numbers()
        self._history.append((self._board.seconds(), now.payments, now.alerts))
        numbers = Table.grid(padding=(0, 3))
        for _ in range(4):
            numbers.add_column()
        expected = f" of {now.alerts_expected:,}" if now.alerts_expected else ""
        numbers.add_row(
            "payments", f"{now.payments:,} of {now.target:,}", f"{self._rate(1):,.0f}/s", f"{now.malformed} malformed"
        )
        numbers.add_row(
            "producer's transactions",
            f"{now.producer_committed:,} committed",
            f"{now.producer_aborted:,} aborted",
            f"{now.payments_aborted:,} payments in them",
        )
        numbers.add_row("epochs", _epoch(now), "", f"{now.epochs} in all")
        numbers.add_row("job's transactions", f"{now.job_committed:,} committed", f"{now.job_open} open", "")
        numbers.add_row("alerts", f"{now.alerts:,}{expected}", f"{self._rate(2):,.0f}/s", "read_committed")
        numbers.add_row("job", now.job, "broker", now.broker)
        numbers.add_row("kills", Text(str(now.kills), style="bold red" if now.kills else ""), "", "")
        events = [
            Text(line(event), style="bold red" if event.text.startswith("KILL") else "", no_wrap=True)
            for event in self._board.events(_EVENTS)
        ]
        title = f"onceflow demo, {self._board.seconds():.0f} s"
        return Group(
            Panel(numbers, title=title, subtitle=EXPLAINED),
            Panel(Group(*events), title="what happens", height=_EVENTS + 2),
        )

    def _rate(self, column: int) -> float:
        """Per second, over the last frames."""
        first, last = self._history[0], self._history[-1]
        spent = float(last[0] - first[0])
        return (last[column] - first[column]) / spent if spent > 0 else 0.0
