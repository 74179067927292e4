"""The demo's view: plain lines without a terminal or with CI, frames with one."""

import threading

import pytest
from rich.console import Console

from onceflow.demo.board import Board
from onceflow.demo.show import Frames, open_view


def test_plain_lines(capsys):
    """Without a terminal each event is one line, on standard error if asked."""
    with open_view(to_stderr=True) as board:
        board.say("KILL -9 of the [job]")
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.strip().endswith("s  KILL -9 of the [job]")


def test_ci_gets_plain_lines(monkeypatch, capsys):
    """With CI set there are no control characters, whatever the terminal."""
    monkeypatch.setenv("CI", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")
    with open_view(to_stderr=False) as board:
        board.say("the job is started, start 1")
    assert "\x1b" not in capsys.readouterr().out


def test_no_thread_stays():
    """The view ends with its block, also by an error."""
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt), open_view(to_stderr=True):
        raise KeyboardInterrupt
    assert threading.active_count() == before


def test_frame():
    """A frame has the numbers and the newest events."""
    board = Board()
    board.set(target=1000, payments=500, epoch=7, alerts=3, job="running (start 2)", kills=1)
    for n in range(20):
        board.say(f"event {n}")
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: SIM115, PTH123
    console.print(Frames(board).frame())
    text = console.export_text()
    assert "500 of 1,000" in text
    assert "running (start 2)" in text
    assert "event 19" in text
    assert "event 7 " not in text
