"""Crash points: a test that stops a driver must know that it stands exactly there."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from onceflow import crash_points as crash
from onceflow.processes import began
from tests.support.harness import wait_until

# The main thread waits, as posix_spawn does, for its child to be another program, and the child for the test to open a
# pipe. So long the kernel cannot stop it: it takes a signal that is meant for the whole process, and keeps it.
CALLBACK = """
import ctypes, sys, threading
from onceflow import crash_points as crash

pipe, went_on = sys.argv[1:]

def callback():
    crash.reach("D7", 1)
    open(went_on, "x").close()

threading.Thread(target=callback).start()
libc = ctypes.CDLL(None)
actions = ctypes.create_string_buffer(1024)
libc.posix_spawn_file_actions_init(actions)
libc.posix_spawn_file_actions_addopen(actions, 0, pipe.encode(), 0, 0)
program = (ctypes.c_char_p * 2)(b"/bin/true", None)
libc.posix_spawn(ctypes.byref(ctypes.c_int()), program[0], actions, None, program, None)
"""


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="looks at threads in /proc")
def test_a_stop_holds_the_thread_that_reached_the_point(tmp_path):
    """Spark calls foreachBatch in a thread of its own; that one must not go on by one line, whatever main does."""
    mark, pipe, went_on = tmp_path / "mark", tmp_path / "pipe", tmp_path / "went-on"
    os.mkfifo(pipe)
    writer = None
    process = subprocess.Popen(
        [sys.executable, "-c", CALLBACK, str(pipe), str(went_on)],
        env=os.environ | {crash.ARM: "D7@1:stop", crash.MARK: str(mark)},
    )
    try:
        wait_until(lambda: "T" in states(process.pid) or went_on.exists(), 30, "the callback's stop")
        assert not went_on.exists(), "the callback went on behind the point"
        assert mark.read_text() == "D7 1\n"
        writer = os.open(pipe, os.O_RDWR)
        wait_until(lambda: states(process.pid) == ["T", "T"], 30, "the stop of the whole process")
        assert not went_on.exists()
        process.send_signal(signal.SIGCONT)
        assert process.wait(30) == 0
        assert went_on.exists()
    finally:
        process.kill()
        os.close(writer if writer is not None else os.open(pipe, os.O_RDWR))
        process.wait()


SENDER = """
from onceflow import crash_points as crash

for together in crash.parted("D6", 1, ("a", "b", "c")):
    print(*together, flush=True)
"""


@pytest.mark.parametrize(
    ("armed", "sent", "code"),
    [("", "a b c\n", 0), ("D5", "a b c\n", 0), ("D6@2", "a b c\n", 0), ("D6", "a\n", -9), ("D6@1", "a\n", -9)],
)
def test_a_death_between_two_that_are_sent_together(armed, sent, code):
    """Not armed, or in another epoch, all are one part; armed, the first one is sent and the process dies behind it."""
    ended = subprocess.run(
        [sys.executable, "-c", SENDER], env=os.environ | {crash.ARM: armed}, capture_output=True, text=True, check=False
    )
    assert (ended.stdout, ended.returncode) == (sent, code), ended.stderr


def test_a_point_that_was_reached_before_parts_without_a_death(monkeypatch, tmp_path):
    """Whoever lives on sends the rest, and nothing twice."""
    monkeypatch.setenv(crash.ARM, "D6")
    monkeypatch.setenv(crash.MARK, str(tmp_path / "mark"))
    (tmp_path / "mark").write_text("D6 1\n")
    assert list(crash.parted("D6", 2, "abc")) == ["a", "bc"]


def states(pid: int) -> list[str]:
    """The states of a process's threads: ``T`` is stopped."""
    return [stat.read_text().rpartition(")")[2].split()[0] for stat in Path(f"/proc/{pid}/task").glob("*/stat")]


@pytest.mark.parametrize(("point", "epoch", "dies"), [("D1", 0, True), ("D4", 2, True), ("D4", 1, False)])
def test_several_points_are_armed_at_once(monkeypatch, point, epoch, dies):
    """With commas between; each for its own epoch."""
    monkeypatch.setenv(crash.ARM, "D1:fail,D4@2:fail")
    if dies:
        with pytest.raises(RuntimeError, match=f"crash point {point} of epoch {epoch}"):
            crash.reach(point, epoch)
    else:
        crash.reach(point, epoch)


EXECUTOR = """
from onceflow import crash_points as crash

crash.reach("D3", 1)
"""


@pytest.mark.parametrize("is_there", [True, False])
def test_a_task_kills_its_driver_and_no_process_of_the_same_number(is_there):
    """On a cluster the driver is no ancestor of a task; on another machine its number is another process's."""
    driver = subprocess.Popen(["sleep", "60"])
    try:
        since = began(driver.pid) if is_there else "1.0"
        ended = subprocess.run(
            [sys.executable, "-c", EXECUTOR],
            env=os.environ | {crash.ARM: "D3", crash.DRIVER: f"{driver.pid} {since}"},
            check=False,
        )
        assert ended.returncode == -signal.SIGKILL
        if is_there:
            assert driver.wait(30) == -signal.SIGKILL
        else:
            assert driver.poll() is None
    finally:
        driver.kill()
        driver.wait()


def test_what_is_armed_is_told_to_executors(monkeypatch):
    """Nothing where nothing is armed; else the point, its mark and the driver."""
    monkeypatch.delenv(crash.ARM, raising=False)
    monkeypatch.setenv(crash.DRIVER, "")
    assert crash.announce_driver() == {}
    monkeypatch.setenv(crash.ARM, "D3")
    monkeypatch.setenv(crash.MARK, "/m")
    told = crash.announce_driver()
    assert told == {crash.ARM: "D3", crash.MARK: "/m", crash.DRIVER: f"{os.getpid()} {began(os.getpid())}"}
