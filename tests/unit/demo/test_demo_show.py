"""The demo's view: plain lines without a terminal or with CI, frames with one."""

import threading

import pytest
from rich.console import Console

from onceflow.demo.board import Board
from onceflow.demo.report import what_next
from onceflow.demo.show import EXPLAINED, Frames, open_view, status
from onceflow.demo.supervisor import Supervisor


def test_plain_lines(capsys):
    """Without a terminal each event is one line, on standard error if asked."""
    with open_view(to_stderr=True) as board:
        board.say("KILL -9 of the [job]")
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.splitlines()[0] == EXPLAINED
    assert told.err.strip().endswith("s  KILL -9 of the [job]")


def test_ci_gets_plain_lines(monkeypatch, capsys):
    """With CI set there are no control characters, whatever the terminal."""
    monkeypatch.setenv("CI", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")
    with open_view(to_stderr=False) as board:
        board.say("the job is started, start 1")
    assert "\x1b" not in capsys.readouterr().out


def test_what_is_next_is_of_the_job_that_was_seen():
    """The closing hint names the script after a demo in SQL, and the Python file after one in Python."""
    for sql, job, other in ((True, "fraud.sql", "fraud.py"), (False, "fraud.py", "fraud.sql")):
        told = what_next(sql=sql)
        assert job in told
        assert other not in told


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
    assert "epoch 7 took 0 ms" in text
    assert EXPLAINED in text
    assert "event 19" in text
    assert "event 7 " not in text


def test_before_the_first_epoch_it_says_what_is_waited_for(tmp_path):
    """The broker, then each phase of the job's start, as its own log tells it; a number that is none is not shown."""
    board = Board()
    job = Supervisor(["run", "job.py"], tmp_path, {}, board)
    assert status(board).endswith("no epoch yet; 0 transactions open; 0 alerts; 0 kills; job not started")
    board.set(broker="starting")
    assert status(board) == "the broker is starting"
    board.set(broker="running")
    job._take("--- start 2")
    at = "2026-01-01 00:00:00,000 INFO    "
    job._take(f"{at}onceflow 0.1.0 runs fraud.py")
    job._take(f"{at}fraud-alerts: start: jars")
    assert status(board).endswith("job starting (start 2), waits for jars")
    job._take(f"{at}fraud-alerts: start: Java and Spark")
    assert status(board).endswith("job starting (start 2), waits for Java and Spark")
    job._take(f"{at}fraud-alerts: the job runs, 9.0 s after its start began: jars 0.2 s")
    job._take(f"{at}fraud-alerts: idle, no epoch yet, lag 0")
    job._take(f"{at}fraud-alerts: epoch 7 is decided and not done: it is committed, or written again")
    job._take(f"{at}fraud-alerts: epoch 0: 5 in, 2 out, 1 participants, 1,234 ms (prepare 900), lag 0")
    assert "; epoch 0 took 1,234 ms; " in status(board)
    assert status(board).endswith("job running (start 2)")
    said = [event.text for event in board.events(9)]
    assert said == [
        "job: epoch 7 is decided and not done: it is committed, or written again",
        "epoch 0 committed 2 alerts",
    ]
